// SPDX-License-Identifier: MIT
// The outcome of a reload: which files changed, and which were refused.
#pragma once

#include <string>
#include <vector>

namespace switchyard {
inline namespace v0 {

/// What a reload found.
struct reload_report {
  std::vector<std::string> changed;  ///< files read again, or gone
  std::vector<std::string> refused;  ///< messages of files that were rejected; their previous content serves
};

}  // namespace v0
}  // namespace switchyard
