// Selection: table x candidates x problem -> choice. A pure function of what a selector was built from; it
// sees no driver, throws nothing, allocates nothing and prints nothing. build_selector.hpp makes selectors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/row_index.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

/// A variant that can run on the selector's device.
struct candidate {
  const variant* what = nullptr;
  const manifest* from = nullptr;
  std::vector<std::uint32_t> denials;     ///< indices into selector::denials
  std::vector<const expression*> shared;  ///< bytes a block needs, where the problem decides them
  std::int64_t most_shared = 0;           ///< that a block can have
  bool fits = true;                       ///< whether what it needs for every problem is not more

  /// Whether a block's shared memory for a problem is not more than the device has.
  [[nodiscard]] bool fits_problem(const evaluation& values) const noexcept {
    for (const expression* each : shared) {
      const integer_result bytes = each->evaluate(values);
      if (bytes.why != fault::none || bytes.value > most_shared) return false;
    }
    return true;
  }
};

/// Candidates that serve the same type values, in heuristic order.
struct candidate_class {
  std::vector<axis_value> type;
  std::vector<std::uint32_t> candidates;
};

/// Which candidates an id of a group may mean, the best fit first, and whether their blobs changed.
struct named_candidates {
  std::vector<std::uint32_t> candidates;
  std::vector<bool> stale;
  /// Index of the first one's cost; no_index: it says none, or reads what rows do not.
  std::uint32_t cost = no_index;
};

/// A row's time of one variant.
struct bound_time {
  std::uint32_t variant = 0;  ///< index into the group's ids
  float microseconds = 0;
  float logarithm = 0;  ///< binary, of the microseconds
  float cost = -1;      ///< binary logarithm of the variant's cost at the row; negative: none
};

/// How times grow from a row to a problem: as the variants' costs do, for waves over the multiprocessors and
/// tiles that are not full jump between rows, and what is left is smooth enough to be averaged. A variant
/// without a cost grows like the row's fastest that has one.
class row_growth {
 public:
  /// Takes notice of the row's next slower variant that may serve, whose cost at the problem is `cost`.
  void add(const bound_time& time, float cost) noexcept {
    if (is_known_ || time.cost < 0 || cost < 0) return;
    is_known_ = true;
    others_ = cost - time.cost;
  }

  /// Binary logarithm of what a time of the row is multiplied by.
  [[nodiscard]] float of(const bound_time& time, float cost) const noexcept {
    return time.cost >= 0 && cost >= 0 ? cost - time.cost : others_;
  }

 private:
  float others_ = 0;  // binary logarithm
  bool is_known_ = false;
};

/// What distance between problems is measured along: an axis, or a quantity of several.
struct bound_dimension {
  axis_rule rule;
  std::uint32_t axis = no_index;  ///< no_index: `quantity` says it
  expression quantity;
  std::vector<std::int64_t> levels;  ///< of `exact`: the rows' values, rising

  [[nodiscard]] std::int64_t value(problem_view problem) const noexcept {
    return axis != no_index ? problem[axis] : quantity.evaluate({problem, {}, {}, nullptr}).value;
  }
};

/// Rows made ready for a device: of one table, or of several that were measured on it.
struct bound_group {
  std::vector<axis_value> type;
  std::vector<std::uint32_t> axes;
  std::vector<bound_dimension> dimensions;  ///< without what is ignored
  std::vector<std::string> ids;
  std::vector<named_candidates> named;  ///< by id
  std::vector<expression> costs;        ///< distinct ones, folded for the type and the device
  std::vector<std::int64_t> at;
  std::vector<std::uint32_t> first_time{0};
  std::vector<bound_time> times;
  struct origin {
    std::uint32_t table = 0;
    std::uint32_t group = 0;
    std::uint32_t row = 0;
  };
  std::vector<origin> origins;  ///< by row
  std::uint32_t neighbours = 8;
  double envelope = 1.5;
  table_rank rank = table_rank::this_device;
  row_index index;
  std::vector<std::uint32_t> slots;  ///< open addressing by the hash of a row's coordinates: row + 1, or 0

  [[nodiscard]] std::size_t row_count() const noexcept { return first_time.size() - 1; }
  [[nodiscard]] std::span<const bound_time> row_times(std::size_t row) const noexcept {
    return std::span{times}.subspan(first_time[row], first_time[row + 1] - first_time[row]);
  }
};

struct bound_denial {
  std::vector<axis_value> type;
  std::string reason;
  std::string table;
};

struct bound_pin {
  std::vector<std::uint32_t> candidates;
  std::vector<axis_value> type;
  std::vector<axis_range> at;
  std::string variant;
  std::string reason;
  std::string table;
};

class selector {
 public:
  /// Values of an exact axis lie this far apart in the index, past every distance that counts.
  static constexpr float exact_spacing = 0x1p32F;

  /// Farthest place along a linear axis, either way: well within the spacing above.
  static constexpr float linear_end = 0x1p28F;

  const operator_description* op = nullptr;
  device_properties device;
  std::vector<std::shared_ptr<const manifest>> manifests;  ///< keep what candidates point to
  std::vector<std::shared_ptr<const table>> tables;        ///< most specific first
  std::vector<candidate> candidates;                       ///< in heuristic order
  std::vector<candidate_class> classes;
  std::vector<bound_group> groups;  ///< in the order in which they are asked
  std::vector<bound_denial> denials;
  std::vector<bound_pin> pins;
  std::vector<std::uint32_t> forced;  ///< candidates that SWITCHYARD_FORCE names
  bool is_forced = false;
  std::string force_text;

  /// Candidates that turned out not to work, by index. Empty: none.
  using unusable_flags = std::span<const std::atomic<bool>>;

  /// Chooses a variant for a problem.
  [[nodiscard]] choice select(problem_view problem, unusable_flags unusable = {}) const noexcept {
    if (is_forced) return first_of(forced, problem, unusable, reason::forced);
    for (std::size_t i = 0; i < pins.size(); ++i) {
      if (!applies(pins[i], problem)) continue;
      choice out = first_of(pins[i].candidates, problem, unusable, reason::pinned);
      out.pin = static_cast<std::uint32_t>(i);
      if (out.variant != no_index) return out;
    }
    choice far;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!matches(groups[i].type, problem)) continue;
      choice out = ask(groups[i], problem, unusable);
      if (out.variant == no_index) continue;
      out.group = static_cast<std::uint32_t>(i);
      if (out.why != reason::extrapolated) return graded(out);
      if (far.variant == no_index) far = out;
    }
    return far.variant != no_index ? graded(far) : heuristic(problem, unusable);
  }

  /// Whether a candidate may serve a problem: its type and conditions hold, no table denies it, and it works.
  [[nodiscard]] bool admissible(std::uint32_t index, problem_view problem,
                                unusable_flags unusable) const noexcept {
    if (index < unusable.size() && unusable[index].load(std::memory_order_relaxed)) return false;
    const candidate& each = candidates[index];
    if (!each.fits || !matches(each.what->type, problem)) return false;
    for (const std::uint32_t denied : each.denials) {
      if (matches(denials[denied].type, problem)) return false;
    }
    const evaluation values{problem, device.attributes, {}, nullptr};
    for (const condition& condition : each.what->conditions) {
      const integer_result holds = condition.value.evaluate(values);
      if (holds.why != fault::none || holds.value == 0) return false;
    }
    return each.fits_problem(values);
  }

  [[nodiscard]] static bool applies(const bound_pin& each, problem_view problem) noexcept {
    if (!matches(each.type, problem)) return false;
    for (const axis_range& range : each.at) {
      if (problem[range.axis] < range.first || problem[range.axis] > range.last) return false;
    }
    return true;
  }

  /// A problem's place in a group's metric; false when an exact axis has no row with its value.
  [[nodiscard]] static bool place(const bound_group& group, problem_view problem,
                                  std::span<float> out) noexcept {
    for (std::size_t i = 0; i < group.dimensions.size(); ++i) {
      if (!place_along(group.dimensions[i], problem, out[i])) return false;
    }
    return true;
  }

  /// A problem's place along one dimension.
  [[nodiscard]] static bool place_along(const bound_dimension& along, problem_view problem,
                                        float& out) noexcept {
    const std::int64_t value = along.value(problem);
    switch (along.rule.metric) {
      case axis_metric::log:
        out =
            __builtin_log2f(static_cast<float>(value < 1 ? 1 : value)) / static_cast<float>(along.rule.unit);
        return true;
      case axis_metric::linear:
        out = static_cast<float>(static_cast<double>(value) / along.rule.unit);
        if (out > linear_end) out = linear_end;
        if (out < -linear_end) out = -linear_end;
        return true;
      case axis_metric::ignore:
        out = 0;
        return true;
      case axis_metric::exact:
        break;
    }
    const std::vector<std::int64_t>& values = along.levels;
    std::size_t low = 0;
    std::size_t high = values.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (values[middle] < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == values.size() || values[low] != value) return false;
    out = static_cast<float>(low) * exact_spacing;
    return true;
  }

  /// Binary logarithm of a cost; negative where it has none: a fault, or less than 1.
  [[nodiscard]] static float log_cost(integer_result cost) noexcept {
    return cost.why == fault::none && cost.value >= 1 ? __builtin_log2f(static_cast<float>(cost.value)) : -1;
  }

  /// Binary logarithm of the cost of an id at a problem; negative: none.
  [[nodiscard]] static float cost_of(const bound_group& group, std::uint32_t id,
                                     problem_view problem) noexcept {
    const std::uint32_t cost = group.named[id].cost;
    return cost == no_index ? -1 : log_cost(group.costs[cost].evaluate({problem, {}, {}, nullptr}));
  }

  /// How times grow from a row to a problem.
  [[nodiscard]] row_growth growth_of(const bound_group& group, std::uint32_t row, problem_view problem,
                                     unusable_flags unusable) const noexcept {
    tally_list tallies;
    return carry(group.row_times(row), tallies, group, problem, unusable).growth;
  }

  /// The row that was measured at exactly these sizes, or no_index.
  [[nodiscard]] static std::uint32_t find_row(const bound_group& group, problem_view problem) noexcept {
    if (group.slots.empty()) return no_index;
    std::array<std::int64_t, max_dimensions>
        at;  // NOLINT(cppcoreguidelines-pro-type-member-init): written next
    const std::size_t count = group.axes.size();
    for (std::size_t i = 0; i < count; ++i) at[i] = problem[group.axes[i]];
    const std::size_t mask = group.slots.size() - 1;
    for (std::size_t slot = hash(problem_view{at.data(), count}) >> 32U & mask;; slot = (slot + 1) & mask) {
      const std::uint32_t entry = group.slots[slot];
      if (entry == 0) return no_index;
      bool same = true;
      for (std::size_t i = 0; i < count; ++i) same = same && group.at[(entry - 1) * count + i] == at[i];
      if (same) return entry - 1;
    }
  }

 private:
  /// How many times of a row are looked at, and how many of them that may serve count.
  static constexpr std::size_t scanned_times = 64;
  static constexpr std::size_t counted_times = 6;
  static constexpr std::size_t max_tallies = 64;

  /// How much slower than the slowest one looked at a variant is taken to be that a row does not have, as a
  /// binary logarithm.
  static constexpr float unseen_margin = 0.1F;

  /// What the neighbours say of one id: its slowdown over each row's best, summed with the rows' weights.
  struct tally {
    std::uint32_t candidate;  // no_index: none that may serve
    std::uint32_t cost_index;
    float cost;               // binary logarithm of its cost at the problem; negative: none
    float weighted_slowdown;  // in binary logarithms
    float unseen_penalty;     // of the rows it stands in, to be taken off the total
  };

  /// The ids that were met, in the order in which they were.
  struct tally_list {
    std::array<std::uint32_t, max_tallies> ids;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::array<tally, max_tallies> entries;      // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::size_t count = 0;
  };

  /// A row's times of the variants that count, carried to the problem's sizes.
  struct carried_times {
    std::array<std::uint32_t, counted_times> tally;
    std::array<float, counted_times> logarithm;
    std::size_t count = 0;
    float best = 0;
    float spread = 0;  // of the times as they were measured
    row_growth growth;
  };

  [[nodiscard]] choice first_of(const std::vector<std::uint32_t>& list, problem_view problem,
                                unusable_flags unusable, reason why) const noexcept {
    choice out;
    for (const std::uint32_t index : list) {
      if (!admissible(index, problem, unusable)) continue;
      out.variant = index;
      out.why = why;
      break;
    }
    return out;
  }

  [[nodiscard]] choice graded(choice out) const noexcept {
    if (out.rank != table_rank::this_device) out.why = reason::other_device;
    return out;
  }

  /// The first candidate behind a group's id that may serve.
  [[nodiscard]] std::uint32_t serving(const bound_group& group, std::uint32_t id, problem_view problem,
                                      unusable_flags unusable) const noexcept {
    for (const std::uint32_t index : group.named[id].candidates) {
      if (admissible(index, problem, unusable)) return index;
    }
    return no_index;
  }

  [[nodiscard]] static bool is_stale(const bound_group& group, std::uint32_t id,
                                     std::uint32_t index) noexcept {
    const named_candidates& named = group.named[id];
    for (std::size_t i = 0; i < named.candidates.size(); ++i) {
      if (named.candidates[i] == index) return named.stale[i];
    }
    return false;
  }

  [[nodiscard]] choice ask(const bound_group& group, problem_view problem,
                           unusable_flags unusable) const noexcept {
    choice out;
    out.rank = group.rank;
    if (const std::uint32_t row = find_row(group, problem); row != no_index) {
      for (const bound_time& time : group.row_times(row)) {
        const std::uint32_t index = serving(group, time.variant, problem, unusable);
        if (index == no_index) continue;
        out.variant = index;
        out.why = reason::exact;
        out.row = row;
        out.microseconds = time.microseconds;
        out.stale = is_stale(group, time.variant, index);
        return out;
      }
    }
    std::array<float, max_dimensions>
        point;  // NOLINT(cppcoreguidelines-pro-type-member-init): place writes it
    if (!place(group, problem, point)) return out;
    neighbour_list near;
    group.index.nearest({point.data(), group.dimensions.size()}, group.neighbours, near);
    // A large table is not in the cache: have all rows on their way before the first is looked at.
    for (std::uint32_t n = 0; n < near.count; ++n) __builtin_prefetch(&group.first_time[near.entries[n].row]);
    for (std::uint32_t n = 0; n < near.count; ++n) {
      __builtin_prefetch(group.times.data() + group.first_time[near.entries[n].row]);
    }
    return predict(group, near, problem, unusable, out);
  }

  [[nodiscard]] carried_times carry(std::span<const bound_time> times, tally_list& tallies,
                                    const bound_group& group, problem_view problem,
                                    unusable_flags unusable) const noexcept {
    carried_times out;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::array<const bound_time*, counted_times>
        counted;  // NOLINT(cppcoreguidelines-pro-type-member-init): as many as out has
    for (std::size_t t = 0; t < times.size() && t < scanned_times && out.count < counted_times; ++t) {
      const std::size_t at = find_tally(tallies, group, times[t].variant, problem, unusable);
      if (at == max_tallies || tallies.entries[at].candidate == no_index) continue;
      out.growth.add(times[t], tallies.entries[at].cost);
      out.tally[out.count] = static_cast<std::uint32_t>(at);
      counted[out.count++] = &times[t];
    }
    for (std::size_t i = 0; i < out.count; ++i) {
      const float cost = tallies.entries[out.tally[i]].cost;
      const float logarithm = counted[i]->logarithm + out.growth.of(*counted[i], cost);
      out.logarithm[i] = logarithm;
      if (i == 0 || logarithm < out.best) out.best = logarithm;
      out.spread = counted[i]->logarithm - counted[0]->logarithm;
    }
    return out;
  }

  // Each neighbour weighs 1 / distance^4. A variant's score is its weighted mean slowdown over the row's
  // best. In a row that does not have it, it counts as having been a little slower than the slowest looked at
  // there, so that a variant measured only where it shines gains nothing by it. That slowest one's time is
  // taken as it was measured: its own cost may grow many times over on the way to the problem.
  [[nodiscard]] choice predict(const bound_group& group, const neighbour_list& near, problem_view problem,
                               unusable_flags unusable, choice out) const noexcept {
    tally_list tallies;
    float total_weight = 0;
    float total_penalty = 0;
    float total_log = 0;
    for (std::uint32_t n = 0; n < near.count; ++n) {
      const neighbour& row = near.entries[n];
      if (row.squared_distance >= exact_spacing * exact_spacing / 4) break;
      const float weight = 1.0F / ((row.squared_distance + 1e-3F) * (row.squared_distance + 1e-3F));
      const carried_times times = carry(group.row_times(row.row), tallies, group, problem, unusable);
      if (times.count == 0) continue;
      if (out.row == no_index) {
        out.row = row.row;
        out.distance = __builtin_sqrtf(row.squared_distance);
      }
      const float unseen = weight * (times.spread + unseen_margin);
      for (std::size_t i = 0; i < times.count; ++i) {
        tally& each = tallies.entries[times.tally[i]];
        each.weighted_slowdown += weight * (times.logarithm[i] - times.best);
        each.unseen_penalty += unseen;
      }
      total_weight += weight;
      total_penalty += unseen;
      total_log += weight * times.best;
    }
    if (total_weight == 0) return out;
    std::size_t best = tallies.count;
    float best_score = 0;
    for (std::size_t i = 0; i < tallies.count; ++i) {
      const tally& each = tallies.entries[i];
      if (each.candidate == no_index) continue;
      const float score = each.weighted_slowdown + total_penalty - each.unseen_penalty;
      if (best < tallies.count && score >= best_score) continue;
      best = i;
      best_score = score;
    }
    if (best == tallies.count) return out;
    const std::uint32_t id = tallies.ids[best];
    out.variant = tallies.entries[best].candidate;
    out.why =
        static_cast<double>(out.distance) <= group.envelope ? reason::interpolated : reason::extrapolated;
    out.microseconds = __builtin_exp2f((total_log + best_score) / total_weight);
    out.growth = growth_from(group, out.row, id, tallies.entries[best].cost);
    out.stale = is_stale(group, id, out.variant);
    return out;
  }

  [[nodiscard]] std::size_t find_tally(tally_list& tallies, const bound_group& group, std::uint32_t id,
                                       problem_view problem, unusable_flags unusable) const noexcept {
    for (std::size_t i = 0; i < tallies.count; ++i) {
      if (tallies.ids[i] == id) return i;
    }
    if (tallies.count == max_tallies) return max_tallies;
    tally fresh{serving(group, id, problem, unusable), group.named[id].cost, -1, 0, 0};
    if (fresh.candidate == no_index) fresh.cost_index = no_index;
    if (fresh.cost_index != no_index) {
      std::size_t same = 0;
      while (same < tallies.count && tallies.entries[same].cost_index != fresh.cost_index) ++same;
      fresh.cost = same < tallies.count ? tallies.entries[same].cost : cost_of(group, id, problem);
    }
    tallies.ids[tallies.count] = id;
    tallies.entries[tallies.count] = fresh;
    return tallies.count++;
  }

  /// The cost of an id at the problem over that at a row; 0 where one of them is not known.
  [[nodiscard]] static float growth_from(const bound_group& group, std::uint32_t row, std::uint32_t id,
                                         float cost) noexcept {
    for (const bound_time& time : group.row_times(row)) {
      if (time.variant == id && time.cost >= 0 && cost >= 0) return __builtin_exp2f(cost - time.cost);
    }
    return 0;
  }

  [[nodiscard]] choice heuristic(problem_view problem, unusable_flags unusable) const noexcept {
    choice out;
    for (const candidate_class& each : classes) {
      if (!matches(each.type, problem)) continue;
      for (const std::uint32_t index : each.candidates) {
        if (index >= out.variant) break;
        if (!admissible(index, problem, unusable)) continue;
        out.variant = index;
        out.why = reason::heuristic;
        break;
      }
    }
    return out;
  }
};

}  // namespace v0
}  // namespace switchyard
