// SPDX-License-Identifier: MIT
// Reading and writing table files for the commands that compare and merge them. Kernels need not be
// installed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/table.hpp>

#include "operators.hpp"

namespace tool {

struct table_file {
  const known_operator* known = nullptr;
  switchyard::table content;
  std::vector<switchyard::measurement> measured;  ///< the runs that measured it, newest first

  [[nodiscard]] const switchyard::operator_description& op() const { return *known->description; }
};

/// Learns the operators of these tables, where nothing describes them. Tables that are compared are read
/// afterwards, so that all of them have the same axes. Throws file_error.
void learn_operators(const std::vector<std::string>& paths);

/// Reads a table. Entries that cannot be used are named on standard
/// error. Throws switchyard::file_error.
[[nodiscard]] table_file read_table_file(const std::string& path);

/// The same without groups that list winners instead of times.
[[nodiscard]] table_file read_measured_table(const std::string& path);

/// A row's problem. Axes of which neither the group's type nor its rows speak are 0.
[[nodiscard]] std::vector<std::int64_t> problem_of_row(const switchyard::operator_description& op,
                                                       const switchyard::row_group& group, std::size_t row);

/// "dtype=bf16 rows=64 columns=4096": what a group and a row of it say.
[[nodiscard]] std::string format_row(const switchyard::operator_description& op,
                                     const switchyard::row_group& group, std::size_t row);

/// Every variant that tables of one operator and device name, each for the types of the groups that name it.
/// What its time grows with is what `installed` says, the rules of what is installed for that device; one
/// that is not there says nothing of it.
[[nodiscard]] std::shared_ptr<const switchyard::manifest> named_variants(
    const std::vector<const table_file*>& tables, const switchyard::selector& installed);

/// Such rules: of the manifests alone, since what installed tables say does not count here.
[[nodiscard]] std::shared_ptr<const switchyard::selector> installed_rules(
    switchyard::catalog& catalog, const switchyard::operator_description& op,
    const switchyard::device_properties& device);

/// What a process on the table's own device would be told if these variants were what is installed.
[[nodiscard]] std::shared_ptr<const switchyard::selector> rules_of(
    const table_file& table, const std::shared_ptr<const switchyard::manifest>& variants);

/// A row's time of a variant, or 0.
[[nodiscard]] double time_of(const switchyard::row_group& group, std::size_t row, const std::string& id);

/// Why two tables are not of the same device; empty when they are.
[[nodiscard]] std::string device_difference(const table_file& a, const table_file& b);

}  // namespace tool
