// SPDX-License-Identifier: MIT
// The bodies of per_call_compiler.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/parameters/per_call_compiler.hpp>
#include <switchyard/parameters/per_call_program.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::unique_ptr<per_call_program> per_call_compiler::compile(
    std::span<const axis_value> axes, std::size_t read, std::span<const std::int64_t> attributes) {
  auto out = std::make_unique<per_call_program>();
  for (const axis_value& wanted : axes.last(read)) out->axes.push_back(wanted.value);
  out->values.resize(per_call_.size());
  for (std::size_t i = 0; i < per_call_.size(); ++i) {
    const per_call_value& value = per_call_[i];
    per_call_step step;
    step.kind = value.kind;
    step.to = value.offset;
    step.value = static_cast<std::uint32_t>(i);
    if (value.from == per_call_value::source::field) {
      step.does = per_call_step::action::copy;
      step.from = fields_[value.index].offset;
      step.count = size_of(value.kind);
    } else if (value.from == per_call_value::source::integer) {
      out->values[i] = value.value->fold(axes, attributes);
      if (!compile(out->values[i].program(), step, *out)) continue;
    } else if (value.from == per_call_value::source::workspace) {
      step.does = per_call_step::action::address;
      step.from = value.index;
    }
    if (!joined(out->steps, step)) out->steps.push_back(step);
  }
  take_moves(*out);
  return out;
}

SWITCHYARD_FUNCTION std::uint32_t per_call_compiler::field_alone(const expression& folded) noexcept {
  const auto program = folded.program();
  if (program[0].from != operand::field) return no_index;  // which it pushes, being the first
  for (const instruction& step : program.subspan(1)) {
    const bool is_one = step.from == operand::constant && step.integer == 1;
    if (!is_one || (step.code != opcode::divide && step.code != opcode::multiply)) return no_index;
  }
  return program[0].index;
}

SWITCHYARD_FUNCTION std::uint32_t per_call_compiler::axis_alone(const expression& folded) noexcept {
  const auto program = folded.program();
  return program.size() == 1 && program[0].from == operand::axis ? program[0].index : no_index;
}

SWITCHYARD_FUNCTION bool per_call_compiler::same_bytes(value_kind argument, value_kind parameter) noexcept {
  if (!is_integer(argument)) return false;
  if (argument == parameter) return parameter != value_kind::u64;  // large ones do not fit
  return size_of(argument) == 8 && (parameter == value_kind::i64 || parameter == value_kind::pointer);
}

SWITCHYARD_FUNCTION void per_call_compiler::load(per_call_step& step,
                                                 const instruction& from) const noexcept {
  step.from = fields_[from.index].offset;
  step.loaded = fields_[from.index].kind;
}

SWITCHYARD_FUNCTION bool per_call_compiler::compile(std::span<const instruction> program, per_call_step& step,
                                                    per_call_program& out) const {
  if (program.size() == 1 && is_constant(program[0], opcode::push)) {
    if (!fits(step.kind, program[0].integer)) return true;
    out.constants.push_back({program[0].integer, step.kind, step.to});
    return false;
  }
  if (program.size() == 1 && is_integer_field(program[0], opcode::push)) {
    compile_field(program[0], step);
  } else if (program.size() == 2 && is_integer_field(program[0], opcode::push) &&
             compile_operation(program[0], program[1], step)) {
    // It has set the step.
  } else if (is_limit(program)) {
    load(step, program[0]);
    step.does = action::limit;
    step.operand = program[3].integer;
  } else {
    compile_flags(program, step, out);
  }
  return true;
}

SWITCHYARD_FUNCTION void per_call_compiler::compile_field(const instruction& field,
                                                          per_call_step& step) const noexcept {
  load(step, field);
  if (same_bytes(step.loaded, step.kind)) {
    step.does = action::copy;
    step.count = size_of(step.kind);
  } else if (size_of(step.loaded) == 8) {
    step.does = action::narrow;
  } else {
    step.does = action::minimum;
    step.operand = INT64_MAX;
  }
}

SWITCHYARD_FUNCTION bool per_call_compiler::compile_operation(const instruction& field,
                                                              const instruction& operation,
                                                              per_call_step& step) const noexcept {
  if (operation.from != operand::constant) return false;
  const std::int64_t by = operation.integer;
  if (by == 1 && (operation.code == opcode::divide || operation.code == opcode::multiply)) {
    compile_field(field, step);
  } else if (operation.code == opcode::minimum) {
    load(step, field);
    step.does = action::minimum;
    step.operand = by;
  } else if (operation.code == opcode::divide && by > 0 &&
             std::has_single_bit(static_cast<std::uint64_t>(by)) && is_wide_field(field, opcode::push) &&
             size_of(step.kind) == 8 && step.kind != value_kind::u64) {
    load(step, field);
    step.does = action::shift;
    step.shift = static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(by)));
    step.count = 1;
  } else {
    return false;
  }
  return true;
}

SWITCHYARD_FUNCTION bool per_call_compiler::is_limit(std::span<const instruction> program) const noexcept {
  return program.size() == 7 && is_integer_field(program[0], opcode::push) &&
         is_constant(program[1], opcode::less) && program[1].integer == 0 &&
         program[2].code == opcode::jump_if_zero && program[2].index == 5 &&
         is_constant(program[3], opcode::push) && program[4].code == opcode::jump && program[4].index == 7 &&
         is_integer_field(program[5], opcode::push) && program[5].index == program[0].index &&
         is_constant(program[6], opcode::minimum) && program[6].integer == program[3].integer;
}

SWITCHYARD_FUNCTION void per_call_compiler::compile_flags(std::span<const instruction> program,
                                                          per_call_step& step, per_call_program& out) const {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const auto is_small = [](const instruction& instruction) {
    return instruction.integer <= most && instruction.integer >= -most;
  };
  const auto is_flag = [&](std::size_t at) {
    return at + 1 < program.size() && is_wide_field(program[at], opcode::push) &&
           is_constant(program[at + 1], opcode::not_equal) && program[at + 1].integer == 0;
  };
  const auto is_stack = [&](std::size_t at, opcode code) {
    return at < program.size() && program[at].code == code && program[at].from == operand::stack;
  };
  std::vector<per_call_term> terms;
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < program.size();) {
    const bool is_first = at == 0;
    if (!is_first && is_constant(program[at], opcode::add) && is_small(program[at])) {
      sum += program[at++].integer;
      continue;
    }
    per_call_term term{0, 1};
    if (is_constant(program[at], opcode::push) && is_small(program[at]) && is_flag(at + 1) &&
        is_stack(at + 3, opcode::multiply)) {
      term = {fields_[program[at + 1].index].offset, program[at].integer};
      at += 4;
    } else if (is_flag(at)) {
      term = {fields_[program[at].index].offset, 1};
      at += 2;
      if (at < program.size() && is_constant(program[at], opcode::multiply) && is_small(program[at]))
        term.weight = program[at++].integer;
    } else if (is_first && is_constant(program[at], opcode::push) && is_small(program[at])) {
      sum = program[at++].integer;
      continue;
    } else {
      return;
    }
    terms.push_back(term);
    if (is_first) continue;
    if (!is_stack(at, opcode::add)) return;
    ++at;
  }
  step.does = action::flags;
  step.operand = sum;
  step.from = static_cast<std::uint32_t>(out.terms.size());
  step.count = static_cast<std::uint32_t>(terms.size());
  for (const per_call_term& term : terms) out.terms.push_back(term);
}

SWITCHYARD_FUNCTION bool per_call_compiler::add_moves(
    std::array<std::vector<per_call_move>, per_call_moves::kinds>& into, std::vector<per_call_limit>& limits,
    const per_call_step& step) {
  per_call_move next{step.from, step.to};
  switch (step.does) {
    case action::copy: {
      if (step.count % 4 != 0) return false;
      std::uint32_t left = step.count;
      const auto add = [&](per_call_moves::kind kind, std::uint32_t bytes) {
        for (; left >= bytes; left -= bytes, next.from += bytes, next.to += bytes) into[kind].push_back(next);
      };
      add(per_call_moves::lines, 64);
      add(per_call_moves::pairs, 16);
      add(per_call_moves::words, 8);
      add(per_call_moves::halves, 4);
      return true;
    }
    case action::narrow:
      if (step.kind != value_kind::i32 || step.loaded == value_kind::u64) return false;
      into[per_call_moves::narrowed].push_back(next);
      return true;
    case action::minimum:
    case action::limit: {
      if (step.kind != value_kind::i32 || step.loaded != value_kind::i32) return false;
      if (!fits(value_kind::i32, step.operand)) return false;
      if (step.does == action::limit && step.operand < 0) return false;
      const std::uint32_t sign = step.does == action::minimum ? 0x80000000U : 0U;
      limits.push_back({step.from, step.to, static_cast<std::uint32_t>(step.operand) ^ sign, sign});
      return true;
    }
    case action::address:
      into[per_call_moves::addresses].push_back(next);
      return true;
    default:
      return false;
  }
}

SWITCHYARD_FUNCTION void per_call_compiler::take_moves(per_call_program& out) {
  std::array<std::vector<per_call_move>, per_call_moves::kinds> moves;
  std::vector<per_call_limit> limits;
  std::vector<per_call_step> others;
  for (const per_call_step& step : out.steps) {
    if (!add_moves(moves, limits, step)) others.push_back(step);
  }
  std::vector<per_call_move> all;
  std::array<std::uint32_t, per_call_moves::kinds> ends{};
  for (std::size_t kind = 0; kind < per_call_moves::kinds; ++kind) {
    for (const per_call_move& move : moves[kind]) all.push_back(move);
    ends[kind] = static_cast<std::uint32_t>(all.size());
  }
  if (all.size() + limits.size() < least_moves) return;
  out.moves = {std::move(all), ends, std::move(limits)};
  out.steps = std::move(others);
}

SWITCHYARD_FUNCTION bool per_call_compiler::joined(std::vector<per_call_step>& steps,
                                                   const per_call_step& next) noexcept {
  if (steps.empty() || steps.back().does != next.does) return false;
  per_call_step& last = steps.back();
  const std::uint32_t unit = next.does == action::copy ? 1 : 8;
  if (next.does != action::copy && (next.does != action::shift || next.shift != last.shift)) return false;
  if (last.from + last.count * unit != next.from || last.to + last.count * unit != next.to) return false;
  last.count += next.count;
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
