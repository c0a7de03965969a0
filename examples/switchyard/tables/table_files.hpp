// SPDX-License-Identifier: MIT
// Reading and writing table files for the commands that compare and merge them. Kernels need not be
// installed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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

/// Derives the descriptions of operators that nothing describes from these tables. Call it before reading
/// tables that are compared, so that all of them have the same axes. Throws file_error.
void learn_operators(const std::vector<std::string>& paths);

/// Reads a table. Reports invalid entries on standard error. Throws switchyard::file_error.
[[nodiscard]] table_file read_table_file(const std::string& path);

/// The same without groups that list winners instead of times.
[[nodiscard]] table_file read_measured_table(const std::string& path);

/// A row's problem. Axes that neither the group's type nor its rows give are 0.
[[nodiscard]] std::vector<std::int64_t> problem_of_row(const switchyard::operator_description& op,
                                                       const switchyard::row_group& group, std::size_t row);

/// "dtype=bf16 rows=64 columns=4096": what a group and a row of it say.
[[nodiscard]] std::string format_row(const switchyard::operator_description& op,
                                     const switchyard::row_group& group, std::size_t row);

/// Every variant that tables of one operator and device name, for the types of the groups that name it.
/// Costs, and conditions over what rows say, come from `installed`, the selector of the kernels installed for
/// that device; a variant that is not installed has none.
[[nodiscard]] std::shared_ptr<const switchyard::manifest> named_variants(
    const std::vector<const table_file*>& tables, const switchyard::selector& installed);

/// That selector, made from manifests alone: installed tables must not influence it.
[[nodiscard]] std::shared_ptr<const switchyard::selector> installed_rules(
    switchyard::catalog& catalog, const switchyard::operator_description& op,
    const switchyard::device_properties& device);

/// The selector that a process on the table's device would have if exactly these variants were installed.
[[nodiscard]] std::shared_ptr<const switchyard::selector> rules_of(
    const table_file& table, const std::shared_ptr<const switchyard::manifest>& variants);

/// Removes a row.
void erase_row(switchyard::row_group& rows, std::size_t row);

/// A row's time of a variant, or 0.
[[nodiscard]] double time_of(const switchyard::row_group& group, std::size_t row, const std::string& id);

/// The tables of folders, OPERATOR/DEVICE.json, by that name, in the order of the folders. Shards count as
/// the table that they are of. Throws file_error.
[[nodiscard]] std::map<std::string, std::vector<std::string>> tables_of(
    const std::vector<std::string>& folders);

/// "NVIDIA H200 (cuda sm_90, 132 multiprocessors)", "any cuda sm_90 device"; of a CPU also its instruction
/// sets, which its name does not tell.
[[nodiscard]] std::string full_name_of(const switchyard::device_properties& device);

/// "was measured on A, and this is B" if a table that states the device A was not measured on B; what it does
/// not state may be anything. Parts of a GPU may have the name of the whole.
[[nodiscard]] std::string other_device_text(const switchyard::device_properties& stated,
                                            const switchyard::device_properties& device);

/// Why two tables are not of the same device; empty when they are.
[[nodiscard]] std::string device_difference(const table_file& a, const table_file& b);

}  // namespace tool
