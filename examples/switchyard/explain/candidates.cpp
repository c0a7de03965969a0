// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <vector>

#include <switchyard/choosing/group_query.hpp>

#include "explain/explained_call.hpp"
#include "tables/predictions.hpp"

namespace sy = switchyard;

namespace tool {

std::vector<ranked_candidate> rank_candidates(const explained_call& of) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  std::vector<ranked_candidate> out;
  for (std::uint32_t i = 0; i < of.why.candidates.size(); ++i)
    out.push_back({of.why.candidates[i], i == chosen.variant});
  if (chosen.group != sy::no_index && rules.groups[chosen.group].timed) {
    (void)sy::group_query{rules, rules.groups[chosen.group], of.values(), of.unusable}.choose(
        [&](std::uint32_t candidate, float microseconds) {
          ranked_candidate& each = out[candidate];
          if (each.is_compared || !each.report.admissible) return;
          each.is_compared = true;
          each.microseconds = static_cast<double>(microseconds);
          each.basis = chosen.why;
        });
  }
  const sy::selector of_tables = tables_only(rules);
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    if (out[i].is_compared || !out[i].report.admissible) continue;
    const prediction alone = predict(of_tables, i, of.values());
    out[i].microseconds = alone.microseconds;
    out[i].basis = alone.basis;
  }
  const auto rank = [](const ranked_candidate& each) {
    return each.is_chosen            ? 0
           : each.is_compared        ? 1
           : each.microseconds > 0   ? 2
           : each.report.admissible  ? 3
           : each.report.passed_over ? 4
                                     : 5;
  };
  std::stable_sort(out.begin(), out.end(), [&rank](const ranked_candidate& a, const ranked_candidate& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return rank(a) <= 2 && a.microseconds < b.microseconds;
  });
  return out;
}

}  // namespace tool
