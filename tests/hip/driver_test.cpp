// SPDX-License-Identifier: MIT
// The hip backend without a device: over tests/hip_over_cuda over the fake CUDA driver. The program is given
// HIP_OVER_CUDA_LIBRARY and FAKE_CUDA_LIBRARY, and HSACO when there is a code object.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/hip/router.hpp>
#include <switchyard/hardware/target.hpp>

#include "catch.hpp"
#include "child_process.hpp"
#include "cuda/copies_and_events.hpp"
#include "cuda/fake_cuda.hpp"
#include "environment.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;
using sy::test::contains;
using sy::test::error_of;
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

/// The library over the fake CUDA driver.
struct over_fake {
  setting driver{"HIP_OVER_CUDA_DRIVER", required_variable("FAKE_CUDA_LIBRARY").c_str()};
};

/// The smallest whole ELF file: its header, of no sections.
std::vector<std::byte> image() {
  std::vector<std::byte> file(64);
  const unsigned char head[]{0x7f, 'E', 'L', 'F', 2, 1, 1};
  for (std::size_t i = 0; i < sizeof head; ++i) file[i] = std::byte{head[i]};
  return file;
}

/// The library's entry points over the fake CUDA driver, some of which a test replaces.
std::shared_ptr<sy::hip::api> entry_points() {
  return std::make_shared<sy::hip::api>(*sy::hip::open_library(renamed()));
}

/// Counts what the library is asked to make current, and to forget.
struct counted_calls {
  static inline int set = 0;
  static inline int forgotten = 0;
  static inline int (*set_device)(int) = nullptr;
  static inline int (*get_last_error)() = nullptr;

  explicit counted_calls(sy::hip::api& table) {
    set_device = table.set_device;
    get_last_error = table.get_last_error;
    table.set_device = [](int device) {
      ++set;
      return set_device(device);
    };
    table.get_last_error = [] {
      ++forgotten;
      return get_last_error();
    };
  }
};

int current_device(const sy::hip::api& table) {
  int device = -1;
  CHECK(table.get_device(&device) == 0);
  return device;
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
  {
    const setting version{"HIP_OVER_CUDA_VERSION", "50000000"};
    CHECK(sy::hip::count(renamed()) == 2);
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

TEST_CASE_METHOD(over_fake, "properties are read as expressions know them") {
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

TEST_CASE_METHOD(over_fake, "loading, launching and memory") {
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

TEST_CASE_METHOD(over_fake, "a child of fork() is refused its parent's devices") {
  const auto how = renamed();
  auto device = sy::hip::open(0, how);
  auto* const module = device->load(image(), "blob.hsaco");
  auto* const kernel = device->find(module, "kernel");
  CHECK(::test::status_of_child([&] {
          const int code = device->launch(kernel, {}, nullptr, nullptr);
          bool is_refused =
              code == sy::opened_before_fork && contains(device->describe(code), "before fork()");
          try {
            (void)device->load(image(), "blob.hsaco");
            is_refused = false;
          } catch (const sy::driver_error& problem) {
            is_refused = is_refused && contains(problem.what(), "HIP's run time was opened before fork()");
          }
          device->unload(module);
          device.reset();
          return is_refused ? 7 : 1;
        }) == 7);
  CHECK(device->launch(kernel, {}, nullptr, nullptr) == 0);
  device->unload(module);
}

TEST_CASE_METHOD(over_fake, "copies and events") {
  const auto device = sy::hip::open(0, renamed());
  test_copies_and_events(*device);
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
  device->configure(sum, {.block = {2, 8, 8}});
  for (const sy::dim3 block : {sy::dim3{256}, sy::dim3{16, 9}, sy::dim3{2, 8, 9}}) {
    const auto threads = error_of([&] { device->configure(sum, {.block = block}); });
    CHECK(contains(threads.what(), "at most 128 threads"));
  }
  const auto shared = error_of([&] { device->configure(sum, {.block = {128}, .shared_bytes = 100 * 1024}); });
  CHECK(contains(shared.what(), "4096 + 102400"));
  const auto missing = error_of([&] { (void)device->find(module, "absent"); });
  CHECK(contains(missing.what(), "it has"));
  CHECK(contains(missing.what(), "shared_sum"));
  device->unload(module);
}

TEST_CASE_METHOD(
    over_fake, "another device is made current for a call, and the thread's own is current again behind it") {
  const auto table = entry_points();
  const counted_calls counted{*table};
  sy::hip::driver first{table, 0};
  sy::hip::driver second{table, 1};
  REQUIRE(current_device(*table) == 0);
  const auto switches = [](const auto& work) {
    const int before = counted_calls::set;
    work();
    return counted_calls::set - before;
  };
  int number = 0;
  CHECK(switches([&] { CHECK(first.fill(&number, 1, 4, nullptr) == 0); }) == 0);
  CHECK(switches([&] { CHECK(second.fill(&number, 1, 4, nullptr) == 0); }) == 2);
  CHECK(current_device(*table) == 0);
  CHECK(table->set_device(1) == 0);
  CHECK(switches([&] { CHECK(second.copy(&number, &number, 4, nullptr) == 0); }) == 0);
  CHECK(switches([&] { CHECK(first.copy(&number, &number, 4, nullptr) == 0); }) == 2);
  CHECK(current_device(*table) == 1);
  CHECK(table->set_device(0) == 0);
}

TEST_CASE_METHOD(over_fake, "nothing is done on a device that cannot be made current") {
  sy::hip::driver sound{entry_points(), 1};
  auto* const module = sound.load(image(), "blob.hsaco");
  auto* const kernel = sound.find(module, "kernel");
  auto* const event = sound.create_event();
  const auto table = entry_points();
  constexpr int gone = sy::hip::result::invalid_device;
  static int done = 0;
  table->free_async = [](void*, ihipStream_t*) { return ++done; };
  table->event_destroy = [](ihipEvent_t*) { return ++done; };
  table->module_unload = [](ihipModule_t*) { return ++done; };
  const bool set_fails = GENERATE(true, false);
  if (set_fails) table->set_device = [](int) { return gone; };
  sy::hip::driver device{table, 1};
  if (!set_fails) {  // then which one is current cannot be told, nor made current
    table->get_device = [](int*) { return gone; };
    table->set_device = [](int) { return gone; };
  }

  int number = 1;
  double microseconds = -1;
  CHECK(device.launch(kernel, {}, nullptr, nullptr) == gone);
  CHECK(device.fill(&number, 0, 4, nullptr) == gone);
  CHECK(device.copy(&number, &microseconds, 4, nullptr) == gone);
  CHECK(device.synchronize(nullptr) == gone);
  CHECK(device.record(event, nullptr) == gone);
  CHECK(device.elapsed(event, event, microseconds) == gone);
  CHECK(device.allocate(8, nullptr) == nullptr);
  CHECK(number == 1);
  CHECK(microseconds == -1);
  const auto refused = [](const sy::driver_error& problem) {
    CHECK(problem.code() == sy::error_code::driver_failed);
    CHECK(contains(problem.what(), "Fake B: cannot make the device current"));
  };
  refused(error_of([&] { (void)device.load(image(), "blob.hsaco"); }));
  refused(error_of([&] { (void)device.find(module, "unknown"); }));
  refused(error_of([&] { (void)device.create_event(); }));
  CHECK(device.find(module, "kernel") == kernel);  // which needs no device

  device.release(&number, nullptr);
  device.destroy_event(event);
  auto* const other = sound.load(image(), "blob.hsaco");
  device.unload(other);
  device.unload(nullptr);
  CHECK(done == 0);
  sound.unload(nullptr);
  sound.destroy_event(event);
  sound.unload(module);
}

TEST_CASE_METHOD(over_fake, "a launch is refused beforehand where the device could never run it") {
  const auto table = entry_points();
  sy::hip::driver device{table, 0};
  auto* const module = device.load(image(), "blob.hsaco");
  auto* const kernel = device.find(module, "kernel");
  const auto refusal = [&](const sy::launch_geometry& geometry) -> std::string {
    return sy::test::refusal_by<sy::driver_error>(sy::error_code::launch_failed,
                                                  [&] { device.configure(kernel, geometry); });
  };
  CHECK(refusal({.block = {1024, 1024}}).empty());  // its blob does not tell what it takes
  CHECK(refusal({.shared_bytes = 100 * 1024, .cooperative = true}).empty());
  CHECK(contains(
      refusal({.shared_bytes = 100 * 1024 + 1}),
      "kernel 'kernel' needs 0 + 102401 bytes of shared memory a block; there are 102400 on Fake A"));
  CHECK(contains(refusal({.cluster = {1, 1, 2}}), "needs clusters"));
  table->module_launch_cooperative_kernel = nullptr;
  CHECK(contains(refusal({.cooperative = true}), "needs cooperative launches"));
  CHECK(device.launch(kernel, {.cooperative = true}, nullptr, nullptr) == sy::hip::result::not_supported);
  CHECK(device.launch(kernel, {}, nullptr, nullptr) == 0);
  device.unload(module);

  const auto without = entry_points();
  static int (*const attribute_of)(int*, int, int) = without->device_get_attribute;
  without->device_get_attribute = [](int* value, int attribute, int ordinal) {
    if (attribute == sy::hip::device_query::l2_bytes) return sy::hip::result::invalid_value;
    const int code = attribute_of(value, attribute, ordinal);
    if (attribute == sy::hip::device_query::cooperative_launch) *value = 0;
    return code;
  };
  const counted_calls counted{*without};
  const int forgotten = counted_calls::forgotten;
  sy::hip::driver other{without, 0};
  CHECK(counted_calls::forgotten == forgotten + 1);
  CHECK(other.properties().attribute("l2_bytes") == 0);
  CHECK(other.properties().attribute("cooperative_launch") == 0);
  auto* const blob = other.load(image(), "blob.hsaco");
  CHECK(contains(error_of([&] { other.configure(other.find(blob, "kernel"), {.cooperative = true}); }).what(),
                 "needs cooperative launches, which the device or its driver does not support on Fake A"));
  other.unload(blob);
}

TEST_CASE_METHOD(over_fake, "the engine does not find errors that the library left behind") {
  const auto table = entry_points();
  const counted_calls counted{*table};
  sy::hip::driver device{table, 0};
  auto* const module = device.load(image(), "blob.hsaco");
  REQUIRE(table->get_last_error() == 0);
  CHECK(device.allocate(std::size_t{1} << 40U, nullptr) == nullptr);
  CHECK(table->get_last_error() == 0);
  CHECK_THROWS(device.find(module, "absent"));
  CHECK(table->get_last_error() == 0);
  const auto failing = std::make_shared<sy::hip::api>(*table);
  static int (*const memset_of)(void*, int, std::size_t, ihipStream_t*) = table->memset_async;
  failing->module_load_data = [](ihipModule_t**, const void*) {
    (void)memset_of(nullptr, 0, 1, reinterpret_cast<ihipStream_t*>(1));
    return 209;
  };
  sy::hip::driver refusing{failing, 0};
  const int forgotten = counted_calls::forgotten;
  const auto refused = error_of([&] { (void)refusing.load(image(), "blob.hsaco"); });
  CHECK(refused.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(refused.what(),
                 "blob.hsaco: CUDA_ERROR_OF_SOME_KIND (209): as the fake has it; the device is "
                 "sm_90a (Fake A)"));
  CHECK(counted_calls::forgotten == forgotten + 1);
  failing->module_get_function = [](ihipModuleSymbol_t**, ihipModule_t*, const char*) { return 2; };
  const auto full = error_of([&] { (void)refusing.find(module, "kernel"); });
  CHECK(full.code() == sy::error_code::out_of_memory);
  CHECK(full.kind() == sy::failure_kind::transient);
  CHECK(contains(full.what(), "blob.hsaco has no kernel 'kernel'"));
  device.unload(module);
}

TEST_CASE_METHOD(over_fake, "the thread's capture mode is again what it was behind a load") {
  const auto table = entry_points();
  sy::hip::driver device{table, 0};
  int mode = 1;
  REQUIRE(table->thread_exchange_stream_capture_mode(&mode) == 0);
  auto* const module = device.load(image(), "blob.hsaco");
  CHECK(fake_cuda::notes().load_mode == sy::hip::capture::relaxed);
  CHECK(device.find(module, "kernel") != nullptr);
  CHECK(table->thread_exchange_stream_capture_mode(&mode) == 0);
  CHECK(mode == 1);
  static int exchanges = 0;
  table->thread_exchange_stream_capture_mode = [](int*) { return ++exchanges; };
  device.unload(module);
  CHECK(exchanges == 1);                                 // it was refused: there is nothing to change back
  table->thread_exchange_stream_capture_mode = nullptr;  // as in older libraries
  device.unload(device.load(image(), "blob.hsaco"));
}

TEST_CASE_METHOD(over_fake, "a stream captures where the library says so, or refuses to say") {
  const auto table = entry_points();
  const counted_calls counted{*table};
  static int code = 0;
  static int state = 0;
  table->stream_is_capturing = [](ihipStream_t*, int* capturing) {
    *capturing = state;
    return code;
  };
  const sy::hip::driver device{table, 0};
  const auto answers = [&](int answer, int capturing) {
    code = answer;
    state = capturing;
    const int before = counted_calls::forgotten;
    const bool out = device.capturing(nullptr);
    CHECK(counted_calls::forgotten - before == (answer == 0 ? 0 : 1));
    return out;
  };
  CHECK_FALSE(answers(0, 0));
  CHECK(answers(0, 1));
  CHECK(answers(0, 2));
  for (const int answer : {900, 906, 907}) CHECK(answers(answer, 0));
  for (const int answer : {899, 908, 1}) CHECK_FALSE(answers(answer, 1));
}

TEST_CASE_METHOD(over_fake, "times and memory that the library cannot give are refused") {
  const auto table = entry_points();
  sy::hip::driver device{table, 0};
  auto* const event = device.create_event();
  double microseconds = 5;
  table->event_elapsed_time = [](float* milliseconds, ihipEvent_t*, ihipEvent_t*) {
    *milliseconds = 9;
    return 600;
  };
  CHECK(device.elapsed(event, event, microseconds) == 600);
  table->event_synchronize = [](ihipEvent_t*) { return 719; };
  CHECK(device.elapsed(event, event, microseconds) == 719);
  CHECK(microseconds == 5);
  device.destroy_event(event);
  table->event_create = [](ihipEvent_t**) { return sy::hip::result::out_of_memory; };
  CHECK(contains(error_of([&] { (void)device.create_event(); }).what(), "Fake A: cannot create an event"));

  static std::size_t asked = 0;
  static int freed = 0;
  table->malloc_async = [](void** address, std::size_t bytes, ihipStream_t*) {
    asked = bytes;
    *address = &asked;
    return 0;
  };
  table->free_async = [](void*, ihipStream_t*) {
    ++freed;
    return 0;
  };
  CHECK(device.allocate(0, nullptr) == &asked);
  CHECK(asked == 1);
  CHECK(device.allocate(17, nullptr) == &asked);
  CHECK(asked == 17);
  device.release(nullptr, nullptr);
  CHECK(freed == 0);
  device.release(&asked, nullptr);
  CHECK(freed == 1);
  table->malloc_async = nullptr;  // as in libraries without stream-ordered memory
  table->free_async = nullptr;
  CHECK(device.allocate(8, nullptr) == nullptr);
  device.release(&asked, nullptr);
  CHECK(device.fill(nullptr, 1, 0, nullptr) == 0);
}

TEST_CASE_METHOD(over_fake,
                 "a stream's device is asked for as the library has it, and unknown where it has nothing") {
  const auto table = entry_points();
  const sy::hip::driver first{table, 0};
  const sy::hip::driver second{table, 1};
  const fake_cuda::fake_stream stream{fake_cuda::primary(1)};
  CHECK_FALSE(first.owns(stream.get()));
  CHECK(second.owns(stream.get()));
  table->stream_get_device = [](ihipStream_t*, int*) { return sy::hip::result::invalid_value; };
  CHECK(first.owns(stream.get()));
  table->stream_get_device = nullptr;  // as in libraries before ROCm 6.2
  table->get_stream_device_id = [](ihipStream_t*) { return 1; };
  CHECK_FALSE(first.owns(stream.get()));
  CHECK(second.owns(stream.get()));
  table->get_stream_device_id = [](ihipStream_t*) { return -1; };
  CHECK(first.owns(stream.get()));
  table->get_stream_device_id = nullptr;
  CHECK(first.owns(stream.get()));
}

TEST_CASE_METHOD(over_fake, "an architecture is read as libraries before ROCm 6 tell it, too") {
  const auto table = entry_points();
  table->get_device_properties = [](void* properties, int) {
    std::memcpy(static_cast<std::byte*>(properties) + sy::hip::property_layout::architecture_before_6,
                "gfx90a", 7);
    return 0;
  };
  CHECK(sy::hip::driver(table, 0).properties().arch == "sm_90a");  // the newer one first
  table->get_device_properties_r0600 = nullptr;
  CHECK(sy::hip::driver(table, 0).properties().arch == "gfx90a");
  table->get_device_properties = [](void*, int) { return sy::hip::result::invalid_value; };
  const auto refused = error_of([&] { (void)sy::hip::driver(table, 0); });
  CHECK(refused.code() == sy::error_code::unsupported_device);
  CHECK(contains(refused.what(), "HIP device 0 (Fake A, ROCm 6.0) reports no architecture"));
}

TEST_CASE_METHOD(over_fake, "results are told by name and text as far as the library has them") {
  const auto table = entry_points();
  CHECK(sy::hip::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7): as the fake has it");
  table->get_error_string = [](int) -> const char* { return "CUDA_ERROR_OF_SOME_KIND"; };
  CHECK(sy::hip::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7)");  // not twice
  table->get_error_string = [](int) -> const char* { return nullptr; };
  CHECK(sy::hip::describe(*table, 7) == "CUDA_ERROR_OF_SOME_KIND (7)");
  table->get_error_name = [](int) -> const char* { return nullptr; };
  CHECK(sy::hip::describe(*table, 7) == "HIP error (7)");
  table->get_error_string = [](int) -> const char* { return "text"; };
  CHECK(sy::hip::describe(*table, 7) == "HIP error (7): text");
  CHECK(sy::hip::version_text(50221153) == "5.2");
  CHECK(sy::hip::version_text(60000000) == "6.0");
}

TEST_CASE_METHOD(over_fake, "streams are told apart by their devices, at each call") {
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
