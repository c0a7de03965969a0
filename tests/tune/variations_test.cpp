// SPDX-License-Identifier: MIT
// The tuner's bench: results of a variant are judged for varied values too, as long as there is memory for
// them; a variant that cannot be judged is none that is wrong.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>
#include <switchyard/tune/measuring/operator_bench.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

#include "catch.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;

/// The CPU's kernels for softmax, for many columns alone.
class picky_kernels {
 public:
  picky_kernels() {
    const sy::catalog shipped;
    const std::filesystem::path target =
        std::filesystem::path{"kernels"} / "softmax" / ("host-" + sy::device::host().properties().arch);
    std::filesystem::create_directories(root_ / target);
    const std::filesystem::path from = shipped.roots().front() / target;
    nlohmann::json manifest = nlohmann::json::parse(std::ifstream{from / "manifest.json"});
    for (nlohmann::json& variant : manifest["variants"]) variant["requires"].push_back("columns >= 64");
    std::ofstream{root_ / target / "manifest.json"} << manifest;
    for (const auto& entry : std::filesystem::directory_iterator{from}) {
      if (entry.path().extension() == ".so")
        std::filesystem::create_symlink(entry.path(), root_ / target / entry.path().filename());
    }
  }
  picky_kernels(const picky_kernels&) = delete;
  picky_kernels& operator=(const picky_kernels&) = delete;
  ~picky_kernels() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("switchyard_picky_" + std::to_string(::getpid()));
};

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

TEST_CASE("a variant that serves no problem which the reference can do is not judged") {
  const picky_kernels kernels;
  sy::catalog_options only;
  only.roots = {kernels.root()};
  only.default_roots = false;
  sy::catalog catalog{only};
  sy::tune::check_options little;
  little.least_rows = 1;
  little.max_row_work = 100;
  sy::tune::operator_bench<sy::operators::softmax> bench{catalog, sy::device::host(), little};
  const sy::tune::request want{
      {{"dtype", static_cast<std::int64_t>(sy::dtype::f32)}, {"rows", 4}, {"columns", 4096}}};
  const sy::tune::bench_problem problem = bench.set_up(want, sy::tune::cache_state::warm, 1, true);
  REQUIRE(!problem.variants.empty());
  const std::string refusal = sy::test::refusal_by<sy::call_error>(
      sy::error_code::no_variant, [&] { return bench.check(problem.variants.front().id, 6); });
  CHECK_THAT(refusal,
             has_text("cannot be checked: the problem is too large for the reference, and the variant "
                      "does not serve the smaller one, dtype=f32"));
}
