// SPDX-License-Identifier: MIT
// What `switchyard explain` explains: a choice, its inputs, and its description.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/choosing/explain.hpp>
#include <switchyard/problem/problem.hpp>

#include "devices.hpp"
#include "operators.hpp"

namespace tool {

struct stated_problem {
  std::vector<std::int64_t> values;
  std::vector<std::string> assumed;  ///< "axis=value" of what the command line left out
};

/// The problem of a command line. Omitted flags and enumerations have their first value; sizes are required.
[[nodiscard]] stated_problem read_problem(const known_operator& known, const std::vector<std::string>& words);

/// A choice and what it was made from.
struct explained_call {
  std::shared_ptr<const switchyard::selector> rules;
  stated_problem problem;
  known_device device;
  bool is_installed = true;  ///< kernels of the device are; else the variants are those that tables name
  std::vector<std::atomic<bool>> unusable;  ///< candidates that cannot be loaded
  switchyard::explanation why;

  [[nodiscard]] switchyard::problem_view values() const noexcept { return problem.values; }
};

/// One rule of selection and its result.
struct applied_rule {
  std::string name;
  std::string outcome;
};

/// Every rule of selection, in the order of evaluation.
[[nodiscard]] std::vector<applied_rule> trace(const explained_call& of);

struct ranked_candidate {
  switchyard::candidate_report report;
  bool is_chosen = false;
  bool is_compared =
      false;  ///< with the chosen one, by the rows that decide; else rows elsewhere tell its time
  double microseconds = 0;  ///< 0: no table says anything
  switchyard::reason basis = switchyard::reason::none;
};

/// The candidates: the chosen one, those compared with it by time, then the others by time.
[[nodiscard]] std::vector<ranked_candidate> rank_candidates(const explained_call& of);

/// The chosen variant's launches: kernel, blob, grid, block and shared memory, or what is filled.
[[nodiscard]] nlohmann::ordered_json describe_launches(const explained_call& of);

/// The chosen variant's workspace, each part rounded up as a launch rounds it.
[[nodiscard]] std::int64_t workspace_bytes(const explained_call& of);

/// Prints to standard output; `all`: candidates of other types too.
void print_explanation(const explained_call& of, bool all);
void print_explanation_as_json(const explained_call& of);

}  // namespace tool
