// SPDX-License-Identifier: MIT
#include <cstddef>
#include <string>

#include "tune/progress.hpp"
#include "tune/run.hpp"

namespace tool {

nlohmann::ordered_json tune_outcome::json() const {
  return {{"table", table},
          {"notes", journal},
          {"problems", problems},
          {"measured", measured},
          {"before", before},
          {"resumed_times", resumed},
          {"unsteady", unsteady},
          {"left_out", left_out},
          {"left_out_kinds", left_out_kinds},
          {"failures", failures},
          {"bad", bad},
          {"out_of_time", out_of_time},
          {"interrupted", interrupted},
          {"seconds", seconds}};
}

std::string tune_outcome::text() const {
  const std::size_t open = problems - measured - before - left_out.size();
  std::string out = table + ": " + std::to_string(measured) + " of " + std::to_string(problems) +
                    " problems measured in " + duration_text(seconds);
  if (before > 0) out += ", " + std::to_string(before) + " before";
  if (open > 0) {
    out += ", " + std::to_string(open) + " remaining" +
           (interrupted   ? " (interrupted; the same command resumes)"
            : out_of_time ? " (the budget is used up; the same command resumes)"
                          : "");
  }
  if (unsteady > 0) {
    out += ", " + std::to_string(unsteady) +
           " unsteady: the device drifted each time; their rows record by how much";
  }
  out += "\n";
  if (!left_out.empty()) {
    out += std::to_string(left_out.size()) + " problems were left out:\n";
    for (const std::string& line : left_out) out += "  " + line + "\n";
  }
  if (!left_out_kinds.empty()) {
    out += std::to_string(left_out_kinds.size()) + " kinds of calls were left out of their rows:\n";
    for (const std::string& line : left_out_kinds) out += "  " + line + "\n";
  }
  if (!bad.empty()) {
    out += std::to_string(bad.size()) + " variants are known to be bad (see " + journal +
           "; --deny puts them into the table, --retry-bad tries them again):\n";
    for (const std::string& line : bad) out += "  " + line + "\n";
  }
  return out;
}

}  // namespace tool
