// SPDX-License-Identifier: MIT
// Writes a tuning table so that it reads and diffs well: groups and rows sorted, one row a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class table_writer {
 public:
  table_writer(const operator_description& op, const table& table) : op_{op}, table_{table} {}

  [[nodiscard]] std::string write(std::span<const measurement> measured);

  [[nodiscard]] std::string write_denials_alone();

 private:
  void begin();

  void write_device();

  void write_measured(std::span<const measurement> measured);

  void write_match();

  [[nodiscard]] static std::string rule_of(const axis_rule& rule);

  void write_denials();

  void write_pins();

  [[nodiscard]] std::string entry_of(const std::string& variant, const std::vector<axis_value>& type) const;

  [[nodiscard]] std::string type_of(const std::vector<axis_value>& type) const;

  void write_group(const row_group& group);

  void write_winners(const row_group& group, std::size_t row);

  void write_measured_with(const row_group& group);

  /// The variant that a row prefers, where it is not the fastest.
  void write_first(const row_group& group, std::size_t row);

  void write_blobs(const row_group& group);

  [[nodiscard]] static std::string format_json_value(const axis_description& axis, std::int64_t value);

  /// Four significant digits: more than a measurement has.
  [[nodiscard]] static std::string decimal(double value);

  const operator_description& op_;
  const table& table_;
  std::string out_;
};

}  // namespace detail

/// A table as text. `measured`: the runs that measured its rows, the most recent one first.
[[nodiscard]] inline std::string format_table(const operator_description& op, const table& table,
                                              std::span<const measurement> measured = {}) {
  return detail::table_writer{op, table}.write(measured);
}

/// What a table denies, as the text of a table that has nothing else: programs that never write rows do not
/// compile what writes them.
[[nodiscard]] inline std::string format_denials(const operator_description& op, const table& table) {
  return detail::table_writer{op, table}.write_denials_alone();
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/write_table_impl.hpp>
#endif
