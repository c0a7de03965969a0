// SPDX-License-Identifier: MIT
// `switchyard check --coverage LIST`: which calls of a list no row of a table decides.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace tool {

struct coverage_settings {
  std::vector<std::string> lists;    ///< problem lists or recordings
  std::vector<std::string> devices;  ///< by name; empty: those that tables of the lists' operators name
};

/// Prints, for each device, how the calls of the lists are decided, and each call that no row decides. Sets
/// the status to a finding where there is one. Throws usage_error and switchyard::file_error.
void check_coverage(const coverage_settings& settings, session& session);

}  // namespace tool
