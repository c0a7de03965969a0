// SPDX-License-Identifier: MIT
// Checks the numbers in tensors of indices, for operators' check_memory(), which runs where the host can read
// them, or copies of them. Each function reads every number, and allocates text only for an illegal one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/operators/reach.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators::indices {

/// How many of something there are, and its name in messages. Negative: not known.
struct bound {
  std::string_view what;
  std::int64_t count = -1;
};

/// A bound as it is or, where the count is not known, the number of elements that memory has room for, so
/// that products with the stride do not overflow.
[[nodiscard]] inline bound known_or_far(const bound& of, std::string_view far, std::int64_t stride) noexcept {
  return of.count >= 0 ? of : bound{far, reach::farthest / (stride > 0 ? stride : 1)};
}

/// What is wrong with a number that may be unknown; empty when nothing is.
[[nodiscard]] inline std::string wrong_count(std::string_view name, std::int64_t count) {
  if (count >= unset) return {};
  return std::string{name} + " must not be negative: it is " + std::to_string(count);
}

/// "name[index] is value"
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string entry(std::string_view name, std::int64_t index,
                                                                 std::int64_t value) {
  return std::string{name} + "[" + std::to_string(index) + "] is " + std::to_string(value);
}

/// The end of a legal range, as a part of a sentence; empty where it is not known.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string below(const bound& of) {
  if (of.count < 0) return {};
  return " and below " + std::to_string(of.count) + ", the number of " + std::string{of.what};
}

/// Numbers that must be at least 0 and below a bound.
template <class Integer>
[[nodiscard]] std::string wrong_numbers(std::string_view name, const Integer* data, std::int64_t count,
                                        const bound& of) {
  const std::uint64_t end = of.count < 0 ? std::uint64_t{1} << 63U : static_cast<std::uint64_t>(of.count);
  const auto is_wrong = [end](Integer value) {
    return static_cast<std::uint64_t>(std::int64_t{value}) >= end;
  };
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) any |= is_wrong(data[i]);  // without branches: vectors
  if (!any) return {};
  std::int64_t at = 0;
  while (!is_wrong(data[at])) ++at;
  return entry(name, at, data[at]) + ": it must be at least 0" + below(of);
}

/// Slots of a cache of pages: negative ones stand for none.
[[nodiscard]] inline std::string wrong_slots(std::string_view name, const std::int64_t* data,
                                             std::int64_t count, const bound& of, std::int64_t page_size) {
  const std::int64_t pages = of.count;
  std::int64_t end = 0;
  if (__builtin_mul_overflow(pages, page_size, &end)) end = INT64_MAX;
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) any |= data[i] >= end;
  if (!any) return {};
  std::int64_t at = 0;
  while (data[at] < end) ++at;
  return entry(name, at, data[at]) + ": it must be below " + std::to_string(end) + ", the slots of " +
         std::to_string(pages) + " " + std::string{of.what} + " of " + std::to_string(page_size) +
         "; negative: none";
}

/// The longest sequence may be a bound. One that is above this, and above the tokens of all sequences, is
/// none: kernels would count out as many blocks.
inline constexpr std::int64_t max_bound = std::int64_t{1} << 24U;

/// Where sequences begin in packed tensors: from 0, rising, no sequence longer than `longest`, and the last
/// number at most the tokens of the tensor.
[[nodiscard]] inline std::string wrong_cu_seqlens(std::string_view name, const std::int32_t* data,
                                                  std::int64_t batch, const bound& longest,
                                                  const bound& tokens) {
  if (batch < 0) return {};
  if (data[0] != 0) return entry(name, 0, data[0]) + ": it must be 0";
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = std::int64_t{data[b + 1]} - data[b];
    if (length >= 0 && length <= longest.count) continue;
    if (length < 0)
      return entry(name, b + 1, data[b + 1]) + ", less than " + std::to_string(data[b]) +
             " before it: the numbers must not fall";
    return entry(name, b + 1, data[b + 1]) + ": sequence " + std::to_string(b) + " has " +
           std::to_string(length) + " tokens, but " + std::string{longest.what} + ", the longest, is " +
           std::to_string(longest.count);
  }
  if (tokens.count >= 0 && data[batch] > tokens.count) {
    return entry(name, batch, data[batch]) + ", but " + std::string{tokens.what} + " has " +
           std::to_string(tokens.count) + " tokens";
  }
  if (longest.count > max_bound && longest.count > data[batch]) {
    return std::string{longest.what} + ", the longest sequence, is " + std::to_string(longest.count) +
           ", but all have " + std::to_string(data[batch]) + " tokens together";
  }
  return {};
}

/// How many numbers cu_seqlens has.
[[nodiscard]] constexpr std::int64_t count_cu_seqlens(std::int64_t batch) noexcept {
  return batch < INT64_MAX ? batch + 1 : batch;
}

/// How many tokens of a sequence are in use: at least 0, and at most as many as it has.
[[nodiscard]] inline std::string wrong_used(std::string_view name, std::int64_t index, std::int64_t used,
                                            const bound& most) {
  if (used >= 0 && used <= most.count) return {};
  return entry(name, index, used) + ": it must be at least 0 and at most " + std::to_string(most.count) +
         ", " + std::string{most.what};
}

}  // namespace operators::indices

}  // namespace v0
}  // namespace switchyard
