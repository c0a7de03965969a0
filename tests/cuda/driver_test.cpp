// SPDX-License-Identifier: MIT
// The cuda backend without a device: over a fake driver, whose path the program is given in
// FAKE_CUDA_LIBRARY.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "fake_cuda.hpp"
#include "threads.hpp"
#include "thrown.hpp"

namespace {

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

std::vector<std::byte> ptx() {
  const std::string text = ".version 8.0\n.target sm_80\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

/// The fake driver's entry points, some of which a test replaces.
std::shared_ptr<sy::cuda::api> entry_points() {
  return std::make_shared<sy::cuda::api>(*sy::cuda::open_library(fake_options()));
}

/// A device in its primary context over such entry points.
std::unique_ptr<sy::cuda::driver> device_over(std::shared_ptr<const sy::cuda::api> table, int ordinal = 0) {
  return std::make_unique<sy::cuda::driver>(std::move(table), ordinal, primary(ordinal), false);
}

/// A kernel on the first device, loaded for as long as this lives.
struct loaded_kernel {
  loaded_kernel() {
    const auto image = ptx();
    module = device->load(image, "text.ptx");
    function = device->find(module, "kernel");
  }
  loaded_kernel(const loaded_kernel&) = delete;
  loaded_kernel& operator=(const loaded_kernel&) = delete;
  ~loaded_kernel() { device->unload(module); }

  const std::shared_ptr<sy::cuda::driver> device = sy::cuda::open(0, fake_options());
  sy::module_handle module = nullptr;
  sy::function_handle function = nullptr;
};

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

TEST_CASE("the thread's capture mode is again what it was behind what may be done while others capture") {
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  int mode = 1;  // of threads that capture by themselves
  REQUIRE(table->thread_exchange_stream_capture_mode(&mode) == 0);
  const int before = mode;
  auto* const module = device->load(image, "text.ptx");
  CHECK(notes().load_mode == sy::cuda::capture::relaxed);
  device->configure(device->find(module, "kernel"), {});
  device->unload(module);
  CHECK(table->thread_exchange_stream_capture_mode(&mode) == 0);
  CHECK(mode == 1);
  CHECK(before == 0);
  // A driver that refuses to change it is not asked to change it back.
  static int exchanges = 0;
  table->thread_exchange_stream_capture_mode = [](int*) { return ++exchanges; };
  device->unload(device->load(image, "text.ptx"));
  CHECK(exchanges == 2);
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
  alignas(64) std::array<std::byte, sy::tensor_map_bytes> map{};
  CHECK(device->encode({.rank = 5}, map.data()) == 0);
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
  CHECK(device->record(second, nullptr) == 0);
  CHECK(device->elapsed(first, second, microseconds) == 0);
  CHECK(microseconds == 2000);
  device->destroy_event(first);
  device->destroy_event(second);
  device->destroy_event(nullptr);
  CHECK(notes().events == 0);
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

TEST_CASE("a launch is refused beforehand where the kernel or the device could never run it") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const kernel = device->find(module, "kernel");
  const auto refusal = [&](const sy::launch_geometry& geometry) -> std::string {
    return sy::test::refusal_by<sy::driver_error>([&] { device->configure(kernel, geometry); });
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
  auto* const fresh = device->find(module, "another");
  const auto unset = [&](const sy::launch_geometry& geometry) {
    return std::string{error_of([&] { device->configure(fresh, geometry); }).what()};
  };
  CHECK(contains(unset({.shared_bytes = 47 * 1024 + 1}),
                 "kernel 'fake_kernel' cannot have 48129 bytes of shared memory a block"));
  CHECK(contains(unset({.cluster = {3, 3}}), "cannot have clusters of 9 blocks"));
  device->configure(fresh, {.cluster = {8}, .shared_bytes = 47 * 1024});  // sets nothing
  table->func_get_attribute = [](int*, int, CUfunc_st*) { return sy::cuda::result::invalid_value; };
  CHECK(contains(unset({}), "does not report an attribute"));
  device->unload(module);
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
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  auto* const kernel = device->find(module, "kernel");
  CHECK(contains(error_of([&] { device->configure(kernel, {.cooperative = true}); }).what(),
                 "needs cooperative launches, which the device or its driver does not support on Fake B"));
  CHECK(contains(error_of([&] {
                   device->configure(kernel, {.cluster = {1, 1, 2}});
                 }).what(),
                 "needs clusters, which the device or its driver does not support on Fake B"));
  device->configure(kernel, {});
  set_current(primary(1));
  REQUIRE(device->launch(kernel, {.programmatic_dependent_launch = true}, nullptr, nullptr) == 0);
  CHECK(notes().launch_attributes == 0);
  set_current(nullptr);
  device->unload(module);
}

TEST_CASE("a kernel's parameters are those that the driver tells, if it does") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  std::vector<sy::parameter_slot> slots(3);
  CHECK_FALSE(device->parameters(device->find(module, "untold"), slots));
  CHECK(slots.empty());
  CHECK(device->parameters(device->find(module, "take"), slots));
  CHECK(slots.empty());
  CHECK(device->parameters(device->find(module, "take_4_8_128"), slots));
  REQUIRE(slots.size() == 3);
  CHECK(slots[1].offset == 8);
  CHECK(slots[2].bytes == 128);
  table->func_get_param_info = [](CUfunc_st*, std::size_t, std::size_t*, std::size_t*) {
    return sy::cuda::result::out_of_memory;
  };
  table->func_get_name = [](const char** name, CUfunc_st*) {
    *name = "stale";
    return sy::cuda::result::invalid_value;
  };
  CHECK(contains(error_of([&] { (void)device->parameters(device->find(module, "kernel"), slots); }).what(),
                 "Fake A: a kernel does not report its parameters"));
  table->func_get_name = nullptr;  // as with drivers before CUDA 12.3
  CHECK(contains(error_of([&] { (void)device->parameters(device->find(module, "kernel"), slots); }).what(),
                 "Fake A: a kernel does not report its parameters: CUDA_ERROR_OF_SOME_KIND (2)"));
  device->unload(module);
}

TEST_CASE("a blob that the driver refuses is named with the device and what the driver says of it") {
  set_current(nullptr);
  const auto table = entry_points();
  table->module_load_data_ex = [](CUmod_st**, const void*, unsigned count, int* names, void** values) {
    for (unsigned i = 0; i < count; ++i) {
      if (names[i] == sy::cuda::load_option::error_log)
        std::strcpy(static_cast<char*>(values[i]), "line 7: no such\n\ninstruction\n");
      if (names[i] == sy::cuda::load_option::info_log)
        std::strcpy(static_cast<char*>(values[i]), "for sm_90");
    }
    return 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU
  };
  const auto device = device_over(table);
  const auto refused = error_of([&] { (void)device->load(ptx(), "text.ptx"); });
  CHECK(refused.code() == sy::error_code::blob_not_loadable);
  CHECK_THAT(std::string{refused.message()},
             Catch::Matchers::Equals(
                 "text.ptx: CUDA_ERROR_OF_SOME_KIND (209): as the fake has it; the device is sm_90 "
                 "(Fake A, CUDA 13.0); line 7: no such; instruction; for sm_90"));
  CHECK(current() == nullptr);
  const auto broken = error_of([&] { (void)device->load({}, "empty.ptx"); });
  CHECK(broken.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(broken.what(), "empty.ptx: 0 bytes that are neither a whole cubin, nor a fatbin, nor PTX"));
}

TEST_CASE("a kernel's code is on the device once it is found, with drivers of every age") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  table->func_load = [](CUfunc_st*) { return sy::cuda::result::out_of_memory; };
  const auto full = error_of([&] { (void)device->find(module, "kernel"); });
  CHECK(full.code() == sy::error_code::out_of_memory);
  CHECK(full.kind() == sy::failure_kind::transient);
  CHECK(contains(full.what(), "text.ptx: kernel 'kernel' cannot be loaded: CUDA_ERROR_OF_SOME_KIND (2)"));
  table->func_load = nullptr;  // before CUDA 12.4 asking for an attribute loads it
  static int asked = 0;
  table->func_get_attribute = [](int*, int, CUfunc_st*) {
    ++asked;
    return sy::cuda::result::success;
  };
  CHECK(device->find(module, "kernel") != nullptr);
  CHECK(asked == 1);
  table->func_get_attribute = [](int*, int, CUfunc_st*) { return 700; };
  CHECK(error_of([&] { (void)device->find(module, "kernel"); }).kind() == sy::failure_kind::context);
  table->module_get_function = [](CUfunc_st**, CUmod_st*, const char*) { return 700; };
  CHECK(error_of([&] { (void)device->find(module, "kernel"); }).code() == sy::error_code::driver_failed);
  device->unload(module);
}

TEST_CASE("times that cannot be measured are refused, and leave what was there") {
  const auto table = entry_points();
  const auto device = device_over(table);
  auto* const event = device->create_event();
  double microseconds = 5;
  table->event_elapsed_time = [](float* milliseconds, CUevent_st*, CUevent_st*) {
    *milliseconds = 9;
    return sy::cuda::result::not_ready;
  };
  CHECK(device->elapsed(event, event, microseconds) == sy::cuda::result::not_ready);
  table->event_synchronize = [](CUevent_st*) { return 719; };
  CHECK(device->elapsed(event, event, microseconds) == 719);
  CHECK(microseconds == 5);
  table->event_create = [](CUevent_st**, unsigned) { return sy::cuda::result::out_of_memory; };
  CHECK(contains(error_of([&] { (void)device->create_event(); }).what(), "Fake A: cannot create an event"));
  device->destroy_event(event);
}

TEST_CASE("memory of no bytes is one byte, and nothing is freed that was not given") {
  const auto table = entry_points();
  static std::size_t asked = 0;
  static int freed = 0;
  table->mem_alloc_async = [](unsigned long long* address, std::size_t bytes, CUstream_st*) {
    asked = bytes;
    *address = 0x2000;
    return bytes < 100 ? sy::cuda::result::success : sy::cuda::result::out_of_memory;
  };
  table->mem_free_async = [](unsigned long long address, CUstream_st*) {
    freed += address == 0x2000 ? 1 : 100;
    return sy::cuda::result::success;
  };
  const auto device = device_over(table);
  CHECK(device->allocate(0, nullptr) == reinterpret_cast<void*>(0x2000));
  CHECK(asked == 1);
  CHECK(device->allocate(17, nullptr) != nullptr);
  CHECK(asked == 17);
  CHECK(device->allocate(100, nullptr) == nullptr);
  device->release(nullptr, nullptr);
  CHECK(freed == 0);
  device->release(reinterpret_cast<void*>(0x2000), nullptr);
  CHECK(freed == 1);
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
