// SPDX-License-Identifier: MIT
#include "tables/measured.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

#include <switchyard/base/text.hpp>

namespace sy = switchyard;

namespace tool {

namespace {

/// Parts of a line.
class phrase_list {
 public:
  void add(const std::string& phrase) {
    if (!phrase.empty()) out_ += (out_.empty() ? "" : "; ") + phrase;
  }
  [[nodiscard]] const std::string& text() const noexcept { return out_; }

 private:
  std::string out_;
};

[[nodiscard]] std::string share_text(double share) {
  return sy::text::number(100 * share) + " %";
}

/// "7 to 40".
[[nodiscard]] std::string range_text(const sy::least_and_most& of) {
  const std::string most = std::to_string(of.most);
  return of.least == of.most ? most : std::to_string(of.least) + " to " + most;
}

[[nodiscard]] std::string number_of(std::int64_t count, const std::string& what) {
  if (count <= 0) return {};
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

[[nodiscard]] std::string samples_text(const sy::measurement& of) {
  std::string out = of.statistic.empty() ? std::string{} : of.statistic + "s";
  if (of.samples.known()) out += (out.empty() ? "" : " of ") + range_text(of.samples) + " samples";
  if (of.precision > 0)
    out +=
        (out.empty() ? "" : ", ") + std::string{"sampled until 95 % certain to "} + share_text(of.precision);
  return out;
}

[[nodiscard]] std::string cache_text(const sy::measurement& of) {
  std::string out = of.cache == "rotating" ? "tensors rotated past the cache"
                    : of.cache == "cold"   ? "caches flushed before each call"
                    : of.cache == "warm"   ? "tensors in the cache where they fit"
                    : of.cache.empty()     ? ""
                                           : "cache " + of.cache;
  if (of.cache_bytes > 0 && of.cache != "warm") out += ", " + std::to_string(of.cache_bytes >> 20) + " MB";
  return out;
}

[[nodiscard]] std::string launches_text(const sy::measurement& of) {
  std::string out = of.launches == "device"   ? "of the device alone"
                    : of.launches == "stream" ? "launched one by one"
                    : of.launches == "graph"  ? "launched as a graph"
                    : of.launches.empty()     ? ""
                                              : "launches " + of.launches;
  if (of.sustained > 0)
    out += (out.empty() ? "" : ", ") + ("under load of " + sy::text::number(of.sustained)) + " s each";
  return out;
}

[[nodiscard]] std::string clocks_text(const sy::measured_clocks& of) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (of.mhz.known()) add("clocks " + range_text(of.mhz) + " MHz");
  if (of.memory_mhz.known()) add("memory " + range_text(of.memory_mhz) + " MHz");
  if (of.celsius.known()) add(range_text(of.celsius) + " C");
  for (const std::string& limit : of.limited_by) add("at times limited by " + limit);
  return out;
}

[[nodiscard]] std::string checks_text(const sy::measured_checks& of) {
  std::string out;
  const auto add = [&out](std::int64_t count, const char* how) {
    if (count > 0) out += (out.empty() ? "" : ", ") + number_of(count, "problem") + how;
  };
  add(of.whole, " in full");
  add(of.rows, " by a sample of rows");
  add(of.smaller, " by a smaller one");
  add(of.unchecked, " not at all");
  if (out.empty()) return out;
  return (of.reference.empty() ? "results checked: " : "results checked against " + of.reference + ": ") +
         out;
}

[[nodiscard]] std::string merge_text(const sy::measured_merge& of) {
  if (of.tables == 0) return {};
  std::string out = "merged from " + number_of(of.tables, "table");
  if (of.repeated_rows > 0)
    out += ", " + number_of(of.repeated_rows, "row") + " measured more than once: " + of.conflict;
  return out;
}

/// Adds another table's record of the same run, some of whose rows are known already. Which problems were
/// checked is not recorded, so only the larger number of checks is certain.
void join_overlapping(sy::measurement& into, sy::measurement part, std::size_t fresh) {
  const sy::measured_checks before = into.checks;
  const std::int64_t rows = part.rows;
  part.rows = std::min(rows, static_cast<std::int64_t>(fresh));
  join(into, part);
  into.rows = std::max(into.rows, rows);  // it may have measured again what others had
  into.checks.whole = std::max(before.whole, part.checks.whole);
  into.checks.rows = std::max(before.rows, part.checks.rows);
  into.checks.smaller = std::max(before.smaller, part.checks.smaller);
  into.checks.unchecked = std::max(before.unchecked, part.checks.unchecked);
}

}  // namespace

std::string describe_measurement(const sy::measurement& of) {
  phrase_list out;
  out.add(of.date);
  out.add(number_of(of.rows, "row"));
  out.add(of.tool);
  if (of.driver > 0) out.add("driver " + std::to_string(of.driver));
  out.add(number_of(of.runs, "run"));
  out.add(samples_text(of));
  if (of.drift > 0) out.add("drift up to " + share_text(of.drift));
  out.add(cache_text(of));
  out.add(launches_text(of));
  out.add(clocks_text(of.clocks));
  out.add(checks_text(of.checks));
  out.add(merge_text(of.merged));
  out.add(of.note);
  for (const auto& [name, json] : of.others) out.add(std::string{name}.append(": ").append(json));
  return out.text();
}

bool is_same_run(const sy::measurement& a, const sy::measurement& b) {
  const auto settings = [](sy::measurement of) {
    of.rows = 0;
    of.clocks = {};
    of.merged = {};
    of.checks = {of.checks.reference, 0, 0, 0, 0};
    return of;
  };
  return settings(a) == settings(b);
}

void join(sy::measurement& into, const sy::measurement& part) {
  into.rows += part.rows;
  into.clocks.mhz.add(part.clocks.mhz);
  into.clocks.memory_mhz.add(part.clocks.memory_mhz);
  into.clocks.celsius.add(part.clocks.celsius);
  for (const std::string& limit : part.clocks.limited_by) {
    auto& limits = into.clocks.limited_by;
    if (std::find(limits.begin(), limits.end(), limit) == limits.end()) limits.push_back(limit);
  }
  into.checks.whole += part.checks.whole;
  into.checks.rows += part.checks.rows;
  into.checks.smaller += part.checks.smaller;
  into.checks.unchecked += part.checks.unchecked;
}

std::vector<sy::measurement> join_runs(
    const std::vector<std::pair<std::vector<sy::measurement>, std::set<std::string>>>& tables) {
  std::vector<sy::measurement> out;
  std::vector<std::set<std::string>> rows_of;  // of each run, while the tables' last ones are joined
  const auto find = [&out](const sy::measurement& run) {
    return std::find_if(out.begin(), out.end(), [&](const auto& known) { return is_same_run(known, run); });
  };
  for (const auto& [runs, rows] : tables) {
    if (runs.empty()) continue;
    sy::measurement last = runs.front();
    last.merged = {};
    if (last.rows == 0) last.rows = static_cast<std::int64_t>(rows.size());
    if (const auto same = find(last); same != out.end()) {
      std::set<std::string>& known = rows_of[static_cast<std::size_t>(same - out.begin())];
      const std::size_t before = known.size();
      known.insert(rows.begin(), rows.end());
      const std::size_t fresh = known.size() - before;
      if (fresh == rows.size() && fresh > 0) {
        join(*same, last);
      } else {
        join_overlapping(*same, last, fresh);
      }
    } else {
      out.push_back(std::move(last));
      rows_of.push_back(rows);
    }
  }
  // Older runs: tables that were continued from one table all state them.
  for (const auto& [runs, rows] : tables) {
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (const auto same = find(runs[i]); same != out.end()) {
        same->rows = std::max(same->rows, runs[i].rows);
      } else {
        out.push_back(runs[i]);
      }
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.date > b.date; });
  return out;
}

void finish_runs(std::vector<sy::measurement>& runs, std::size_t rows) {
  for (sy::measurement& run : runs) run.rows = std::min(run.rows, static_cast<std::int64_t>(rows));
  if (runs.size() == 1) runs.front().rows = 0;
}

}  // namespace tool
