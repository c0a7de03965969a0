// SPDX-License-Identifier: MIT
// Launches of the cuda backend over the fake driver: contexts, attributes, and what is refused.
#include <array>
#include <cstdint>
#include <string>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "driver_fixtures.hpp"
#include "thrown.hpp"

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

TEST_CASE("launches find their context and leave the thread's own") {
  const auto device = sy::cuda::open(0, fake_options());
  const loaded_kernel kernel{device};
  const fake_stream stream{primary(0)};
  const auto pushes = [](auto&& work) {
    const int before = notes().pushes;
    work();
    return notes().pushes - before;
  };
  for (CUctx_st* const now : {primary(0), primary(1), static_cast<CUctx_st*>(nullptr)}) {
    set_current(now);
    const int needed = now == primary(0) ? 0 : 1;
    CHECK(pushes([&] { CHECK(device->launch(kernel.function, {}, nullptr, stream.get()) == 0); }) == 0);
    for (const std::uintptr_t handle : {0U, 1U, 2U}) {
      CHECK(pushes([&] {
              CHECK(device->launch(kernel.function, {}, nullptr, reinterpret_cast<void*>(handle)) == 0);
            }) == needed);
    }
    const misbehaviour strict{"strict"};
    CHECK(pushes([&] { CHECK(device->launch(kernel.function, {}, nullptr, stream.get()) == 0); }) == needed);
    CHECK(device->fill(nullptr, 0, 16, stream.get()) == 0);
    CHECK(current() == now);
  }
  const fake_stream foreign{primary(1)};
  CHECK(device->launch(kernel.function, {}, nullptr, foreign.get()) == sy::cuda::result::invalid_handle);
  set_current(nullptr);
}

TEST_CASE("launch attributes are set when they are asked for") {
  const auto device = sy::cuda::open(0, fake_options());
  const loaded_kernel kernel{device};
  const auto seen = [&](const sy::launch_geometry& geometry) {
    REQUIRE(device->launch(kernel.function, geometry, nullptr, nullptr) == 0);
    return notes().launch_attributes.load();
  };
  CHECK(seen({}) == 0);
  CHECK(seen({.cluster = {1, 2}}) == 1U << 4U);
  CHECK(seen({.cooperative = true}) == 1U << 2U);
  CHECK(seen({.programmatic_dependent_launch = true}) == 1U << 6U);
  CHECK(seen({.cluster = {2}, .cooperative = true, .programmatic_dependent_launch = true}) ==
        (1U << 2U | 1U << 4U | 1U << 6U));
}

TEST_CASE("a cluster is passed along in its order") {
  const loaded_kernel kernel;
  REQUIRE(kernel.device->launch(kernel.function, {.cluster = {4, 2, 3}}, nullptr, nullptr) == 0);
  CHECK(notes().cluster == std::array<unsigned, 3>{4, 2, 3});
}

TEST_CASE(
    "what the first attempt of a launch is refused for its context, the second launches, and nothing else") {
  set_current(nullptr);
  const loaded_kernel kernel;
  const fake_stream stream{primary(0)};
  const auto launches = [] { return fake<int>("fake_cuda_launches", primary(0)); };
  for (const int code : {sy::cuda::result::invalid_context, sy::cuda::result::invalid_handle}) {
    const int before = launches();
    notes().launch_answers = {code, 0};
    CHECK(kernel.device->try_launch(kernel.function, {}, nullptr, stream.get()) == code);
    CHECK(launches() == before);
    CHECK(kernel.device->launch_again(code, kernel.function, {}, nullptr, stream.get()) == 0);
    CHECK(launches() == before + 1);
    notes().launch_answers = {};
    CHECK(kernel.device->launch_again(code, kernel.function, {}, nullptr, nullptr) ==
          code);  // it was in its context
    CHECK(launches() == before + 1);
  }
  const int before = launches();
  CHECK(kernel.device->launch_again(sy::cuda::result::out_of_memory, kernel.function, {}, nullptr,
                                    stream.get()) == sy::cuda::result::out_of_memory);
  CHECK(launches() == before);
}

TEST_CASE("a launch that the driver says is in another context is tried again there, once") {
  set_current(nullptr);
  const loaded_kernel kernel;
  const fake_stream stream{primary(0)};
  const auto launches = [] { return fake<int>("fake_cuda_launches", primary(0)); };
  for (const int code : {sy::cuda::result::invalid_context, sy::cuda::result::invalid_handle}) {
    const int before = launches();
    notes().launch_answers = {code, 0};
    CHECK(kernel.device->launch(kernel.function, {}, nullptr, stream.get()) == 0);
    CHECK(launches() == before + 1);
    notes().launch_answers = {code, code};
    CHECK(kernel.device->launch(kernel.function, {}, nullptr, stream.get()) == code);
    CHECK(launches() == before + 1);
    notes().launch_answers = {};
  }
  notes().launch_answers = {sy::cuda::result::out_of_memory, 0};
  CHECK(kernel.device->launch(kernel.function, {}, nullptr, stream.get()) == sy::cuda::result::out_of_memory);
  notes().launch_answers = {};
}

TEST_CASE("kernels are readied only as far as they need it") {
  const auto device = sy::cuda::open(0, fake_options());
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  const int loaded = notes().functions_loaded;
  auto* const function = device->find(module, "kernel");
  CHECK(notes().functions_loaded == loaded + 1);
  const auto set = [&](const sy::launch_geometry& geometry) {
    const int before = notes().attributes_set;
    device->configure(function, geometry);
    return notes().attributes_set - before;
  };
  CHECK(set({.shared_bytes = 47 * 1024}) == 0);
  CHECK(set({.shared_bytes = 60 * 1024}) == 1);
  CHECK(set({.shared_bytes = 50 * 1024}) == 0);  // never down
  CHECK(set({.cluster = {8}}) == 0);
  CHECK(set({.cluster = {8, 2}}) == 1);
  const auto shared = error_of([&] { device->configure(function, {.shared_bytes = 100 * 1024}); });
  CHECK(shared.code() == sy::error_code::launch_failed);
  CHECK(contains(shared.what(), "fake_kernel"));
  CHECK(contains(shared.what(), "1024 + 102400"));
  const auto threads = error_of([&] { device->configure(function, {.block = {16, 17}}); });
  CHECK(contains(threads.what(), "at most 256 threads a block, not 272"));
  device->unload(module);

  const auto without = sy::cuda::open(1, fake_options());
  auto* const other = without->load(image, "text.ptx");
  const auto clusters =
      error_of([&] { without->configure(without->find(other, "kernel"), {.cluster = {2}}); });
  CHECK(contains(clusters.what(), "clusters"));
  without->unload(other);
}

TEST_CASE("a launch is refused beforehand where the kernel or the device could never run it") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const loaded_kernel kernel{device};
  const auto refusal = [&](const sy::launch_geometry& geometry) -> std::string {
    return sy::test::refusal_by<sy::driver_error>([&] { device->configure(kernel.function, geometry); });
  };
  CHECK(refusal({.block = {4, 8, 8}}).empty());
  CHECK(contains(refusal({.block = {4, 8, 9}}),
                 "kernel 'fake_kernel' takes at most 256 threads a block, not 288, on Fake A"));
  CHECK(contains(refusal({.block = {257}}), "not 257"));
  CHECK(contains(refusal({.block = {1U << 31U, 2, 1U << 31U}}), "not 9223372036854775808"));
  CHECK(refusal({.shared_bytes = 99 * 1024}).empty());
  CHECK(contains(refusal({.shared_bytes = 99 * 1024 + 1}),
                 "needs 1024 + 101377 bytes of shared memory a block; there are 102400 on Fake A"));
  CHECK(refusal({.cluster = {2, 2, 2}, .cooperative = true}).empty());

  // What the driver does not set is an error that says what for.
  table->func_set_attribute = [](CUfunc_st*, int, int) { return sy::cuda::result::invalid_value; };
  auto* const fresh = device->find(kernel.module, "another");
  const auto unset = [&](const sy::launch_geometry& geometry) {
    return std::string{error_of([&] { device->configure(fresh, geometry); }).what()};
  };
  CHECK(contains(unset({.shared_bytes = 47 * 1024 + 1}),
                 "kernel 'fake_kernel' cannot have 48129 bytes of shared memory a block"));
  CHECK(contains(unset({.cluster = {3, 3}}), "cannot have clusters of 9 blocks"));
  device->configure(fresh, {.cluster = {8}, .shared_bytes = 47 * 1024});  // sets nothing
  table->func_get_attribute = [](int*, int, CUfunc_st*) { return sy::cuda::result::invalid_value; };
  CHECK(contains(unset({}), "does not report an attribute"));
}

TEST_CASE("a device without cooperative launches, clusters or overlaps says so, or does without") {
  const auto table = entry_points();
  static int (*const attribute_of)(int*, int, int) = table->device_get_attribute;
  table->device_get_attribute = [](int* value, int attribute, int device) {
    if (attribute == sy::cuda::device_query::l2_bytes) return sy::cuda::result::invalid_value;  // not known
    if (attribute != sy::cuda::device_query::cooperative_launch)
      return attribute_of(value, attribute, device);
    *value = 0;
    return sy::cuda::result::success;
  };
  const auto device = device_over(table, 1);
  CHECK(device->properties().attribute("cooperative_launch") == 0);
  CHECK(device->properties().attribute("cluster_launch") == 0);
  CHECK(device->properties().attribute("l2_bytes") == 0);
  CHECK(device->properties().attribute("compute_capability") == 80);
  CHECK(device->compute_capability() == 80);
  const loaded_kernel kernel{device};
  CHECK(contains(error_of([&] { device->configure(kernel.function, {.cooperative = true}); }).what(),
                 "needs cooperative launches, which the device or its driver does not support on Fake B"));
  CHECK(contains(error_of([&] {
                   device->configure(kernel.function, {.cluster = {1, 1, 2}});
                 }).what(),
                 "needs clusters, which the device or its driver does not support on Fake B"));
  device->configure(kernel.function, {});
  set_current(primary(1));
  REQUIRE(device->launch(kernel.function, {.programmatic_dependent_launch = true}, nullptr, nullptr) == 0);
  CHECK(notes().launch_attributes == 0);
  set_current(nullptr);
}
