// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <switchyard/tune/tables/ties.hpp>

#include "bench/result.hpp"

namespace sy = switchyard;

namespace tool {

void settle(const table_file& of, std::vector<bench_result>& results) {
  sy::table tuned;
  tuned.operator_name = of.content.operator_name;
  tuned.match = of.content.match;
  for (const bench_result& result : results) {
    if (!result.has_ratio()) continue;
    const double off = std::max(result.chosen_time.uncertainty(), result.best_time.uncertainty());
    sy::tune::put_row(tuned, of.op(), result.full, result.type, result.times, off, result.times.size());
  }
  sy::tune::settle_ties(tuned);
  for (bench_result& result : results) {
    if (!result.has_ratio()) continue;
    const sy::row_group* const group = sy::tune::find_group(tuned, of.op(), result.type);
    const std::size_t row = sy::tune::find_row(*group, result.full);
    const std::string& first = group->ids[group->row_times(row).front().variant];
    if (first != result.chosen) result.settled = first;
  }
}

bench_summary summarise(const std::vector<bench_result>& results) {
  bench_summary out;
  std::vector<double> ratios;
  double logarithms = 0;
  for (const bench_result& result : results) {
    ++out.count[static_cast<std::size_t>(result.kind)];
    if (result.kind == bench_outcome::left_out && !result.between) ++out.rows_left_out;
    if (!result.has_ratio()) continue;
    ratios.push_back(result.behind.value);
    logarithms += std::log(result.behind.value);
    if (result.behind.value > (out.worst == nullptr ? 1 : out.worst->behind.value)) out.worst = &result;
    out.flips += result.best != result.chosen ? 1U : 0U;
    out.clear_flips += result.behind.low > 1 ? 1U : 0U;
    out.settled_flips += result.settled ? 1U : 0U;
    out.with_record += result.drift ? 1U : 0U;
    out.drifted += result.drifted ? 1U : 0U;
    out.unsteady += result.unsteady ? 1U : 0U;
  }
  out.compared = ratios.size();
  if (ratios.empty()) return out;
  std::sort(ratios.begin(), ratios.end());
  out.mean = std::exp(logarithms / static_cast<double>(ratios.size()));
  out.p99 = ratios[(99 * ratios.size() + 99) / 100 - 1];  // the nearest rank
  return out;
}

}  // namespace tool
