// SPDX-License-Identifier: MIT
// `switchyard check --run`: runs the variants of manifests on this machine and judges their results as `tune`
// does, without timing them.
#pragma once

#include <string>
#include <vector>

#include "check/findings.hpp"
#include "command.hpp"

namespace tool {

struct run_settings {
  std::vector<std::string> at;  ///< "axis=1,2,8" words of the problems; empty: small ones
  double limit_seconds = 30;
};

/// The largest error of a right variant, as a share of the tolerance, and the problem where it was found.
struct variant_error {
  std::string file;  ///< the manifest
  std::string variant;
  double share = 0;
  std::string problem;
};

/// How many variants were judged, were faulty, and were not run.
struct run_counts {
  std::size_t judged = 0;
  std::size_t faulty = 0;
  std::size_t not_run = 0;
  std::vector<variant_error> errors;  ///< one for each variant id of a manifest, over its types
};

/// Reports an error for each variant that is faulty, and a warning for each that could not be run. Throws
/// usage_error.
[[nodiscard]] run_counts run_variants(const checked_files& files, const run_settings& settings,
                                      const session& session, report& out);

}  // namespace tool
