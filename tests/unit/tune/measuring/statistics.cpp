// SPDX-License-Identifier: MIT
// What samples of a time say, value by value.
#include <catch.hpp>
#include <vector>

#include <switchyard/tune/measuring/statistics.hpp>

using namespace switchyard;

TEST_CASE("the spread is the distance of the extremes over the median") {
  CHECK(tune::summarise({4, 2, 8}).spread == 1.5);
  CHECK(tune::summarise({1, 2, 4, 7}).spread == 2);
  CHECK(tune::summarise({5}).spread == 0);
  CHECK(tune::summarise({0.25, 0.5, 0.75}).spread == 1);
  CHECK(tune::summarise({}).spread == 0);
  CHECK(tune::summarise({0, 0, 0}).spread == 0);
  CHECK(tune::summarise({-1, 0, 1}).spread == 0);
}

TEST_CASE("the median is the middle, or the mean of the two middles") {
  CHECK(tune::summarise({9, 1, 5}).microseconds == 5);
  CHECK(tune::summarise({9, 1, 5, 6}).microseconds == 5.5);
  CHECK(tune::summarise({9, 1, 5, 6}).samples == 4);
}

TEST_CASE("the interval is the narrowest one of 95 % that order statistics give") {
  // The k-th smallest and largest of n leave out 2 * P(at most k - 1 heads in n throws).
  struct row {
    int count;
    double low;
  };
  for (const row given : {row{1, 1}, row{2, 1}, row{5, 1}, row{6, 1}, row{8, 1}, row{9, 2}, row{11, 2},
                          row{12, 3}, row{14, 3}, row{15, 4}, row{20, 6}, row{40, 14}, row{100, 40}}) {
    std::vector<double> samples;
    for (int i = given.count; i > 0; --i) samples.push_back(i);
    const tune::timed found = tune::summarise(samples);
    INFO(given.count << " samples");
    CHECK(found.low == given.low);
    CHECK(found.high == given.count + 1 - given.low);
  }
}

TEST_CASE("the uncertainty is half the interval over the median") {
  const tune::timed nine = tune::summarise({1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(nine.uncertainty() == Approx(0.6));
  CHECK(tune::timed{0, 0, 2, 0, 3}.uncertainty() == 0);
  CHECK(tune::timed{4, 3, 5, 0, 3}.uncertainty() == 0.25);
  CHECK(tune::timed{4, 3, 5, 0, 2}.uncertainty() == 0.25);
  CHECK(tune::timed{4, 3, 5, 0, 1}.uncertainty() == 1);
  CHECK(tune::timed{0.5, 0.25, 0.75, 0, 3}.uncertainty() == 0.5);
}
