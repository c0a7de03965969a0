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
          ranked_candidate& compared = out[candidate];
          if (compared.is_compared || !compared.report.admissible) return;
          compared.is_compared = true;
          compared.microseconds = static_cast<double>(microseconds);
          compared.basis = chosen.why;
        });
  }
  const sy::selector of_tables = tables_only(rules);
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    if (out[i].is_compared || !out[i].report.admissible) continue;
    const prediction alone = predict(of_tables, i, of.values());
    out[i].microseconds = alone.microseconds;
    out[i].basis = alone.basis;
  }
  const auto rank = [](const ranked_candidate& candidate) {
    return candidate.is_chosen            ? 0
           : candidate.is_compared        ? 1
           : candidate.microseconds > 0   ? 2
           : candidate.report.admissible  ? 3
           : candidate.report.passed_over ? 4
                                          : 5;
  };
  std::stable_sort(out.begin(), out.end(), [&rank](const ranked_candidate& a, const ranked_candidate& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return rank(a) <= 2 && a.microseconds < b.microseconds;
  });
  return out;
}

}  // namespace tool
