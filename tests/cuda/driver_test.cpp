// The cuda backend without a device: over a fake driver, whose path the program is given in
// FAKE_CUDA_LIBRARY.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "driver_error.hpp"
#include "fake_cuda.hpp"

namespace {

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

std::vector<std::byte> ptx() {
  const std::string text = ".version 8.0\n.target sm_80\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

}  // namespace

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
  for (const auto& each : cases) {
    INFO(each.how);
    const auto how = renamed();
    {
      const misbehaviour now{each.how};
      const auto error = error_of([&] { (void)sy::cuda::open(0, how); });
      CHECK(error.code() == each.code);
      for (const auto& part : each.parts) CHECK(contains(error.what(), part));
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
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const function = device->find(module, "kernel");
  std::vector<sy::parameter_slot> slots;
  CHECK(!device->parameters(function, slots));
  CHECK(device->encode({.rank = 2}, nullptr) == 801);
  CHECK(device->launch(function, {}, nullptr, nullptr) == 0);
  device->unload(module);
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

TEST_CASE("launches find their context and leave the thread's own") {
  const auto device = sy::cuda::open(0, fake_options());
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const function = device->find(module, "kernel");
  const fake_stream stream{primary(0)};
  const auto pushes = [](auto&& work) {
    const int before = notes().pushes;
    work();
    return notes().pushes - before;
  };
  for (CUctx_st* const now : {primary(0), primary(1), static_cast<CUctx_st*>(nullptr)}) {
    set_current(now);
    const int needed = now == primary(0) ? 0 : 1;
    CHECK(pushes([&] { CHECK(device->launch(function, {}, nullptr, stream.get()) == 0); }) == 0);
    for (const std::uintptr_t handle : {0U, 1U, 2U}) {
      CHECK(pushes([&] {
              CHECK(device->launch(function, {}, nullptr, reinterpret_cast<void*>(handle)) == 0);
            }) == needed);
    }
    const misbehaviour strict{"strict"};
    CHECK(pushes([&] { CHECK(device->launch(function, {}, nullptr, stream.get()) == 0); }) == needed);
    CHECK(device->fill(nullptr, 0, 16, stream.get()) == 0);
    CHECK(current() == now);
  }
  const fake_stream foreign{primary(1)};
  CHECK(device->launch(function, {}, nullptr, foreign.get()) == sy::cuda::result::invalid_handle);
  device->unload(module);
  set_current(nullptr);
}

TEST_CASE("launch attributes are set when they are asked for") {
  const auto device = sy::cuda::open(0, fake_options());
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const function = device->find(module, "kernel");
  const auto seen = [&](const sy::launch_geometry& geometry) {
    REQUIRE(device->launch(function, geometry, nullptr, nullptr) == 0);
    return notes().launch_attributes.load();
  };
  CHECK(seen({}) == 0);
  CHECK(seen({.cluster = {1, 2}}) == 1U << 4U);
  CHECK(seen({.cooperative = true}) == 1U << 2U);
  CHECK(seen({.programmatic_dependent_launch = true}) == 1U << 6U);
  CHECK(seen({.cluster = {2}, .cooperative = true, .programmatic_dependent_launch = true}) ==
        (1U << 2U | 1U << 4U | 1U << 6U));
  device->unload(module);
}

TEST_CASE("a cluster is passed along in its order") {
  const auto device = sy::cuda::open(0, fake_options());
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const function = device->find(module, "kernel");
  REQUIRE(device->launch(function, {.cluster = {4, 2, 3}}, nullptr, nullptr) == 0);
  CHECK(notes().cluster == std::array<unsigned, 3>{4, 2, 3});
  device->unload(module);
}

TEST_CASE("a launch that the driver says is in another context is tried again there, once") {
  const auto device = sy::cuda::open(0, fake_options());
  set_current(nullptr);
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const function = device->find(module, "kernel");
  const fake_stream stream{primary(0)};
  const auto launches = [] { return fake<int>("fake_cuda_launches", primary(0)); };
  for (const int code : {sy::cuda::result::invalid_context, sy::cuda::result::invalid_handle}) {
    const int before = launches();
    notes().launch_answers = {code, 0};
    CHECK(device->launch(function, {}, nullptr, stream.get()) == 0);
    CHECK(launches() == before + 1);
    notes().launch_answers = {code, code};
    CHECK(device->launch(function, {}, nullptr, stream.get()) == code);
    CHECK(launches() == before + 1);
    notes().launch_answers = {};
  }
  notes().launch_answers = {sy::cuda::result::out_of_memory, 0};
  CHECK(device->launch(function, {}, nullptr, stream.get()) == sy::cuda::result::out_of_memory);
  notes().launch_answers = {};
  device->unload(module);
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

TEST_CASE("loading") {
  const auto device = sy::cuda::open(0, fake_options());
  set_current(nullptr);
  const auto image = ptx();
  const int before = notes().modules;
  auto* const module = device->load(image, "text.ptx");
  CHECK(notes().modules == before + 1);
  CHECK(notes().load_mode == sy::cuda::capture::relaxed);  // other streams may be captured meanwhile
  CHECK(std::string{notes().image_text} == ".version 8.0\n.target sm_80\n");  // ends where it should
  CHECK(current() == nullptr);
  const auto missing = error_of([&] { (void)device->find(module, "absent"); });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  CHECK(contains(missing.what(), "text.ptx has no kernel 'absent'"));
  std::vector<sy::parameter_slot> slots(5);
  REQUIRE(device->parameters(device->find(module, "kernel"), slots));
  REQUIRE(slots.size() == 2);
  CHECK(slots[1].offset == 8);
  CHECK(slots[1].bytes == 4);
  device->unload(module);
  CHECK(notes().modules == before);
  device->unload(nullptr);

  const misbehaviour full{"full"};
  const auto memory = error_of([&] { (void)device->load(image, "text.ptx"); });
  CHECK(memory.code() == sy::error_code::out_of_memory);
}

TEST_CASE("capturing") {
  const auto device = sy::cuda::open(0, fake_options());
  const fake_stream idle{primary(0)};
  const fake_stream active{primary(0), 1};
  const fake_stream invalidated{primary(0), 2};
  CHECK(!device->capturing(idle.get()));
  CHECK(device->capturing(active.get()));
  CHECK(device->capturing(invalidated.get()));
  CHECK(!device->capturing(nullptr));
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to CUDA_ERROR_CAPTURED_EVENT; 906 is the one that drivers give.
  for (const int code : {900, 906, 907}) {
    notes().legacy_capture_error = code;
    CHECK(device->capturing(nullptr));
  }
  for (const int code : {899, 908, 1}) {
    notes().legacy_capture_error = code;
    CHECK_FALSE(device->capturing(nullptr));
  }
  notes().legacy_capture_error = 0;
}

TEST_CASE("memory") {
  const auto device = sy::cuda::open(0, fake_options());
  void* const address = device->allocate(0, nullptr);
  CHECK(address != nullptr);
  device->release(address, nullptr);
  CHECK(device->allocate(std::size_t{1} << 40U, nullptr) == nullptr);
  CHECK(device->fill(nullptr, 1, 0, nullptr) == 0);
  CHECK(device->encode({.rank = 6}, nullptr) == sy::cuda::result::invalid_value);
  CHECK(device->encode({.rank = 0}, nullptr) == sy::cuda::result::invalid_value);
}

TEST_CASE("copies and events") {
  const auto device = sy::cuda::open(0, fake_options());
  set_current(nullptr);
  const int before = 41;
  int after = 0;
  CHECK(device->copy(&after, &before, sizeof after, nullptr) == 0);
  CHECK(device->copy(nullptr, nullptr, 0, nullptr) == 0);
  CHECK(device->synchronize(nullptr) == 0);
  CHECK(after == before);
  const auto first = device->create_event();
  const auto second = device->create_event();
  double microseconds = -1;
  CHECK(device->record(first, nullptr) == 0);
  CHECK(device->record(second, nullptr) == 0);
  CHECK(device->elapsed(first, second, microseconds) == 0);
  CHECK(microseconds == 1000);  // the fake's clock ticks once a record
  device->destroy_event(first);
  device->destroy_event(second);
  device->destroy_event(nullptr);
  CHECK(notes().events == 0);
}

TEST_CASE("threads open and close devices at once") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const auto image = ptx();
      for (int i = 0; i < 200; ++i) {
        const auto device = sy::cuda::open(t % 2, fake_options());
        auto* const module = device->load(image, "text.ptx");
        device->unload(module);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(notes().retained[0] == 0);
  CHECK(notes().retained[1] == 0);
  CHECK(notes().modules == 0);
}
