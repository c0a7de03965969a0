// SPDX-License-Identifier: MIT
// Which problems of a range are tried when it is prepared. What they load is tested in tests/dispatch.
#include <algorithm>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/serving/kept_ranges.hpp>
#include <switchyard/serving/prepare_ranges.hpp>

#include "../sample_operator.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace ranges_to_prepare {

using detail::kept_ranges;
using detail::read_ranges;
using detail::sample_axes;
using detail::sample_range;
using values = std::vector<std::int64_t>;

detail::prepared_ranges read(const std::vector<axis_span>& ranges, std::int64_t columns = 64) {
  const sample::scale::arguments call{};
  return read_ranges(sample::description(), sample::problem({{"columns", columns}}), &call, ranges);
}

/// How many values of each axis that runs are tried.
std::vector<std::size_t> counts(const detail::prepared_ranges& of, std::size_t most) {
  std::vector<std::size_t> out;
  for (const detail::swept_axis& axis : sample_axes(of, most)) {
    CHECK(axis.values.back() == of.last[axis.axis]);
    if (axis.values.size() > 1) CHECK(axis.values.front() == of.first[axis.axis]);
    out.push_back(axis.values.size());
  }
  return out;
}

std::size_t product(const std::vector<std::size_t>& of) {
  std::size_t out = 1;
  for (const std::size_t count : of) out *= count;
  return out;
}

/// What a dispatcher keeps of ranges that are prepared one after the other.
kept_ranges keep(const std::vector<std::vector<axis_span>>& ranges) {
  kept_ranges out;
  for (const auto& range : ranges)
    out.add(sample::description(), std::make_shared<const detail::prepared_ranges>(read(range)));
  return out;
}

std::string refusal(const axis_span& range) {
  return switchyard::test::refusal_by<call_error>(error_code::invalid_argument,
                                                  [&] { return read({range}); });
}

TEST_CASE("a short range is tried whole") {
  CHECK(sample_range(3, 7, 5) == values{3, 4, 5, 6, 7});
  CHECK(sample_range(3, 7, 100) == values{3, 4, 5, 6, 7});
  CHECK(sample_range(0, 1, 2) == values{0, 1});
  CHECK(sample_range(9, 9, 1) == values{9});
}

TEST_CASE("of a long range values are tried that lie equally far apart in ratio, and its ends") {
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

TEST_CASE("up to as many problems of all axes together as may be are tried, each one") {
  using sizes = std::vector<std::size_t>;
  const auto all = read({{"rows", 0, 255}, {"columns", 1, 256}});
  CHECK(all.problems() == 65536);
  CHECK(counts(all, 65536) == sizes{256, 256});
  CHECK(product(counts(all, 65535)) < 65536);
  CHECK(counts(read({{"rows", 1, 1000}, {"columns", 1, 10}}), 65536) == sizes{1000, 10});
  CHECK(counts(read({{"rows", 1, 65536}}), 65536) == sizes{65536});
  CHECK(counts(read({}), 65536).empty());
  CHECK(counts(read({{"rows", 5, 5}}), 1).empty());

  const auto some = read({{"rows", 0, 256}, {"columns", 1, 256}});
  for (const std::size_t count : counts(some, 65536)) {
    CHECK(count <= 256);  // 65,536 together
    CHECK(count > 100);
  }
  const auto one = counts(read({{"rows", 1, 65537}}), 65536);
  CHECK(one.at(0) > 15'000);
  // What a short axis leaves over is for the long one, wherever it stands.
  for (const char* const longer : {"rows", "columns"}) {
    const auto uneven = read({{"rows", 1, 4}, {"columns", 1, 4}, {longer, 1, 1 << 30}});
    CHECK(product(counts(uneven, 65536)) > 40'000);
    CHECK(product(counts(uneven, 65536)) <= 65536);
  }
}

TEST_CASE("however many axes are swept, their problems stay within the bound") {
  detail::prepared_ranges many;
  for (const std::size_t axes : {1U, 2U, 3U, 10U, 16U, 17U, 32U}) {
    many.first.assign(axes, 1);
    for (const std::int64_t last : {2, 3, 1000, 1 << 30}) {
      many.last.assign(axes, last);
      for (const std::size_t most : {1U, 2U, 1000U, 65536U}) {
        INFO(axes << " axes to " << last << ", at most " << most);
        const auto got = counts(many, most);
        CHECK(product(got) <= most);
        if (std::size_t{1} << axes <= most) {  // both ends of each
          CHECK(std::all_of(got.begin(), got.end(), [](std::size_t count) { return count >= 2; }));
        }
      }
    }
  }
}

TEST_CASE("ranges that repeat or lie in others are kept once, and what is tried again is bounded") {
  std::vector<std::vector<axis_span>> same(2000, {{"rows", 1, 60000}});
  CHECK(keep(same).all().size() == 1);
  CHECK(keep(same).changes() == 1);

  std::vector<std::vector<axis_span>> growing;
  for (std::int64_t i = 1; i <= 2000; ++i) growing.push_back({{"rows", 1, i}});
  CHECK(keep(growing).all().size() == 1);
  CHECK(keep(growing).all().at(0)->last == read({{"rows", 1, 2000}}).last);
  CHECK(keep({growing.rbegin(), growing.rend()}).changes() == 1);

  // Of a range that is tried in part, what lies in it is not given up.
  CHECK(keep({{{"rows", 1, 300}}, {{"rows", 1, 1 << 20}}}).all().size() == 2);
  CHECK(keep({{{"rows", 1, 1 << 20}}, {{"rows", 1, 1 << 20}}}).all().size() == 1);

  for (const std::int64_t width : {1, 100, 60'000, 1 << 30}) {
    std::vector<std::vector<axis_span>> apart;
    for (std::int64_t i = 0; i < 2000; ++i)
      apart.push_back({{"rows", i * (width + 1), i * (width + 1) + width}});
    const kept_ranges kept = keep(apart);
    CHECK(kept.all().size() == 256);
    const std::size_t share = kept_ranges::share_of_each(kept.all());
    std::size_t tried = 0;
    for (const auto& range : kept.all()) tried += product(counts(*range, share));
    INFO("ranges of " << width);
    CHECK(tried <= kept_ranges::max_problems);
    CHECK(share >= 1024);
  }
  // A few are tried as they were the first time.
  CHECK(kept_ranges::share_of_each(keep({{{"rows", 1, 1 << 30}}, {{"columns", 1, 1 << 30}}}).all()) == 65536);
}

TEST_CASE("a range that is none is refused by its axis and its ends") {
  CHECK_THAT(refusal({"row", 1, 2}),
             has_text("scale: prepare: 'row' from 1 to 2: the operator has no such axis"));
  CHECK_THAT(refusal({"rows", -1, 2}), has_text("'rows' from -1 to 2 is not a valid range of sizes"));
  CHECK_THAT(refusal({"rows", 3, 2}), has_text("'rows' from 3 to 2 is not a valid range of sizes"));
  CHECK_THAT(refusal({"rows", 0, 0}), no_text());
  CHECK_THAT(refusal({"rows", 2, 2}), no_text());
}

TEST_CASE("ranges cover others where problem, arguments and values allow it") {
  const auto& op = sample::description();
  const auto covers = [&](const detail::prepared_ranges& a, const detail::prepared_ranges& b) {
    return detail::covers(op, a, b);
  };
  const auto nine = read({{"rows", 1, 9}});
  CHECK(covers(nine, read({{"rows", 1, 9}})));
  CHECK(covers(nine, read({{"rows", 2, 8}})));
  CHECK_FALSE(covers(read({{"rows", 2, 8}}), nine));
  CHECK_FALSE(covers(nine, read({{"rows", 1, 9}}, 65)));
  CHECK_FALSE(covers(nine, read({{"columns", 1, 9}})));
  CHECK_FALSE(covers(nine, read({{"rows", 1, 9}, {"columns", 64, 65}})));
  CHECK(covers(read({{"rows", 1, 9}, {"columns", 60, 70}}), nine));
  for (const field_description& field : op.fields) {
    INFO(field.name);
    auto other = nine;
    other.arguments[field.offset] ^= std::byte{0x40};
    const bool is_axis = find_axis(op, field.name) < op.own_axes();
    CHECK(covers(nine, other) == is_axis);
    if (field.kind != value_kind::pointer) continue;
    auto one = nine;
    auto moved = nine;
    one.arguments[field.offset + 1] = std::byte{1};
    moved.arguments[field.offset + 1] = std::byte{7};  // as well aligned
    CHECK(covers(one, moved));
    CHECK_FALSE(covers(one, nine));  // null
  }
}

TEST_CASE("a measured problem lies within ranges up to their ends, and elsewhere where it is the same") {
  const auto ranges = read({{"rows", 10, 20}});
  const auto within = [&](std::int64_t rows, std::int64_t columns, std::int64_t width = 0) {
    return ranges.contains(sample::problem({{"rows", rows}, {"columns", columns}, {"width", width}}));
  };
  CHECK(within(10, 64));
  CHECK(within(15, 64));
  CHECK(within(20, 64));
  CHECK_FALSE(within(9, 64));
  CHECK_FALSE(within(21, 64));
  CHECK_FALSE(within(15, 63));
  CHECK_FALSE(within(15, 65));
  CHECK_FALSE(within(15, 64, 1));
  CHECK_FALSE(ranges.contains(sample::problem({{"dtype", 1}, {"rows", 15}, {"columns", 64}})));
}

}  // namespace ranges_to_prepare
