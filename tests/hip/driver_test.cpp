// The hip backend without a device: over tests/hip_over_cuda over the fake CUDA driver. The program is given
// HIP_OVER_CUDA_LIBRARY and FAKE_CUDA_LIBRARY, and HSACO when there is a code object.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/hip/router.hpp>
#include <switchyard/problem/target.hpp>

#include "catch.hpp"
#include "cuda/fake_cuda.hpp"
#include "environment.hpp"

namespace {

namespace sy = switchyard;
using sy::test::required_variable;

/// Another name of the same library, so that it is asked anew: an opened library is remembered by its name.
sy::hip::options renamed() {
  static int count = 0;
  const std::string path = required_variable("HIP_OVER_CUDA_LIBRARY");
  const auto slash = path.rfind('/');
  return {.library = path.substr(0, slash) + std::string(static_cast<std::size_t>(++count), '/') +
                     path.substr(slash)};
}

class setting {
 public:
  setting(const char* name, const char* value) : name_{name} {
    ::setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe): beside no other thread
  }
  setting(const setting&) = delete;
  setting& operator=(const setting&) = delete;
  ~setting() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)

 private:
  const char* name_;
};

template <class Function>
sy::driver_error error_of(Function&& function) {
  try {
    function();
  } catch (const sy::driver_error& error) {
    UNSCOPED_INFO(error.what());
    return error;
  }
  throw std::runtime_error{"no driver_error was thrown"};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The smallest whole ELF file: its header, of no sections.
std::vector<std::byte> image() {
  std::vector<std::byte> file(64);
  const unsigned char head[]{0x7f, 'E', 'L', 'F', 2, 1, 1};
  for (std::size_t i = 0; i < sizeof head; ++i) file[i] = std::byte{head[i]};
  return file;
}

}  // namespace

TEST_CASE("a library that cannot be used says why") {
  const auto absent =
      error_of([] { (void)sy::hip::open(0, {.library = "libamdhip64-which-is-not-there.so"}); });
  CHECK(absent.code() == sy::error_code::driver_absent);
  CHECK(contains(absent.what(), "libamdhip64-which-is-not-there.so"));
  const auto other = error_of([] { (void)sy::hip::count({.library = "libm.so.6"}); });
  CHECK(other.code() == sy::error_code::driver_absent);
  CHECK(contains(other.what(), "libm.so.6 is not a HIP library: it lacks hipInit"));

  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  {
    const setting version{"HIP_OVER_CUDA_VERSION", "40500000"};
    const auto old = error_of([] { (void)sy::hip::open(0, renamed()); });
    CHECK(old.code() == sy::error_code::driver_too_old);
    CHECK(contains(old.what(), "ROCm 4.5"));
    CHECK(contains(old.what(), "5.0 or newer"));
  }
  for (const char* const arch : {"", "gfx942\x01", "GFX 9"}) {
    const setting unreadable{"HIP_OVER_CUDA_ARCH", arch};
    const auto error = error_of([] { (void)sy::hip::open(0, renamed()); });
    CHECK(error.code() == sy::error_code::unsupported_device);
    CHECK(contains(error.what(), "Fake A"));
  }
  const auto beyond = error_of([] { (void)sy::hip::open(2, renamed()); });
  CHECK(beyond.code() == sy::error_code::no_device);
  CHECK(contains(beyond.what(), "there are 2"));
}

TEST_CASE("AMD's own library opens, or says that there is no device") {
  try {
    const int devices = sy::hip::count();
    CHECK(devices > 0);
  } catch (const sy::driver_error& error) {
    INFO(error.what());
    CHECK((error.code() == sy::error_code::driver_absent || error.code() == sy::error_code::no_device));
  }
}

TEST_CASE("properties are read as expressions know them") {
  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  const auto how = renamed();
  const auto device = sy::hip::open(0, how);
  const auto& properties = device->properties();
  CHECK(properties.backend == "hip");
  CHECK(properties.arch == "sm_90a");
  CHECK(properties.name == "Fake A");
  CHECK(properties.attribute("multiprocessors") == 10);
  CHECK(properties.attribute("memory_bandwidth") == 256'000'000'000);
  CHECK(properties.attribute("shared_bytes_per_block") == std::int64_t{100} * 1024);
  CHECK(properties.attribute("warp_size") == 32);
  CHECK(properties.attribute("cooperative_launch") == 1);
  CHECK(properties.attribute("cluster_launch") == 0);
  CHECK(properties.attribute("driver_version") == 60000000);
  CHECK(sy::hip::open(0, how) == device);
  CHECK(sy::hip::current(how) == device);
  CHECK(sy::hip::of(nullptr, how) == device);
  CHECK(sy::hip::open(1, how)->properties().arch == "sm_80");
}

TEST_CASE("loading, launching and memory") {
  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  const auto device = sy::hip::open(0, renamed());
  const auto second = sy::hip::open(1, renamed());
  auto* const module = device->load(image(), "blob.hsaco");
  auto* const kernel = device->find(module, "kernel");
  std::vector<sy::parameter_slot> slots;
  CHECK(!device->parameters(kernel, slots));
  CHECK(device->launch(kernel, {}, nullptr, nullptr) == 0);
  CHECK(device->launch(kernel, {.cooperative = true}, nullptr, nullptr) == 0);
  CHECK(device->launch(kernel, {.programmatic_dependent_launch = true}, nullptr, nullptr) == 0);
  CHECK(device->launch(kernel, {.cluster = {2}}, nullptr, nullptr) == sy::hip::result::not_supported);
  const auto missing = error_of([&] { (void)device->find(module, "absent"); });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  CHECK(contains(missing.what(), "blob.hsaco"));
  const auto clusters = error_of([&] { device->configure(kernel, {.cluster = {2}}); });
  CHECK(contains(clusters.what(), "clusters"));
  const auto shared = error_of([&] { device->configure(kernel, {.shared_bytes = 101 * 1024}); });
  CHECK(contains(shared.what(), std::to_string(101 * 1024)));

  // Another device's work leaves the thread's current device.
  auto* const other = second->load(image(), "blob.hsaco");
  CHECK(second->launch(second->find(other, "kernel"), {}, nullptr, nullptr) == 0);
  CHECK(device->launch(kernel, {}, nullptr, nullptr) == 0);
  second->unload(other);
  device->unload(module);

  void* const memory = device->allocate(16, nullptr);
  CHECK(memory != nullptr);
  CHECK(device->fill(memory, 1, 16, nullptr) == 0);
  device->release(memory, nullptr);
  CHECK(device->allocate(std::size_t{1} << 40U, nullptr) == nullptr);
  CHECK(device->encode({.rank = 2}, nullptr) == sy::hip::result::not_supported);
  CHECK(!device->capturing(nullptr));
  CHECK(contains(device->describe(2), "(2)"));

  const auto broken = error_of([&] { (void)device->load({}, "empty.hsaco"); });
  CHECK(broken.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(broken.what(), "empty.hsaco"));
}

TEST_CASE("copies and events") {
  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  const auto device = sy::hip::open(0, renamed());
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
}

TEST_CASE("a code object's kernels are known by their notes") {
  const char* const path = sy::test::variable("HSACO");
  if (path == nullptr) {
    WARN("skipped: HSACO is not set");
    return;
  }
  std::ifstream stream{path, std::ios::binary};
  const std::vector<char> file{std::istreambuf_iterator<char>{stream}, {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
  const std::vector<std::byte> bytes{begin, begin + file.size()};

  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  const setting arch{"HIP_OVER_CUDA_ARCH", "gfx942:sramecc+:xnack-"};
  const auto device = sy::hip::open(0, renamed());
  CHECK(device->properties().arch == "gfx942:sramecc+:xnack-");
  CHECK(sy::target_fit(device->properties(), "hip", "gfx942"));
  CHECK(!sy::target_fit(device->properties(), "hip", "gfx942:xnack+"));
  auto* const module = device->load(bytes, "kernels.hsaco");
  std::vector<sy::parameter_slot> slots;
  REQUIRE(device->parameters(device->find(module, "scale"), slots));
  CHECK(slots.size() == 4);
  auto* const sum = device->find(module, "shared_sum");
  CHECK(sy::hip::driver::description(sum)->shared_bytes == 4096);
  device->configure(sum, {.block = {128}});
  const auto threads = error_of([&] { device->configure(sum, {.block = {256}}); });
  CHECK(contains(threads.what(), "at most 128 threads"));
  const auto shared = error_of([&] { device->configure(sum, {.block = {128}, .shared_bytes = 100 * 1024}); });
  CHECK(contains(shared.what(), "4096 + 102400"));
  const auto missing = error_of([&] { (void)device->find(module, "absent"); });
  CHECK(contains(missing.what(), "it has"));
  CHECK(contains(missing.what(), "shared_sum"));
  device->unload(module);
}

TEST_CASE("streams are told apart by their devices, at each call") {
  const setting over{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
  const auto how = renamed();
  sy::hip::router streams{how};
  CHECK_FALSE(streams.refuses_foreign_streams());
  const auto first = sy::hip::open(0, how);
  const auto second = sy::hip::open(1, how);
  fake_cuda::fake_stream stream{fake_cuda::primary(1)};
  CHECK(streams.of(stream.get()).driver() == second);
  CHECK(streams.key(stream.get()) == 2);
  CHECK(second->owns(stream.get()));
  CHECK_FALSE(first->owns(stream.get()));
  stream.replace(fake_cuda::primary(0));
  CHECK(streams.of(stream.get()).driver() == first);
  CHECK(streams.key(stream.get()) == 1);
  CHECK(first->owns(stream.get()));
  for (const std::uintptr_t number : {0U, 1U, 2U}) {
    const sy::stream by_default = reinterpret_cast<void*>(number);
    CHECK(first->owns(by_default));
    CHECK(second->owns(by_default));
    CHECK(streams.of(by_default).driver() == sy::hip::current(how));
    CHECK(streams.key(by_default) == static_cast<std::uintptr_t>(sy::hip::current(how)->ordinal()) + 1);
  }
}
