// SPDX-License-Identifier: MIT
// Reads a group of a tuning table: its types, and the rows that were measured for them. An error in a row
// leaves it out and becomes a warning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Reads one group. `blobs` are the fingerprints that the file gives for all its groups, by variant.
class group_reader {
 public:
  group_reader(const operator_description& op, warnings& warned,
               const std::unordered_map<std::string, std::string>& blobs)
      : op_{op}, warned_{warned}, file_blobs_{blobs} {}

  /// Throws file_error for the group as a whole.
  [[nodiscard]] row_group read(const json_place& place);

  /// The size axes of a group's rows. Throws file_error.
  [[nodiscard]] static std::vector<std::uint32_t> read_axes(const json_place& place,
                                                            const operator_description& op);

 private:
  /// The values, one or several, of type axes that the group's type does not name.
  void read_measured_with(const json_place& place, row_group& out) const;

  /// The fastest first; stable.
  static void sort_times(std::span<measured_time> of_row);

  /// Moves the variant that a row prefers before the others of its times.
  static void put_first(const json_place& place, row_group& out);

  /// The group's number of a variant that a row names.
  [[nodiscard]] std::uint32_t number_of(const json_place& entry, const std::string& id, row_group& out);

  void read_times(const json_place& times, row_group& out);

  /// Variants without times, the fastest first.
  void read_winners(const json_place& row, row_group& out);

  void read_row(const json_place& place, std::size_t index, row_group& out);

  static constexpr std::size_t max_winners = 64;  // more than selection reads of a row

  const operator_description& op_;
  warnings& warned_;
  const std::unordered_map<std::string, std::string>& file_blobs_;
  std::unordered_map<std::string, std::uint32_t> ids_;  // numbers of the variants that rows name
  struct coordinates : std::vector<std::int64_t> {
    using std::vector<std::int64_t>::vector;
  };
  std::set<coordinates> seen_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_group_impl.hpp>
#endif
