// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <switchyard/base/float16.hpp>
#include <switchyard/launching/compare_results.hpp>

using namespace switchyard;

namespace {

/// A tensor [rows, columns] of f32 with columns beside each row that are nobody's.
struct two_results {
  static constexpr std::int64_t rows = 3;
  static constexpr std::int64_t columns = 4;
  static constexpr std::int64_t stride = 6;

  two_results() : one(rows * stride), other(rows * stride) {
    for (std::size_t i = 0; i < one.size(); ++i) one[i] = other[i] = static_cast<float>(i) + 1;
  }
  [[nodiscard]] std::string difference(double tolerance = 0) const {
    result_tensor of;
    of.name = "out";
    of.dtype = dtype::f32;
    of.rank = 2;
    of.extents = {rows, columns};
    of.strides = {stride, 1};
    of.bytes = ((rows - 1) * stride + columns) * sizeof(float);
    of.tolerance = tolerance;
    return detail::describe_difference(of, reinterpret_cast<const std::byte*>(one.data()),
                                       reinterpret_cast<const std::byte*>(other.data()));
  }
  std::vector<float> one;
  std::vector<float> other;
};

}  // namespace

TEST_CASE("results may be apart by what arithmetic loses, and what lies between rows is nobody's") {
  two_results made;
  CHECK_THAT(made.difference(), no_text());
  made.other[4] = 1000;  // between the rows
  CHECK_THAT(made.difference(), no_text());
  made.other[7] += 1e-4F;
  CHECK_THAT(made.difference(), no_text());
  made.other[7] += 1e-2F;
  CHECK_THAT(made.difference(), has_text("out: 1 of 12 values differ; element 7 is 8 and 8.01"));
  CHECK_THAT(made.difference(0.01), no_text());
}

TEST_CASE("NaN must meet NaN, and an infinity itself") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  two_results made;
  made.one[0] = made.other[0] = nan;
  made.one[1] = made.other[1] = infinity;
  CHECK_THAT(made.difference(), no_text());
  made.other[1] = -infinity;
  CHECK_THAT(made.difference(1), has_text("1 of 12 values differ"));
  made.other[1] = infinity;
  made.other[0] = 1;
  CHECK_THAT(made.difference(1), has_text("1 of 12 values differ"));
}

TEST_CASE("integers must be equal, and a scalar is a tensor without dimensions") {
  const std::int32_t one = 7;
  std::int32_t other = 7;
  result_tensor of;
  of.name = "count";
  of.dtype = dtype::i32;
  of.bytes = sizeof one;
  const auto difference = [&] {
    return detail::describe_difference(of, reinterpret_cast<const std::byte*>(&one),
                                       reinterpret_cast<const std::byte*>(&other));
  };
  CHECK_THAT(difference(), no_text());
  other = 8;
  CHECK_THAT(difference(), has_text("count: 1 of 1 values differ"));
}

TEST_CASE("the bounds of narrow types are wider, by the row's magnitude") {
  std::vector<std::uint16_t> one(8, bf16_from(1.0));
  std::vector<std::uint16_t> other = one;
  result_tensor of;
  of.name = "out";
  of.dtype = dtype::bf16;
  of.rank = 1;
  of.extents = {8};
  of.strides = {1};
  of.bytes = 16;
  const auto difference = [&] {
    return detail::describe_difference(of, reinterpret_cast<const std::byte*>(one.data()),
                                       reinterpret_cast<const std::byte*>(other.data()));
  };
  other[3] = bf16_from(1.03);
  CHECK_THAT(difference(), no_text());
  other[3] = bf16_from(0.5);
  CHECK_THAT(difference(), has_text("element 3 is 1 and 0.5"));
}
