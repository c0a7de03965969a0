// SPDX-License-Identifier: MIT
// The tuner's bench: results of a variant are judged for varied values too, as long as there is memory for
// them.
#include <cstddef>
#include <memory>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>
#include <switchyard/tune/measuring/operator_bench.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

#include "catch.hpp"

namespace {

namespace sy = switchyard;

/// The CPU with memory for so many allocations more.
class scarce_driver final : public sy::tune::forwarding_driver {
 public:
  using forwarding_driver::forwarding_driver;

  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream on) noexcept override {
    if (left == 0) return nullptr;
    --left;
    ++allocated;
    return forwarding_driver::allocate(bytes, on);
  }

  std::size_t left = 1U << 20U;
  std::size_t allocated = 0;
};

}  // namespace

TEST_CASE("variations that memory is lacking for are not judged") {
  const auto driver = std::make_shared<scarce_driver>(sy::device::host().driver());
  sy::catalog catalog;
  const auto check = [&](std::size_t left) {
    sy::tune::operator_bench<sy::operators::softmax> bench{catalog, sy::device{driver}};
    const sy::tune::request want{
        {{"dtype", static_cast<std::int64_t>(sy::dtype::f32)}, {"rows", 4}, {"columns", 64}}};
    const sy::tune::bench_problem problem = bench.set_up(want, sy::tune::cache_state::warm, 1, true);
    REQUIRE(!problem.variants.empty());
    const std::size_t before = driver->allocated;
    driver->left = left;
    const std::string wrong = bench.check(problem.variants.front().id, 6);
    driver->left = 1U << 20U;
    CHECK_THAT(wrong, no_text());
    return driver->allocated - before;
  };
  const std::size_t all = check(1U << 20U);
  REQUIRE(all > 1);
  for (std::size_t left = 0; left < all; ++left) CHECK(check(left) <= left);
}
