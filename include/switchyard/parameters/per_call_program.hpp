// SPDX-License-Identifier: MIT
// What is evaluated at each call, compiled for the axis values that it reads: copies, quotients of strides,
// limits and flags, in a few instructions each. Everything else is left to the interpreter. It also makes
// every error, so that both give the same results. per_call_compiler.hpp makes these programs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/parameters/parameter_block.hpp>

namespace switchyard {
inline namespace v0 {

/// A value of a parameter block that is known only when the call is made.
struct per_call_value {
  enum class source : std::uint8_t { field, integer, real, workspace, tensor_map };
  source from = source::field;
  value_kind kind = value_kind::pointer;
  std::uint32_t offset = 0;  ///< in the parameter block
  std::uint32_t index = 0;   ///< of the field, the workspace buffer or the launch's tensor map
  const expression* value = nullptr;
};

/// One or several per-call values.
struct per_call_step {
  enum class action : std::uint8_t {
    copy,       ///< `count` bytes of the arguments, where no per_call_move does it
    shift,      ///< `count` 64-bit integers, divided by 2^shift as integers are: toward zero
    narrow,     ///< a 64-bit argument as a narrower integer, where no per_call_move does it
    minimum,    ///< of an argument and `operand`
    limit,      ///< `operand` for a negative argument, else the minimum of both
    flags,      ///< `operand`, and for each of `count` terms that is not null its weight
    address,    ///< of workspace buffer `from`
    interpret,  ///< by the interpreter, as tensor maps are
  };
  action does = action::interpret;
  value_kind kind = value_kind::i64;    ///< of the parameter
  value_kind loaded = value_kind::i64;  ///< of the argument
  std::uint8_t shift = 0;
  std::uint32_t to = 0;    ///< offset in the parameter block
  std::uint32_t from = 0;  ///< offset in the arguments, or the first term
  std::uint32_t count = 0;
  std::uint32_t value = 0;  ///< which per-call value it is, the first one of several
  std::int64_t operand = 0;
};

/// One value that goes from the arguments into the parameter block as it is: most per-call values do.
struct per_call_move {
  std::uint32_t from = 0;  ///< offset in the arguments, or a workspace buffer's index
  std::uint32_t to = 0;    ///< offset in the parameter block
};

/// A 32-bit integer that is moved; `most` in place of one that is greater.
struct per_call_limit {
  std::uint32_t from = 0;  ///< offset in the arguments
  std::uint32_t to = 0;    ///< offset in the parameter block
  std::uint32_t most = 0;  ///< compared without a sign, after both were changed by `sign`
  std::uint32_t sign = 0;  ///< 2^31: as integers; 0: negative ones are greater than all others
};

/// A launch's moves, sorted by what they move: a loop over each kind takes seven instructions a move, where a
/// step takes twenty. None where there are too few to be worth the loops.
struct per_call_moves {
  enum kind : std::uint8_t {
    lines,      ///< 64 bytes
    pairs,      ///< 16 bytes
    words,      ///< 8 bytes
    halves,     ///< 4 bytes
    narrowed,   ///< a 64-bit argument, as a 32-bit integer where it is one
    addresses,  ///< of workspace buffers
    kinds
  };
  std::vector<per_call_move> all;
  std::array<std::uint32_t, kinds> ends{};  ///< of each kind's in `all`
  std::vector<per_call_limit> limits;

  [[nodiscard]] bool is_empty() const noexcept { return all.empty() && limits.empty(); }
};

/// Adds its weight to flags where the 64-bit argument is not zero.
struct per_call_term {
  std::uint32_t from = 0;
  std::int64_t weight = 0;
};

/// A per-call value that is decided by the axes that it reads.
struct per_call_constant {
  std::int64_t value = 0;
  value_kind kind = value_kind::i64;
  std::uint32_t to = 0;
};

/// The per-call values of one launch, for the values of the axes that they read.
struct per_call_program {
  std::vector<std::int64_t> axes;  ///< those values
  per_call_moves moves;            ///< made before the steps
  std::vector<per_call_step> steps;
  std::vector<per_call_term> terms;
  std::vector<per_call_constant> constants;
  std::vector<expression> values;  ///< by per-call value, folded; empty expressions where there is none
  per_call_program* next = nullptr;

  /// Whether nothing is left to do at a call.
  [[nodiscard]] bool is_empty() const noexcept { return moves.is_empty() && steps.empty(); }

  /// Whether each call needs the interpreter. Others need it where a value does not fit.
  [[nodiscard]] bool interprets() const noexcept {
    for (const per_call_step& step : steps) {
      if (step.does == per_call_step::action::interpret) return true;
    }
    return false;
  }
};

namespace detail {

/// Moves of `Value`s up to `end`.
template <class Value>
[[gnu::always_inline]] inline void move_values(const per_call_move*& at, const per_call_move* end,
                                               const std::byte* arguments,
                                               std::byte* parameter_block) noexcept {
  for (; at != end; ++at) {
    Value value;
    __builtin_memcpy(&value, arguments + at->from, sizeof value);
    __builtin_memcpy(parameter_block + at->to, &value, sizeof value);
  }
}

/// Makes a program's moves. False where an argument does not fit 32 bits, of which nothing is written.
template <class Addresses>
[[nodiscard, gnu::always_inline]] inline bool make_moves(const per_call_moves& moves,
                                                         const std::byte* arguments,
                                                         std::byte* parameter_block,
                                                         const Addresses& address_of) {
  using sixteen = std::uint64_t __attribute__((vector_size(16)));
  const per_call_move* const begin = moves.all.data();
  const per_call_move* at = begin;
  for (const per_call_move* const end = begin + moves.ends[per_call_moves::lines]; at != end; ++at) {
    // Loads before stores: the two may not be known to lie apart.
    const auto a = load_as<sixteen>(arguments + at->from);
    const auto b = load_as<sixteen>(arguments + at->from + 16);
    const auto c = load_as<sixteen>(arguments + at->from + 32);
    const auto d = load_as<sixteen>(arguments + at->from + 48);
    std::byte* const to = parameter_block + at->to;
    __builtin_memcpy(to, &a, 16);
    __builtin_memcpy(to + 16, &b, 16);
    __builtin_memcpy(to + 32, &c, 16);
    __builtin_memcpy(to + 48, &d, 16);
  }
  move_values<sixteen>(at, begin + moves.ends[per_call_moves::pairs], arguments, parameter_block);
  move_values<std::uint64_t>(at, begin + moves.ends[per_call_moves::words], arguments, parameter_block);
  move_values<std::uint32_t>(at, begin + moves.ends[per_call_moves::halves], arguments, parameter_block);
  bool all_fit = true;
  for (const per_call_move* const end = begin + moves.ends[per_call_moves::narrowed]; at != end; ++at) {
    const auto value = load_as<std::int64_t>(arguments + at->from);
    const auto low = static_cast<std::int32_t>(value);
    if (value == low) [[likely]] {
      __builtin_memcpy(parameter_block + at->to, &low, sizeof low);
    } else {
      all_fit = false;
    }
  }
  for (const per_call_move* const end = begin + moves.ends[per_call_moves::addresses]; at != end; ++at) {
    const void* const address = address_of(at->from);
    __builtin_memcpy(parameter_block + at->to, &address, sizeof address);
  }
  for (const per_call_limit& limit : moves.limits) {
    const std::uint32_t value = load_as<std::uint32_t>(arguments + limit.from) ^ limit.sign;
    const std::uint32_t least = (value < limit.most ? value : limit.most) ^ limit.sign;
    __builtin_memcpy(parameter_block + limit.to, &least, sizeof least);
  }
  return all_fit;
}

/// Writes what needs no interpreter into a parameter block: `address_of(buffer)` gives the workspace's
/// addresses. Calls `interpret(value)` for the rest, in the order of the per-call values.
template <class Addresses, class Interpreter>
[[gnu::always_inline]] inline void run_per_call(const per_call_program& program, const std::byte* arguments,
                                                std::byte* parameter_block, const Addresses& address_of,
                                                const Interpreter& interpret) {
  using action = per_call_step::action;
  if (!program.moves.is_empty() && !make_moves(program.moves, arguments, parameter_block, address_of))
      [[unlikely]] {
    // The interpreter finds the first value that does not fit.
    for (std::uint32_t i = 0; i < program.values.size(); ++i) interpret(i);
    return;
  }
  // Always inline: what it captures would be kept in memory.
  const auto store = [&](const per_call_step& step, std::int64_t value) __attribute__((always_inline)) {
    if (step.kind == value_kind::i32 && value == static_cast<std::int32_t>(value)) [[likely]] {
      const auto low = static_cast<std::int32_t>(value);
      __builtin_memcpy(parameter_block + step.to, &low, sizeof low);
    } else if (fits(step.kind, value)) {
      store_integer(parameter_block + step.to, step.kind, value);
    } else {
      interpret(step.value);
    }
  };
  for (const per_call_step& step : program.steps) {
    std::byte* const to = parameter_block + step.to;
    const std::byte* const from = arguments + step.from;
    switch (step.does) {
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
        const auto shift_two = [&](std::size_t first) __attribute__((always_inline)) {
          auto both = load_as<two>(from + 8 * first);
          signs |= both;
          both >>= shift;
          __builtin_memcpy(to + 8 * first, &both, sizeof both);
        };
        std::size_t at = 0;
        // Four at a time: strides come by the dozen.
        for (; at + 4 <= count; at += 4) {
          shift_two(at);
          shift_two(at + 2);
        }
        if (at + 2 <= count) {
          shift_two(at);
          at += 2;
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
        if (value > step.operand || (step.does == action::limit && value < 0)) value = step.operand;
        store(step, value);
        break;
      }
      case action::flags: {
        std::int64_t value = step.operand;
        const per_call_term* const terms = program.terms.data() + step.from;
        for (std::size_t i = 0; i < step.count; ++i)
          value += load_as<std::int64_t>(arguments + terms[i].from) != 0 ? terms[i].weight : 0;
        store(step, value);
        break;
      }
      case action::address: {
        const void* const address = address_of(step.from);
        __builtin_memcpy(to, &address, sizeof address);
        break;
      }
      case action::interpret:
        interpret(step.value);
    }
  }
}

/// The per-call programs of a launch, for as many problems as differ in axes that its per-call values read:
/// few, as these are types. Any thread may find and add.
class per_call_programs {
 public:
  per_call_programs() = default;
  per_call_programs(const per_call_programs&) = delete;
  per_call_programs& operator=(const per_call_programs&) = delete;
  ~per_call_programs() {
    for (const per_call_program* program = first_.load(std::memory_order_relaxed); program != nullptr;) {
      const std::unique_ptr<const per_call_program> owned{program};
      program = program->next;
    }
  }

  /// The axes that per-call values read. Set once, before any other call.
  void set_axes(std::vector<std::uint32_t> axes) { axes_ = std::move(axes); }
  [[nodiscard]] std::span<const std::uint32_t> axes() const noexcept { return axes_; }

  [[nodiscard]] const per_call_program* find(problem_view problem) const noexcept {
    const per_call_program* program = first_.load(std::memory_order_acquire);
    while (program != nullptr && !serves(*program, problem)) program = program->next;
    return program;
  }

  /// Keeps a program; returns null, and leaves it to the caller, where there are too many.
  [[nodiscard]] const per_call_program* add(std::unique_ptr<per_call_program>& fresh) noexcept {
    if (count_.fetch_add(1, std::memory_order_relaxed) >= most) {
      count_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    per_call_program* const added = fresh.release();
    added->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
    }
    return added;
  }

 private:
  static constexpr unsigned most = 32;

  [[nodiscard]] bool serves(const per_call_program& program, problem_view problem) const noexcept {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (program.axes[i] != problem[axes_[i]]) return false;
    }
    return true;
  }

  std::vector<std::uint32_t> axes_;
  std::atomic<per_call_program*> first_{nullptr};
  std::atomic<unsigned> count_{0};
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
