// SPDX-License-Identifier: MIT
// The alignment of tensors, and which strides and pointers are missing. Operators have derived axes for both,
// computed at every call.
#pragma once

#include <cstdint>

#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/dtype.hpp>

namespace switchyard {
inline namespace v0 {

/// A stride that was not set; 0 is a legal one. It fits every integer that a kernel may take.
inline constexpr std::int64_t unset = -1;
/// A scale that was not set.
inline constexpr float unset_scale = __builtin_nanf("");

/// Whether a scale was not set: it is NaN.
[[nodiscard, gnu::always_inline]] inline bool is_unset(float scale) noexcept {
  // As an integer: with -ffast-math, the compiler assumes that no float is NaN.
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &scale, sizeof bits);
  return bits + bits > 0xff000000U;
}

/// Whether a float is neither 0 nor -0.
[[nodiscard, gnu::always_inline]] inline bool is_nonzero(float value) noexcept {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits + bits != 0;
}

/// A bool as the bits it follows from, true where they are not 0: a derived axis that returns them saves
/// making the bool at every call.
struct truth {
  std::uint64_t bits = 0;
};

/// Whether a float is neither 0 nor -0, as a truth.
[[nodiscard, gnu::always_inline]] inline truth nonzero(float value) noexcept {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return {std::uint64_t{bits} << 33U};
}

/// Whether any of the pointers is not null, as a truth.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline truth given(const Pointers*... pointers) noexcept {
  return {(reinterpret_cast<std::uintptr_t>(pointers) | ...)};
}

/// Whether any of the pointers is not null.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline bool any_given(const Pointers*... pointers) noexcept {
  return (reinterpret_cast<std::uintptr_t>(pointers) | ...) != 0;
}

/// The number of null pointers, negative: or-ed with strides, it marks the call as strides not set do.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline std::int64_t count_null(const Pointers*... pointers) noexcept {
  std::int64_t count = 0;
  const auto add = [&count](const void* pointer) __attribute__((always_inline)) {
    // Subtracted with the carry of the comparison: GCC would take a register for each pointer.
    count -= pointer == nullptr ? 1 : 0;
    asm("" : "+r"(count));  // NOLINT(hicpp-no-assembler)
  };
  (add(pointers), ...);
  return count;
}

/// Addresses, or-ed together.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline std::uintptr_t address_bits(const Pointers*... pointers) noexcept {
  return (reinterpret_cast<std::uintptr_t>(pointers) | ...);
}

/// Negative where any address is no multiple of `Bytes`, a power of two: or-ed with strides, it marks the
/// call as strides not set do. Null is one.
template <std::uintptr_t Bytes>
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_misaligned(std::uintptr_t addresses) noexcept {
  return static_cast<std::int64_t>(std::uintptr_t{0} - (addresses & (Bytes - 1)));
}
template <std::uintptr_t Bytes, class... Pointers>
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_misaligned(const Pointers*... pointers) noexcept {
  return mark_misaligned<Bytes>(address_bits(pointers...));
}

/// The same where the bytes are those of an element type, for tensors whose alignment is joined with that of
/// tensors of a smaller one.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_misaligned_for(
    dtype type, const Pointers*... pointers) noexcept {
  const std::uintptr_t addresses = address_bits(pointers...);
  constexpr std::uintptr_t largest = 8;  // bytes of the largest element; most addresses are multiples of them
  if ((addresses & (largest - 1)) == 0) [[likely]]
    return 0;
  const auto size = static_cast<std::uintptr_t>(detail::size_of_legal(type));
  return static_cast<std::int64_t>(std::uintptr_t{0} - (addresses & (size - 1)));
}

/// Negative where a float is negative, NaN, or not below a bound above 0. For values that no axis holds, or
/// holds only as a flag: marked, they are checked at every call. Neither 0 nor -0 is marked.
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_unless_below(float value, float bound) noexcept {
  // As integers: with -ffast-math, the compiler assumes that no float is NaN.
  std::uint32_t bits = 0;
  std::uint32_t end = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  __builtin_memcpy(&end, &bound, sizeof end);
  if (bits == 0x80000000U) [[unlikely]]
    return 0;
  return std::int64_t{end} - 1 - std::int64_t{bits};
}
/// Negative where a float is negative, infinite or NaN.
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_unless_positive(float value) noexcept {
  return mark_unless_below(value, __builtin_inff());
}
/// Negative where a float is infinite or NaN.
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_unless_finite(float value) noexcept {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return 0x7f7fffff - std::int64_t{bits & 0x7fffffffU};
}

/// Negative where any stride of scales is neither 0 nor 1; `strides` are those of all, or-ed together.
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_scale_strides(std::int64_t strides) noexcept {
  return strides | static_cast<std::int64_t>(1U - static_cast<std::uint64_t>(strides));
}

/// Tensors that may be absent, as one address for alignment_of_strided: it is never null.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline const void* optional_tensors(const Pointers*... pointers) noexcept {
  return reinterpret_cast<const void*>(
      (reinterpret_cast<std::uintptr_t>(pointers) | ... | std::uintptr_t{16}));
}

/// Strides of rows, or-ed together. One that is not set does not matter where there is no second row.
[[nodiscard, gnu::always_inline]] inline std::int64_t row_strides(std::int64_t rows,
                                                                  std::int64_t strides) noexcept {
  if (strides < 0 && rows <= 1) [[unlikely]]
    return 0;
  return strides;
}

/// Sets strides to 0 that are not set and do not matter.
template <class... Strides>
void ignore_unless(bool matters, Strides&... strides) noexcept {
  if (!matters) ((strides = strides == unset ? 0 : strides), ...);
}

/// Largest power of two, at most 16, that divides every pointer; 0 when one of them is null. Made for derived
/// axes: kernels with 16-byte accesses require it, and a null argument becomes visible to the choice.
template <class... Pointers>
[[nodiscard]] inline std::int64_t alignment_of(const Pointers*... pointers) noexcept {
  std::uintptr_t bits = (reinterpret_cast<std::uintptr_t>(pointers) | ... | std::uintptr_t{16});
  asm("" : "+r"(bits));  // NOLINT(hicpp-no-assembler): now, not behind the branch with all values kept for it
  if ((!pointers || ...)) return 0;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// The same for tensors and their strides in elements, or-ed together; 0 also when `strides` or `required` is
/// negative, as a stride is that was not set. `required`: the strides that need no alignment, or-ed together,
/// and count_null of pointers that need none.
template <class... Pointers>
[[nodiscard, gnu::always_inline]] inline std::int64_t alignment_of_strided(
    dtype type, std::int64_t strides, std::int64_t required, const Pointers*... pointers) noexcept {
  // One branch for all that may be missing.
  if ((strides | required | count_null(pointers...)) < 0) [[unlikely]]
    return 0;
  const std::uintptr_t bits =
      (reinterpret_cast<std::uintptr_t>(pointers) | ... |
       (static_cast<std::uintptr_t>(strides) * static_cast<std::uintptr_t>(detail::size_of_legal(type)) |
        16U));
  const auto aligned = static_cast<std::int64_t>(bits & (~bits + 1));
  if (aligned == 0) __builtin_unreachable();  // so that callers need not look again
  return aligned;
}

/// The alignment of a call as its strides are or, where that is 0, without those that do not matter:
/// `without_unused_strides(arguments)` is the call with 0 for these.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] std::int64_t alignment_without_unused(const Arguments& a) noexcept {
  return without_unused_strides(a).alignment_as_set();
}

}  // namespace v0
}  // namespace switchyard
