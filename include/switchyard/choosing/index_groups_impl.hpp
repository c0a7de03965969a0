// SPDX-License-Identifier: MIT
// The bodies of index_groups.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/stable_order.hpp>
#include <switchyard/choosing/build_row_index.hpp>
#include <switchyard/choosing/candidate_ids.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/find_uncompared.hpp>
#include <switchyard/choosing/index_groups.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/expression/build_joint_program.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/files/add_measured.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::vector<indexed_group> group_indexer::index() {
  std::unordered_map<std::string, std::uint32_t> here;  // groups of this device, by type and axes
  for (std::uint32_t t = 0; t < ranked_.size(); ++t) {
    const ranked_table& ranked = ranked_[t];
    for (const row_group& rows : ranked.source->groups) {
      if (rows.axes.size() > max_dimensions) {
        warned_.push_back(ranked.source->path + ": /groups/" + std::to_string(rows.source_group) +
                          ": a group has at most " + std::to_string(max_dimensions) +
                          " axes; it is not used");
        continue;
      }
      if (!has_axes(*set_.op, rows.type)) continue;  // it names a condition that was added after the selector
      indexed_group* into = nullptr;
      std::size_t number = groups_.size();
      if (ranked.rank == table_rank::this_device)
        number = here.try_emplace(key_of(rows), static_cast<std::uint32_t>(number)).first->second;
      if (number < groups_.size()) {
        into = &groups_[number];
      } else {
        known_.emplace_back();
        programs_.emplace_back();
        cost_values_.push_back(cost_values(rows));
        into = &groups_.emplace_back();
        into->type = rows.type;
        into->axes = rows.axes;
        into->rank = ranked.rank;
        into->timed = rows.timed;
        into->first = {t, rows.source_group, 0};
        into->neighbours = ranked.source->match.neighbours;
        into->envelope = ranked.source->match.envelope;
        add_dimensions(*into, ranked.source->match, programs_.back());
      }
      for (const measured_values& measured : rows.measured_with) {
        // A condition that was added after the selector excludes none of their variants.
        if (measured.axis < set_.op->axes.size())
          add_measured(into->measured_with, measured.axis, measured.values);
      }
      add_rows(*into, number, rows, *ranked.source, t);
    }
  }
  std::vector<std::uint32_t> with_rows;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    groups_[i].program = programs_[i].build();
    if (groups_[i].row_count() == 0) {
      silent_.push_back({groups_[i].type, groups_[i].first});
    } else {
      with_rows.push_back(i);
    }
  }
  // Overlays first, then by rank, then in the tables' order. Of one table's groups, those with the more
  // specific type come first.
  const auto comes_first = [this](std::uint32_t first, std::uint32_t second) {
    const indexed_group& a = groups_[first];
    const indexed_group& b = groups_[second];
    const std::uint32_t table_a = a.rank == table_rank::this_device ? 0 : a.origins.front().table;
    const std::uint32_t table_b = b.rank == table_rank::this_device ? 0 : b.origins.front().table;
    const bool overlay_a = ranked_[a.origins.front().table].overlay;
    const bool overlay_b = ranked_[b.origins.front().table].overlay;
    if (overlay_a != overlay_b) return overlay_a;
    if (a.rank != b.rank) return a.rank < b.rank;
    if (table_a != table_b) return table_a < table_b;
    if (a.type.size() != b.type.size()) return a.type.size() > b.type.size();
    return a.timed && !b.timed;
  };
  std::vector<indexed_group> out;
  out.reserve(with_rows.size());
  for (const std::uint32_t number : stable_order(with_rows, comes_first))
    out.push_back(std::move(groups_[with_rows[number]]));
  for (indexed_group& group : out) {
    index(group);
    std::vector<std::uint32_t> listed;
    for (const named_candidates& named : group.named) {
      for (const std::uint32_t candidate : named.candidates) listed.push_back(candidate);
    }
    group.uncompared = find_uncompared(set_, group.type, group.measured_with, listed);
  }
  return out;
}

SWITCHYARD_FUNCTION void group_indexer::add_dimensions(indexed_group& into, const match_rule& match,
                                                       joint_program_builder& program) {
  for (const std::uint32_t axis : into.axes) {
    if (match.axes[axis].metric != axis_metric::ignore)
      into.dimensions.push_back({match.axes[axis], axis, 0, {}});
  }
  for (const match_feature& feature : match.features) {
    if (into.dimensions.size() == max_dimensions) break;
    if (feature.rule.metric != axis_metric::ignore && is_decided_by(into.type, into.axes, feature.value))
      into.dimensions.push_back({feature.rule, no_index, program.add(folded(into, feature.value)), {}});
  }
  // If all are ignored, every row is equally near; an index still needs one dimension.
  if (into.dimensions.empty() && !into.axes.empty())
    into.dimensions.push_back({match.axes[into.axes.front()], into.axes.front(), 0, {}});
}

SWITCHYARD_FUNCTION std::string group_indexer::key_of(const row_group& rows) {
  std::string out{rows.timed ? "" : "winners "};
  for (const axis_value& value : rows.type)
    out += std::to_string(value.axis) + '=' + std::to_string(value.value) + ' ';
  for (const std::uint32_t axis : rows.axes) out += std::to_string(axis) + ' ';
  return out;
}

SWITCHYARD_FUNCTION void group_indexer::add_rows(indexed_group& into, std::size_t number,
                                                 const row_group& rows, const table& from,
                                                 std::uint32_t table_number) {
  std::unordered_map<std::string_view, std::uint32_t>& known = known_[number];
  std::vector<std::uint32_t> ids(rows.ids.size());
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    const auto [found, is_new] = known.try_emplace(rows.ids[i], static_cast<std::uint32_t>(into.ids.size()));
    ids[i] = found->second;
    if (!is_new) continue;
    into.ids.push_back(rows.ids[i]);
    into.named.push_back(name_candidates(rows, i, from));
    into.serving.push_back(make_serving_rule(into, into.named.back().candidates, programs_[number]));
  }
  // A table names a few attributes of its device; of this device all are known.
  const bool is_of_another = into.rank != table_rank::this_device;
  std::vector<expression> costs(ids.size());  // 0, which is no cost, where the rows decide none
  for (std::size_t i = 0; i < ids.size(); ++i) {
    named_candidates& named = into.named[ids[i]];
    const expression* const cost = cost_of(named, number);
    if (cost == nullptr) continue;
    const std::vector<axis_value>& values = cost_values_[number];
    costs[i] = cost->fold(values, is_of_another ? from.device.attributes : set_.device.attributes);
    if (named.cost == no_index) {
      named.cost =
          programs_[number].add(is_of_another ? cost->fold(values, set_.device.attributes) : costs[i]);
    }
  }
  std::vector<std::int64_t> problem(set_.op->axes.size());
  for (std::size_t row = 0; row < rows.row_count(); ++row) {
    const auto at = rows.coordinates(row);
    const auto times = rows.row_times(row);
    // A row without an installed variant would only hide others, of its sizes or farther away.
    const bool says_something = detail::any_of(times.begin(), times.end(), [&](const measured_time& time) {
      return !into.named[ids[time.variant]].candidates.empty();
    });
    if (!says_something) continue;
    const indexed_group::origin origin{table_number, rows.source_group, rows.source_row[row]};
    if (!into.slots.insert(at, static_cast<std::uint32_t>(into.row_count()), into.at.data())) {
      into.repeated.push_back({into.slots.find(at, into.at.data()), origin});
      continue;
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      into.at.push_back(at[i]);
      problem[into.axes[i]] = at[i];
    }
    const auto first = static_cast<std::uint32_t>(into.times.size());
    for (const measured_time& time : times) {
      if (into.named[ids[time.variant]].candidates.empty()) continue;
      const float cost = log_cost(costs[time.variant].evaluate({problem, {}, {}, nullptr}));
      into.times.push_back({ids[time.variant], time.microseconds, std::log2(time.microseconds), cost});
    }
    into.ranges.push_back({first, static_cast<std::uint32_t>(into.times.size()) - first});
    into.origins.push_back(origin);
  }
}

SWITCHYARD_FUNCTION named_candidates group_indexer::name_candidates(const row_group& rows, std::size_t id,
                                                                    const table& from) {
  named_candidates out;
  const auto* const found = ids_.find(rows.ids[id]);
  if (found == nullptr) {
    if (from.device.backend.empty() || has_arch(set_.device, from.device))
      ids_.warn_unknown(from.path, rows.ids[id], "a row");
    return out;
  }
  for (const std::uint32_t index : *found) {
    const variant& variant = *set_.candidates[index].variant;
    if (contradict(variant.type, rows.type)) continue;
    const std::string fingerprint = blob_fingerprint(variant);  // none where nothing is installed
    out.candidates.push_back(index);
    out.stale.push_back(!rows.blobs[id].empty() && !fingerprint.empty() && rows.blobs[id] != fingerprint);
  }
  return out;
}

SWITCHYARD_FUNCTION std::vector<axis_value> group_indexer::cost_values(const row_group& rows) {
  std::vector<axis_value> out = rows.type;
  for (const measured_values& measured : rows.measured_with) {
    if (!measured.values.empty()) out.push_back({measured.axis, measured.values.front()});
  }
  return out;
}

SWITCHYARD_FUNCTION const expression* group_indexer::cost_of(const named_candidates& named,
                                                             std::size_t number) const {
  if (named.candidates.empty()) return nullptr;
  const condition& cost = set_.candidates[named.candidates.front()].variant->cost;
  if (cost.text.empty() || !is_decided_by(cost_values_[number], groups_[number].axes, cost.value))
    return nullptr;
  return &cost.value;
}

SWITCHYARD_FUNCTION serving_rule group_indexer::make_serving_rule(indexed_group& group,
                                                                  std::span<const std::uint32_t> meant,
                                                                  joint_program_builder& program) const {
  serving_rule out;
  if (meant.empty()) return out;
  const candidate& first = set_.candidates[meant.front()];
  const bool conditions_decide = first.fits && first.shared.empty() && first.denials.empty() &&
                                 first.max_workspace == choice_limits::any_workspace &&
                                 includes(group.type, first.variant->type);
  out.needed = ~std::uint64_t{0};
  for (const std::uint32_t candidate : meant) {
    const bool decides = conditions_decide && candidate == meant.front();
    std::uint64_t bits = 0;
    const bool are_all = add_conditions(group, *set_.candidates[candidate].variant, !decides, program, bits);
    out.needed &= bits;
    if (!decides || !are_all) continue;
    out.candidate = candidate;
    out.has_others = meant.size() > 1;
    out.conditions = bits;
  }
  return out;
}

SWITCHYARD_FUNCTION bool group_indexer::add_conditions(indexed_group& group, const variant& of,
                                                       bool only_said, joint_program_builder& program,
                                                       std::uint64_t& bits) const {
  for (const condition& condition : of.conditions) {
    expression value = folded(group, condition.value);
    if (value.is_constant() && value.evaluate({}).value != 0) continue;
    if (only_said && !is_decided_by(group.type, group.axes, value)) continue;
    const std::uint32_t number = program.add(std::move(value));
    const auto known = std::find(group.conditions.begin(), group.conditions.end(), number);
    const std::ptrdiff_t bit = known - group.conditions.begin();
    if (bit == max_conditions) return false;
    if (known == group.conditions.end()) group.conditions.push_back(number);
    bits |= std::uint64_t{1} << bit;
  }
  return true;
}

SWITCHYARD_FUNCTION bool group_indexer::includes(const std::vector<axis_value>& type,
                                                 const std::vector<axis_value>& wanted) {
  return detail::all_of(wanted.begin(), wanted.end(), [&type](const axis_value& needed) {
    return detail::any_of(type.begin(), type.end(), [&needed](const axis_value& has) {
      return has.axis == needed.axis && has.value == needed.value;
    });
  });
}

SWITCHYARD_FUNCTION void group_indexer::index(indexed_group& group) const {
  const std::size_t dimensions = group.dimensions.size();
  std::vector<std::int64_t> problem(set_.op->axes.size());
  for (const axis_value& wanted : group.type) problem[wanted.axis] = wanted.value;
  const auto go_to = [&](std::size_t row) {
    for (std::size_t i = 0; i < group.axes.size(); ++i)
      problem[group.axes[i]] = group.at[row * group.axes.size() + i];
  };
  for (metric_dimension& along : group.dimensions) {
    if (along.rule.metric != axis_metric::exact) continue;
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      go_to(row);
      joint_program::values computed{group.program, problem};
      along.levels.push_back(along.value(problem, computed));
    }
    std::sort(along.levels.begin(), along.levels.end());
    along.levels.erase(std::unique(along.levels.begin(), along.levels.end()), along.levels.end());
  }
  std::uint64_t said = 0;  // the conditions that rows decide
  for (std::size_t i = 0; i < group.conditions.size(); ++i) {
    if (is_decided_by(group.type, group.axes, group.program.at(group.conditions[i])))
      said |= std::uint64_t{1} << i;
  }
  if (said != 0) group.holding.assign(group.row_count(), ~said);
  std::vector<float> points(group.row_count() * dimensions);
  for (std::size_t row = 0; row < group.row_count(); ++row) {
    go_to(row);
    joint_program::values computed{group.program, problem};
    (void)group.place(problem, computed, std::span{points}.subspan(row * dimensions, dimensions));
    for (std::uint64_t left = said; left != 0; left &= left - 1) {
      const auto bit = static_cast<std::size_t>(std::countr_zero(left));
      const integer_result holds = computed.of(group.conditions[bit]);
      if (holds.why == fault::none && holds.value != 0) group.holding[row] |= std::uint64_t{1} << bit;
    }
  }
  group.index = row_index_builder::build(points, dimensions);
  order_times(group);
}

SWITCHYARD_FUNCTION void group_indexer::order_times(indexed_group& group) {
  if (group.dimensions.empty()) return;  // a group without axes has one row
  std::vector<candidate_time> ordered;
  ordered.reserve(group.times.size());
  for (const std::uint32_t row : group.index.rows()) {
    const auto times = group.row_times(row);
    group.ranges[row].first = static_cast<std::uint32_t>(ordered.size());
    for (candidate_time time : times) ordered.push_back(std::move(time));
  }
  group.times = std::move(ordered);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
