// SPDX-License-Identifier: MIT
// How times are taken, as a command line says it.
#pragma once

#include <cstddef>
#include <string>

#include <switchyard/files/measurement.hpp>

#include "command.hpp"

namespace tool {

/// The fewest runs of a variant that is judged: each prior content of the results twice.
inline constexpr std::size_t least_judged_runs = 6;

/// How times are taken.
struct measure_settings {
  std::string devices;
  std::string cache = "rotating";
  std::string launches = "device";
  double sustained_seconds = 0;  ///< of each turn; 0: short turns
  double confidence = 0.01;
  std::size_t samples = 40;
  double drift = 0.03;
  double limit_seconds = 30;
  std::string checks = "every";
  /// Runs of a variant that is judged: so many that a fault in one of 100 shows with 95 %, where time allows.
  std::size_t judged_runs = 300;
};

/// The same as a command line says it.
struct measure_arguments {
  std::string confidence = "1%";
  std::string drift = "3%";
  std::string limit = "30s";
  std::string sustained;
};

/// The options that say how times are taken.
void add_measure_options(CLI::App& command, measure_settings& settings, measure_arguments& arguments);

/// Takes over what the options say. Throws usage_error.
void read_measure_options(measure_settings& settings, const measure_arguments& arguments);

/// "90", "90s", "10m", "1.5h" in seconds. Throws usage_error.
[[nodiscard]] double require_duration(const std::string& option, const std::string& text);

/// The fewest and most samples of a variant among the fastest.
[[nodiscard]] switchyard::least_and_most sample_counts(const measure_settings& settings,
                                                       const std::string& backend);

}  // namespace tool
