// How rows of a tuning table were measured, as data: `measured` in the file. Tools read, compare and show it.
// Choosing reads the dates alone: read_measured_date.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/text.hpp>

namespace switchyard {
inline namespace v0 {

/// The smallest and the largest value of something; both are 0 if nothing is known.
struct least_and_most {
  std::int64_t least = 0;
  std::int64_t most = 0;

  [[nodiscard]] bool known() const noexcept { return most > 0; }
  void add(const least_and_most& other) noexcept {
    if (!other.known()) return;
    least = known() ? std::min(least, other.least) : other.least;
    most = std::max(most, other.most);
  }
  friend bool operator==(const least_and_most&, const least_and_most&) = default;
};

/// The device's clocks and temperature while it was measured. "power" or "temperature" limited them at times.
struct measured_clocks {
  least_and_most mhz;
  least_and_most memory_mhz;
  least_and_most celsius;
  std::vector<std::string> limited_by;

  friend bool operator==(const measured_clocks&, const measured_clocks&) = default;
};

/// Numbers of problems by what of their results was compared with the reference.
struct measured_checks {
  std::string reference;     ///< the type that it computes in: "f64"
  std::int64_t whole = 0;    ///< every value
  std::int64_t rows = 0;     ///< a sample of rows
  std::int64_t smaller = 0;  ///< those of a smaller problem of the same type

  friend bool operator==(const measured_checks&, const measured_checks&) = default;
};

/// That a table was merged from others.
struct measured_merge {
  std::int64_t tables = 0;
  std::int64_t repeated_rows = 0;  ///< that several of them had
  std::string conflict;            ///< what became of these: "median" or "newest"

  friend bool operator==(const measured_merge&, const measured_merge&) = default;
};

/// One tuning run. What is not known is 0 or empty, and is not written.
struct measurement {
  std::string date;         ///< "2026-11-22"
  std::string tool;         ///< "switchyard 0.1.0"
  std::int64_t driver = 0;  ///< the driver's version, as its API gives it
  std::int64_t rows = 0;    ///< how many rows it measured; 0: all
  std::int64_t runs = 0;    ///< how often everything was measured
  std::string statistic;    ///< what a time is of its samples: "median"
  least_and_most samples;   ///< of one time
  double precision = 0;     ///< sampling ended when half the 95 % interval was this share of the time
  double drift = 0;         ///< a problem was measured again when the device changed by more than this share
  std::string cache;        ///< "rotating", "cold" or "warm", as `tune --cache`
  std::int64_t cache_bytes = 0;  ///< that the tensors rotated over, or that were written to flush the caches
  measured_clocks clocks;
  measured_checks checks;
  measured_merge merged;
  std::string note;  ///< for people
  /// Members that this version does not know, each with its JSON text.
  std::vector<std::pair<std::string, std::string>> others;

  friend bool operator==(const measurement&, const measurement&) = default;
};

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
  for (const std::string& each : of.limited_by)
    limits += (limits.empty() ? "" : ", ") + text::quote_json(each);
  if (!limits.empty()) out.add("limited_by", "[" + limits + "]");
  return out;
}

[[nodiscard]] inline member_list members_of(const measured_checks& of) {
  member_list out;
  out.add_text("reference", of.reference);
  out.add_count("whole", of.whole);
  out.add_count("rows", of.rows);
  out.add_count("smaller", of.smaller);
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

/// The members of a measurement's JSON object, without braces.
[[nodiscard]] inline std::string format_members(const measurement& of) {
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
  out.add_object("clocks", detail::members_of(of.clocks));
  out.add_object("checks", detail::members_of(of.checks));
  out.add_object("merged", detail::members_of(of.merged));
  out.add_text("note", of.note);
  for (const auto& [name, json] : of.others) out.add(name, json);
  return out.text();
}

}  // namespace v0
}  // namespace switchyard
