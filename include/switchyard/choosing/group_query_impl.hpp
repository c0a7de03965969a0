// SPDX-License-Identifier: MIT
// The bodies of group_query.hpp.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/joint_program.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION row_growth group_query::growth_of(std::uint32_t row) noexcept {
  tally_list tallies;
  carried_times times;  // NOLINT(cppcoreguidelines-pro-type-member-init): carry writes it
  carry(group_.row_times(row), tallies, times);
  return times.growth;
}

SWITCHYARD_FUNCTION std::uint32_t group_query::serving(std::uint32_t id) noexcept {
  const serving_rule& rule = group_.serving[id];
  if (rule.candidate != no_index) {
    const bool works =
        rule.candidate >= unusable_.size() || !unusable_[rule.candidate].load(std::memory_order_relaxed);
    if (works && all_hold(rule.conditions)) return rule.candidate;
    if (!rule.has_others) return no_index;
  }
  return candidates_.first_admissible(group_.named[id].candidates, problem_, unusable_);
}

SWITCHYARD_FUNCTION bool group_query::all_hold(std::uint64_t wanted) noexcept {
  for (std::uint64_t left = wanted & ~known_conditions_; left != 0; left &= left - 1) {
    const integer_result holds =
        computed_.of(group_.conditions[static_cast<std::size_t>(std::countr_zero(left))]);
    if (holds.why == fault::none && holds.value != 0) conditions_ |= left & (0 - left);
  }
  known_conditions_ |= wanted;
  return (wanted & ~conditions_) == 0;
}

SWITCHYARD_FUNCTION group_query::sums group_query::add_up(std::span<counted_row> rows,
                                                          tally_list& tallies) const noexcept {
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < tallies.count; ++i) {
    if (tallies.entries[i].candidate != no_index) wanted |= group_.serving[tallies.ids[i]].needed;
  }
  sums out{0, 0, 0, ~std::uint64_t{0}, 0};
  for (std::size_t n = 0; n < rows.size(); ++n) {
    counted_row& row = rows[n];
    const carried_times& times = row.times;
    const float squared =
        row.squared_distance + least_distance + ((wanted & ~row.holding) == 0 ? 0.0F : of_another_kind);
    const float slowest = times.spread + unseen_margin;
    row.weight = 1.0F / (squared * squared);
    row.unseen = row.weight * (slowest < most_unseen ? slowest : most_unseen);
    for (std::size_t i = 0; i < times.count; ++i) {
      tally& of = tallies.entries[times.tally[i]];
      of.weighted_slowdown += row.weight * (times.logarithm[i] - times.best);
      of.unseen += row.unseen;
      of.weight += row.weight;
      of.rows |= std::uint32_t{1} << n;
    }
    out.weight += row.weight;
    out.unseen += row.unseen;
    out.logarithm += row.weight * times.best;
    out.holding &= row.holding;
    out.served |= row.holding;
  }
  return out;
}

SWITCHYARD_FUNCTION float group_query::score_where_served(const tally& of, std::uint64_t needed,
                                                          std::span<const counted_row> rows) noexcept {
  float slowdown = of.weighted_slowdown;
  float weight = of.weight;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    if ((of.rows >> n & 1U) != 0 || (needed & ~rows[n].holding) != 0) continue;
    slowdown += rows[n].unseen;
    weight += rows[n].weight;
  }
  return slowdown / weight;
}

SWITCHYARD_FUNCTION bool group_query::read_stated(const tally_list& tallies,
                                                  std::array<float, max_tallies>& out) const noexcept {
  const evaluation values{problem_, candidates_.device.attributes, {}, nullptr};
  std::array<double, max_tallies> times{};  // 0: none
  double shortest = 0;
  for (std::size_t i = 0; i < tallies.count; ++i) {
    const std::uint32_t index = tallies.entries[i].candidate;
    if (index == no_index || !candidates_.candidates[index].variant->has_time()) continue;
    const double time = candidates_.candidates[index].variant->time_at(values);
    if (__builtin_isinf(time)) continue;
    times[i] = time;
    if (shortest == 0 || time < shortest) shortest = time;
  }
  for (std::size_t i = 0; i < tallies.count; ++i)
    out[i] = times[i] > 0 ? __builtin_log2f(static_cast<float>(times[i] / shortest)) : -1;
  return shortest > 0;
}

SWITCHYARD_FUNCTION std::uint32_t group_query::faster_stranger(std::uint32_t preferred, std::uint64_t served,
                                                               const tally_list& tallies) noexcept {
  if (!candidates_.candidates[preferred].variant->has_time()) return no_index;
  const evaluation values{problem_, candidates_.device.attributes, {}, nullptr};
  double limit = -1;
  for (std::uint32_t id = 0; id < group_.serving.size(); ++id) {
    if ((group_.serving[id].needed & ~served) == 0) continue;
    bool is_listed = false;
    for (std::size_t i = 0; i < tallies.count; ++i) is_listed = is_listed || tallies.ids[i] == id;
    if (is_listed) continue;
    const std::uint32_t stranger = serving(id);
    if (stranger == no_index || !candidates_.candidates[stranger].variant->has_time()) continue;
    if (limit < 0) limit = clearly_faster * candidates_.candidates[preferred].variant->time_at(values);
    if (candidates_.candidates[stranger].variant->time_at(values) < limit) return stranger;
  }
  return no_index;
}

SWITCHYARD_FUNCTION float group_query::growth_from(std::uint32_t row, std::uint32_t id,
                                                   float cost) const noexcept {
  for (const candidate_time& time : group_.row_times(row)) {
    if (time.variant == id && time.cost >= 0 && cost >= 0) return __builtin_exp2f(cost - time.cost);
  }
  return 0;
}

}  // namespace v0
}  // namespace switchyard
