// What is evaluated at each call, compiled for the axis values that it reads: copies, quotients of strides,
// limits and flags, in a few instructions each. What has no such form is left to the interpreter, which also
// gives every error, so that both have the same results. late_compiler.hpp makes these programs.
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
    copy,       ///< `count` bytes of the arguments, where no late_move does it
    shift,      ///< `count` 64-bit integers, divided by 2^shift as integers are: toward zero
    narrow,     ///< a 64-bit argument as a narrower integer, where no late_move does it
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
  std::uint32_t to = 0;    ///< offset in the image
  std::uint32_t from = 0;  ///< offset in the arguments, or the first term
  std::uint32_t count = 0;
  std::uint32_t value = 0;  ///< which late value it is, the first one of several
  std::int64_t operand = 0;
};

/// One value that goes from the arguments into the image as it is: most late values do.
struct late_move {
  std::uint32_t from = 0;  ///< offset in the arguments, or a workspace buffer's index
  std::uint32_t to = 0;    ///< offset in the image
};

/// A 32-bit integer that is moved; `most` in place of one that is greater.
struct late_limit {
  std::uint32_t from = 0;  ///< offset in the arguments
  std::uint32_t to = 0;    ///< offset in the image
  std::uint32_t most = 0;  ///< compared without a sign, after both were changed by `sign`
  std::uint32_t sign = 0;  ///< 2^31: as integers; 0: negative ones are greater than all others
};

/// A launch's moves, sorted by what they move: a loop over each kind takes seven instructions a move, where a
/// step takes twenty. None where there are too few to be worth the loops.
struct late_moves {
  enum kind : std::uint8_t {
    lines,      ///< 64 bytes
    pairs,      ///< 16 bytes
    words,      ///< 8 bytes
    halves,     ///< 4 bytes
    narrowed,   ///< a 64-bit argument, as a 32-bit integer where it is one
    addresses,  ///< of workspace buffers
    kinds
  };
  std::vector<late_move> all;
  std::array<std::uint32_t, kinds> ends{};  ///< of each kind's in `all`
  std::vector<late_limit> limits;

  [[nodiscard]] bool is_empty() const noexcept { return all.empty() && limits.empty(); }
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
  late_moves moves;                ///< made before the steps
  std::vector<late_step> steps;
  std::vector<late_term> terms;
  std::vector<late_constant> constants;
  std::vector<expression> values;  ///< by late value, folded; empty expressions where there is none
  late_program* next = nullptr;

  /// Whether nothing is left to do at a call.
  [[nodiscard]] bool is_empty() const noexcept { return moves.is_empty() && steps.empty(); }

  /// Whether each call needs the interpreter. Others need it where a value does not fit.
  [[nodiscard]] bool interprets() const noexcept {
    for (const late_step& each : steps) {
      if (each.does == late_step::action::interpret) return true;
    }
    return false;
  }
};

namespace detail {

/// Moves of `Value`s up to `end`.
template <class Value>
[[gnu::always_inline]] inline void move_values(const late_move*& at, const late_move* end,
                                               const std::byte* arguments, std::byte* image) noexcept {
  for (; at != end; ++at) {
    Value value;
    __builtin_memcpy(&value, arguments + at->from, sizeof value);
    __builtin_memcpy(image + at->to, &value, sizeof value);
  }
}

/// Makes a program's moves. False where an argument does not fit 32 bits, of which nothing is written.
template <class Addresses>
[[nodiscard, gnu::always_inline]] inline bool make_moves(const late_moves& moves, const std::byte* arguments,
                                                         std::byte* image, const Addresses& address_of) {
  using sixteen = std::uint64_t __attribute__((vector_size(16)));
  const late_move* const begin = moves.all.data();
  const late_move* at = begin;
  for (const late_move* const end = begin + moves.ends[late_moves::lines]; at != end; ++at) {
    // Loads before stores: the two may not be known to lie apart.
    const auto a = load_as<sixteen>(arguments + at->from);
    const auto b = load_as<sixteen>(arguments + at->from + 16);
    const auto c = load_as<sixteen>(arguments + at->from + 32);
    const auto d = load_as<sixteen>(arguments + at->from + 48);
    std::byte* const to = image + at->to;
    __builtin_memcpy(to, &a, 16);
    __builtin_memcpy(to + 16, &b, 16);
    __builtin_memcpy(to + 32, &c, 16);
    __builtin_memcpy(to + 48, &d, 16);
  }
  move_values<sixteen>(at, begin + moves.ends[late_moves::pairs], arguments, image);
  move_values<std::uint64_t>(at, begin + moves.ends[late_moves::words], arguments, image);
  move_values<std::uint32_t>(at, begin + moves.ends[late_moves::halves], arguments, image);
  bool all_fit = true;
  for (const late_move* const end = begin + moves.ends[late_moves::narrowed]; at != end; ++at) {
    const auto value = load_as<std::int64_t>(arguments + at->from);
    const auto low = static_cast<std::int32_t>(value);
    if (value == low) [[likely]] {
      __builtin_memcpy(image + at->to, &low, sizeof low);
    } else {
      all_fit = false;
    }
  }
  for (const late_move* const end = begin + moves.ends[late_moves::addresses]; at != end; ++at) {
    const void* const address = address_of(at->from);
    __builtin_memcpy(image + at->to, &address, sizeof address);
  }
  for (const late_limit& each : moves.limits) {
    const std::uint32_t value = load_as<std::uint32_t>(arguments + each.from) ^ each.sign;
    const std::uint32_t least = (value < each.most ? value : each.most) ^ each.sign;
    __builtin_memcpy(image + each.to, &least, sizeof least);
  }
  return all_fit;
}

/// Writes what needs no interpreter into an image: `address_of(buffer)` gives the workspace's addresses.
/// Calls `interpret(value)` for the rest, in the order of the late values.
template <class Addresses, class Interpreter>
[[gnu::always_inline]] inline void run_late(const late_program& program, const std::byte* arguments,
                                            std::byte* image, const Addresses& address_of,
                                            const Interpreter& interpret) {
  using action = late_step::action;
  if (!program.moves.is_empty() && !make_moves(program.moves, arguments, image, address_of)) [[unlikely]] {
    // The interpreter finds the first value that does not fit.
    for (std::uint32_t i = 0; i < program.values.size(); ++i) interpret(i);
    return;
  }
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
        const late_term* const terms = program.terms.data() + step.from;
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
