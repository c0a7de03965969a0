// SPDX-License-Identifier: MIT
// The reproducible classes of the CPU's softmax: a row has the same bits alone and among others, by any
// variant of its class.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

using namespace switchyard;
using operators::softmax;

/// A catalog of the built kernels in which a variant is forced; "": none.
[[nodiscard]] catalog_options options_with(const std::string& forced) {
  catalog_options out;
  out.roots = {SWITCHYARD_TEST_BLOBS_FOLDER};
  out.default_roots = false;
  out.settings = {};
  if (!forced.empty()) out.settings.forced = {{"softmax", forced}};
  return out;
}

/// Softmax of rows; empty where no variant of the class runs here.
[[nodiscard]] std::vector<float> run(const std::string& of_class, const std::string& forced,
                                     std::span<const float> x, std::int64_t rows) {
  catalog files{options_with(forced)};
  dispatcher<softmax> on{files, device::host(), {.reproducible = of_class}};
  std::vector<float> out(x.size());
  const std::int64_t columns = static_cast<std::int64_t>(x.size()) / rows;
  const softmax::arguments call =
      softmax::call(const_tensor{x, {rows, columns}}, tensor{std::span{out}, {rows, columns}});
  if (on.explain(call).variant.empty()) return {};
  on({}, call);
  return out;
}

[[nodiscard]] bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("variants of a class give each row the same bits, alone and among others") {
  const std::uint32_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  std::normal_distribution<float> normal{0, 3};
  constexpr std::int64_t rows = 53;
  int classes = 0;
  for (const char* const of_class : {"avx512", "avx2", "baseline"}) {
    for (const std::int64_t columns : {1, 37, 1'000, 4'099}) {
      std::vector<float> x(static_cast<std::size_t>(rows * columns));
      for (float& value : x) value = normal(random);
      const std::vector<float> all = run(of_class, "", x, rows);
      if (all.empty()) continue;  // this processor has not the instructions
      ++classes;
      INFO(of_class << ", " << columns << " columns");
      for (const char* const shares : {"_s1", "_s4"}) {
        const std::vector<float> by_one = run(of_class, std::string{of_class} + shares, x, rows);
        CHECK((by_one.empty() || same_bits(by_one, all)));  // small sets lack some
      }
      const auto width = static_cast<std::size_t>(columns);
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); row += 13) {
        const std::vector<float> alone = run(of_class, "", std::span{x}.subspan(row * width, width), 1);
        CHECK(same_bits(alone, std::span{all}.subspan(row * width, width)));
      }
    }
  }
  CHECK(classes >= 4);  // "baseline" runs everywhere

  std::vector<float> x(8, 1.0F);
  CHECK(run("rows", "", x, 1).empty());
  CHECK(run("avx2", "baseline_s1", x, 1).empty());
}

TEST_CASE("the largest numbers have weights, and so has a row of the lowest") {
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<float> rows{most, most, -most, -most, -most, -most, 3e38F, -3e38F, 0.0F};
  const std::vector<float> want{0.5F, 0.5F, 0.0F, 1.0F / 3, 1.0F / 3, 1.0F / 3, 1.0F, 0.0F, 0.0F};
  int classes = 0;
  for (const char* const of_class : {"avx512", "avx2", "baseline"}) {
    const std::vector<float> found = run(of_class, "", rows, 3);
    if (found.empty()) continue;
    ++classes;
    for (std::size_t i = 0; i < want.size(); ++i) {
      INFO(of_class << ", element " << i);
      CHECK(std::abs(found[i] - want[i]) < 1e-7F);
    }
  }
  CHECK(classes > 0);
}
