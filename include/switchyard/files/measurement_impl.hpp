// SPDX-License-Identifier: MIT
// The bodies of measurement.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/measurement.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void least_and_most::add(const least_and_most& other) noexcept {
  if (!other.known()) return;
  least = known() ? std::min(least, other.least) : other.least;
  most = std::max(most, other.most);
}

namespace detail {

/// Members of a JSON object, of which the unknown ones are left out.
class member_list {
 public:
  void add(std::string_view name, const std::string& json) {
    out_ += (out_.empty() ? "" : ", ") + text::quote_json(name) + ": " + json;
  }
  void add_text(std::string_view name, const std::string& value) {
    if (!value.empty()) add(name, text::quote_json(value));
  }
  void add_count(std::string_view name, std::int64_t value) {
    if (value > 0) add(name, std::to_string(value));
  }
  void add_share(std::string_view name, double value) {
    if (value > 0) add(name, text::number(value));
  }
  void add_object(std::string_view name, const member_list& members) {
    if (!members.out_.empty()) add(name, "{" + members.out_ + "}");
  }
  void add_range(std::string_view name, const least_and_most& range) {
    if (!range.known()) return;
    member_list ends;
    ends.add("least", std::to_string(range.least));
    ends.add("most", std::to_string(range.most));
    add_object(name, ends);
  }
  [[nodiscard]] const std::string& text() const noexcept { return out_; }

 private:
  std::string out_;
};

[[nodiscard]] inline member_list members_of(const measured_clocks& of) {
  member_list out;
  out.add_range("mhz", of.mhz);
  out.add_range("memory_mhz", of.memory_mhz);
  out.add_range("celsius", of.celsius);
  std::string limits;
  for (const std::string& limit : of.limited_by)
    limits += (limits.empty() ? "" : ", ") + text::quote_json(limit);
  if (!limits.empty()) out.add("limited_by", "[" + limits + "]");
  return out;
}

[[nodiscard]] inline member_list members_of(const measured_checks& of) {
  member_list out;
  out.add_text("reference", of.reference);
  out.add_count("whole", of.whole);
  out.add_count("rows", of.rows);
  out.add_count("smaller", of.smaller);
  out.add_count("unchecked", of.unchecked);
  return out;
}

[[nodiscard]] inline member_list members_of(const measured_merge& of) {
  member_list out;
  out.add_count("tables", of.tables);
  out.add_count("repeated_rows", of.repeated_rows);
  out.add_text("conflict", of.conflict);
  return out;
}

}  // namespace detail

SWITCHYARD_COLD std::string format_members(const measurement& of) {
  detail::member_list out;
  out.add_text("date", of.date);
  out.add_text("tool", of.tool);
  out.add_count("driver", of.driver);
  out.add_count("rows", of.rows);
  out.add_count("runs", of.runs);
  out.add_text("statistic", of.statistic);
  out.add_range("samples", of.samples);
  out.add_share("precision", of.precision);
  out.add_share("drift", of.drift);
  detail::member_list cache;
  cache.add_text("state", of.cache);
  cache.add_count("bytes", of.cache_bytes);
  out.add_object("cache", cache);
  out.add_text("launches", of.launches);
  out.add_share("sustained", of.sustained);
  out.add_object("clocks", detail::members_of(of.clocks));
  out.add_object("checks", detail::members_of(of.checks));
  out.add_object("merged", detail::members_of(of.merged));
  out.add_text("note", of.note);
  for (const auto& [name, json] : of.others) out.add(name, json);
  return out.text();
}

}  // namespace v0
}  // namespace switchyard
