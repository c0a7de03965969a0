// SPDX-License-Identifier: MIT
#include "tables/threshold.hpp"

#include <charconv>
#include <system_error>

#include <CLI/CLI.hpp>

namespace tool {

void add_threshold(CLI::App& command, std::string& text, const std::string& description) {
  command.add_option("--threshold", text, description + ": 5% or 0.05")->capture_default_str();
}

double require_threshold(const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string unit{stop, end};
  const bool percent = unit == "%";
  if (problem != std::errc{} || (!unit.empty() && !percent) || !(value >= 0) || (!percent && value >= 1)) {
    throw usage_error{"--threshold: expected a share such as 5% or 0.05, got '" + text + "'"};
  }
  return percent ? value / 100 : value;
}

}  // namespace tool
