// SPDX-License-Identifier: MIT
// How the rows of tables were measured: in words, and joined where several runs or tables say it.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/files/measurement.hpp>

namespace tool {

/// One line for people: "2026-11-22; medians of 5 to 15 samples; ...".
[[nodiscard]] std::string describe_measurement(const switchyard::measurement& of);

/// Whether two runs measured in the same way on the same day.
[[nodiscard]] bool is_same_run(const switchyard::measurement& a, const switchyard::measurement& b);

/// Adds what another part of the same run measured: rows, checks, clocks.
void join(switchyard::measurement& into, const switchyard::measurement& part);

/// Joins the runs of merged tables. Each table is given by its runs, newest first, and the names of its rows.
/// Tables of one run, such as its shards, count as one run. A row that several tables have counts once.
[[nodiscard]] std::vector<switchyard::measurement> join_runs(
    const std::vector<std::pair<std::vector<switchyard::measurement>, std::set<std::string>>>& tables);

/// Completes a table's list of runs: no run has more rows than the table, and a run that measured all rows
/// states no number.
void finish_runs(std::vector<switchyard::measurement>& runs, std::size_t rows);

}  // namespace tool
