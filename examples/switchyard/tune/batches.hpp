// SPDX-License-Identifier: MIT
// A tuning run of several operators: what is measured in which order, and how the operators share the time.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/tune/measuring/shard.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "tune/problems.hpp"
#include "tune/run.hpp"

namespace tool {

/// Problems of one operator and of one worth.
struct batch {
  const known_operator* known = nullptr;
  double weight = 1;
  std::string worth;  ///< empty if nothing is replaced
  problem_list problems;
};

/// What is measured, in this order. `operators`: each with its number of calls. Throws usage_error and
/// switchyard::error.
[[nodiscard]] std::vector<batch> batches_of(
    const session& session, const tune_settings& settings,
    const std::vector<std::pair<const known_operator*, double>>& operators, tuned_devices& devices);

/// Prints what this shard would measure, in this order, and what of it the new tables have.
void print_plan(const session& session, const tune_settings& settings, const std::vector<batch>& batches,
                tuned_devices& devices, const switchyard::tune::shard& part);

/// Measures, and prints the outcome of each batch. Batches of one worth share the time that is left: half of
/// it in equal parts, half by calls; what one does not need goes to the others, and what all do not need to
/// the next worth. Returns how many rows there are. Sets the session's status if problems were left out.
std::size_t measure_batches(session& session, tune_settings settings, const std::vector<batch>& batches,
                            tuned_devices& devices, const switchyard::tune::shard& part);

}  // namespace tool
