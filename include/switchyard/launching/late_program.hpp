// What is evaluated at each call, compiled for the axis values that it reads: copies, quotients of strides,
// limits and flags, in a few instructions each. What has no such form is left to the interpreter, which also
// gives every error, so that both have the same results.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/launching/parameter_image.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// A value of a parameter image that is known only when the call is made.
struct late_value {
  enum class source : std::uint8_t { field, integer, real, workspace, tensor_map };
  source from = source::field;
  value_kind kind = value_kind::pointer;
  std::uint32_t offset = 0;  ///< in the image
  std::uint32_t index = 0;   ///< of the field, the workspace buffer or the launch's tensor map
  const expression* value = nullptr;
};

/// One or several late values.
struct late_step {
  enum class action : std::uint8_t {
    copy,       ///< `count` bytes of the arguments
    shift,      ///< `count` 64-bit integers, divided by 2^shift as integers are: toward zero
    narrow,     ///< a 64-bit argument as a narrower integer
    minimum,    ///< of an argument and `operand`
    limit,      ///< `operand` for a negative argument, else the minimum of both
    flags,      ///< `operand`, and for each of `count` terms that is not null its weight
    interpret,  ///< by the interpreter, as workspace addresses and tensor maps are
  };
  action what = action::interpret;
  value_kind kind = value_kind::i64;    ///< of the parameter
  value_kind loaded = value_kind::i64;  ///< of the argument
  std::uint8_t shift = 0;
  std::uint32_t to = 0;    ///< offset in the image
  std::uint32_t from = 0;  ///< offset in the arguments, or the first term
  std::uint32_t count = 0;
  std::uint32_t value = 0;  ///< which late value it is, the first one of several
  std::int64_t operand = 0;
};

/// Adds its weight to flags where the 64-bit argument is not zero.
struct late_term {
  std::uint32_t from = 0;
  std::int64_t weight = 0;
};

/// A late value that is decided by the axes that it reads.
struct late_constant {
  std::int64_t value = 0;
  value_kind kind = value_kind::i64;
  std::uint32_t to = 0;
};

/// The late values of one launch, for the values of the axes that they read.
struct late_program {
  std::vector<std::int64_t> axes;  ///< those values
  std::vector<late_step> steps;
  std::vector<late_term> terms;
  std::vector<late_constant> constants;
  std::vector<expression> values;  ///< by late value, folded; empty expressions where there is none
  late_program* next = nullptr;
};

namespace detail {

/// Writes what needs no interpreter into an image, and calls `interpret(value, folded)` for the rest, in the
/// order of the late values.
template <class Interpreter>
[[gnu::always_inline]] inline void run_late(const late_program& program, const std::byte* arguments,
                                            std::byte* image, const Interpreter& interpret) {
  using action = late_step::action;
  // Always inline: what it captures would be kept in memory.
  const auto store = [&](const late_step& step, std::int64_t value) __attribute__((always_inline)) {
    if (step.kind == value_kind::i32 && value == static_cast<std::int32_t>(value)) [[likely]] {
      const auto low = static_cast<std::int32_t>(value);
      __builtin_memcpy(image + step.to, &low, sizeof low);
    } else if (fits(step.kind, value)) {
      store_integer(image + step.to, step.kind, value);
    } else {
      interpret(step.value);
    }
  };
  for (const late_step& step : program.steps) {
    std::byte* const to = image + step.to;
    const std::byte* const from = arguments + step.from;
    switch (step.what) {
      case action::copy: {
        // Multiples of eight are copied by words: a call of memcpy takes longer.
        std::size_t at = 0;
        const std::size_t count = step.count;  // what is written may be a step, as far as the compiler knows
        for (; at + 8 <= count; at += 8) __builtin_memcpy(to + at, from + at, 8);
        if (at + 4 <= count) {
          __builtin_memcpy(to + at, from + at, 4);
          at += 4;
        }
        for (; at < count; ++at) to[at] = from[at];
        break;
      }
      case action::shift: {
        using two = std::uint64_t __attribute__((vector_size(16)));
        two signs{};
        const std::size_t count = step.count;
        const std::uint64_t shift = step.shift;
        std::size_t at = 0;
        for (; at + 2 <= count; at += 2) {
          two both;
          __builtin_memcpy(&both, from + 8 * at, sizeof both);
          signs |= both;
          both >>= shift;
          __builtin_memcpy(to + 8 * at, &both, sizeof both);
        }
        if ((static_cast<std::int64_t>(signs[0] | signs[1]) < 0)) [[unlikely]]
          at = 0;
        for (; at < count; ++at) {
          const auto value = load_as<std::int64_t>(from + 8 * at);
          const std::int64_t below = value < 0 ? (std::int64_t{1} << shift) - 1 : 0;
          const std::int64_t quotient = (value + below) >> shift;
          __builtin_memcpy(to + 8 * at, &quotient, sizeof quotient);
        }
        break;
      }
      case action::narrow:
        store(step, load_as<std::int64_t>(from));
        break;
      case action::minimum:
      case action::limit: {
        std::int64_t value =
            step.loaded == value_kind::i32 ? load_as<std::int32_t>(from) : load_integer(from, step.loaded);
        if (value > step.operand || (step.what == action::limit && value < 0)) value = step.operand;
        store(step, value);
        break;
      }
      case action::flags: {
        std::int64_t value = step.operand;
        const late_term* const terms = program.terms.data() + step.from;
        for (std::size_t i = 0; i < step.count; ++i)
          value += load_as<std::int64_t>(arguments + terms[i].from) != 0 ? terms[i].weight : 0;
        store(step, value);
        break;
      }
      case action::interpret:
        interpret(step.value);
    }
  }
}

/// Makes late programs. An expression is folded for a problem; what is left is compared with the forms above.
class late_compiler {
 public:
  late_compiler(std::span<const late_value> late, std::span<const field_description> fields) noexcept
      : late_{late}, fields_{fields} {}

  /// `axes` have what is known; the last `read` of them are those that late_programs tells programs by.
  [[nodiscard]] std::unique_ptr<late_program> compile(std::span<const axis_value> axes, std::size_t read,
                                                      std::span<const std::int64_t> attributes) {
    auto out = std::make_unique<late_program>();
    for (const axis_value& each : axes.last(read)) out->axes.push_back(each.value);
    out->values.resize(late_.size());
    for (std::size_t i = 0; i < late_.size(); ++i) {
      const late_value& each = late_[i];
      late_step step;
      step.kind = each.kind;
      step.to = each.offset;
      step.value = static_cast<std::uint32_t>(i);
      if (each.from == late_value::source::field) {
        step.what = late_step::action::copy;
        step.from = fields_[each.index].offset;
        step.count = size_of(each.kind);
      } else if (each.from == late_value::source::integer) {
        out->values[i] = each.value->fold(axes, attributes);
        if (!compile(out->values[i].program(), step, *out)) continue;
      }
      if (!joined(out->steps, step)) out->steps.push_back(step);
    }
    return out;
  }

  /// The argument that an expression is, divided or multiplied by nothing but 1; no_index: it is something
  /// else.
  [[nodiscard]] static std::uint32_t field_alone(const expression& folded) noexcept {
    const auto program = folded.program();
    if (program[0].from != operand::field || program[0].code != opcode::push) return no_index;
    for (const instruction& step : program.subspan(1)) {
      const bool is_one = step.from == operand::constant && step.integer == 1;
      if (!is_one || (step.code != opcode::divide && step.code != opcode::multiply)) return no_index;
    }
    return program[0].index;
  }

  /// The axis that an expression is, or no_index.
  [[nodiscard]] static std::uint32_t axis_alone(const expression& folded) noexcept {
    const auto program = folded.program();
    return program.size() == 1 && program[0].from == operand::axis ? program[0].index : no_index;
  }

  /// Whether an integer of an argument's kind, as a parameter, has the same bytes whatever its value.
  [[nodiscard]] static bool same_bytes(value_kind argument, value_kind parameter) noexcept {
    if (!is_integer(argument)) return false;
    if (argument == parameter) return parameter != value_kind::u64;  // large ones do not fit
    return size_of(argument) == 8 && (parameter == value_kind::i64 || parameter == value_kind::pointer);
  }

 private:
  using action = late_step::action;

  [[nodiscard]] static bool is_integer(value_kind kind) noexcept { return kind <= value_kind::u64; }

  [[nodiscard]] static bool is_constant(const instruction& step, opcode code) noexcept {
    return step.code == code && step.from == operand::constant;
  }
  [[nodiscard]] bool is_integer_field(const instruction& step, opcode code) const noexcept {
    return step.code == code && step.from == operand::field && is_integer(fields_[step.index].kind);
  }
  [[nodiscard]] bool is_wide_field(const instruction& step, opcode code) const noexcept {
    return is_integer_field(step, code) && size_of(fields_[step.index].kind) == 8;
  }

  void load(late_step& step, const instruction& from) const noexcept {
    step.from = fields_[from.index].offset;
    step.loaded = fields_[from.index].kind;
  }

  /// Sets what a step does; leaves it to the interpreter where the program has no such form. False where
  /// nothing is left to do.
  [[nodiscard]] bool compile(std::span<const instruction> program, late_step& step, late_program& out) const {
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
      step.what = action::limit;
      step.operand = program[3].integer;
    } else {
      compile_flags(program, step, out);
    }
    return true;
  }

  void compile_field(const instruction& field, late_step& step) const noexcept {
    load(step, field);
    if (same_bytes(step.loaded, step.kind)) {
      step.what = action::copy;
      step.count = size_of(step.kind);
    } else if (size_of(step.loaded) == 8) {
      step.what = action::narrow;
    } else {
      step.what = action::minimum;
      step.operand = INT64_MAX;
    }
  }

  [[nodiscard]] bool compile_operation(const instruction& field, const instruction& operation,
                                       late_step& step) const noexcept {
    if (operation.from != operand::constant) return false;
    const std::int64_t by = operation.integer;
    if (by == 1 && (operation.code == opcode::divide || operation.code == opcode::multiply)) {
      compile_field(field, step);
    } else if (operation.code == opcode::minimum) {
      load(step, field);
      step.what = action::minimum;
      step.operand = by;
    } else if (operation.code == opcode::divide && by > 0 &&
               std::has_single_bit(static_cast<std::uint64_t>(by)) && is_wide_field(field, opcode::push) &&
               size_of(step.kind) == 8 && step.kind != value_kind::u64) {
      load(step, field);
      step.what = action::shift;
      step.shift = static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(by)));
      step.count = 1;
    } else {
      return false;
    }
    return true;
  }

  /// f < 0 ? c : min(f, c)
  [[nodiscard]] bool is_limit(std::span<const instruction> program) const noexcept {
    return program.size() == 7 && is_integer_field(program[0], opcode::push) &&
           is_constant(program[1], opcode::less) && program[1].integer == 0 &&
           program[2].code == opcode::jump_if_zero && program[2].index == 5 &&
           is_constant(program[3], opcode::push) && program[4].code == opcode::jump &&
           program[4].index == 7 && is_integer_field(program[5], opcode::push) &&
           program[5].index == program[0].index && is_constant(program[6], opcode::minimum) &&
           program[6].integer == program[3].integer;
  }

  /// A sum of constants and of weights for 64-bit arguments that are not zero, none so large that a part of
  /// the sum could overflow.
  void compile_flags(std::span<const instruction> program, late_step& step, late_program& out) const {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    const auto is_small = [](const instruction& each) {
      return each.integer <= most && each.integer >= -most;
    };
    const auto is_flag = [&](std::size_t at) {
      return at + 1 < program.size() && is_wide_field(program[at], opcode::push) &&
             is_constant(program[at + 1], opcode::not_equal) && program[at + 1].integer == 0;
    };
    const auto is_stack = [&](std::size_t at, opcode code) {
      return at < program.size() && program[at].code == code && program[at].from == operand::stack;
    };
    std::vector<late_term> terms;
    std::int64_t sum = 0;
    for (std::size_t at = 0; at < program.size();) {
      const bool is_first = at == 0;
      if (!is_first && is_constant(program[at], opcode::add) && is_small(program[at])) {
        sum += program[at++].integer;
        continue;
      }
      late_term term{0, 1};
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
    step.what = action::flags;
    step.operand = sum;
    step.from = static_cast<std::uint32_t>(out.terms.size());
    step.count = static_cast<std::uint32_t>(terms.size());
    out.terms.insert(out.terms.end(), terms.begin(), terms.end());
  }

  /// Lengthens the last step by one that goes on where it ends. False where it does not.
  [[nodiscard]] static bool joined(std::vector<late_step>& steps, const late_step& next) noexcept {
    if (steps.empty() || steps.back().what != next.what) return false;
    late_step& last = steps.back();
    const std::uint32_t unit = next.what == action::copy ? 1 : 8;
    if (next.what != action::copy && (next.what != action::shift || next.shift != last.shift)) return false;
    if (last.from + last.count * unit != next.from || last.to + last.count * unit != next.to) return false;
    last.count += next.count;
    return true;
  }

  std::span<const late_value> late_;
  std::span<const field_description> fields_;
};

/// The late programs of a launch, for as many problems as differ in axes that its late values read: few, as
/// these are types. Any thread may find and add.
class late_programs {
 public:
  late_programs() = default;
  late_programs(const late_programs&) = delete;
  late_programs& operator=(const late_programs&) = delete;
  ~late_programs() {
    for (const late_program* each = first_.load(std::memory_order_relaxed); each != nullptr;) {
      const std::unique_ptr<const late_program> owned{each};
      each = each->next;
    }
  }

  /// The axes that late values read. Set once, before any other call.
  void set_axes(std::vector<std::uint32_t> axes) { axes_ = std::move(axes); }
  [[nodiscard]] std::span<const std::uint32_t> axes() const noexcept { return axes_; }

  [[nodiscard]] const late_program* find(problem_view problem) const noexcept {
    const late_program* each = first_.load(std::memory_order_acquire);
    while (each != nullptr && !serves(*each, problem)) each = each->next;
    return each;
  }

  /// Keeps a program; returns null, and leaves it to the caller, where there are too many.
  [[nodiscard]] const late_program* add(std::unique_ptr<late_program>& fresh) noexcept {
    if (count_.fetch_add(1, std::memory_order_relaxed) >= most) {
      count_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    late_program* const added = fresh.release();
    added->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
    }
    return added;
  }

 private:
  static constexpr unsigned most = 32;

  [[nodiscard]] bool serves(const late_program& each, problem_view problem) const noexcept {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (each.axes[i] != problem[axes_[i]]) return false;
    }
    return true;
  }

  std::vector<std::uint32_t> axes_;
  std::atomic<late_program*> first_{nullptr};
  std::atomic<unsigned> count_{0};
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
