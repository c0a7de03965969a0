// SPDX-License-Identifier: MIT
// The bodies of read_measurement.hpp.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/read_measurement.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Reads one object of `measured`.
class measurement_reader {
 public:
  [[nodiscard]] static measurement read(const nlohmann::json& from) {
    measurement_reader reader;
    for (const auto& [name, value] : from.items()) {
      if (name != "before" && !reader.take(name, value)) reader.keep(name, value);
    }
    return std::move(reader.out_);
  }

 private:
  using json = nlohmann::json;

  /// Whether this version knows a member, and its value is of the right kind.
  [[nodiscard]] bool take(std::string_view name, const json& value) {
    if (name == "date") return take_text(value, out_.date);
    if (name == "tool") return take_text(value, out_.tool);
    if (name == "statistic") return take_text(value, out_.statistic);
    if (name == "launches") return take_text(value, out_.launches);
    if (name == "sustained") return take_share(value, out_.sustained);
    if (name == "driver") return take_count(value, out_.driver);
    if (name == "rows") return take_count(value, out_.rows);
    if (name == "runs") return take_count(value, out_.runs);
    if (name == "precision") return take_share(value, out_.precision);
    if (name == "drift") return take_share(value, out_.drift);
    if (name == "samples") return take_range(value, out_.samples);
    if (name == "note" && value.is_string()) return add_note(value.get<std::string>());
    if (!value.is_object()) return false;
    if (name == "cache") {
      take_member(value, "state", [&](const json& of) { return take_text(of, out_.cache); });
      take_member(value, "bytes", [&](const json& of) { return take_count(of, out_.cache_bytes); });
    } else if (name == "clocks") {
      take_clocks(value);
    } else if (name == "checks") {
      take_member(value, "reference", [&](const json& of) { return take_text(of, out_.checks.reference); });
      take_member(value, "whole", [&](const json& of) { return take_count(of, out_.checks.whole); });
      take_member(value, "rows", [&](const json& of) { return take_count(of, out_.checks.rows); });
      take_member(value, "smaller", [&](const json& of) { return take_count(of, out_.checks.smaller); });
      take_member(value, "unchecked", [&](const json& of) { return take_count(of, out_.checks.unchecked); });
    } else if (name == "merged") {
      take_member(value, "tables", [&](const json& of) { return take_count(of, out_.merged.tables); });
      take_member(value, "repeated_rows",
                  [&](const json& of) { return take_count(of, out_.merged.repeated_rows); });
      take_member(value, "conflict", [&](const json& of) { return take_text(of, out_.merged.conflict); });
    } else {
      return false;
    }
    return true;
  }

  void keep(const std::string& name, const json& value) {
    if (value.is_string()) {
      add_note(name + ": " + value.get<std::string>());
    } else {
      out_.others.emplace_back(name, value.dump(-1, ' ', false, json::error_handler_t::replace));
    }
  }

  bool add_note(const std::string& text) {
    out_.note += (out_.note.empty() ? "" : "; ") + text;
    return true;
  }

  void take_clocks(const json& value) {
    take_member(value, "mhz", [&](const json& of) { return take_range(of, out_.clocks.mhz); });
    take_member(value, "memory_mhz", [&](const json& of) { return take_range(of, out_.clocks.memory_mhz); });
    take_member(value, "celsius", [&](const json& of) { return take_range(of, out_.clocks.celsius); });
    take_member(value, "limited_by", [&](const json& of) {
      if (!of.is_array()) return false;
      for (const json& element : of) {
        if (element.is_string()) out_.clocks.limited_by.push_back(element.get<std::string>());
      }
      return true;
    });
  }

  template <class Take>
  static void take_member(const json& object, const char* name, const Take& take) {
    if (const auto found = object.find(name); found != object.end()) static_cast<void>(take(*found));
  }

  [[nodiscard]] static bool take_text(const json& value, std::string& out) {
    if (!value.is_string()) return false;
    out = value.get<std::string>();
    return true;
  }

  /// A number, or its digits as a text.
  [[nodiscard]] static bool take_count(const json& value, std::int64_t& out) {
    if (value.is_number_integer()) {
      out = std::max<std::int64_t>(value.get<std::int64_t>(), 0);
      return true;
    }
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    const char* const end = text.data() + text.size();
    std::int64_t number = 0;
    const auto [stop, problem] = std::from_chars(text.data(), end, number);
    if (problem != std::errc{} || stop != end || number < 0) return false;
    out = number;
    return true;
  }

  [[nodiscard]] static bool take_share(const json& value, double& out) {
    if (!value.is_number()) return false;
    out = value.get<double>();
    return true;
  }

  [[nodiscard]] static bool take_range(const json& value, least_and_most& out) {
    if (!value.is_object()) return false;
    take_member(value, "least", [&](const json& of) { return take_count(of, out.least); });
    take_member(value, "most", [&](const json& of) { return take_count(of, out.most); });
    return true;
  }

  measurement out_;
};

}  // namespace detail

SWITCHYARD_COLD std::vector<measurement> read_measurements(const nlohmann::json& table) {
  std::vector<measurement> out;
  if (!table.is_object()) return out;
  const auto measured = table.find("measured");
  if (measured == table.end() || !measured->is_object()) return out;
  out.push_back(detail::measurement_reader::read(*measured));
  const auto before = measured->find("before");
  if (before == measured->end() || !before->is_array()) return out;
  for (const nlohmann::json& element : *before) {
    if (element.is_object()) out.push_back(detail::measurement_reader::read(element));
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
