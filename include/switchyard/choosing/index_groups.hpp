// SPDX-License-Identifier: MIT
// Makes groups of table rows ready for a device: their variants become candidates, and each group gets its
// metric, costs and an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidate_ids.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/expression/build_joint_program.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Indexes the groups of all ranked tables, once. Rows and entries that cannot be used become warnings.
class group_indexer {
 public:
  group_indexer(const candidate_set& set, candidate_ids& ids, std::span<const ranked_table> ranked,
                std::vector<std::string>& warned)
      : set_{set}, ids_{ids}, ranked_{ranked}, warned_{warned} {}

  // Rows of all tables of this device form one group if type and axes are the same. An overlay thus adds rows
  // without repeating the table under it, and its rows replace those of the same sizes. Times of other
  // devices are not comparable with these or with each other, so their tables are asked one after the other.
  [[nodiscard]] std::vector<indexed_group> index();

  /// Groups without a variant that is installed for the device; after index().
  [[nodiscard]] std::vector<silent_group> take_silent() { return std::move(silent_); }

 private:
  /// The axes that are not ignored, and the quantities that read only axes of the group's type and rows.
  void add_dimensions(indexed_group& into, const match_rule& match, joint_program_builder& program);

  [[nodiscard]] expression folded(const indexed_group& group, const expression& value) const {
    return value.fold(group.type, set_.device.attributes);
  }

  /// What tells groups apart: their type and axes, and whether they have times.
  [[nodiscard]] static std::string key_of(const row_group& rows);

  /// `number`: of the group.
  void add_rows(indexed_group& into, std::size_t number, const row_group& rows, const table& from,
                std::uint32_t table_number);

  [[nodiscard]] named_candidates name_candidates(const row_group& rows, std::size_t id, const table& from);

  /// What costs read at rows and calls of a group alike: the type's values, and of each other type axis the
  /// first that the rows were measured with.
  [[nodiscard]] static std::vector<axis_value> cost_values(const row_group& rows);

  /// The cost of an id's first candidate, if the group's rows decide it; null otherwise.
  [[nodiscard]] const expression* cost_of(const named_candidates& named, std::size_t number) const;

  [[nodiscard]] serving_rule make_serving_rule(indexed_group& group, std::span<const std::uint32_t> meant,
                                               joint_program_builder& program) const;

  /// Adds the conditions of a variant that do not always hold, a bit each; false if not all of them have
  /// room. `only_said`: those that rows decide.
  bool add_conditions(indexed_group& group, const variant& of, bool only_said, joint_program_builder& program,
                      std::uint64_t& bits) const;

  /// Whether a type has all values of another one.
  [[nodiscard]] static bool includes(const std::vector<axis_value>& type,
                                     const std::vector<axis_value>& wanted);

  void index(indexed_group& group) const;

  /// Lays the times out as the index lays out the rows: a search finds its neighbours in few leaves.
  static void order_times(indexed_group& group);

  static constexpr std::ptrdiff_t max_conditions = 64;  // a bit each

  const candidate_set& set_;
  candidate_ids& ids_;
  std::span<const ranked_table> ranked_;
  std::vector<std::string>& warned_;
  std::vector<indexed_group> groups_;
  std::vector<silent_group> silent_;
  std::vector<std::unordered_map<std::string_view, std::uint32_t>> known_;  // of each group, its tables' ids
  std::vector<joint_program_builder> programs_;                             // likewise
  std::vector<std::vector<axis_value>> cost_values_;                        // likewise
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/index_groups_impl.hpp>
#endif
