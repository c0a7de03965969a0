// SPDX-License-Identifier: MIT
// The cuda backend, and the hip backend over hip_over_cuda, on a Hopper GPU. TEST_KERNELS names the folder of
// the blobs made of kernels.cu, HIP_OVER_CUDA_LIBRARY the library.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/io/file.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "hopper.hpp"
#include "raw.hpp"
#include "scale_kernel.hpp"
#include "threads.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;
using cuda_test::need_hopper;
using device_test::pointers;
using sy::test::contains;
using sy::test::error_of;
using sy::test::required_variable;

std::vector<std::byte> read_file(const std::string& name) {
  const std::string path = required_variable("TEST_KERNELS") + "/" + name;
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{path + " cannot be read"};
  const std::vector<char> characters{std::istreambuf_iterator<char>{file}, {}};
  const auto* const bytes = reinterpret_cast<const std::byte*>(characters.data());
  return {bytes, bytes + characters.size()};
}

struct cuda_backend {
  static std::shared_ptr<sy::device_driver> open() { return sy::cuda::open(0); }
  static std::shared_ptr<sy::device_driver> of(sy::stream stream) { return sy::cuda::of(stream); }
};

struct hip_backend {
  static std::shared_ptr<sy::device_driver> open() {
    return sy::hip::open(0, {.library = required_variable("HIP_OVER_CUDA_LIBRARY")});
  }
  static std::shared_ptr<sy::device_driver> of(sy::stream stream) {
    return sy::hip::of(stream, {.library = required_variable("HIP_OVER_CUDA_LIBRARY")});
  }
};

/// The kernels' module on a device.
class loaded : public device_test::loaded_module {
 public:
  explicit loaded(std::shared_ptr<sy::device_driver> device, const std::string& name = "kernels.sm_90a.cubin")
      : loaded_module{std::move(device), read_file(name), name} {}
};

bool scales(sy::device_driver& driver, sy::function_handle function, sy::stream stream, float a) {
  return device_test::scales<raw::buffer<float>>(driver, function, stream, a);
}

}  // namespace

TEST_CASE("a CUDA device tells its properties") {
  need_hopper();
  const auto device = sy::cuda::open(0);
  const auto& properties = device->properties();
  std::printf("%s, %s, %lld multiprocessors, %.3f TB/s, %lld bytes shared\n", properties.name.c_str(),
              properties.arch.c_str(), static_cast<long long>(properties.attribute("multiprocessors")),
              static_cast<double>(properties.attribute("memory_bandwidth")) * 1e-12,
              static_cast<long long>(properties.attribute("shared_bytes_per_block")));
  CHECK(properties.backend == "cuda");
  CHECK(!properties.name.empty());
  CHECK(properties.attribute("multiprocessors") > 0);
  CHECK(properties.attribute("shared_bytes_per_block") > std::int64_t{48} * 1024);
  CHECK(properties.attribute("memory_bandwidth") > 100'000'000'000);
  for (const char* const name :
       {"memory_bytes", "l2_bytes", "shared_bytes_per_multiprocessor", "registers_per_multiprocessor",
        "threads_per_multiprocessor", "max_threads_per_block", "warp_size", "clock_khz", "compute_capability",
        "cluster_launch", "cooperative_launch", "tensor_maps", "driver_version"}) {
    std::printf("  %s = %lld\n", name, static_cast<long long>(properties.attribute(name)));
    CHECK(properties.attribute(name) > 0);
  }
  CHECK(properties.arch == "sm_" + std::to_string(properties.attribute("compute_capability")));
  CHECK(properties.attribute("warp_size") == 32);
  CHECK(sy::target_fit(properties, "cuda", properties.arch + "a") >
        sy::target_fit(properties, "cuda", "sm_90"));
}

TEST_CASE("one context has one device") {
  need_hopper();
  const auto device = sy::cuda::open(0);
  CHECK(device == sy::cuda::open(0));
  CHECK(device == sy::cuda::current());
  CHECK(device == sy::cuda::of(nullptr));
  const raw::own_stream stream;
  CHECK(device == sy::cuda::of(stream.get()));
  CHECK(device->context() == raw::primary_context());
  std::thread{[&] { CHECK(device == sy::cuda::current()); }}.join();  // no context is current there
}

TEMPLATE_TEST_CASE("a kernel's parameters are known by place and size", "", cuda_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto show = [&](const char* name) {
    std::vector<sy::parameter_slot> slots;
    REQUIRE(driver->parameters(module[name], slots));
    std::printf("%s:", name);
    for (const auto& slot : slots) std::printf(" %u+%u", slot.offset, slot.bytes);
    std::printf("\n");
    return slots;
  };
  const auto equal = [](const std::vector<sy::parameter_slot>& slots,
                        const std::vector<std::pair<std::uint32_t, std::uint32_t>>& expected) {
    if (slots.size() != expected.size()) return false;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].offset != expected[i].first || slots[i].bytes != expected[i].second) return false;
    }
    return true;
  };
  CHECK(equal(show("nothing"), {}));
  CHECK(equal(show("scale"), {{0, 8}, {8, 8}, {16, 4}, {20, 4}}));
  CHECK(equal(show("mixed"), {{0, 1}, {8, 24}, {32, 8}, {40, 8}, {48, 1}}));
  const auto tensor = show("tensor_tile");
  REQUIRE(tensor.size() == 4);
  CHECK(tensor[0].bytes == sy::tensor_map_bytes);
  CHECK(show("sixteen").size() == 16);
}

TEMPLATE_TEST_CASE("kernels run on every kind of stream", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto scale = module["scale"];
  driver->configure(scale, {.grid = {8}, .block = {128}});
  const raw::own_stream own;
  CHECK(scales(*driver, scale, nullptr, 2.0F));
  CHECK(scales(*driver, scale, sy::stream{reinterpret_cast<void*>(1)}, 3.0F));
  CHECK(scales(*driver, scale, sy::stream{reinterpret_cast<void*>(2)}, 4.0F));
  CHECK(scales(*driver, scale, own.get(), 5.0F));
  CHECK(TestType::of(own.get()) == driver);
  CHECK(TestType::of(nullptr) == driver);
  CHECK(TestType::of(sy::stream{reinterpret_cast<void*>(1)}) == driver);
  CHECK(TestType::of(sy::stream{reinterpret_cast<void*>(2)}) == driver);
}

TEMPLATE_TEST_CASE("structures and narrow values arrive", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  device_test::check_mixed<raw::buffer<double>>(*driver, module["mixed"]);
}

TEMPLATE_TEST_CASE("captured launches replay", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto scale = module["scale"];
  const raw::own_stream stream;
  const raw::own_stream blocking{0};
  const raw::buffer<float> x{std::vector<float>{1, 2, 3, 4}};
  const raw::buffer<float> y{4};
  float* const out = y.get();
  const float* const in = x.get();
  const float a = 3;
  const int n = 3;
  CHECK(!driver->capturing(stream.get()));
  CHECK(!driver->capturing(nullptr));
  // Loading while this thread captures does not end the capture. The module outlives the graph.
  std::unique_ptr<loaded> late;
  const raw::graph graph{
      stream.get(), 0, [&] {
        CHECK(driver->capturing(stream.get()));
        CHECK(!driver->capturing(blocking.get()));
        auto parameters = pointers(out, in, a, n);
        CHECK(driver->fill(out, 0x40, 16, stream.get()) == 0);
        const sy::launch_geometry geometry{.grid = {1}, .block = {32}};
        CHECK(driver->launch(scale, geometry, parameters.data(), stream.get()) == 0);
        late = std::make_unique<loaded>(driver);
        CHECK(driver->launch((*late)["scale"], geometry, parameters.data(), stream.get()) == 0);
      }};
  const raw::graph legacy{blocking.get(), 0, [&] {
                            CHECK(driver->capturing(blocking.get()));
                            // The legacy stream would have to wait for the capture.
                            CHECK(driver->capturing(nullptr));
                          }};
  CHECK(!driver->capturing(stream.get()));
  CHECK(y.read() == std::vector<float>{0, 0, 0, 0});
  float filled = 0;
  const std::uint32_t bits = 0x40404040;
  std::memcpy(&filled, &bits, 4);
  for (int i = 0; i < 2; ++i) {
    const raw::buffer<float> zero{4};
    raw::call("cuMemcpyDtoD_v2", reinterpret_cast<unsigned long long>(out),
              reinterpret_cast<unsigned long long>(zero.get()), std::size_t{16});
    raw::call("cuCtxSynchronize");  // the stream does not wait for the legacy one
    graph.launch(stream.get());
    CHECK(y.read() == std::vector<float>{3, 6, 9, filled});
  }
}

TEMPLATE_TEST_CASE("shared memory beyond 48 KB", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto kernel = module["shared_sum"];
  const auto most = static_cast<std::uint32_t>(driver->properties().attribute("shared_bytes_per_block"));
  REQUIRE(most > 100 * 1024);
  for (const std::uint32_t bytes : {16U * 1024, 100U * 1024, most, 64U * 1024}) {
    const sy::launch_geometry geometry{.block = {256}, .shared_bytes = bytes};
    driver->configure(kernel, geometry);
    const raw::buffer<long long> out{1};
    long long* const address = out.get();
    const int words = static_cast<int>(bytes / 4);
    auto parameters = pointers(address, words);
    REQUIRE(driver->launch(kernel, geometry, parameters.data(), nullptr) == 0);
    CHECK(out.read()[0] == static_cast<long long>(words) * (words - 1) / 2);
  }
  const auto error = error_of([&] { driver->configure(kernel, {.shared_bytes = most + 1}); });
  CHECK(error.code() == sy::error_code::launch_failed);
  CHECK(contains(error.what(), std::to_string(most + 1)));
  CHECK(contains(error.what(), "shared_sum"));
}

TEST_CASE("launches that cannot succeed are refused in words") {
  need_hopper();
  const auto driver = sy::cuda::open(0);
  const loaded module{driver};
  const auto error = error_of([&] { driver->configure(module["at_most_128_threads"], {.block = {256}}); });
  std::printf("%s\n", error.what());
  CHECK(error.code() == sy::error_code::launch_failed);
  CHECK(contains(error.what(), "128"));
  CHECK(contains(error.what(), "256"));
  CHECK(driver->launch(module["nothing"], {.block = {4096}}, nullptr, nullptr) == 1);
  CHECK(driver->describe(1) == "CUDA_ERROR_INVALID_VALUE (1): invalid argument");
}

TEMPLATE_TEST_CASE("cooperative launches", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto kernel = module["grid_barrier"];
  const auto blocks = static_cast<std::uint32_t>(driver->properties().attribute("multiprocessors"));
  const raw::buffer<int> partial{blocks};
  const raw::buffer<int> out{2};
  int* const first = partial.get();
  int* const second = out.get();
  auto parameters = pointers(first, second);
  const sy::launch_geometry geometry{.grid = {blocks}, .block = {64}, .cooperative = true};
  driver->configure(kernel, geometry);
  REQUIRE(driver->launch(kernel, geometry, parameters.data(), nullptr) == 0);
  const auto total = static_cast<int>(blocks * (blocks + 1) / 2);
  CHECK(out.read() == std::vector<int>{total, 1});
}

TEST_CASE("clusters") {
  need_hopper();
  const auto driver = sy::cuda::open(0);
  const loaded module{driver};
  const auto kernel = module["cluster_place"];
  for (const std::uint32_t size : {1U, 2U, 8U, 16U}) {
    const raw::buffer<int> out{64};
    int* const address = out.get();
    auto parameters = pointers(address);
    const sy::launch_geometry geometry{.grid = {32}, .block = {32}, .cluster = {size}};
    driver->configure(kernel, geometry);
    const int code = driver->launch(kernel, geometry, parameters.data(), nullptr);
    INFO(size << " blocks a cluster: " << driver->describe(code));
    REQUIRE(code == 0);
    const auto places = out.read();
    for (std::size_t block = 0; block < 32; ++block) {
      CHECK(places[2 * block] == static_cast<int>(block % size));
      CHECK(places[2 * block + 1] == static_cast<int>(size));
    }
  }
}

TEST_CASE("programmatic dependent launches overlap") {
  need_hopper();
  const auto driver = sy::cuda::open(0);
  const loaded module{driver};
  const auto primary = module["primary"];
  const auto dependent = module["dependent"];
  const raw::own_stream stream;
  for (const bool overlap : {true, false}) {
    const raw::buffer<int> begun{1};
    const raw::buffer<int> between{2};
    const raw::buffer<int> out{1};
    int* const flag = begun.get();
    int* const middle = between.get();
    int* const last = out.get();
    const int value = overlap ? 41 : 42;
    auto first = pointers(flag, middle, value);
    auto second = pointers(flag, middle, last);
    REQUIRE(driver->launch(primary, {}, first.data(), stream.get()) == 0);
    REQUIRE(driver->launch(dependent, {.programmatic_dependent_launch = overlap}, second.data(),
                           stream.get()) == 0);
    CHECK(out.read()[0] == value);
    CHECK(between.read()[0] == (overlap ? 1 : 0));
  }
}

TEST_CASE("tensor maps") {
  need_hopper();
  const auto driver = sy::cuda::open(0);
  const loaded module{driver};
  std::vector<float> values(std::size_t{64} * 128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const raw::buffer<float> tensor{values};
  sy::tensor_map_request request;
  request.address = tensor.get();
  request.rank = 2;
  request.element_type = 7;  // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
  request.extents[0] = 128;
  request.extents[1] = 64;
  request.stride_bytes[0] = std::uint64_t{128} * 4;
  request.box[0] = 32;
  request.box[1] = 16;
  request.element_strides[0] = request.element_strides[1] = 1;
  alignas(64) std::array<std::byte, sy::tensor_map_bytes> map{};
  const int code = driver->encode(request, map.data());
  INFO(driver->describe(code));
  REQUIRE(code == 0);

  const raw::buffer<float> out{std::vector<float>(std::size_t{16} * 32, -1.0F)};
  float* const address = out.get();
  const int x = 64;
  const int y = 48;
  auto parameters = pointers(map, address, x, y);
  REQUIRE(driver->launch(module["tensor_tile"], {.block = {128}}, parameters.data(), nullptr) == 0);
  const auto tile = out.read();
  bool right = true;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 32; ++column)
      right = right && tile[row * 32 + column] == values[(48 + row) * 128 + 64 + column];
  }
  CHECK(right);

  request.stride_bytes[0] = 3;
  CHECK(driver->encode(request, map.data()) == 1);
  request.rank = 6;
  CHECK(driver->encode(request, map.data()) == 1);
  CHECK(hip_backend::open()->encode(request, map.data()) == 801);
}

TEMPLATE_TEST_CASE("filling and stream-ordered memory", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const raw::own_stream stream;
  for (const sy::stream test_stream : {sy::stream{}, sy::stream{stream.get()}}) {
    void* const memory = driver->allocate(1 << 20, test_stream);
    REQUIRE(memory != nullptr);
    CHECK(driver->fill(memory, 0x5a, 1 << 20, test_stream) == 0);
    CHECK(driver->fill(memory, 0, 0, test_stream) == 0);
    raw::call("cuStreamSynchronize", static_cast<CUstream_st*>(test_stream));
    std::array<unsigned char, 16> tail{};
    raw::call("cuMemcpyDtoH_v2", static_cast<void*>(tail.data()),
              static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory)) + (1 << 20) - 16,
              std::size_t{16});
    CHECK(std::all_of(tail.begin(), tail.end(), [](unsigned char byte) { return byte == 0x5a; }));
    driver->release(memory, test_stream);
  }
  CHECK(driver->allocate(std::size_t{1} << 50, stream.get()) == nullptr);
  driver->release(nullptr, stream.get());
  raw::call("cuCtxSynchronize");
}

TEMPLATE_TEST_CASE("copies and events", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const raw::own_stream stream;
  std::vector<int> values(1 << 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const auto expected = values;
  const std::size_t bytes = values.size() * sizeof(int);
  void* const first = driver->allocate(bytes, stream.get());
  void* const second = driver->allocate(bytes, stream.get());
  const auto start = driver->create_event();
  const auto end = driver->create_event();
  CHECK(driver->record(start, stream.get()) == 0);
  CHECK(driver->copy(first, values.data(), bytes, stream.get()) == 0);
  std::fill(values.begin(), values.end(), -1);  // has been read
  CHECK(driver->copy(second, first, bytes, stream.get()) == 0);
  CHECK(driver->copy(values.data(), second, bytes, stream.get()) == 0);
  CHECK(driver->record(end, stream.get()) == 0);
  CHECK(driver->synchronize(stream.get()) == 0);
  CHECK(values == expected);
  double microseconds = -1;
  CHECK(driver->elapsed(start, end, microseconds) == 0);
  CHECK(microseconds > 1);
  CHECK(microseconds < 1e6);
  driver->destroy_event(start);
  driver->destroy_event(end);
  driver->release(first, stream.get());
  driver->release(second, stream.get());
  CHECK(driver->synchronize(stream.get()) == 0);
}

TEST_CASE("a context of the engine's own") {
  need_hopper();
  const auto primary = sy::cuda::open(0);
  CUctx_st* own = nullptr;
  raw::call("cuCtxCreate_v2", &own, 0U, 0);
  {
    const auto device = sy::cuda::current();
    CHECK(device->context() == own);
    CHECK(device != primary);
    CHECK(device == sy::cuda::of(nullptr));
    const loaded module{device};
    const auto scale = module["scale"];
    const raw::own_stream stream;
    CHECK(sy::cuda::of(stream.get()) == device);
    CHECK(scales(*device, scale, nullptr, 6.0F));
    CHECK(scales(*device, scale, stream.get(), 7.0F));

    // Both contexts' kernels in turn, whichever is current; the stack of contexts ends with none.
    while (raw::current_context() != nullptr) raw::set_current(nullptr);
    raw::set_current(own);
    const loaded other{primary};
    const auto other_scale = other["scale"];
    float* const out = nullptr;
    const int n = 0;
    const float a = 1;
    auto parameters = pointers(out, out, a, n);
    const sy::launch_geometry geometry{.block = {32}};
    for (CUctx_st* const current : {own, raw::primary_context(), static_cast<CUctx_st*>(nullptr)}) {
      raw::set_current(current);
      CUctx_st* const before = raw::current_context();
      CHECK(device->launch(scale, geometry, parameters.data(), nullptr) == 0);
      CHECK(device->launch(scale, geometry, parameters.data(), stream.get()) == 0);
      CHECK(primary->launch(other_scale, geometry, parameters.data(), nullptr) == 0);
      CHECK(raw::current_context() == before);

      // What the driver itself says without our making the context current.
      auto* const function = static_cast<CUfunc_st*>(scale);
      const int bare =
          raw::try_call("cuLaunchKernel", function, 1U, 1U, 1U, 32U, 1U, 1U, 0U,
                        static_cast<CUstream_st*>(nullptr), parameters.data(), static_cast<void**>(nullptr));
      const int bare_own = raw::try_call("cuLaunchKernel", function, 1U, 1U, 1U, 32U, 1U, 1U, 0U,
                                         stream.get(), parameters.data(), static_cast<void**>(nullptr));
      std::printf("bare launch with %s current: null stream %s; own stream %s\n",
                  current == own       ? "its context"
                  : current == nullptr ? "no context"
                                       : "another context",
                  device->describe(bare).c_str(), device->describe(bare_own).c_str());
    }
    raw::set_current(own);
    raw::call("cuCtxSynchronize");
  }
  raw::call("cuCtxDestroy_v2", own);
  raw::set_current(raw::primary_context());
}

TEST_CASE("blobs that cannot be loaded say why") {
  need_hopper();
  const auto device = sy::cuda::open(0);
  const auto load = [&](const std::vector<std::byte>& image, const std::string& name) {
    auto error = error_of([&] { device->unload(device->load(image, name)); });
    std::printf("%s\n", error.what());
    return error;
  };
  const auto foreign = load(read_file("kernels.sm_75.cubin"), "foreign.cubin");
  CHECK(foreign.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(foreign.what(), "foreign.cubin"));
  CHECK(contains(foreign.what(), "sm_75"));
  CHECK(contains(foreign.what(), device->properties().arch));

  auto cut = read_file("kernels.sm_90a.cubin");
  cut.resize(cut.size() - 100);
  CHECK(contains(load(cut, "cut.cubin").what(), "whole"));
  CHECK(load({}, "empty").code() == sy::error_code::blob_not_loadable);

  const std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { bogus.u32 %r1; }\n";
  const auto* const text = reinterpret_cast<const std::byte*>(ptx.data());
  const auto bad = load({text, text + ptx.size()}, "bad.ptx");
  CHECK(contains(bad.what(), "bogus"));

  const loaded module{device};
  const auto missing = error_of([&] { (void)module["absent"]; });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  CHECK(contains(missing.what(), "absent"));
}

TEST_CASE("PTX and fatbins load as cubins do") {
  need_hopper();
  const auto device = sy::cuda::open(0);
  for (const char* const name : {"kernels.compute_80.ptx", "kernels.fatbin"}) {
    const loaded module{device, name};
    CHECK(scales(*device, module["scale"], nullptr, 8.0F));
  }
}

TEMPLATE_TEST_CASE("threads load and launch at once", "", cuda_backend, hip_backend) {
  need_hopper();
  const auto driver = TestType::open();
  const loaded module{driver};
  const auto scale = module["scale"];
  std::atomic<int> failures = 0;
  sy::test::run_threads(4, [&](int t) {
    // The first two have no context current, as a fresh worker thread has none.
    if (t >= 2) raw::set_current(raw::primary_context());
    std::vector<float> ones(256, 1.0F);
    for (int i = 0; i < 25; ++i) {
      const loaded own{driver};
      const auto again = own["scale"];
      driver->configure(own["shared_sum"],
                        {.block = {32}, .shared_bytes = 49152U + 1024U * static_cast<unsigned>(i)});
      float* const none = nullptr;
      const float a = 1;
      const int n = 0;
      auto parameters = pointers(none, none, a, n);
      for (const auto function : {scale, again}) {
        if (driver->launch(function, {.block = {32}}, parameters.data(), nullptr) != 0) ++failures;
      }
    }
    raw::set_current(raw::primary_context());
    if (!scales(*driver, scale, nullptr, 9.0F)) ++failures;
  });
  CHECK(failures == 0);
  raw::call("cuCtxSynchronize");
}

TEST_CASE("hip over cuda tells what it is") {
  need_hopper();
  const auto device = sy::hip::open(0, {.library = required_variable("HIP_OVER_CUDA_LIBRARY")});
  const auto cuda = sy::cuda::open(0);
  CHECK(device->properties().backend == "hip");
  CHECK(device->properties().name == cuda->properties().name);
  CHECK(device->properties().attribute("multiprocessors") == cuda->properties().attribute("multiprocessors"));
  CHECK(device->properties().attribute("memory_bandwidth") ==
        cuda->properties().attribute("memory_bandwidth"));
  CHECK(device->properties().arch == cuda->properties().arch + "a");
  CHECK(device->properties().attribute("warp_size") == 32);
  const loaded module{device};
  std::vector<sy::parameter_slot> slots;
  CHECK(!device->parameters(module["scale"], slots));  // a cubin has no notes of AMD's
  const auto missing = error_of([&] { (void)module["absent"]; });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  const auto clustered = error_of([&] { device->configure(module["scale"], {.cluster = {2}}); });
  CHECK(clustered.code() == sy::error_code::launch_failed);
  CHECK(device->launch(module["scale"], {.cluster = {2}}, nullptr, nullptr) == 801);
  const auto foreign =
      error_of([&] { (void)device->load(read_file("kernels.sm_75.cubin"), "foreign.cubin"); });
  CHECK(contains(foreign.what(), "foreign.cubin"));
  std::printf("%s\n", foreign.what());
}
