// SPDX-License-Identifier: MIT
// The choice in words: what was chosen and why, what rules out each other candidate, and why no variant
// serves a call.
//
// Needs no device. Allocates text; for messages and tools, not for the launch path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {

/// One candidate in an explanation.
struct candidate_report {
  std::string variant;
  std::string target;        ///< "cuda sm_90a"
  std::string config;        ///< "block_m=64,block_n=128"
  std::string reproducible;  ///< the class that its manifest states; empty: none
  bool admissible = false;
  std::string obstacle;      ///< what excludes it first, or why it cannot be computed; empty: it may serve
  bool passed_over = false;  ///< it may serve the problem, but `obstacle` makes it give way
  double microseconds = 0;   ///< in the deciding row, or carried from the nearest by its cost; 0: unknown
};

/// A choice with everything that led to it.
struct explanation {
  std::string operator_name;
  std::string problem;  ///< "dtype=bf16 head_dim=128 ..."
  std::string device;
  choice chosen;
  std::string variant;  ///< empty: none serves
  std::string config;
  std::string target;
  std::string manifest;               ///< path
  double max_error = 1;               ///< as the manifest states it: see choice_limits
  std::string reproducible;           ///< likewise
  std::string table;                  ///< path of the deciding table; empty: none
  std::uint32_t table_group = 0;      ///< index in that file
  std::uint32_t table_row = 0;        ///< likewise
  bool weighs_stated = false;         ///< the times that variants state took part, as the rows are far
  bool timed = true;                  ///< false: the deciding row lists winners without times
  std::string row_at;                 ///< "batch=4 seqlen=1024"
  std::string note;                   ///< of a pin or of forcing; why no rows decide
  std::vector<lost_row> lost;         ///< rows of the deciding row's sizes that gave way to it
  std::string measured_with;          ///< "window=false": where the rows' type differs from the problem's
  std::vector<std::string> launches;  ///< "kernel of blob, grid 4x32x1, block 128x1x1"
  std::vector<candidate_report> candidates;
};

namespace detail {

/// Why a candidate may not serve a problem; empty: it may. `of_any_class`: but for a limit to a reproducible
/// class.
[[nodiscard]] std::string find_obstacle(const selector& from, std::uint32_t index, problem_view problem,
                                        unusable_flags unusable, bool of_any_class = false);

/// Why a call does not come to a candidate although selection may: an obstacle, or that it cannot be
/// computed.
[[nodiscard]] std::string find_reason(const selector& from, std::uint32_t index, problem_view problem,
                                      unusable_flags unusable);

/// The least workspace of the candidates that may serve a problem but for the limit of their workspace;
/// negative: there are none.
[[nodiscard]] std::int64_t least_workspace_need(const candidate_set& from, problem_view problem,
                                                unusable_flags unusable);

}  // namespace detail

/// Everything about a choice that needs no device: the choice itself and each candidate with its obstacle.
/// select_fitting() gives the choice that a call comes to. With the call's arguments, a grid that reads them
/// is judged as well.
[[nodiscard]] explanation explain(const selector& from, problem_view asked, const choice& chosen,
                                  unusable_flags unusable = {}, const std::byte* arguments = nullptr);

/// The reason alone: "exact row 7 of tables/rotary/x.json (group 2)".
[[nodiscard]] std::string format_reason(const explanation& why);

/// The sentence that a debug line begins with: one line, whatever paths, devices and variables are called.
[[nodiscard]] std::string to_string(const explanation& why);

/// What an explanation of a failure knows besides the rules.
struct failure_context {
  std::size_t count = 0;              ///< variants in all
  std::vector<std::string> targets;   ///< "cuda sm_90a": what kernels are installed for
  std::vector<std::string> searched;  ///< folders
  std::string fault;                  ///< in the first variant that was left out, where all were
  std::string absent;                 ///< why a backend that has kernels here cannot be used; empty: it can
};

/// Why no variant serves a problem: what is missing, or which variants come nearest, of those in `from`.
[[nodiscard]] std::string explain_failure(const selector& from, problem_view asked, unusable_flags unusable,
                                          const failure_context& context);

/// The same where `from` has all variants.
[[nodiscard]] std::string explain_failure(const selector& from, problem_view problem,
                                          unusable_flags unusable = {});

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/explain_impl.hpp>
#endif
