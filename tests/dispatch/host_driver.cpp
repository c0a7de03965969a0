// SPDX-License-Identifier: MIT
// The host backend by itself: what a kernel or a shared object does to its thread ends with it.
#include <array>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "../sanitized.hpp"
#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;

[[nodiscard]] bool has_usual_mode() {
  volatile float tiny = 1e-38F;
  tiny = tiny / 4;
  return std::fegetround() == FE_TONEAREST && tiny != 0;
}

[[nodiscard]] std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

/// How many pieces of shared objects that the driver loaded are mapped.
[[nodiscard]] std::size_t mapped_pieces() {
  return count_of(read_text("/proc/self/maps"), "/memfd:switchyard");
}

}  // namespace

TEST_CASE("each load is a module of its own, which leaves nothing behind when it is unloaded") {
  sy::host::driver driver{1};
  const std::array<std::string, 2> images{read_text(disk::built("stamp.so")),
                                          read_text(disk::built("stamp_other.so"))};
  const std::ptrdiff_t descriptors = open_descriptors();
  const std::size_t mapped = mapped_pieces();
  std::vector<sy::module_handle> modules;
  for (std::size_t i = 0; i < 40; ++i)
    modules.push_back(driver.load(std::as_bytes(std::span{images[i / 3 % 2]}), "stamp.so"));
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_pieces() > mapped);
  CHECK(std::set<sy::module_handle>(modules.begin(), modules.end()).size() == modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    std::int32_t written = 0;
    std::int32_t* out = &written;
    auto value = static_cast<std::int32_t>(i);
    std::array<void*, 2> parameters{&out, &value};
    REQUIRE(driver.launch(driver.find(modules[i], "stamp"), {}, parameters.data(), {}) == 0);
    CHECK(written == value + (i / 3 % 2 == 0 ? 0 : 1000));
  }
  for (sy::module_handle const module : modules) driver.unload(module);
  CHECK(mapped_pieces() == mapped);
}

TEST_CASE("a load that fails leaves no descriptor and no mapping behind") {
  sy::host::driver driver{1};
  const std::string image = read_text(disk::built("unresolved.so"));
  const std::ptrdiff_t descriptors = open_descriptors();
  const std::size_t mapped = mapped_pieces();
  CHECK_THROWS_WITH(driver.load(std::as_bytes(std::span{image}), "unresolved.so"),
                    has_text("unresolved.so: cannot be loaded as a shared object") &&
                        has_text("switchyard_function_that_nobody_has"));
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_pieces() == mapped);
}

TEST_CASE("a load for which the loader lacks descriptors or memory may be tried again") {
  sy::host::driver driver{1};
  const std::string image = read_text(disk::built("stamp.so"));
  const auto kind_under = [&](auto resource, rlim_t limit) {
    rlimit before{};
    REQUIRE(::getrlimit(resource, &before) == 0);
    rlimit lowered = before;
    lowered.rlim_cur = limit;
    REQUIRE(::setrlimit(resource, &lowered) == 0);
    std::string said = "loaded";
    try {
      driver.unload(driver.load(std::as_bytes(std::span{image}), "stamp.so"));
    } catch (const sy::driver_error& problem) {
      said = problem.kind() == sy::failure_kind::transient ? "transient: " : "permanent: ";
      said += problem.what();
    }
    REQUIRE(::setrlimit(resource, &before) == 0);
    return said;
  };
  const int next = ::dup(0);  // the lowest one that is free
  REQUIRE(next >= 0);
  ::close(next);
  const auto free_from = static_cast<rlim_t>(next);
  CHECK_THAT(kind_under(RLIMIT_NOFILE, free_from), has_text("transient") && has_text("memfd_create"));
  // With one left, memfd_create takes it.
  const std::string descriptors = kind_under(RLIMIT_NOFILE, free_from + 1);
  CHECK_THAT(descriptors, has_text("transient") && has_text("[switchyard.207]"));
  CHECK_FALSE(contains(descriptors, "memfd_create"));
  if (!sanitized) CHECK_THAT(kind_under(RLIMIT_AS, 1), has_text("transient"));
  CHECK(kind_under(RLIMIT_NOFILE, free_from + 16) == "loaded");

  // What the blob itself lacks does not come back.
  std::string cut = image;
  cut.resize(cut.size() / 2);
  const auto problem = sy::test::error_of<sy::driver_error>(
      [&] { driver.unload(driver.load(std::as_bytes(std::span{cut}), "cut.so")); });
  CHECK(problem.kind() == sy::failure_kind::permanent);
}

TEST_CASE("a variant whose load ran out of descriptors inside the loader serves again") {
  const disk files{"stamp", {stamp_variant("one", 1)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(0);
  REQUIRE(next >= 0);
  ::close(next);
  rlimit lowered = before;
  lowered.rlim_cur = static_cast<rlim_t>(next) + 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &lowered) == 0);
  CHECK_THROWS_AS(run(on, {}), sy::driver_error);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a kernel without code is refused when it is found, not when it is launched") {
  sy::host::driver driver{1};
  const std::string image = read_text(disk::built("future.so"));
  const sy::module_handle module = driver.load(std::as_bytes(std::span{image}), "future.so");
  CHECK_THROWS_WITH(driver.find(module, "hollow"), has_text("Build the kernels anew"));
  CHECK_THROWS_WITH(driver.find(module, "stamp"), has_text("version 2"));
  driver.unload(module);
}

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
