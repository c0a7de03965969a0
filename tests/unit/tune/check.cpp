// SPDX-License-Identifier: MIT
// What the judge of a variant's results lets through, beyond the cases of tests/tune.
#include <algorithm>
#include <catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/tune/check.hpp>

using namespace switchyard;

namespace judged {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// What the judge says of `found` where `wanted` belongs.
std::string verdict_on(float found, double wanted, double allowed) {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 1};
  auto* const out = static_cast<float*>(memory.poisoned(dtype::f32, 1));
  tune::host_copies copies{memory};
  tune::expectation expected;
  expected.of("out", copies.translate(out), dtype::f32).want(0, wanted, allowed);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  judge.reset();
  *out = found;
  return judge.verdict();
}

TEST_CASE("a variant is held to the error that its manifest states, and to its bits") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 1};
  auto* const out = static_cast<float*>(memory.poisoned(dtype::f32, 2));
  tune::host_copies copies{memory};
  tune::expectation expected;
  expected.of("out", copies.translate(out), dtype::f32).want(0, 1.0, 0.5);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  judge.reset();
  out[0] = 1.375F;
  out[1] = 2;
  CHECK_THAT(judge.verdict(), no_text());
  judge.hold_to(0.75);
  CHECK_THAT(judge.verdict(), no_text());
  judge.hold_to(0.5);
  CHECK(judge.verdict() ==
        "out: 1 of 1 compared values are wrong; element 0 is 1.375 where 1 belongs, within 0.25");

  const std::size_t bits = judge.bits();
  CHECK(judge.bits() == bits);
  out[1] = 3;  // compared with nothing, as what lies between rows
  CHECK(judge.bits() == bits);
  out[0] = std::nextafter(out[0], 2.0F);
  CHECK(judge.bits() != bits);
}

TEST_CASE("what is changed in place has its first values again before each run") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 9};
  constexpr std::int64_t count = 1000;
  auto* const values = static_cast<float*>(memory.random(dtype::f32, count));
  const std::vector<float> original(values, values + count);
  tune::host_copies copies{memory};
  tune::expectation expected;
  auto& wanted = expected.of("values", copies.translate(values), dtype::f32);
  for (std::int64_t i = 0; i < count; ++i)
    wanted.want(i, 2 * static_cast<double>(original[static_cast<std::size_t>(i)]), 1e-6);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  CHECK(judge.values() == count);
  for (int run = 0; run < 3; ++run) {
    judge.reset();
    REQUIRE(std::vector<float>(values, values + count) == original);
    for (std::int64_t i = 0; i < count; ++i) values[i] *= 2;
    CHECK_THAT(judge.verdict(), no_text());
  }
}

TEST_CASE("infinities and NaN are right only where they belong") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(verdict_on(infinity, HUGE_VAL, 1), no_text());
  CHECK_THAT(verdict_on(-infinity, -HUGE_VAL, 0), no_text());
  CHECK_THAT(verdict_on(-infinity, HUGE_VAL, 1), has_text("is -infinity where infinity belongs"));
  CHECK_THAT(verdict_on(1e30F, HUGE_VAL, 1), has_text("where infinity belongs"));
  CHECK_THAT(verdict_on(std::numeric_limits<float>::quiet_NaN(), 1, 1e9), has_text("is NaN where 1 belongs"));
  CHECK_THAT(verdict_on(1, nan, 1), has_text("where NaN belongs"));
}

TEST_CASE("what a type cannot hold is infinite, and nothing else is") {
  const auto verdict = [](std::uint16_t found, double wanted) {
    const auto driver = std::make_shared<host::driver>(1);
    tune::tensors memory{driver, 1};
    auto* const out = static_cast<std::uint16_t*>(memory.poisoned(dtype::f16, 1));
    tune::host_copies copies{memory};
    tune::expectation expected;
    expected.of("out", copies.translate(out), dtype::f16).want(0, wanted, std::abs(wanted) / 1024);
    tune::judge judge{memory, std::move(copies), std::move(expected)};
    judge.reset();
    *out = found;
    return judge.verdict();
  };
  constexpr std::uint16_t infinite = 0x7c00;
  constexpr std::uint16_t largest = 0x7bff;  // 65504
  CHECK_THAT(verdict(infinite, 1e6), no_text());
  CHECK_THAT(verdict(infinite | 0x8000U, -1e6), no_text());
  CHECK_THAT(verdict(infinite, -1e6), has_text("is infinity where -1000000 belongs"));
  CHECK_THAT(verdict(infinite, 6e4), has_text("is infinity where 60000 belongs"));
  CHECK_THAT(verdict(infinite, 65510), no_text());  // as far as it may be off
  CHECK_THAT(verdict(largest, 65510), no_text());
  CHECK_THAT(verdict(largest, 1e6), has_text("is 65504 where 1000000 belongs"));
  CHECK(tune::overflow_of(dtype::bf16) == 0x1.ffp127);
  CHECK(tune::overflow_of(dtype::f32) > static_cast<double>(std::numeric_limits<float>::max()));
}

TEST_CASE("tensors of a varied call have its spread, and begin one element behind an aligned address") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 1, {.spread = 100, .shifted = true}};
  auto* const wide = static_cast<float*>(memory.random(dtype::f32, 1000));
  auto* const usual = static_cast<float*>(memory.random(dtype::f32, 1000, 1));
  auto* const result = static_cast<std::uint16_t*>(memory.poisoned(dtype::f16, 8));
  const auto largest = [](const float* of) {
    return std::abs(
        *std::max_element(of, of + 1000, [](float a, float b) { return std::abs(a) < std::abs(b); }));
  };
  CHECK(largest(wide) > 90);
  CHECK(largest(wide) <= 100);
  CHECK(largest(usual) <= 1);
  CHECK(reinterpret_cast<std::uintptr_t>(wide) % 16 == 4);
  CHECK(reinterpret_cast<std::uintptr_t>(result) % 16 == 2);
  tune::host_copies copies{memory};
  CHECK(static_cast<const float*>(copies.translate(wide))[999] == wide[999]);
  tune::expectation expected;
  expected.of("out", copies.translate(result), dtype::f16).want(0, 0, 1);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  judge.reset();
  result[0] = 0;
  CHECK_THAT(judge.verdict(), no_text());
  result[-1] = 0;
  CHECK_THAT(judge.verdict(),
             has_text("writes before the beginning of a tensor of 16 bytes, 1 bytes before it"));
  judge.reset();
  result[0] = 0;
  result[8] = 0;
  CHECK_THAT(judge.verdict(), has_text("writes past the end of a tensor of 16 bytes, 0 bytes behind it"));
}

TEST_CASE("a value may be off by exactly what is allowed") {
  CHECK_THAT(verdict_on(1.5F, 1, 0.5), no_text());
  CHECK_THAT(verdict_on(0.5F, 1, 0.5), no_text());
  CHECK_THAT(verdict_on(1.5F, 1, 0.4375),
             has_text("out: 1 of 1 compared values are wrong; element 0 is 1.5 where 1 "
                      "belongs, within 0.4375"));
  CHECK_THAT(verdict_on(1, 1, 0), no_text());
  CHECK_THAT(verdict_on(1.0000001F, 1, 0), has_text("1 of 1"));
}

TEST_CASE("the worst of several wrong values is shown, and all are counted") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 1};
  constexpr std::int64_t count = 100'000;  // several downloads
  auto* const out = static_cast<float*>(memory.poisoned(dtype::f32, count));
  tune::host_copies copies{memory};
  tune::expectation expected;
  auto& wanted = expected.of("sums", copies.translate(out), dtype::f32);
  const std::vector<std::int64_t> places{count - 1, 3, 0, 50'000, 2};  // in no order
  for (const std::int64_t at : places) wanted.want(at, static_cast<double>(at), 0.25);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  judge.reset();
  for (const std::int64_t at : places) out[at] = static_cast<float>(at);
  CHECK_THAT(judge.verdict(), no_text());
  out[2] += 1;
  out[50'000] += 7;
  out[count - 1] += 2;
  CHECK_THAT(judge.verdict(),
             has_text("sums: 3 of 5 compared values are wrong; element 50000 is 50007 where 50000 belongs"));
}

TEST_CASE("rows that are examined are the ends and some between, the same for one seed") {
  const tune::row_sample all{5, 5, 1};
  CHECK(all.rows() == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(all.all());
  CHECK(all.count() == 5);
  const tune::row_sample some{1000, 5, 7};
  CHECK_FALSE(some.all());
  CHECK(some.rows().size() <= 5);
  CHECK(some.rows().front() == 0);
  CHECK(some.rows().back() == 999);
  CHECK(some.rows() == tune::row_sample(1000, 5, 7).rows());
  CHECK(some.rows() != tune::row_sample(1000, 5, 8).rows());
  for (const std::int64_t row : some.rows()) CHECK(some.has(row));
  const std::set<std::int64_t> known(some.rows().begin(), some.rows().end());
  for (std::int64_t row = 0; row < 1000; ++row) CHECK(some.has(row) == known.contains(row));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {  // few to draw from: the same ones are drawn again
    const tune::row_sample most{20, 18, seed};
    CHECK(std::is_sorted(most.rows().begin(), most.rows().end(), std::less_equal<>{}));
    CHECK(most.rows().size() < 20);
  }
  const tune::row_sample two{6, 2, 1};
  CHECK(two.rows() == std::vector<std::int64_t>{0, 5});
}

TEST_CASE("the units of the types are those of their mantissas") {
  CHECK(tune::unit_of(dtype::bf16) == 0.0078125);
  CHECK(tune::unit_of(dtype::f16) == 0.0009765625);
  CHECK(tune::unit_of(dtype::f32) == std::ldexp(1.0, -23));
  CHECK(tune::smallest_of(dtype::f16) == std::ldexp(1.0, -24));
  CHECK(tune::smallest_of(dtype::bf16) == 0);
  CHECK(tune::smallest_of(dtype::f32) == 0);
  CHECK(tune::arithmetic_error(1, 1) == 16 * 2 * std::ldexp(1.0, -24));
  CHECK(tune::arithmetic_error(7, 3) == 3 * 16 * 4 * std::ldexp(1.0, -24));
  CHECK(tune::arithmetic_error(0, 1) == 16 * std::ldexp(1.0, -24));
}

TEST_CASE("pointers of a call lead to the host copies, whole tensors and their insides") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 4};
  auto* const first = static_cast<float*>(memory.random(dtype::f32, 16));
  auto* const second = memory.copy(std::vector<std::int32_t>{5, 6, 7});
  const tune::host_copies copies{memory};
  CHECK(copies.translate(nullptr) == nullptr);
  const auto* const copy = static_cast<const float*>(copies.translate(first));
  REQUIRE(copy != first);
  CHECK(copy[3] == first[3]);
  CHECK(copies.translate(first + 15) == copy + 15);
  CHECK(copies.translate(first + 16) == first + 16);  // behind the tensor: none of its memory
  CHECK(static_cast<const std::int32_t*>(copies.translate(second))[2] == 7);
  int other = 0;
  CHECK(copies.translate(&other) == &other);
  CHECK(copies.find(copy) == std::pair<std::size_t, std::size_t>{0, 0});
  CHECK(copies.find(copy + 15) == std::pair<std::size_t, std::size_t>{0, 60});
  CHECK(copies.find(copies.translate(second + 1)) == std::pair<std::size_t, std::size_t>{1, 4});
  CHECK_THROWS_WITH(copies.find(&other), has_text("lies in no tensor of the call"));
  CHECK_THROWS_WITH(copies.find(copy + 16), has_text("lies in no tensor of the call"));

  operators::softmax::arguments call;
  call.x = first;
  call.out = nullptr;
  call.rows = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first));  // a number, not an address
  const auto translated = copies.translated<operators::softmax>(call);
  CHECK(translated.x == copy);
  CHECK(translated.out == nullptr);
  CHECK(translated.rows == call.rows);
}

TEST_CASE("a margin is looked at from its first byte to its last, and inputs to theirs") {
  const auto driver = std::make_shared<host::driver>(1);
  tune::tensors memory{driver, 4};
  auto* const in = static_cast<unsigned char*>(memory.random(dtype::f32, 4));
  auto* const out = static_cast<unsigned char*>(memory.poisoned(dtype::f32, 4));
  tune::host_copies copies{memory};
  tune::expectation expected;
  expected.of("out", copies.translate(out), dtype::f32).want(0, 0, 1);
  tune::judge judge{memory, std::move(copies), std::move(expected)};
  const auto verdict_after = [&](unsigned char& changed) {
    judge.reset();
    *reinterpret_cast<float*>(out) = 0;
    const unsigned char before = changed;
    changed = static_cast<unsigned char>(before ^ 1U);
    std::string verdict = judge.verdict();
    changed = before;
    return verdict;
  };
  for (const int behind : {0, 255}) {
    for (unsigned char* const tensor : {in, out}) {
      CHECK_THAT(verdict_after(tensor[16 + behind]),
                 has_text("writes past the end of a tensor of 16 bytes, " + std::to_string(behind) +
                          " bytes behind it"));
    }
  }
  CHECK_THAT(verdict_after(in[0]), has_text("changes an input, a tensor of 16 bytes"));
  CHECK_THAT(verdict_after(in[15]), has_text("changes an input"));
  CHECK_THAT(verdict_after(out[8]), no_text());  // no value of it is wanted
}

}  // namespace judged
