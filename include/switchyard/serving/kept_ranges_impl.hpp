// SPDX-License-Identifier: MIT
// The bodies of kept_ranges.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/evaluation.hpp>
#include <switchyard/serving/kept_ranges.hpp>
#include <switchyard/serving/prepare_ranges.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Whether conditions say the same of two calls of one problem: arguments other than axes are equal, and
/// pointers alike in being null and in their alignment.
[[nodiscard]] inline bool is_alike(const operator_description& op, const std::vector<std::byte>& a,
                                   const std::vector<std::byte>& b) noexcept {
  constexpr std::uint64_t largest_alignment = 256;
  for (const field_description& field : op.fields) {
    if (find_axis(op, field.name) < op.own_axes()) continue;
    const std::byte* const in_a = a.data() + field.offset;
    const std::byte* const in_b = b.data() + field.offset;
    if (field.kind != value_kind::pointer) {
      if (__builtin_memcmp(in_a, in_b, size_of(field.kind)) != 0) return false;
      continue;
    }
    const auto one = load_as<std::uint64_t>(in_a);
    const auto other = load_as<std::uint64_t>(in_b);
    if ((one == 0) != (other == 0) || (one - other) % largest_alignment != 0) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION bool covers(const operator_description& op, const prepared_ranges& outer,
                                const prepared_ranges& inner) noexcept {
  if (!outer.contains(inner.first) || !outer.contains(inner.last)) return false;
  const bool is_whole = outer.problems() <= static_cast<double>(max_prepared_problems);
  const bool is_same = outer.first == inner.first && outer.last == inner.last;
  return (is_whole || is_same) && is_alike(op, outer.arguments, inner.arguments);
}

SWITCHYARD_FUNCTION void kept_ranges::add(const operator_description& op,
                                          const std::shared_ptr<const prepared_ranges>& fresh) {
  for (const auto& kept : all_) {
    if (covers(op, *kept, *fresh)) return;
  }
  all_.reserve(all_.size() + 1);
  std::erase_if(all_, [&](const auto& kept) { return covers(op, *fresh, *kept); });
  if (all_.size() == most) return;
  all_.push_back(fresh);
  ++changes_;
}

SWITCHYARD_FUNCTION std::size_t kept_ranges::share_of_each(const list& all) noexcept {
  static_assert(max_problems >= most);
  for (std::size_t share = max_prepared_problems;; share /= 2) {
    double sum = 0;
    for (const auto& kept : all) {
      const double problems = kept->problems();
      sum += problems < static_cast<double>(share) ? problems : static_cast<double>(share);
    }
    if (sum <= static_cast<double>(max_problems)) return share;
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
