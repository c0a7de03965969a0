// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>

#include "bench/result.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

[[nodiscard]] std::string interval_text(const time_ratio& of) {
  char text[64];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  std::snprintf(text, sizeof text, "%.3f (%.3f to %.3f)", of.value, of.low, of.high);
  return text;
}

[[nodiscard]] ordered_json json_of(const time_ratio& of) {
  return {{"value", of.value}, {"low", of.low}, {"high", of.high}};
}

[[nodiscard]] ordered_json json_of(const bench_result& result) {
  ordered_json out{{"outcome", bench_outcome_names[static_cast<std::size_t>(result.kind)]},
                   {"shape", result.text},
                   {"between", result.between}};
  if (!result.why.empty()) out["why"] = result.why;
  if (!result.chosen.empty()) {
    out["chosen"] = result.chosen;
    out["reason"] = to_string(result.reason);
  }
  if (result.has_ratio()) {
    out["chosen_us"] = result.chosen_time.microseconds;
    out["best"] = result.best;
    out["best_us"] = result.best_time.microseconds;
    out["ratio"] = json_of(result.behind);
    out["unsteady"] = result.unsteady;
    out["variants_measured"] = result.measured;
    out["variants_serving"] = result.serving;
    if (result.settled) out["tune_would_choose"] = *result.settled;
  }
  if (result.drift) {
    out["recorded_us"] = result.recorded;
    out["drift"] = json_of(*result.drift);
    out["drifted"] = result.drifted;
    out["holds"] = result.holds;
  }
  if (!result.failures.empty()) out["failures"] = result.failures;
  return out;
}

}  // namespace

std::string line_of(const bench_result& result) {
  std::string out = std::string{bench_outcome_names[static_cast<std::size_t>(result.kind)]} + "  " +
                    result.text + (result.between ? " (between rows)" : "") + ": ";
  if (!result.has_ratio()) return out + result.why;
  out += result.chosen + " " + sy::text::number(result.chosen_time.microseconds) + " us";
  if (result.best == result.chosen) {
    out += " wins, " + std::to_string(result.measured) + " of " + std::to_string(result.serving) +
           " variants measured";
  } else {
    out += ", best " + result.best + " " + sy::text::number(result.best_time.microseconds) + " us, ratio " +
           interval_text(result.behind);
  }
  if (result.drift) {
    out += "; recorded " + sy::text::number(result.recorded) + " us " +
           (result.holds ? std::string{"holds"}
                         : (result.drifted ? "no longer holds, ratio " : "may no longer hold, ratio ") +
                               interval_text(*result.drift));
  }
  if (result.unsteady) out += "; unsteady";
  return out;
}

void print_results(const table_file& table, double threshold, const std::vector<bench_result>& results) {
  for (const bench_result& result : results) std::printf("%s\n", line_of(result).c_str());
  const bench_summary found = summarise(results);
  std::printf(
      "%s on %s: of %zu shapes, %zu are within %.4g %% of the best, %zu unclear, %zu behind, %zu failed, %zu "
      "left "
      "out\n",
      table.content.operator_name.c_str(), table.content.device.name.c_str(), results.size(),
      found.of(bench_outcome::within), (threshold - 1) * 100, found.of(bench_outcome::unclear),
      found.of(bench_outcome::behind), found.of(bench_outcome::failed), found.of(bench_outcome::left_out));
  if (found.compared == 0) return;
  std::printf("chosen over best: %.4f in the geometric mean, %.4f at the 99th percentile\n", found.mean,
              found.p99);
  if (found.worst != nullptr) {
    std::printf("worst: %s: %s behind %s, ratio %s\n", found.worst->text.c_str(), found.worst->chosen.c_str(),
                found.worst->best.c_str(), interval_text(found.worst->behind).c_str());
  }
  std::printf(
      "flips: another variant is faster at %zu, beyond the uncertainty at %zu; `tune` would put "
      "another first at %zu\n",
      found.flips, found.clear_flips, found.settled_flips);
  std::printf("recorded times: %zu of %zu no longer hold; unsteady shapes: %zu\n", found.drifted,
              found.with_record, found.unsteady);
}

void print_results_as_json(const table_file& table, double threshold,
                           const std::vector<bench_result>& results, int status) {
  const bench_summary found = summarise(results);
  ordered_json document{{"table", table.content.path},
                        {"operator", table.content.operator_name},
                        {"device", table.content.device.name},
                        {"threshold", threshold - 1},
                        {"status", status},
                        {"within", found.of(bench_outcome::within)},
                        {"unclear", found.of(bench_outcome::unclear)},
                        {"behind", found.of(bench_outcome::behind)},
                        {"failed", found.of(bench_outcome::failed)},
                        {"left_out", found.of(bench_outcome::left_out)}};
  if (found.compared > 0) {
    document["geometric_mean"] = found.mean;
    document["p99"] = found.p99;
    if (found.worst != nullptr) document["worst"] = found.worst->text;
    document["flips"] = {{"faster", found.flips},
                         {"beyond_uncertainty", found.clear_flips},
                         {"tune_would_choose", found.settled_flips}};
    document["drifted"] = found.drifted;
    document["unsteady"] = found.unsteady;
  }
  document["shapes"] = ordered_json::array();
  for (const bench_result& result : results) document["shapes"].push_back(json_of(result));
  std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace tool
