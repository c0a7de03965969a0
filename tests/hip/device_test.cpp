// SPDX-License-Identifier: MIT
// The hip backend and dispatchers on HIP devices, by whatever libamdhip64 there is: AMD's, or the emulator.
// TEST_KERNELS names the folder of the blobs made of device_kernels.hip, one for each architecture.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/hip/router.hpp>
#include <switchyard/switchyard.hpp>

#include "catch.hpp"
#include "cuda/written_files.hpp"
#include "environment.hpp"
#include "raw.hpp"
#include "scale_kernel.hpp"
#include "threads.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;
using cuda_test::written_files;
using device_test::counted;
using device_test::is_scaled;
using device_test::pointers;
using device_test::scale;
using sy::test::contains;
using sy::test::error_of;

/// First in each case: ends the program as skipped where there is no device with kernels.
std::shared_ptr<sy::device_driver> device(int ordinal = 0) {
  if (hip_raw::devices() <= ordinal) skip_program("there are too few HIP devices");
  return sy::hip::open(ordinal);
}

/// The machine's, which is refused where there are CUDA devices as well: there HIP's is named.
std::shared_ptr<sy::stream_router> router_here() {
  for (const sy::device& device : sy::device::all()) {
    if (device.properties().backend == "cuda") return std::make_shared<sy::hip::router>();
  }
  return nullptr;
}

std::string architecture() {
  const std::string whole = device()->properties().arch;
  return whole.substr(0, whole.find(':'));
}

std::string read_blob() {
  const char* const folder = sy::test::variable("TEST_KERNELS");
  if (folder == nullptr) skip_program("TEST_KERNELS is not set");
  std::ifstream file{std::string{folder} + "/" + architecture() + ".hsaco", std::ios::binary};
  if (!file) skip_program("no test kernels for " + architecture());
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// The kernels' module on a device.
class loaded : public device_test::loaded_module {
 public:
  explicit loaded(std::shared_ptr<sy::device_driver> on)
      : loaded_module{std::move(on), bytes_of(read_blob()), "kernels.hsaco"} {}
};

bool scales(sy::device_driver& driver, sy::function_handle function, sy::stream on, float a) {
  return device_test::scales<hip_raw::buffer<float>>(driver, function, on, a);
}

constexpr int elements = 1000;

class files {
 public:
  /// The bytes are put behind the blob, whose hash they change.
  explicit files(const std::string& behind = {}) { device_test::put_scale(on_disk_, read_blob() + behind); }
  [[nodiscard]] sy::catalog_options options() const { return on_disk_.options(); }

 private:
  written_files on_disk_{architecture(), "hip"};
};

}  // namespace

TEST_CASE("kernels run on every kind of stream") {
  const auto driver = device();
  const loaded module{driver};
  const hip_raw::own_stream own;
  CHECK(scales(*driver, module["scale"], nullptr, 2.0F));
  CHECK(scales(*driver, module["scale"], sy::stream{reinterpret_cast<void*>(1)}, 3.0F));
  CHECK(scales(*driver, module["scale"], sy::stream{reinterpret_cast<void*>(2)}, 4.0F));
  CHECK(scales(*driver, module["scale"], own.get(), 5.0F));
  for (const sy::stream stream :
       {sy::stream{}, sy::stream{own.get()}, sy::stream{reinterpret_cast<void*>(2)}})
    CHECK(sy::hip::of(stream) == driver);
}

TEST_CASE("structures and narrow values arrive") {
  const auto driver = device();
  const loaded module{driver};
  std::vector<sy::parameter_slot> slots;
  REQUIRE(driver->parameters(module["mixed"], slots));
  REQUIRE(slots.size() == 5);
  CHECK(slots[1].offset == 8);
  CHECK(slots[1].bytes == 24);
  device_test::check_mixed<hip_raw::buffer<double>>(*driver, module["mixed"]);
}

TEST_CASE("captured launches replay, and loading ends no capture") {
  const auto driver = device();
  const loaded module{driver};
  const hip_raw::own_stream stream;
  const hip_raw::own_stream other;
  const hip_raw::buffer<float> x{std::vector<float>{1, 2, 3, 4}};
  const hip_raw::buffer<float> y{std::vector<float>(4)};
  float* const out = y.get();
  const float* const in = x.get();
  const float a = 3;
  const int n = 3;
  std::unique_ptr<loaded> late;  // which outlives the graph
  CHECK(!driver->capturing(stream.get()));
  const hip_raw::graph graph{
      stream.get(), 0, [&] {
        CHECK(driver->capturing(stream.get()));
        CHECK(!driver->capturing(other.get()));
        auto parameters = pointers(out, in, a, n);
        CHECK(driver->fill(out, 0x40, 16, stream.get()) == 0);
        late = std::make_unique<loaded>(driver);
        CHECK(driver->launch((*late)["scale"], {.block = {32}}, parameters.data(), stream.get()) == 0);
      }};
  CHECK(!driver->capturing(stream.get()));
  CHECK(y.read() == std::vector<float>(4));
  float filled = 0;
  const std::uint32_t bits = 0x40404040;
  std::memcpy(&filled, &bits, 4);
  for (int i = 0; i < 2; ++i) {
    CHECK(driver->fill(out, 0, 16, nullptr) == 0);
    CHECK(driver->synchronize(nullptr) == 0);
    graph.launch(stream.get());
    CHECK(y.read() == std::vector<float>{3, 6, 9, filled});
  }
}

TEST_CASE("dynamic shared memory, all that a block may have") {
  const auto driver = device();
  const loaded module{driver};
  const auto kernel = module["shared_sum"];
  const auto most = static_cast<std::uint32_t>(driver->properties().attribute("shared_bytes_per_block"));
  for (const std::uint32_t bytes : {16U * 1024, most}) {
    const sy::launch_geometry geometry{.block = {256}, .shared_bytes = bytes};
    driver->configure(kernel, geometry);
    const hip_raw::buffer<unsigned long long> out{std::vector<unsigned long long>(1)};
    auto* const address = out.get();
    const int words = static_cast<int>(bytes / 4);
    auto parameters = pointers(address, words);
    REQUIRE(driver->launch(kernel, geometry, parameters.data(), nullptr) == 0);
    CHECK(out.read()[0] == static_cast<unsigned long long>(words) * static_cast<unsigned>(words - 1) / 2);
  }
  const auto error = error_of([&] { driver->configure(kernel, {.shared_bytes = most + 1}); });
  CHECK(error.code() == sy::error_code::launch_failed);
  CHECK(contains(error.what(), std::to_string(most + 1)));
  const auto threads = error_of([&] { driver->configure(module["at_most_128_threads"], {.block = {256}}); });
  CHECK(contains(threads.what(), "at most 128 threads a block, not 256"));
}

TEST_CASE("the blocks of a cooperative launch wait for one another") {
  const auto driver = device();
  const loaded module{driver};
  if (driver->properties().attribute("cooperative_launch") == 0) {
    WARN("the device has no cooperative launches");
    return;
  }
  const auto kernel = module["grid_barrier"];
  const auto blocks = static_cast<std::uint32_t>(driver->properties().attribute("multiprocessors"));
  const hip_raw::buffer<int> counters{std::vector<int>(2)};
  const hip_raw::buffer<int> out{std::vector<int>(blocks)};
  int* const arrived = counters.get();
  int* const sum = arrived + 1;
  int* const result = out.get();
  const int count = static_cast<int>(blocks);
  auto parameters = pointers(arrived, sum, result, count);
  const sy::launch_geometry geometry{.grid = {blocks}, .block = {128}, .cooperative = true};
  driver->configure(kernel, geometry);
  REQUIRE(driver->launch(kernel, geometry, parameters.data(), nullptr) == 0);
  CHECK(out.read() == std::vector<int>(blocks, count * (count + 1) / 2));
  // Blocks that are not all there at once would wait for ever.
  CHECK(driver->launch(kernel, {.grid = {blocks * 1000}, .block = {128}, .cooperative = true},
                       parameters.data(), nullptr) != 0);
}

TEST_CASE("stream-ordered memory, copies and events") {
  const auto driver = device();
  const hip_raw::own_stream stream;
  std::vector<int> values(1 << 12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const auto expected = values;
  const std::size_t bytes = values.size() * sizeof(int);
  void* const first = driver->allocate(bytes, stream.get());
  void* const second = driver->allocate(bytes, stream.get());
  const auto start = driver->create_event();
  const auto end = driver->create_event();
  CHECK(driver->record(start, stream.get()) == 0);
  CHECK(driver->copy(first, values.data(), bytes, stream.get()) == 0);
  CHECK(driver->synchronize(stream.get()) == 0);
  std::fill(values.begin(), values.end(), -1);
  CHECK(driver->copy(second, first, bytes, stream.get()) == 0);
  CHECK(driver->copy(values.data(), second, bytes, stream.get()) == 0);
  CHECK(driver->record(end, stream.get()) == 0);
  CHECK(driver->synchronize(stream.get()) == 0);
  CHECK(values == expected);
  double microseconds = -1;
  CHECK(driver->elapsed(start, end, microseconds) == 0);
  CHECK(microseconds > 0);
  CHECK(driver->fill(first, 0x5a, bytes, stream.get()) == 0);
  CHECK(driver->copy(values.data(), first, bytes, stream.get()) == 0);
  CHECK(driver->synchronize(stream.get()) == 0);
  CHECK(values == std::vector<int>(values.size(), 0x5a5a5a5a));
  driver->destroy_event(start);
  driver->destroy_event(end);
  driver->release(first, stream.get());
  driver->release(second, stream.get());
  driver->release(nullptr, stream.get());
  CHECK(driver->allocate(std::size_t{1} << 50U, stream.get()) == nullptr);
  CHECK(driver->synchronize(stream.get()) == 0);
}

TEST_CASE("blobs that cannot be loaded say why") {
  const auto driver = device();
  const std::string whole = read_blob();
  const auto load = [&](const std::string& image, const std::string& name) {
    return error_of([&] { driver->unload(driver->load(bytes_of(image), name)); });
  };
  const auto cut = load(whole.substr(0, whole.size() - 100), "cut.hsaco");
  CHECK(cut.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(cut.what(), "cut.hsaco"));
  CHECK(load({}, "empty").code() == sy::error_code::blob_not_loadable);
  CHECK(load("no code object at all", "text").code() == sy::error_code::blob_not_loadable);
  const loaded module{driver};
  const auto missing = error_of([&] { (void)module["absent"]; });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  CHECK(contains(missing.what(), "absent"));
}

TEST_CASE("threads load and launch at once") {
  const auto driver = device();
  const loaded module{driver};
  const auto kernel = module["scale"];
  std::atomic<int> failures = 0;
  sy::test::run_threads(4, [&](int) {
    for (int i = 0; i < 10; ++i) {
      const loaded own{driver};
      for (const auto function : {kernel, own["scale"]}) {
        float* const none = nullptr;
        const float a = 1;
        const int n = 0;
        auto parameters = pointers(none, none, a, n);
        if (driver->launch(function, {.block = {32}}, parameters.data(), nullptr) != 0) ++failures;
      }
    }
    if (!scales(*driver, kernel, nullptr, 9.0F)) ++failures;
  });
  CHECK(failures == 0);
}

TEST_CASE("a prepared dispatcher is captured, and its graph replays with what memory then holds") {
  const auto driver = device();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<scale> run{catalog, sy::device{driver}};
  for (const int n : {elements, 6000}) {
    const auto count = static_cast<std::size_t>(n);
    const hip_raw::own_stream stream;
    const auto first = counted(count);
    const hip_raw::buffer<float> x{first};
    const hip_raw::buffer<float> y{std::vector<float>(count, NAN)};
    const scale::arguments call{.y = y.get(), .x = x.get(), .a = 3, .n = n};
    run.prepare(stream.get(), call);
    const hip_raw::graph graph{stream.get(), 0, [&] { run(stream.get(), call); }};
    CHECK(std::isnan(y.read()[0]));
    graph.launch(stream.get());
    CHECK(is_scaled(y.read(), first, 3));
    const std::vector<float> second(count, 0.5F);
    CHECK(driver->copy(x.get(), second.data(), count * sizeof(float), nullptr) == 0);
    CHECK(driver->synchronize(nullptr) == 0);
    for (int i = 0; i < 2; ++i) graph.launch(stream.get());
    CHECK(is_scaled(y.read(), second, 3));
  }
}

TEST_CASE("an unprepared call is refused inside a capture, which goes on") {
  const auto driver = device();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<scale> run{catalog, sy::device{driver}};
  const files others{std::string(8, '\0')};  // whose blob is another one, and not loaded
  sy::catalog fresh{others.options()};
  sy::dispatcher<scale> unprepared{fresh, sy::device{driver}};
  const hip_raw::own_stream stream;
  const auto values = counted(elements);
  const hip_raw::buffer<float> x{values};
  const hip_raw::buffer<float> y{std::vector<float>(elements, NAN)};
  const scale::arguments call{.y = y.get(), .x = x.get(), .a = 3, .n = elements};
  run.prepare(call);
  const hip_raw::graph graph{
      stream.get(), 0, [&] {
        const auto problem = sy::test::error_of<sy::driver_error>([&] { unprepared(stream.get(), call); });
        CHECK(problem.code() == sy::error_code::load_during_capture);
        CHECK_THAT(problem.what(), has_text("prepare()"));
        run(stream.get(), call);
      }};
  graph.launch(stream.get());
  CHECK(is_scaled(y.read(), values, 3));
}

TEST_CASE("threads with streams of their own get their own results") {
  const auto driver = device();
  const files disk;
  sy::catalog_options options = disk.options();
  options.plan_capacity = 16;
  sy::catalog catalog{options};
  sy::dispatcher<scale> run{catalog, sy::device{driver}};
  std::atomic<int> wrong{0};
  sy::test::run_threads(4, [&](int t) {
    const hip_raw::own_stream stream;
    std::vector<float> values(256, static_cast<float>(t));
    const hip_raw::buffer<float> x{values};
    const hip_raw::buffer<float> y{values};
    for (int i = 1; i <= 40; ++i) {
      const int n = 256 - i;  // more problems than plans are kept
      run(stream.get(), {.y = y.get(), .x = x.get(), .a = static_cast<float>(i), .n = n});
      run(stream.get(), {.y = y.get(), .x = y.get(), .a = 2, .n = n});
      if (i % 10 != 0) continue;
      if (driver->synchronize(stream.get()) != 0) ++wrong;
      if (!is_scaled(y.read(), {values.begin(), values.begin() + n}, 2 * static_cast<float>(i))) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls follow their streams from device to device") {
  const std::array<std::shared_ptr<sy::device_driver>, 2> drivers{device(0), device(1)};
  const files disk;
  sy::catalog_options options = disk.options();
  options.streams = router_here();
  sy::catalog catalog{options};
  sy::dispatcher<scale> run{catalog};
  struct place {
    std::unique_ptr<hip_raw::own_stream> stream;
    std::unique_ptr<hip_raw::buffer<float>> x, y;
  };
  const auto values = counted(elements);
  std::vector<place> places;
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    hip_raw::call("hipSetDevice", ordinal);
    places.push_back({std::make_unique<hip_raw::own_stream>(),
                      std::make_unique<hip_raw::buffer<float>>(values),
                      std::make_unique<hip_raw::buffer<float>>(std::vector<float>(elements, NAN))});
    CHECK(sy::hip::current() == drivers[static_cast<std::size_t>(ordinal)]);
  }
  for (int round = 0; round < 4; ++round) {
    for (std::size_t at = 0; at < 2; ++at) {
      const int current = (round + static_cast<int>(at)) % 2;  // its own, or the other
      hip_raw::call("hipSetDevice", current);
      const float a = static_cast<float>(round) + 2;
      const place& here = places[at];
      run(here.stream->get(), {.y = here.y->get(), .x = here.x->get(), .a = a, .n = elements});
      CHECK(drivers[at]->synchronize(here.stream->get()) == 0);
      CHECK(is_scaled(here.y->read(), values, a));
      int after = -1;
      hip_raw::call("hipGetDevice", &after);
      CHECK(after == current);
      CHECK(run.device_of(here.stream->get()).driver() == drivers[at]);
    }
  }
  hip_raw::call("hipSetDevice", 0);
}
