// SPDX-License-Identifier: MIT
// The key that finds the plan of a problem: the axis values as vectors, with all flags packed into one word.
// A warm call makes only this key, in registers; the problem itself is made when no plan is found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

using key_part = std::uint64_t __attribute__((vector_size(16)));

/// Most parts of a key.
inline constexpr std::size_t max_key_parts = max_axes / 2;

template <operator_type Operator, std::size_t Axis>
using axis_type = std::remove_cvref_t<decltype(axis_at<Axis>(Operator::axes))>;

template <operator_type Operator, std::size_t Axis>
inline constexpr bool is_flag_axis = std::is_same_v<typename axis_type<Operator, Axis>::value_type, bool>;

/// Whether an axis has names for its values, from 0 on: it is extended without its sign, by the load itself.
template <operator_type Operator, std::size_t Axis>
inline constexpr bool is_named_axis =
    !is_flag_axis<Operator, Axis> &&
    !enumerator_names<typename axis_type<Operator, Axis>::value_type>.empty();

/// Whether an axis is a member function of the arguments. A flag is not: flags keep the order of axes.
template <operator_type Operator, std::size_t Axis>
inline constexpr bool is_function_axis = requires {
  requires axis_type<Operator, Axis>::is_function;
  requires !is_flag_axis<Operator, Axis>;
};

/// How many of an operator's first axes take a word of their own.
template <operator_type Operator>
[[nodiscard]] constexpr std::size_t words_before(std::size_t axis) noexcept {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return (std::size_t{0} + ... + (Index < axis && !is_flag_axis<Operator, Index> ? 1U : 0U));
  }
  (std::make_index_sequence<axis_count<Operator>>{});
}

/// Words of a key: one for all flags together, where there are any, and one for each other axis.
template <operator_type Operator>
inline constexpr std::size_t key_words = words_before<Operator>(axis_count<Operator>) +
                                         (words_before<Operator>(axis_count<Operator>) < axis_count<Operator>
                                              ? 1
                                              : 0);
// Odd numbers of 32 bits.
inline constexpr std::array<std::uint32_t, 2 * max_key_parts> key_factors = [] {
  std::array<std::uint32_t, 2 * max_key_parts> out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint32_t>(hash_factors[i] >> 32U) | 0x80000001U;
  return out;
}();

/// The sum of the products of two words' low halves with two factors' low halves, lane by lane.
[[nodiscard, gnu::always_inline]] inline key_part multiply_low(key_part words, std::size_t part) noexcept {
#if defined(__SSE2__)
  using four = int __attribute__((vector_size(16)));
  const four factors{static_cast<int>(key_factors[2 * part]), 0, static_cast<int>(key_factors[2 * part + 1]),
                     0};
  // The generic product of 64-bit lanes takes three times as many instructions.
  return reinterpret_cast<key_part>(__builtin_ia32_pmuludq128(reinterpret_cast<four>(words), factors));
#else
  const key_part factors{key_factors[2 * part], key_factors[2 * part + 1]};
  return (words & 0xffffffffU) * factors;
#endif
}

/// Appends to `flags` whether `bits` is 0.
[[gnu::always_inline]] inline void append_flag(std::uint32_t& flags, std::uint64_t bits,
                                               [[maybe_unused]] std::uint64_t one) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
  // A comparison whose carry is the flag, then one addition. GCC 12 stores the sum of the built-in function
  // below to memory.
  asm("{cmpq\t$1, %1|cmp\t%1, 1}\n\t{adcl\t%0, %0|adc\t%0, %0}"  // NOLINT(hicpp-no-assembler)
      : "+r"(flags)
      : "rm"(bits)
      : "cc");
#elif defined(__x86_64__)
  // The same. `one` is opaque: of a comparison with 1, the compiler makes one with 0, which has no carry.
  unsigned next = 0;
  (void)__builtin_ia32_addcarryx_u32(bits < one ? 1 : 0, flags, flags, &next);
  flags = next;
#else
  flags = flags + flags + (bits == 0 ? 1U : 0U);
#endif
}

[[nodiscard, gnu::always_inline]] inline std::uint64_t opaque_one() noexcept {
  std::uint64_t one = 1;
  asm("" : "+r"(one));  // NOLINT(hicpp-no-assembler)
  return one;
}

[[nodiscard, gnu::always_inline]] inline std::uint64_t finish_hash(std::uint64_t sum) noexcept {
  // Without the shift, sizes that grow together would meet in few buckets.
  return (sum ^ sum >> 32U) * 0x9e3779b97f4a7c15U;
}

}  // namespace detail

/// Two words a part, the last padded with zero.
template <std::size_t Parts>
using key_of_parts = std::array<detail::key_part, Parts>;

namespace detail {

template <std::size_t Parts, std::size_t... Part>
[[nodiscard, gnu::always_inline]] inline key_part sum_products(
    const key_of_parts<Parts>& key, std::index_sequence<Part...> /*all*/) noexcept {
  return (multiply_low(key[Part], Part) + ...);
}

}  // namespace detail

template <operator_type Operator>
using problem_key = key_of_parts<(detail::key_words<Operator> + 1) / 2>;

namespace detail {

/// The words of a key, from axis after axis.
template <operator_type Operator>
struct key_maker {
  static constexpr std::size_t count = axis_count<Operator>;
  static constexpr std::size_t words = key_words<Operator>;

  std::array<std::uint64_t, 2 * ((words + 1) / 2)> all{};
  std::uint32_t flags = 0;
  std::uint64_t one = 1;

  template <std::size_t Axis>
  [[gnu::always_inline]] inline void add(const typename Operator::arguments& arguments) noexcept {
    constexpr const auto& axis = axis_at<Axis>(Operator::axes);
    if constexpr (is_named_axis<Operator, Axis>) {
      all[words_before<Operator>(Axis)] = static_cast<std::uint32_t>(axis(arguments));
    } else if constexpr (!is_flag_axis<Operator, Axis>) {
      all[words_before<Operator>(Axis)] = static_cast<std::uint64_t>(axis(arguments));
    } else if constexpr (words_before<Operator>(Axis) == Axis) {
      flags = axis.bits(arguments) == 0 ? 1U : 0U;  // the first
    } else {
      append_flag(flags, axis.bits(arguments), one);
    }
  }

  template <std::size_t Axis, bool Function>
  [[gnu::always_inline]] inline void add_if(const typename Operator::arguments& arguments) noexcept {
    if constexpr (is_function_axis<Operator, Axis> == Function) add<Axis>(arguments);
  }

  template <std::size_t... Axis>
  [[gnu::always_inline]] inline void add_all(const typename Operator::arguments& arguments,
                                             std::index_sequence<Axis...> /*all*/) noexcept {
    // Before anything else lies in registers: what these functions call in rare cases would clobber them.
    (add_if<Axis, true>(arguments), ...);
    one = opaque_one();
#if !defined(__clang__)
    // The flags compare what lies in memory: GCC would keep what was read before in registers, and these in
    // memory.
    asm volatile("" ::: "memory");  // NOLINT(hicpp-no-assembler)
#endif
    (add_if<Axis, false>(arguments), ...);
    if constexpr (words_before<Operator>(count) < count) all[words_before<Operator>(count)] = flags;
  }

  template <std::size_t... Part>
  [[nodiscard, gnu::always_inline]] inline key_of_parts<sizeof...(Part)> parts(
      std::index_sequence<Part...> /*all*/) const noexcept {
    return {key_part{all[2 * Part], all[2 * Part + 1]}...};
  }
};

}  // namespace detail

/// The key of a call's problem.
template <operator_type Operator>
[[nodiscard, gnu::always_inline]] inline problem_key<Operator> make_key(
    const typename Operator::arguments& arguments) noexcept {
  detail::key_maker<Operator> maker;
  maker.add_all(arguments, std::make_index_sequence<axis_count<Operator>>{});
  return maker.parts(std::make_index_sequence<(detail::key_words<Operator> + 1) / 2>{});
}

/// The key of an erased problem, whose flags are 0 or 1: equal to that of its calls. The operator's own axes
/// only.
struct erased_key {
  std::array<std::uint64_t, 2 * detail::max_key_parts> words{};
  std::size_t parts = 0;
};

[[nodiscard]] inline erased_key make_key(const operator_description& op, problem_view problem) noexcept {
  erased_key out;
  std::size_t word = 0;
  std::uint32_t flags = 0;
  bool has_flags = false;
  for (std::size_t axis = 0; axis < op.own_axes(); ++axis) {
    if (op.axes[axis].is_flag) {
      flags = flags + flags + (problem[axis] == 0 ? 1U : 0U);
      has_flags = true;
    } else {
      const auto value = static_cast<std::uint64_t>(problem[axis]);
      out.words[word++] = op.axes[axis].value_names.empty() ? value : static_cast<std::uint32_t>(value);
    }
  }
  if (has_flags) out.words[word++] = flags;
  out.parts = (word + 1) / 2;
  return out;
}

/// Hash of a key; its upper bits are the ones to use. A sum of products of the words' lower halves, so that
/// the terms are computed side by side: sizes of 2^32 and more share a value with their remainders.
template <std::size_t Parts>
[[nodiscard, gnu::always_inline]] inline std::uint64_t hash(const key_of_parts<Parts>& key) noexcept {
  const detail::key_part sum = detail::sum_products(key, std::make_index_sequence<Parts>{});
  const detail::key_part swapped{sum[1], sum[0]};
  return detail::finish_hash((sum + swapped)[0]);  // the lanes added as vectors: one move fewer
}

[[nodiscard]] inline std::uint64_t hash(const erased_key& key) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 2 * key.parts; ++i)
    sum += std::uint64_t{static_cast<std::uint32_t>(key.words[i])} * detail::key_factors[i];
  return detail::finish_hash(sum);
}

}  // namespace v0
}  // namespace switchyard
