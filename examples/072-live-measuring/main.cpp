// SPDX-License-Identifier: MIT
// Live measuring: a share of the calls is timed by events, nobody waits for the device; in idle time a
// runner-up runs beside the winner, into memory of its own. What is seen becomes a table to merge.
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  sy::catalog_options options;
  options.live.one_in = 16;  // sy::live_options::usual_share, 1024, in production
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<sy::operators::softmax> softmax{catalog, sy::device::host()};
  std::vector<float> memory(64 * 256, 1.0F);
  std::vector<float> result(memory.size());
  const auto call =
      sy::operators::softmax::call({std::span{memory}, {64, 256}}, {std::span{result}, {64, 256}});
  for (int i = 0; i < 1 + 160; ++i) softmax({}, call);  // the first one is planned, and not timed

  catalog.poll_live();  // as watch() does at each look
  for (const sy::live_problem& problem : catalog.live().problems) {
    for (const sy::live_variant& one : problem.variants)
      std::printf("%llu calls timed\n", static_cast<unsigned long long>(one.calls.count));
  }

  // Idle now, and the call's tensors are still there: compare.
  const sy::live_comparison found = compare_live(softmax, {}, call);
  std::printf("agree: %s\n", found.outcome == sy::comparison_outcome::compared ? "yes" : found.text.c_str());
  std::printf("%zu table to merge\n", catalog.write_live_tables("live").size());
}
