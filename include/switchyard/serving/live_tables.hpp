// SPDX-License-Identifier: MIT
// Tuning tables of what comparisons at real calls found: rows to merge into a device's table, and denials.
#pragma once

#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/live_records.hpp>

namespace switchyard {
inline namespace v0 {

struct live_table {
  std::string path;  ///< "softmax/nvidia-h200.json"
  std::string text;
};

/// A table for each operator and device that has rows or denials. Only times that were taken in turns with
/// another variant's make rows: those of real calls alone compare nothing. `date`: "2026-11-26".
[[nodiscard]] std::vector<live_table> format_live_tables(const live_report& from, const std::string& date);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/live_tables_impl.hpp>
#endif
