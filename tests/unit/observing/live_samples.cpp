// SPDX-License-Identifier: MIT
#include <catch.hpp>

#include <switchyard/observing/canary_trial.hpp>
#include <switchyard/observing/live_samples.hpp>

using namespace switchyard;

TEST_CASE("samples have count, least, last, and the median of the latest 32") {
  live_samples samples;
  CHECK(samples.read().count == 0);
  CHECK(samples.read().median_us == 0);
  samples.add(5);
  CHECK(samples.read().median_us == 5);
  CHECK(samples.read().uncertainty == 0);
  samples.add(7);
  CHECK(samples.read().median_us == 6);
  for (int i = 0; i < 100; ++i) samples.add(10 + i % 2);
  const live_time found = samples.read();
  CHECK(found.count == 102);
  CHECK(found.least_us == 5);
  CHECK(found.last_us == 11);
  CHECK(found.median_us == 10.5);
  CHECK(found.uncertainty > 0);
  CHECK(found.uncertainty < 0.1);
}

TEST_CASE("a trial adds up an operator's comparisons, and older ones fade") {
  canary_trial trial;
  CHECK(trial.add("a", 12, 10, 4).comparisons == 1);
  CHECK(trial.add("b", 10, 10, 4).regret == 0);
  const canary_trial::verdict second = trial.add("a", 8, 10, 4);
  CHECK(second.comparisons == 2);
  CHECK(second.regret == 0);  // 20 and 20
  double last = 0;
  for (int i = 0; i < 100; ++i) last = trial.add("a", 15, 10, 4).regret;
  CHECK(last > 0.49);
  trial.begin_again();
  CHECK(trial.add("a", 10, 10, 4).comparisons == 1);
}
