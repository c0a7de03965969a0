// Which problems of a range are tried when it is prepared. What they load is tested in tests/dispatch.
#include <algorithm>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/launching/prepare_ranges.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

namespace ranges_to_prepare {

using detail::read_ranges;
using detail::sample_range;
using values = std::vector<std::int64_t>;

detail::prepared_ranges read(const std::vector<axis_span>& ranges, std::int64_t columns = 64) {
  static const sample::scale::arguments call{};  // one object: its padding is compared, too
  return read_ranges(sample::description(), sample::problem({{"columns", columns}}), &call, ranges);
}

std::string refusal(const axis_span& range) {
  try {
    (void)read({range});
  } catch (const call_error& problem) {
    CHECK(problem.code() == error_code::invalid_argument);
    return problem.what();
  }
  return {};
}

}  // namespace ranges_to_prepare

TEST_CASE("a short range is tried whole") {
  using namespace ranges_to_prepare;
  CHECK(sample_range(3, 7, 5) == values{3, 4, 5, 6, 7});
  CHECK(sample_range(3, 7, 100) == values{3, 4, 5, 6, 7});
  CHECK(sample_range(0, 1, 2) == values{0, 1});
  CHECK(sample_range(9, 9, 1) == values{9});
}

TEST_CASE("of a long range values are tried that lie equally far apart in ratio, and its ends") {
  using namespace ranges_to_prepare;
  CHECK(sample_range(1, 1024, 11) == values{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
  CHECK(sample_range(1, 1024, 6) == values{1, 4, 16, 64, 256, 1024});
  CHECK(sample_range(0, 256, 3) == values{0, 16, 256});  // 0 counts as 1
  CHECK(sample_range(16, 64, 2) == values{16, 64});
  CHECK(sample_range(3, 8, 5) == values{3, 4, 5, 6, 8});  // one short of all
  // Where neighbours round to one value it is tried once.
  const values dense = sample_range(1, 100, 90);
  CHECK(dense.front() == 1);
  CHECK(dense.back() == 100);
  CHECK(dense.size() < 90);
  CHECK(std::adjacent_find(dense.begin(), dense.end(), std::greater_equal<>{}) == dense.end());
}

TEST_CASE("up to 65,536 problems of all ranges together are tried, each one") {
  using namespace ranges_to_prepare;
  const auto all = read({{"rows", 0, 255}, {"columns", 1, 256}});
  CHECK(all.is_exhaustive);
  REQUIRE(all.axes.size() == 2);
  CHECK(all.axes[0].axis == 5);
  CHECK(all.axes[1].axis == 6);
  CHECK(all.axes[0].values.size() == 256);
  CHECK(all.axes[1].values.size() == 256);
  CHECK(all.axes[1].values.front() == 1);
  CHECK(all.axes[1].values.back() == 256);

  const auto some = read({{"rows", 0, 256}, {"columns", 1, 256}});
  CHECK_FALSE(some.is_exhaustive);
  for (const detail::swept_axis& each : some.axes) {
    CHECK(each.values.size() <= 256);  // 65,536 together
    CHECK(each.values.size() > 100);
  }
  CHECK(some.axes[0].values.front() == 0);
  CHECK(some.axes[0].values.back() == 256);

  CHECK(read({{"rows", 1, 65536}}).is_exhaustive);
  CHECK(read({{"rows", 1, 1000}, {"columns", 1, 10}}).axes[0].values.size() == 1000);
  const auto one = read({{"rows", 1, 65537}});
  CHECK_FALSE(one.is_exhaustive);
  CHECK(one.axes[0].values.size() > 15'000);
  CHECK(one.axes[0].values.back() == 65537);
  CHECK(read({}).is_exhaustive);
}

TEST_CASE("however many axes are swept, both ends of each are tried") {
  using namespace ranges_to_prepare;
  std::vector<axis_span> many;
  for (int i = 0; i < 20; ++i) many.push_back({i % 2 == 0 ? "rows" : "columns", 1, 1000});
  const auto ranges = read(many);
  for (const detail::swept_axis& each : ranges.axes) CHECK(each.values == values{1, 1000});
}

TEST_CASE("a range that is none is refused by its axis and its ends") {
  using namespace ranges_to_prepare;
  CHECK_THAT(refusal({"row", 1, 2}),
             has_text("scale: prepare: 'row' from 1 to 2: the operator has no such axis"));
  CHECK_THAT(refusal({"rows", -1, 2}), has_text("'rows' from -1 to 2 is not a valid range of sizes"));
  CHECK_THAT(refusal({"rows", 3, 2}), has_text("'rows' from 3 to 2 is not a valid range of sizes"));
  CHECK_THAT(refusal({"rows", 0, 0}), no_text());
  CHECK_THAT(refusal({"rows", 2, 2}), no_text());
}

TEST_CASE("ranges are the same where problem, arguments, axes and values are") {
  using namespace ranges_to_prepare;
  const auto first = read({{"rows", 1, 9}});
  CHECK(first == read({{"rows", 1, 9}}));
  CHECK_FALSE(first == read({{"rows", 1, 9}}, 65));
  CHECK_FALSE(first == read({{"rows", 2, 9}}));
  CHECK_FALSE(first == read({{"columns", 1, 9}}));
  CHECK_FALSE(first == read({{"rows", 1, 9}, {"columns", 1, 9}}));
  auto other = first;
  other.arguments[8] = static_cast<std::byte>(~std::to_integer<unsigned>(other.arguments[8]));
  CHECK_FALSE(first == other);
}

TEST_CASE("a measured problem lies within ranges up to their ends, and elsewhere where it is the same") {
  using namespace ranges_to_prepare;
  const auto ranges = read({{"rows", 10, 20}});
  const auto within = [&](std::int64_t rows, std::int64_t columns, std::int64_t width = 0) {
    return detail::lies_within(ranges,
                               sample::problem({{"rows", rows}, {"columns", columns}, {"width", width}}));
  };
  CHECK(within(10, 64));
  CHECK(within(15, 64));
  CHECK(within(20, 64));
  CHECK_FALSE(within(9, 64));
  CHECK_FALSE(within(21, 64));
  CHECK_FALSE(within(15, 63));
  CHECK_FALSE(within(15, 65));
  CHECK_FALSE(within(15, 64, 1));
  CHECK_FALSE(detail::lies_within(ranges, sample::problem({{"dtype", 1}, {"rows", 15}, {"columns", 64}})));
}
