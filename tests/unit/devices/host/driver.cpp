// SPDX-License-Identifier: MIT
// The host backend without a blob: its properties, launches of kernels that are described here, memory and
// events. Blobs are loaded in tests/dispatch/host_driver.cpp.
#include <array>
#include <catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sched.h>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/error.hpp>

#include "thrown.hpp"

using namespace switchyard;

namespace host_launches {

/// What each block of a launch was given.
struct seen_block {
  std::array<std::uint32_t, 9> extents;  ///< index, grid, block
  std::uintptr_t scratch;
  std::size_t scratch_bytes;
  std::int32_t number;
};

std::mutex seen_mutex;
std::vector<seen_block> seen;

void note(const host::block& here, std::int32_t number, double /*other*/, std::uint8_t /*small*/) {
  const seen_block now{{here.index.x, here.index.y, here.index.z, here.grid.x, here.grid.y, here.grid.z,
                        here.extent.x, here.extent.y, here.extent.z},
                       reinterpret_cast<std::uintptr_t>(here.scratch.data()),
                       here.scratch.size(),
                       number};
  for (std::byte& byte : here.scratch) byte = std::byte{1};  // all of it may be written
  const std::scoped_lock lock{seen_mutex};
  seen.push_back(now);
}
const host::kernel noting = host::make_kernel<&note>();

function_handle handle_of(const host::kernel& kernel) {
  return const_cast<host::kernel*>(&kernel);
}

std::vector<seen_block> run(host::driver& driver, const launch_geometry& geometry) {
  seen.clear();
  std::int32_t number = 77;
  double other = 0;
  std::uint8_t small = 0;
  std::array<void*, 3> parameters{&number, &other, &small};
  CHECK(driver.launch(handle_of(noting), geometry, parameters.data(), {}) == 0);
  return seen;
}

/// The flags that Linux lists for the first processor; empty where it lists none.
std::set<std::string> listed_features() {
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words{line.substr(line.find(':') + 1)};
    return {std::istream_iterator<std::string>{words}, {}};
  }
  return {};
}

TEST_CASE("the host's properties are those of this machine") {
  const device_properties found = host::read_properties();
  CHECK(found.backend == "host");
  CHECK(found.attribute("warp_size") == 1);
  CHECK(found.attribute("memory_bytes") ==
        static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
  CHECK(found.attribute("l2_bytes") == ::sysconf(_SC_LEVEL2_CACHE_SIZE));
  cpu_set_t mine;
  CPU_ZERO(&mine);
  REQUIRE(::sched_getaffinity(0, sizeof mine, &mine) == 0);
  CHECK(host::usable_processors() == static_cast<std::size_t>(CPU_COUNT(&mine)));
  CHECK(found.attribute("multiprocessors") == CPU_COUNT(&mine));
  CHECK_FALSE(found.name.empty());

  const std::set<std::string> listed = listed_features();
  if (found.arch != "x86_64" || listed.empty()) return;
  for (const char* const feature : {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"}) {
    INFO(feature);
    CHECK(found.attribute(feature) == (listed.contains(feature) ? 1 : 0));
  }
  CHECK(found.attribute("f16c") == found.attribute("avx2"));
  std::ifstream info{"/proc/cpuinfo"};
  const std::string all{std::istreambuf_iterator<char>{info}, {}};
  CHECK_THAT(all, has_text("model name\t: " + found.name + "\n"));
}

TEST_CASE("a process that may run on one processor says so") {
  cpu_set_t before;
  CPU_ZERO(&before);
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  std::size_t usable = 0;
  std::thread{[&] {  // a thread's own affinity is what is asked for
    std::size_t first = 0;
    while (!CPU_ISSET(first, &before)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) usable = host::usable_processors();
  }}
      .join();
  CHECK(usable == 1);
}

TEST_CASE("a driver has as many multiprocessors as threads") {
  CHECK(host::driver{3}.properties().attribute("multiprocessors") == 3);
  CHECK(host::driver{1}.properties().attribute("multiprocessors") == 1);
  CHECK(host::driver{}.properties().attribute("multiprocessors") ==
        static_cast<std::int64_t>(host::usable_processors()));
}

TEST_CASE("every block of a grid runs once and knows its place, with one thread or several") {
  for (const std::size_t threads : {1U, 3U}) {
    host::driver driver{threads};
    for (const dim3 grid : {dim3{1, 1, 1}, dim3{2, 1, 1}, dim3{5, 1, 1}, dim3{1, 4, 1}, dim3{1, 1, 3},
                            dim3{3, 4, 5}, dim3{4, 6, 2}}) {
      const auto blocks = run(driver, {.grid = grid, .block = {7, 8, 9}});
      CHECK(blocks.size() == std::size_t{grid.x} * grid.y * grid.z);
      std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> places;
      for (const seen_block& block : blocks) {
        const auto& [x, y, z, grid_x, grid_y, grid_z, block_x, block_y, block_z] = block.extents;
        CHECK((x < grid.x && y < grid.y && z < grid.z));
        CHECK(places.emplace(x, y, z).second);
        CHECK(dim3{grid_x, grid_y, grid_z} == grid);
        CHECK(dim3{block_x, block_y, block_z} == dim3{7, 8, 9});
        CHECK(block.scratch_bytes == 0);
        CHECK(block.number == 77);
      }
    }
    CHECK(run(driver, {.grid = {0, 3, 3}}).empty());
  }
}

TEST_CASE("a block's scratch memory is aligned, as large as asked for, and of no other block that runs") {
  host::driver driver{2};
  for (const std::uint32_t bytes : {1U, 100U, 4096U, 4097U, 50U, 100'000U}) {  // growing, and less again
    for (const std::uint32_t blocks : {1U, 6U}) {
      const auto found = run(driver, {.grid = {blocks, 1, 1}, .shared_bytes = bytes});
      REQUIRE(found.size() == blocks);
      for (const seen_block& block : found) {
        CHECK(block.scratch != 0);
        CHECK(block.scratch % 64 == 0);
        CHECK(block.scratch_bytes == bytes);
      }
    }
  }
}

TEST_CASE("a kernel's description tells its parameters") {
  host::driver driver{1};
  std::vector<parameter_slot> slots;
  CHECK(driver.parameters(handle_of(noting), slots));
  REQUIRE(slots.size() == 3);
  CHECK(slots[0].offset == 0);
  CHECK(slots[0].bytes == 4);
  CHECK(slots[1].offset == 4);
  CHECK(slots[1].bytes == 8);
  CHECK(slots[2].offset == 12);
  CHECK(slots[2].bytes == 1);
  driver.configure(handle_of(noting), {.shared_bytes = 1 << 20});  // there is nothing to do
}

TEST_CASE("the host's memory is aligned to 256 bytes, filled and copied, also onto itself") {
  host::driver driver{1};
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{257}}) {
    auto* const memory = static_cast<unsigned char*>(driver.allocate(bytes, {}));
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = 1;
    driver.release(memory, {});
  }
  std::array<unsigned char, 8> bytes{0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(driver.copy(bytes.data() + 2, bytes.data(), 5, {}) == 0);
  CHECK(bytes == std::array<unsigned char, 8>{0, 1, 0, 1, 2, 3, 4, 7});
  CHECK(driver.fill(bytes.data() + 1, 0xab, 3, {}) == 0);
  CHECK(bytes == std::array<unsigned char, 8>{0, 0xab, 0xab, 0xab, 2, 3, 4, 7});
  CHECK(driver.synchronize({}) == 0);
  CHECK_FALSE(driver.capturing({}));
  CHECK(driver.owns({}));
}

TEST_CASE("the host's events tell microseconds between them") {
  host::driver driver{1};
  auto* const first = driver.create_event();
  auto* const second = driver.create_event();
  CHECK(driver.record(first, {}) == 0);
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds{3});
  CHECK(driver.record(second, {}) == 0);
  const std::chrono::duration<double, std::micro> most = std::chrono::steady_clock::now() - begin;
  double between = 0;
  CHECK(driver.elapsed(first, second, between) == 0);
  CHECK(between >= 3000);
  CHECK(between < most.count() + 1e6);
  double back = 0;
  CHECK(driver.elapsed(second, first, back) == 0);
  CHECK(back == -between);
  driver.destroy_event(first);
  driver.destroy_event(second);
}

TEST_CASE("the host's refusals have words") {
  host::driver driver{1};
  const status maps = driver.encode({}, nullptr);
  CHECK(maps != 0);
  CHECK_THAT(driver.describe(maps), Catch::Matchers::Equals("the host backend has no tensor maps"));
  CHECK_THAT(driver.describe(77), Catch::Matchers::Equals("status 77"));
}

TEST_CASE("what is no shared object is refused before the loader sees it") {
  host::driver driver{1};
  const std::string image = "no ELF at all";
  const auto problem = switchyard::test::error_of<driver_error>(
      [&] { return driver.load(std::as_bytes(std::span{image}), "blob.so"); });
  CHECK(problem.code() == error_code::blob_not_loadable);
  CHECK(problem.kind() == failure_kind::permanent);
  CHECK_THAT(problem.what(),
             has_text("blob.so: cannot be loaded as a shared object: it is shorter than an ELF header"));
}

}  // namespace host_launches
