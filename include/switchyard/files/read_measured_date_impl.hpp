// SPDX-License-Identifier: MIT
// The bodies of read_measured_date.hpp.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_measured_date.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD bool is_date(std::string_view text) noexcept {
  constexpr std::string_view shape = "0000-00-00";
  if (text.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool fits = shape[i] == '-' ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
    if (!fits) return false;
  }
  const auto number = [text](std::size_t begin, std::size_t count) {
    int out = 0;
    for (const char digit : text.substr(begin, count)) out = out * 10 + (digit - '0');
    return out;
  };
  return std::chrono::year_month_day{std::chrono::year{number(0, 4)},
                                     std::chrono::month{static_cast<unsigned>(number(5, 2))},
                                     std::chrono::day{static_cast<unsigned>(number(8, 2))}}
      .ok();
}

SWITCHYARD_COLD std::string day_of(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

namespace detail {

/// Takes over the date of a run where it is newer than `newest`.
inline void add_run_date(const json_place& run, std::string& newest, warnings& warned) {
  if (!run.has("date")) return;
  const auto date = run.at("date");
  try {
    if (!is_date(date.string()))
      date.fail("expected a day as in \"2026-11-22\", got \"" + date.string() + "\"; it is ignored");
    if (newest < date.string()) newest = date.string();
  } catch (const file_error& problem) {
    warned.add(problem.what());
  }
}

}  // namespace detail

SWITCHYARD_COLD std::string read_measured_date(const json_place& table, warnings& warned) {
  std::string out;
  if (!table.has("measured")) return out;
  const auto measured = table.at("measured");
  detail::add_run_date(measured, out, warned);
  if (!measured.has("before")) return out;
  const auto before = measured.at("before");
  if (!before.value().is_array()) return out;
  for (std::size_t i = 0; i < before.array_size(); ++i) {
    const auto run = before.at(i);
    detail::add_run_date(run, out, warned);
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
