// SPDX-License-Identifier: MIT
#include "tune/measure_options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tune/measuring/statistics.hpp>

namespace sy = switchyard;

namespace tool {

namespace {

/// "1%" or "0.01" as a share. Throws usage_error.
[[nodiscard]] double require_share(const std::string& option, const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string unit{stop, end};
  if (unit == "%") value /= 100;
  if (problem != std::errc{} || (!unit.empty() && unit != "%") || !(value > 0 && value < 1)) {
    throw usage_error{option + ": expected a share such as 1% or 0.01, got '" + text + "'"};
  }
  return value;
}

}  // namespace

double require_duration(const std::string& option, const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string unit{stop, end};
  const double factor = unit.empty() || unit == "s"    ? 1
                        : unit == "m" || unit == "min" ? 60
                        : unit == "h"                  ? 3600
                                                       : 0;
  constexpr double most = 1e8;  // seconds: three years
  if (problem != std::errc{} || factor == 0 || !(value > 0 && value * factor <= most)) {
    throw usage_error{option + ": expected a time such as 90s, 10m or 2h, got '" + text + "'"};
  }
  return value * factor;
}

void add_measure_options(CLI::App& command, measure_settings& settings, measure_arguments& arguments) {
  command.add_option(
      "--devices", settings.devices,
      "all, host, or numbers such as 0,1: problems are distributed over them. Default: the first");
  command.add_option("--limit", arguments.limit, "Give up a variant that does not answer within this time")
      ->capture_default_str();
  command
      .add_option("--confidence", arguments.confidence,
                  "Sample until the median's 95 % confidence interval is within this share of it")
      ->capture_default_str();
  command.add_option("--samples", settings.samples, "Maximum number of samples of a variant")
      ->capture_default_str()
      ->check(CLI::Range(6, 1000));
  command
      .add_option(
          "--judged-runs", settings.judged_runs,
          "Compare this many results of a variant that was among the fastest, for at most 0.5 s. 300 find a "
          "fault in 1 of 100 runs with a probability of 95 %")
      ->capture_default_str()
      ->check(CLI::Range(least_judged_runs, std::size_t{100'000}));
  command
      .add_option("--drift", arguments.drift,
                  "Measure a problem again if its first variant's time changed by more than this meanwhile")
      ->capture_default_str();
  command
      .add_option(
          "--cache", settings.cache,
          "rotating: calls alternate between copies of the tensors that exceed the cache; cold: the cache is "
          "flushed before each call; warm: one copy")
      ->capture_default_str()
      ->check(CLI::IsMember({"rotating", "cold", "warm"}));
  command
      .add_option(
          "--launches", settings.launches,
          "device: calls are queued first, so that launching does not count, and short ones are replayed as "
          "a graph; stream: launched one by one, as by a program; graph: always replayed as a graph")
      ->capture_default_str()
      ->check(CLI::IsMember({"device", "stream", "graph"}));
  command.add_option(
      "--sustained", arguments.sustained,
      "Keep the device busy with each variant for this time (2s) before and while it is timed: a "
      "power limit then lowers the clocks as it does under load");
  command
      .add_option(
          "--checks", settings.checks,
          "every: compare each variant's results at every problem; first: at the first problem of each "
          "type that it serves; never: kernels that were checked elsewhere")
      ->capture_default_str()
      ->check(CLI::IsMember({"every", "first", "never"}));
}

void read_measure_options(measure_settings& settings, const measure_arguments& arguments) {
  settings.confidence = require_share("--confidence", arguments.confidence);
  settings.drift = require_share("--drift", arguments.drift);
  settings.limit_seconds = require_duration("--limit", arguments.limit);
  if (!arguments.sustained.empty())
    settings.sustained_seconds = require_duration("--sustained", arguments.sustained);
}

sy::least_and_most sample_counts(const measure_settings& settings, const std::string& backend) {
  const std::int64_t least = backend == "host" ? static_cast<std::int64_t>(sy::tune::least_samples) : 3;
  return {least, std::max(static_cast<std::int64_t>(settings.samples), least)};
}

}  // namespace tool
