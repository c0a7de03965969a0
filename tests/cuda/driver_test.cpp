// SPDX-License-Identifier: MIT
// The cuda backend without a device, over the fake driver in FAKE_CUDA_LIBRARY: drivers, devices and
// contexts.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "driver_fixtures.hpp"
#include "threads.hpp"
#include "thrown.hpp"

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

TEST_CASE("a driver that cannot be used says why") {
  const auto absent = error_of([] { (void)sy::cuda::open(0, {.library = "libcuda-which-is-not-there.so"}); });
  CHECK(absent.code() == sy::error_code::driver_absent);
  CHECK(contains(absent.what(), "[switchyard.201]"));
  CHECK(contains(absent.what(), "libcuda-which-is-not-there.so"));

  const auto other = error_of([] { (void)sy::cuda::count({.library = "libm.so.6"}); });
  CHECK(other.code() == sy::error_code::driver_absent);
  CHECK(contains(other.what(), "libm.so.6 is not a CUDA driver"));

  struct {
    const char* how;
    sy::error_code code;
    std::vector<std::string> parts;
  } const cases[]{
      {"old", sy::error_code::driver_too_old, {"11.4", "11.8", "update"}},
      {"lacks=cuLaunchKernelEx", sy::error_code::driver_too_old, {"cuLaunchKernelEx", "13.0", "11.8"}},
      {"no_device", sy::error_code::no_device, {"CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"}},
      {"stub", sy::error_code::driver_absent, {"stub"}},
      {"mismatch", sy::error_code::driver_too_old, {"kernel module"}},
      {"featureless", sy::error_code::unsupported_device, {"Fake A", "compute capability"}},
  };
  for (const auto& sample : cases) {
    INFO(sample.how);
    const auto how = renamed();
    {
      const misbehaviour now{sample.how};
      const auto error = error_of([&] { (void)sy::cuda::open(0, how); });
      CHECK(error.code() == sample.code);
      for (const auto& part : sample.parts) CHECK(contains(error.what(), part));
    }
    CHECK(notes().retained[0] == 0);
    CHECK(sy::cuda::count(how) == 2);  // a failure is not remembered
  }

  for (const int ordinal : {-1, 2, 100}) {
    const auto error = error_of([&] { (void)sy::cuda::open(ordinal, fake_options()); });
    CHECK(error.code() == sy::error_code::no_device);
    CHECK(contains(error.what(), std::to_string(ordinal)));
    CHECK(contains(error.what(), "there are 2"));
  }
}

TEST_CASE("a driver of CUDA 11.8 serves without what came later") {
  const misbehaviour eleven{"eleven"};
  const auto device = sy::cuda::open(0, renamed());
  const loaded_kernel kernel{device};
  std::vector<sy::parameter_slot> slots;
  CHECK(!device->parameters(kernel.function, slots));
  CHECK(device->encode({.rank = 2}, nullptr) == 801);
  CHECK(device->launch(kernel.function, {}, nullptr, nullptr) == 0);
}

TEST_CASE("properties are read as expressions know them") {
  const auto device = sy::cuda::open(0, fake_options());
  const auto& properties = device->properties();
  CHECK(properties.backend == "cuda");
  CHECK(properties.arch == "sm_90");
  CHECK(properties.name == "Fake A");
  CHECK(properties.attribute("compute_capability") == 90);
  CHECK(properties.attribute("multiprocessors") == 10);
  CHECK(properties.attribute("memory_bandwidth") == 256'000'000'000);  // 1 GHz, both edges, 128 bytes
  CHECK(properties.attribute("shared_bytes_per_block") == std::int64_t{100} * 1024);
  CHECK(properties.attribute("memory_bytes") == std::int64_t{8} << 30U);
  CHECK(properties.attribute("driver_version") == 13000);
  for (const char* const name :
       {"l2_bytes", "shared_bytes_per_multiprocessor", "registers_per_multiprocessor",
        "threads_per_multiprocessor", "max_threads_per_block", "warp_size", "clock_khz", "cluster_launch",
        "cooperative_launch", "tensor_maps"}) {
    CHECK(properties.attribute(name) > 0);
  }
}

TEST_CASE("one context has one device, and the primary one is retained as long as it lives") {
  set_current(nullptr);
  REQUIRE(notes().retained[0] == 0);
  {
    const auto device = sy::cuda::open(0, fake_options());
    CHECK(notes().retained[0] == 1);
    CHECK(sy::cuda::open(0, fake_options()) == device);
    CHECK(sy::cuda::current(fake_options()) == device);  // no context: device 0, as CUDA's runtime has it
    set_current(primary(0));
    CHECK(sy::cuda::current(fake_options()) == device);
    CHECK(notes().retained[0] == 1);
    CHECK(sy::cuda::open(1, fake_options()) != device);
    CHECK(notes().retained[1] == 0);
  }
  CHECK(notes().retained[0] == 0);

  // A context made by hand is not retained, and one that takes a dead one's address is another one.
  auto* const own = fake<CUctx_st*>("fake_cuda_make_context", 1, 77ULL);
  set_current(own);
  const auto device = sy::cuda::current(fake_options());
  CHECK(device->context() == own);
  CHECK(device->ordinal() == 1);
  CHECK(notes().retained[1] == 0);
  const auto primary_device = sy::cuda::open(1, fake_options());
  CHECK(primary_device != device);
  CHECK(sy::cuda::current(fake_options()) == device);
  CHECK(notes().retained[1] == 1);
  set_current(nullptr);
  fake<void>("fake_cuda_drop_context", own);
}

TEST_CASE("a stream's device is its context's") {
  const auto first = sy::cuda::open(0, fake_options());
  const auto second = sy::cuda::open(1, fake_options());
  const fake_stream on_first{primary(0)};
  const fake_stream on_second{primary(1)};
  for (CUctx_st* const now : {primary(0), primary(1), static_cast<CUctx_st*>(nullptr)}) {
    set_current(now);
    CHECK(sy::cuda::of(on_first.get(), fake_options()) == first);
    CHECK(sy::cuda::of(on_second.get(), fake_options()) == second);
    for (const std::uintptr_t handle : {0U, 1U, 2U}) {
      const auto device = sy::cuda::of(reinterpret_cast<void*>(handle), fake_options());
      CHECK(device == (now == primary(1) ? second : first));
    }
    CHECK(current() == now);
  }
  set_current(nullptr);
}

TEST_CASE("nothing is done in a context that cannot be made current") {
  const auto sound = device_over(entry_points());
  const auto table = entry_points();
  table->ctx_push_current = [](CUctx_st*) { return sy::cuda::result::invalid_context; };
  const auto device = device_over(table);
  constexpr int gone = sy::cuda::result::invalid_context;
  const auto image = ptx();
  auto* const module = sound->load(image, "text.ptx");
  auto* const kernel = sound->find(module, "kernel");
  auto* const event = sound->create_event();
  const int modules = notes().modules;
  set_current(nullptr);

  int number = 1;
  double microseconds = -1;
  CHECK(device->launch(kernel, {}, nullptr, nullptr) == gone);
  CHECK(device->fill(&number, 0, 4, nullptr) == gone);
  CHECK(device->copy(&number, &microseconds, 4, nullptr) == gone);
  CHECK(device->synchronize(nullptr) == gone);
  CHECK(device->record(event, nullptr) == gone);
  CHECK(device->elapsed(event, event, microseconds) == gone);
  CHECK(device->encode({.rank = 1}, nullptr) == gone);
  CHECK(device->allocate(8, nullptr) == nullptr);
  CHECK(number == 1);
  CHECK(microseconds == -1);

  std::vector<sy::parameter_slot> slots;
  const auto refused = [](const sy::driver_error& problem) {
    CHECK(problem.code() == sy::error_code::driver_failed);
    CHECK(problem.kind() == sy::failure_kind::context);
    CHECK(contains(problem.what(), "Fake A: cannot make the context current: CUDA_ERROR_OF_SOME_KIND (201)"));
  };
  refused(error_of([&] { (void)device->load(image, "text.ptx"); }));
  refused(error_of([&] { (void)device->find(module, "kernel"); }));
  refused(error_of([&] { (void)device->parameters(kernel, slots); }));
  refused(error_of([&] { device->configure(kernel, {}); }));
  refused(error_of([&] { (void)device->create_event(); }));

  device->destroy_event(event);
  CHECK(notes().events == 1);
  sound->destroy_event(event);
  CHECK(notes().events == 0);
  CHECK(notes().modules == modules);
  sound->unload(module);
  CHECK(notes().modules == modules - 1);
  auto* const another = sound->load(image, "text.ptx");
  device->unload(another);
  CHECK(notes().modules == modules);
  --notes().modules;  // it went with its context
}

TEST_CASE("a stream that cannot tell its context is not refused as another device's") {
  const auto table = entry_points();
  const auto device = device_over(table);
  const fake_stream mine{primary(0)};
  const fake_stream foreign{primary(1)};
  CHECK(device->owns(mine.get()));
  CHECK_FALSE(device->owns(foreign.get()));
  for (const std::uintptr_t handle : {0U, 1U, 2U}) CHECK(device->owns(reinterpret_cast<void*>(handle)));
  table->stream_get_ctx_v2 = nullptr;  // as with drivers before CUDA 12.5
  CHECK_FALSE(device->owns(foreign.get()));
  table->stream_get_ctx = [](CUstream_st*, CUctx_st**) { return sy::cuda::result::invalid_handle; };
  CHECK(device->owns(foreign.get()));
}

TEST_CASE("results are told by name and text as far as the driver has them") {
  const auto table = entry_points();
  CHECK(sy::cuda::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7): as the fake has it");
  table->get_error_string = [](int, const char**) { return sy::cuda::result::invalid_value; };
  CHECK(sy::cuda::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7)");
  table->get_error_string = [](int, const char** text) {
    *text = nullptr;
    return sy::cuda::result::success;
  };
  CHECK(sy::cuda::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7)");
  table->get_error_name = [](int, const char** text) {
    *text = nullptr;
    return sy::cuda::result::success;
  };
  CHECK(sy::cuda::describe(*table, 7) == "CUDA error 7");
  table->get_error_name = [](int, const char** text) {
    *text = "stale";
    return sy::cuda::result::invalid_value;
  };
  CHECK(sy::cuda::describe(*table, 7) == "CUDA error 7");
  table->get_error_name = nullptr;
  CHECK(sy::cuda::describe(*table, 7) == "CUDA error 7");
  CHECK(sy::cuda::version_text(12040) == "12.4");
  CHECK(sy::cuda::version_text(11080) == "11.8");
  CHECK(sy::cuda::version_text(13000) == "13.0");
}

TEST_CASE("threads open and close devices at once") {
  switchyard::test::run_threads(4, [](int t) {
    const auto image = ptx();
    for (int i = 0; i < 200; ++i) {
      const auto device = sy::cuda::open(t % 2, fake_options());
      auto* const module = device->load(image, "text.ptx");
      device->unload(module);
    }
  });
  CHECK(notes().retained[0] == 0);
  CHECK(notes().retained[1] == 0);
  CHECK(notes().modules == 0);
}

TEST_CASE("the multiprocessors of a context count, not those of its device") {
  const auto count = [](const sy::cuda::driver& of) { return of.properties().attribute("multiprocessors"); };
  CHECK(count(*device_over(entry_points())) == 10);
  const fake_context green{0, 7};
  const auto in_context = [&] {
    return sy::cuda::driver{entry_points(), 0, green.get(), false}.properties().attribute("multiprocessors");
  };
  CHECK(in_context() == 10);
  fake<void>("fake_cuda_share", green.get(), 4U);
  CHECK(in_context() == 4);
  {
    const misbehaviour limited{"mps"};
    CHECK(in_context() == 4);
    CHECK(count(*device_over(entry_points())) == 6);
  }
  // Drivers that cannot tell: the device's own.
  auto table = entry_points();
  table->ctx_get_dev_resource = nullptr;
  table->ctx_get_exec_affinity = nullptr;
  CHECK(sy::cuda::driver{table, 0, green.get(), false}.properties().attribute("multiprocessors") == 10);
}
