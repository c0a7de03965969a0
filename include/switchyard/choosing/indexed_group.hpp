// SPDX-License-Identifier: MIT
// A group of measured rows, ready for a device: its variants as candidates, its metric, and an index of its
// rows.
//
// Plain data, immutable once built, with the lookups that choosing and explaining need. Any number of threads
// may ask; nothing is allocated, thrown or printed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/row_index.hpp>
#include <switchyard/choosing/row_slots.hpp>
#include <switchyard/expression/arithmetic.hpp>
#include <switchyard/expression/joint_program.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// Binary logarithm of a cost; negative for a fault and for less than 1.
[[nodiscard]] float log_cost(integer_result cost) noexcept;

/// The candidates that an id of a group may mean, best fit first, and whether their blobs changed.
struct named_candidates {
  std::vector<std::uint32_t> candidates;
  std::vector<bool> stale;
  /// The number of the first one's cost in the group's program; no_index: it has none, or it reads axes that
  /// rows do not give.
  std::uint32_t cost = no_index;
};

/// When an id's first candidate serves a problem of the group, if its conditions alone decide that: rows and
/// problem have its type, the device has its shared memory, and nothing denies it.
struct serving_rule {
  std::uint32_t candidate = no_index;  ///< no_index: more decides than conditions
  bool has_others = false;             ///< the id may mean others, where this one does not serve
  std::uint64_t conditions = 0;        ///< a bit each, of the group's
  std::uint64_t needed = 0;            ///< those without which none that the id may mean serves
};

/// A row's time of one variant.
struct candidate_time {
  std::uint32_t variant = 0;  ///< index into the group's ids
  float microseconds = 0;
  float logarithm = 0;  ///< binary, of the microseconds
  float cost = -1;      ///< binary logarithm of the variant's cost at the row; negative: none
};

/// How times grow from a row to a problem: like the variants' costs. Costs hold the jumps between rows, such
/// as waves over the multiprocessors and partial tiles; what is left is smooth enough to be averaged. A
/// variant without a cost grows like the row's fastest variant that has one.
class row_growth {
 public:
  /// Adds the row's next slower variant that may serve, whose cost at the problem is `cost`.
  void add(const candidate_time& time, float cost) noexcept;

  /// Binary logarithm of what a time of the row is multiplied by.
  [[nodiscard]] float of(const candidate_time& time, float cost) const noexcept {
    return time.cost >= 0 && cost >= 0 ? cost - time.cost : others_;
  }

  /// The same for a time whose cost is not known here or at the row.
  [[nodiscard]] float of_others() const noexcept { return others_; }

 private:
  float others_ = 0;  // binary logarithm
  bool is_known_ = false;
};

/// A dimension of the distance between problems: an axis, or a quantity of several.
struct metric_dimension {
  /// Spacing of an exact axis's values in the index, larger than every distance that counts.
  static constexpr float exact_spacing = 0x1p32F;

  /// Largest place along a linear axis, in either direction: well within that spacing.
  static constexpr float linear_end = 0x1p28F;

  axis_rule rule;
  std::uint32_t axis = no_index;     ///< no_index: `quantity` gives the value
  std::uint32_t quantity = 0;        ///< its number in the group's program
  std::vector<std::int64_t> levels;  ///< for `exact`: the rows' values, ascending

  /// A problem's value; 0 where a quantity has none.
  [[nodiscard]] std::int64_t value(problem_view problem, joint_program::values& computed) const noexcept;

  /// A problem's place along the dimension; false when no row has its value on an exact axis.
  [[nodiscard]] bool place(problem_view problem, joint_program::values& computed, float& out) const noexcept;
};

/// Rows made ready for a device: those of one table, or of all tables that were measured on it.
struct indexed_group {
  std::vector<axis_value> type;
  std::vector<std::uint32_t> axes;
  std::vector<metric_dimension> dimensions;  ///< without ignored axes
  std::vector<std::string> ids;
  std::vector<named_candidates> named;  ///< by id
  std::vector<serving_rule> serving;    ///< by id
  /// Quantities, costs and conditions, folded for the type and the device.
  joint_program program;
  std::vector<std::uint32_t> conditions;  ///< of serving rules: their numbers in the program; at most 64
  std::vector<std::int64_t> at;
  /// A row's times: [first, first + count).
  struct time_range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<time_range> ranges;  ///< by row
  /// By row, the conditions that hold there, as serving rules have them. One that reads what rows do not say
  /// counts as holding. Empty: all hold at each row.
  std::vector<std::uint64_t> holding;
  std::vector<candidate_time>
      times;  ///< rows that are near each other stand together, once there is an index
  struct origin {
    std::uint32_t table = 0;
    std::uint32_t group = 0;
    std::uint32_t row = 0;
  };
  std::vector<origin> origins;  ///< by row
  /// A row of the same sizes as one that is used; it decides nothing.
  struct repeated_row {
    std::uint32_t used = 0;
    origin lost;
  };
  std::vector<repeated_row> repeated;  ///< named where a choice is explained
  origin first;                        ///< the first of its tables, and the group's index there
  std::uint32_t neighbours = 8;
  double envelope = 1.5;
  table_rank rank = table_rank::this_device;
  bool timed = true;                           ///< false: the rows list winners, whose times are made up
  std::vector<measured_values> measured_with;  ///< of all its tables
  /// Candidates that no row compares with the others: they do not serve what was measured. Where one of them
  /// serves a problem, the rows do not decide it.
  std::vector<std::uint32_t> uncompared;
  row_index index;
  row_slots slots;  ///< finds rows by their coordinates

  [[nodiscard]] std::size_t row_count() const noexcept { return ranges.size(); }
  [[nodiscard]] std::span<const candidate_time> row_times(std::size_t row) const noexcept {
    return std::span{times}.subspan(ranges[row].first, ranges[row].count);
  }

  [[nodiscard]] std::uint64_t holding_at(std::size_t row) const noexcept {
    return holding.empty() ? ~std::uint64_t{0} : holding[row];
  }

  /// The row that was measured at exactly these sizes, or no_index.
  [[nodiscard]] std::uint32_t find_row(problem_view problem) const noexcept;

  /// A problem's values of the group's axes, as rows have them.
  [[nodiscard]] problem_view read_sizes(problem_view problem,
                                        std::array<std::int64_t, max_dimensions>& out) const noexcept;

  /// A problem's place in the group's metric; false when no row has its value on an exact axis.
  [[nodiscard]] bool place(problem_view problem, joint_program::values& computed,
                           std::span<float> out) const noexcept;

  /// Binary logarithm of the cost of an id at a problem; negative: none.
  [[nodiscard]] float cost_of(std::uint32_t id, joint_program::values& computed) const noexcept;

  /// Whether a candidate's blobs changed since the rows were measured under this id.
  [[nodiscard]] bool is_stale(std::uint32_t id, std::uint32_t candidate) const noexcept;
};

/// A group that decides nothing, because its rows have times of no candidate.
struct silent_group {
  std::vector<axis_value> type;
  indexed_group::origin first;  ///< its table, and its index there
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/indexed_group_impl.hpp>
#endif
