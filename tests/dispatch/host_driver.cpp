// The host backend by itself: what a kernel or a shared object does to its thread ends with it.
#include <cfenv>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "test_disk.hpp"

namespace {

using namespace test;

[[nodiscard]] bool has_usual_mode() {
  volatile float tiny = 1e-38F;
  tiny = tiny / 4;
  return std::fegetround() == FE_TONEAREST && tiny != 0;
}

}  // namespace

TEST_CASE("the floating-point mode that loading or a kernel sets does not stay") {
  constexpr std::size_t threads = 3;
  sy::host::driver driver{threads};
  const std::string image = read_text(disk::built("floating_point.so"));
  REQUIRE(has_usual_mode());
  const sy::module_handle module = driver.load(std::as_bytes(std::span{image}), "floating_point.so");
  CHECK(has_usual_mode());
  const sy::function_handle change = driver.find(module, "change_mode");
  const sy::function_handle inspect = driver.find(module, "inspect_mode");
  std::vector<std::int32_t> usual(threads);
  std::int32_t* out = usual.data();
  void* parameters[] = {&out};  // NOLINT(modernize-avoid-c-arrays): as drivers take them
  for (const std::uint32_t blocks : {1U, std::uint32_t{threads}}) {
    sy::launch_geometry geometry;
    geometry.grid = {blocks, 1, 1};
    REQUIRE(driver.launch(change, geometry, nullptr, {}) == 0);
    CHECK(has_usual_mode());
    usual.assign(threads, -1);
    REQUIRE(driver.launch(inspect, geometry, parameters, {}) == 0);
    for (std::uint32_t i = 0; i < blocks; ++i) CHECK(usual[i] == 1);
  }
  // A mode of the engine's own is not taken from it, and an exception that a kernel raised stays raised.
  std::fesetround(FE_DOWNWARD);
  REQUIRE(driver.launch(change, {}, nullptr, {}) == 0);
  CHECK(std::fegetround() == FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
  driver.unload(module);
  CHECK(has_usual_mode());
}

TEST_CASE("a grid of more than 2^63 blocks is refused, and not taken for an empty one") {
  sy::host::driver driver{1};
  const std::string image = read_text(disk::built("floating_point.so"));
  const sy::module_handle module = driver.load(std::as_bytes(std::span{image}), "floating_point.so");
  const sy::function_handle kernel = driver.find(module, "change_mode");
  sy::launch_geometry geometry;
  constexpr std::uint32_t half = 1U << 22U;
  for (const sy::dim3 grid : {sy::dim3{half, half, 1U << 20U}, sy::dim3{1U << 31U, 1U << 31U, 3},
                              sy::dim3{0xffffffff, 0xffffffff, 0xffffffff}}) {
    geometry.grid = grid;
    const sy::status refused = driver.launch(kernel, geometry, nullptr, {});
    REQUIRE(refused != 0);
    CHECK(contains(driver.describe(refused),
                   "the grid has more than 2^63 blocks; correct the manifest's 'grid'"));
  }
  driver.unload(module);
}
