// SPDX-License-Identifier: MIT
// The variants that can run on a device, with the conditions, denials and limits that exclude one from a
// problem.
//
// Plain data, immutable once built. Any number of threads may ask; nothing is allocated, thrown or printed.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// Candidates that failed to load, by index. Empty: none.
using unusable_flags = std::span<const std::atomic<bool>>;

/// A variant that can run on the device.
struct candidate {
  const switchyard::variant* variant = nullptr;
  const manifest* from = nullptr;
  std::vector<std::uint32_t> denials;     ///< indices into candidate_set::denials
  std::vector<const expression*> shared;  ///< bytes a block needs, if the problem decides them
  std::int64_t max_shared = 0;            ///< bytes a block can have
  bool fits = true;  ///< false: it needs more than that for every problem, or exceeds a limit of the caller
  std::int64_t max_workspace = choice_limits::any_workspace;  ///< of a caller, if the variant has any

  /// Whether a block's shared memory fits the device for a problem, and the workspace its limit.
  [[nodiscard]] bool fits_problem(const evaluation& values) const noexcept;
};

/// Candidates that serve the same type values, in heuristic order.
struct candidate_class {
  std::vector<axis_value> type;
  std::vector<std::uint32_t> candidates;
};

/// A table's denial. Candidates hold indices to it.
struct candidate_denial {
  std::vector<axis_value> type;
  std::string reason;
  std::string table;  ///< path
};

/// A table's pin, with the candidates that its variant names.
struct candidate_pin {
  std::vector<std::uint32_t> candidates;
  std::vector<axis_value> type;
  std::vector<axis_range> at;
  std::string variant;
  std::string reason;
  std::string table;  ///< path

  [[nodiscard]] bool applies(problem_view problem) const noexcept;
};

/// The candidates of one operator on one device.
struct candidate_set {
  const operator_description* op = nullptr;
  device_properties device;
  choice_limits limits;               ///< the caller's
  std::vector<candidate> candidates;  ///< in heuristic order
  std::vector<candidate_class> classes;
  std::vector<candidate_denial> denials;

  /// Whether a candidate may serve a problem: its type and conditions hold, no table denies it, and it works.
  [[nodiscard]] bool admissible(std::uint32_t index, problem_view problem,
                                unusable_flags unusable) const noexcept;

  /// The first of these candidates that may serve, or no_index.
  [[nodiscard]] std::uint32_t first_admissible(const std::vector<std::uint32_t>& list, problem_view problem,
                                               unusable_flags unusable) const noexcept;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/candidates_impl.hpp>
#endif
