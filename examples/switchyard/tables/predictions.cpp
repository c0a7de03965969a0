// SPDX-License-Identifier: MIT
#include "tables/predictions.hpp"

#include <atomic>
#include <vector>

namespace sy = switchyard;

namespace tool {

sy::selector tables_only(const sy::selector& rules) {
  sy::selector out = rules;
  out.is_forced = false;
  out.pins.clear();
  return out;
}

prediction predict(const sy::selector& of_tables, std::uint32_t candidate, sy::problem_view problem) {
  std::vector<std::atomic<bool>> unusable(of_tables.candidates.size());
  for (auto& flag : unusable) flag.store(true, std::memory_order_relaxed);
  unusable[candidate].store(false, std::memory_order_relaxed);
  const sy::choice alone = of_tables.select(problem, unusable);
  return {static_cast<double>(alone.microseconds), alone.why};
}

}  // namespace tool
