// SPDX-License-Identifier: MIT
// --bench: measures a list of points in one process and prints a line for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>

#include "loaded_model.hpp"

namespace llm {

struct bench_options {
  std::vector<std::int64_t> prompts{512};  ///< tokens of the prompts to measure; 0: none
  std::vector<std::int64_t> sequences{1};  ///< that generate at the same time
  std::vector<std::int64_t> contexts;      ///< tokens before those generated; none: the first prompt's
  std::int64_t tokens = 256;               ///< to generate
  int runs = 3;                            ///< of each point
  std::string json;                        ///< file for a line of JSON each; empty: none
  std::vector<std::string> swap;           ///< a table, and the path it replaces; empty: not measured
};

/// What the points need: limits that load_options has not set become large enough for all of them.
void fit_limits(const bench_options& points, bool sets_context, load_options& load);

/// Throws std::invalid_argument where files of the points cannot be used. Needs no model, so that a wrong
/// name is reported before one is loaded.
void check_files(const bench_options& points);

/// Measures. Points that the model's context or cache cannot hold are printed as such and left out.
void run_bench(const switchyard::catalog& catalog, loaded_model& model, const bench_options& points);

}  // namespace llm
