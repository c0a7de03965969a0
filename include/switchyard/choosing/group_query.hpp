// SPDX-License-Identifier: MIT
// One problem asked of one group of rows: its exact row, or a prediction from the nearest ones.
//
// A pure function of the candidates, the group and the problem. It throws nothing, allocates nothing and
// prints nothing. A query refers to what it was given and lives for one call.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/row_index.hpp>
#include <switchyard/expression/joint_program.hpp>

namespace switchyard {
inline namespace v0 {

class group_query {
 public:
  group_query(const candidate_set& candidates, const indexed_group& group, problem_view problem,
              unusable_flags unusable) noexcept
      : candidates_{candidates},
        group_{group},
        problem_{problem},
        unusable_{unusable},
        computed_{group.program, problem} {}

  /// The variant that the rows decide for; no_index: none of theirs may serve.
  [[nodiscard]] choice choose() noexcept { return choose(no_visit{}); }

  /// The same, with `visit(candidate, microseconds)` for each variant that was compared with it.
  template <class Visitor>
  [[nodiscard]] choice choose(const Visitor& visit) noexcept {
    choice out;
    out.rank = group_.rank;
    std::array<std::int64_t, max_dimensions>
        sizes;  // NOLINT(cppcoreguidelines-pro-type-member-init): read_sizes writes it
    const problem_view at = group_.read_sizes(problem_, sizes);
    group_.slots.prefetch(at);  // from memory in large tables; meanwhile:
    std::array<float, max_dimensions>
        point;  // NOLINT(cppcoreguidelines-pro-type-member-init): place writes it
    const bool has_place = group_.place(problem_, computed_, point);
    if (has_place) group_.index.prefetch_nearest(point.data());
    if (const std::uint32_t row = group_.slots.find(at, group_.at.data()); row != no_index) {
      for (const candidate_time& time : group_.row_times(row)) {
        const std::uint32_t index = serving(time.variant);
        if (index == no_index) continue;
        if constexpr (!is_no_visit<Visitor>) {
          visit(index, time.microseconds);
          if (out.variant != no_index) continue;
        }
        out.variant = index;
        out.why = reason::exact;
        out.row = row;
        out.microseconds = time.microseconds;
        out.stale = group_.is_stale(time.variant, index);
        if constexpr (is_no_visit<Visitor>) return out;
      }
      if (out.variant != no_index) return out;
    }
    if (!has_place) return out;
    neighbour_list near;
    static_assert(sizeof(indexed_group::time_range) == 8);  // as the search expects
    group_.index.nearest({point.data(), group_.dimensions.size()}, group_.neighbours, near,
                         group_.ranges.data());
    // A large table is not in the cache: prefetch all rows before the first is read.
    for (std::uint32_t n = 0; n < near.count; ++n) __builtin_prefetch(&group_.ranges[near.entries[n].row]);
    for (std::uint32_t n = 0; n < near.count; ++n) {
      const indexed_group::time_range& times = group_.ranges[near.entries[n].row];
      __builtin_prefetch(group_.times.data() + times.first);
      __builtin_prefetch(group_.times.data() + times.first + times.count - 1);
    }
    return predict(near, out, visit);
  }

  /// How times grow from a row to the problem.
  [[nodiscard]] row_growth growth_of(std::uint32_t row) noexcept;

  /// The candidate for whose sake the last choose() did not decide, or no_index.
  [[nodiscard]] std::uint32_t stranger() const noexcept { return stranger_; }

  /// Whether stated times took part in the last choose().
  [[nodiscard]] bool weighs_stated() const noexcept { return weighs_stated_; }

 private:
  struct no_visit {};
  template <class Visitor>
  static constexpr bool is_no_visit = std::is_same_v<Visitor, no_visit>;

  /// At most so many times of a row are read, and so many of those that may serve are counted.
  static constexpr std::size_t scanned_times = 64;
  static constexpr std::size_t counted_times = 8;
  static constexpr std::size_t max_tallies = 64;

  /// A variant that could serve a row, which does not list it, is taken to be slower than the row's slowest
  /// counted one by this much, a binary logarithm, but no slower over the row's best than the most.
  static constexpr float unseen_margin = 0.1F;
  static constexpr float most_unseen = 0.35F;

  /// Added to squared distances: to each, since times have noise that one near row should not decide by, and
  /// to those of rows that some variant of the comparison could not serve.
  static constexpr float least_distance = 0.05F;
  static constexpr float of_another_kind = 0.25F;

  /// Stated times are estimates: only one below this share of another speaks against measured rows.
  static constexpr double clearly_faster = 0.9;

  /// They weigh as much as a row at a distance of 1.6, where all rows together weigh less than enough, as
  /// those at more than half an octave do. Nearer rows know better, and the times need not be evaluated.
  static constexpr float stated_weight = 0.15F;
  static constexpr float enough_weight = 10;

  /// What the neighbours say of one id: its slowdown over each row's best, summed with the rows' weights.
  struct tally {
    std::uint32_t candidate;  // no_index: none that may serve
    std::uint32_t cost_index;
    float cost;               // binary logarithm of its cost at the problem; negative: none
    float weighted_slowdown;  // in binary logarithms
    float unseen;             // of the rows that have it, to be subtracted from the total
    float weight;             // of the rows that have it
    std::uint32_t rows;       // those, a bit each
  };

  /// The ids met so far, in that order.
  struct tally_list {
    std::array<std::uint32_t, max_tallies> ids;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::array<tally, max_tallies> entries;      // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::size_t count = 0;
    /// By an id's last bits: where it stands, most likely.
    std::array<std::uint8_t, max_tallies> places{};
  };

  /// A row's times of the variants that count, carried to the problem's sizes.
  struct carried_times {
    std::array<std::uint32_t, counted_times> tally;
    std::array<float, counted_times> logarithm;
    std::size_t count;
    float best;
    float spread;  // of the times as they were measured
    row_growth growth;
  };

  /// A neighbour that counts.
  struct counted_row {
    carried_times times;
    float squared_distance;
    float weight;
    float unseen;  // weighted; what it says of a variant that could serve it and that it does not have
    std::uint64_t holding;  // the group's conditions that hold there
  };

  /// The first candidate behind an id that may serve.
  [[nodiscard]] std::uint32_t serving(std::uint32_t id) noexcept;

  /// Whether the group's conditions of these bits hold. Each is evaluated once.
  [[nodiscard]] bool all_hold(std::uint64_t wanted) noexcept;

  [[gnu::always_inline]] inline void carry(std::span<const candidate_time> times, tally_list& tallies,
                                           carried_times& out) noexcept {
    out.growth = {};
    out.count = 0;
    std::size_t count = 0;
    std::uint32_t without_cost = 0;  // a bit each
    const candidate_time* time = times.data();
    const candidate_time* const end = time + (times.size() < scanned_times ? times.size() : scanned_times);
    const candidate_time* first = nullptr;
    const candidate_time* last = nullptr;
    for (; time != end && count < counted_times; ++time) {
      const std::size_t at = find_tally(tallies, time->variant);
      if (at == max_tallies || tallies.entries[at].candidate == no_index) continue;
      const float cost = tallies.entries[at].cost;
      float logarithm = time->logarithm;
      if (time->cost >= 0 && cost >= 0) {
        out.growth.add(*time, cost);
        logarithm += cost - time->cost;
      } else {
        without_cost |= std::uint32_t{1} << count;
      }
      out.tally[count] = static_cast<std::uint32_t>(at);
      out.logarithm[count++] = logarithm;
      if (first == nullptr) first = time;
      last = time;
    }
    if (count == 0) return;
    out.count = count;
    out.spread = last->logarithm - first->logarithm;
    if (const float others = out.growth.of_others(); others != 0) {
      for (; without_cost != 0; without_cost &= without_cost - 1)
        out.logarithm[static_cast<std::size_t>(std::countr_zero(without_cost))] += others;
    }
    float best = out.logarithm[0];
    for (std::size_t i = 1; i < count; ++i) best = out.logarithm[i] < best ? out.logarithm[i] : best;
    out.best = best;
  }

  // Each neighbour weighs 1 / distance^4. A variant's score is its weighted mean slowdown over the row's
  // best, over the rows that it could serve. Where such a row does not have it, it counts as a little slower
  // than the slowest variant counted there, so that a variant measured only where it is fast gains nothing.
  // That slowest time is taken as measured, because its own cost may grow many times over on the way to the
  // problem, and has a limit, because rows list slow variants too, for problems that the others cannot serve.
  template <class Visitor>
  [[nodiscard]] choice predict(const neighbour_list& near, choice out, const Visitor& visit) noexcept {
    tally_list tallies;
    std::array<counted_row, max_neighbours>
        rows;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    std::size_t count = 0;
    for (std::uint32_t n = 0; n < near.count; ++n) {
      const neighbour& here = near.entries[n];
      if (here.squared_distance >= metric_dimension::exact_spacing * metric_dimension::exact_spacing / 4)
        break;
      counted_row& row = rows[count];
      carry(group_.row_times(here.row), tallies, row.times);
      if (row.times.count == 0) continue;
      if (out.row == no_index) {
        out.row = here.row;
        out.distance = __builtin_sqrtf(here.squared_distance);
      }
      row.squared_distance = here.squared_distance;
      row.holding = group_.holding_at(here.row);
      ++count;
    }
    if (count == 0) return out;
    const std::span<counted_row> counted{rows.data(), count};
    const sums total = add_up(counted, tallies);
    std::array<float, max_tallies> stated;  // NOLINT(cppcoreguidelines-pro-type-member-init): see read_stated
    weighs_stated_ = total.weight < enough_weight && read_stated(tallies, stated);
    std::size_t best = tallies.count;
    float best_score = 0;
    for (std::size_t i = 0; i < tallies.count; ++i) {
      const tally& of = tallies.entries[i];
      if (of.candidate == no_index) continue;
      const std::uint64_t needed = group_.serving[tallies.ids[i]].needed;
      float score = (needed & ~total.holding) == 0
                        ? (of.weighted_slowdown + total.unseen - of.unseen) / total.weight
                        : score_where_served(of, needed, counted);
      if (weighs_stated_ && stated[i] >= 0)
        score = (score * total.weight + stated[i] * stated_weight) / (total.weight + stated_weight);
      if constexpr (!is_no_visit<Visitor>)
        visit(of.candidate, __builtin_exp2f(total.logarithm / total.weight + score));
      if (best < tallies.count && score >= best_score) continue;
      best = i;
      best_score = score;
    }
    if (best == tallies.count) return out;
    const std::uint32_t id = tallies.ids[best];
    stranger_ = faster_stranger(tallies.entries[best].candidate, total.served, tallies);
    if (stranger_ != no_index) return out;
    out.variant = tallies.entries[best].candidate;
    out.why =
        static_cast<double>(out.distance) <= group_.envelope ? reason::interpolated : reason::extrapolated;
    out.microseconds = __builtin_exp2f(total.logarithm / total.weight + best_score);
    out.growth = growth_from(out.row, id, tallies.entries[best].cost);
    out.stale = group_.is_stale(id, out.variant);
    return out;
  }

  [[nodiscard, gnu::always_inline]] inline std::size_t find_tally(tally_list& tallies,
                                                                  std::uint32_t id) noexcept {
    const std::uint8_t place = tallies.places[id % max_tallies];
    if (place < tallies.count && tallies.ids[place] == id) [[likely]]
      return place;
    return find_or_add_tally(tallies, id);
  }

  [[nodiscard, gnu::noinline]] std::size_t find_or_add_tally(tally_list& tallies, std::uint32_t id) noexcept {
    for (std::size_t i = 0; i < tallies.count; ++i) {
      if (tallies.ids[i] == id) return i;
    }
    if (tallies.count == max_tallies) return max_tallies;
    tallies.places[id % max_tallies] = static_cast<std::uint8_t>(tallies.count);
    tally fresh{serving(id), group_.named[id].cost, -1, 0, 0, 0, 0};
    if (fresh.candidate == no_index) fresh.cost_index = no_index;
    if (fresh.cost_index != no_index) {
      std::size_t same = 0;
      while (same < tallies.count && tallies.entries[same].cost_index != fresh.cost_index) ++same;
      fresh.cost = same < tallies.count ? tallies.entries[same].cost : group_.cost_of(id, computed_);
    }
    tallies.ids[tallies.count] = id;
    tallies.entries[tallies.count] = fresh;
    return tallies.count++;
  }

  /// Of all rows, weighted.
  struct sums {
    float weight;
    float unseen;
    float logarithm;        // of the best times
    std::uint64_t holding;  // the conditions that hold at each of them
    std::uint64_t served;   // and at one of them at least
  };

  /// Weighs the rows, and adds what each says to the tallies.
  [[nodiscard]] sums add_up(std::span<counted_row> rows, tally_list& tallies) const noexcept;

  /// The score of a variant that could not serve each of the rows.
  [[nodiscard]] static float score_where_served(const tally& of, std::uint64_t needed,
                                                std::span<const counted_row> rows) noexcept;

  /// How much longer each tally's stated time is than the shortest, a binary logarithm; negative where it
  /// states none, or may not serve. False if none of them states one.
  [[nodiscard]] bool read_stated(const tally_list& tallies,
                                 std::array<float, max_tallies>& out) const noexcept;

  /// A candidate of the group that could serve none of the rows, and states a time clearly below that of the
  /// one that they prefer, or no_index. `served`: the conditions that hold at one row at least.
  [[nodiscard]] std::uint32_t faster_stranger(std::uint32_t preferred, std::uint64_t served,
                                              const tally_list& tallies) noexcept;

  /// The cost of an id at the problem over its cost at a row; 0 if one of them is unknown.
  [[nodiscard]] float growth_from(std::uint32_t row, std::uint32_t id, float cost) const noexcept;

  const candidate_set& candidates_;
  const indexed_group& group_;
  problem_view problem_;
  unusable_flags unusable_;
  std::uint32_t stranger_ = no_index;
  bool weighs_stated_ = false;
  std::uint64_t known_conditions_ = 0;  // those that were evaluated, a bit each
  std::uint64_t conditions_ = 0;        // those of them that hold
  joint_program::values computed_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/group_query_impl.hpp>
#endif
