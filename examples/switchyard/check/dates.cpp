// SPDX-License-Identifier: MIT
// Checks when tables say that they were measured.
#include <ctime>
#include <string>

#include <switchyard/files/read_measured_date.hpp>
#include <switchyard/files/table.hpp>

#include "check/findings.hpp"

namespace sy = switchyard;

namespace tool {

void check_dates(const operator_files& files, report& out) {
  constexpr std::time_t day = 86'400;  // some places are a day ahead of UTC
  const std::string tomorrow = sy::day_of(std::time(nullptr) + day);
  for (const auto& table : files.tables) {
    if (table->measured_on <= tomorrow) continue;
    out.add(severity::warning, table->path,
            "states that it was measured on " + table->measured_on +
                ", a date in the future. Of two tables with the same row the newer one decides, so until "
                "then this "
                "one wins over "
                "later measurements: correct its 'date'");
  }
}

}  // namespace tool
