// SPDX-License-Identifier: MIT
// Samples of a device's time, over the fake driver: what is enqueued, and in what order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/tune/arena.hpp>
#include <switchyard/tune/sampler.hpp>

#include "catch.hpp"
#include "fake_cuda.hpp"
#include "thrown.hpp"

namespace {

using namespace fake_cuda;
namespace tune = sy::tune;
using sy::test::error_of;

int launched = 0;

/// A kernel whose launches are counted where they run: at once, or when a graph is replayed.
class counted_kernel {
 public:
  explicit counted_kernel(const sy::cuda::options& options = fake_options())
      : device_{sy::cuda::open(0, options)} {
    set_current(primary(0));
    const std::string text = ".version 8.0\n.target sm_80\n";
    image_.assign(text.begin(), text.end());
    module_ = device_->load(std::as_bytes(std::span{image_}), "text.ptx");
    function_ = device_->find(module_, "kernel");
    notes().on_launch = [](void**) { ++launched; };
    launched = 0;
    notes().graph_launches = 0;
    notes().filled_bytes = 0;
  }
  counted_kernel(const counted_kernel&) = delete;
  counted_kernel& operator=(const counted_kernel&) = delete;
  ~counted_kernel() {
    notes().on_launch = nullptr;
    device_->unload(module_);
  }

  [[nodiscard]] const std::shared_ptr<sy::cuda::driver>& device() const noexcept { return device_; }
  [[nodiscard]] auto call() {
    return [this](sy::stream on) {
      std::uint64_t first = 0;
      std::uint32_t second = 0;
      void* parameters[]{&first, &second};  // NOLINT(modernize-avoid-c-arrays): as the driver takes it
      REQUIRE(device_->launch(function_, {}, parameters, on) == 0);
    };
  }

 private:
  std::shared_ptr<sy::cuda::driver> device_;
  std::vector<char> image_;
  sy::module_handle module_ = nullptr;
  sy::function_handle function_ = nullptr;
};

}  // namespace

TEST_CASE("calls wait behind a fill, and those of a program do not") {
  counted_kernel kernel;
  tune::sampler clock{kernel.device()};
  // The fake's clock counts events: one millisecond between two of them.
  CHECK(clock.sample({.calls = 4, .expected_us = 2}, kernel.call()) == 250);
  CHECK(launched == 4);
  const std::size_t hidden = notes().filled_bytes;
  CHECK(hidden > 0);
  notes().filled_bytes = 0;
  static_cast<void>(clock.sample({.calls = 4, .expected_us = 500}, kernel.call()));
  CHECK(notes().filled_bytes > 0);
  CHECK(notes().filled_bytes < hidden);  // only the first launch is waited for
  notes().filled_bytes = 0;
  static_cast<void>(
      clock.sample({.calls = 4, .expected_us = 2, .launches = tune::launch_mode::stream}, kernel.call()));
  CHECK(notes().filled_bytes == 0);
  CHECK(launched == 12);
  CHECK(notes().graph_launches == 0);
}

TEST_CASE("a graph of calls is recorded once and replayed") {
  counted_kernel kernel;
  const int before = notes().graphs;
  {
    tune::sampler clock{kernel.device()};
    tune::recorded_graph graph;
    const tune::sample_options options{.calls = 5, .expected_us = 2, .launches = tune::launch_mode::graph};
    CHECK(clock.sample(options, kernel.call(), graph) == 200);
    CHECK(launched == 5);  // recording runs nothing
    CHECK(notes().graphs == before + 1);
    CHECK(notes().streams == 1);
    static_cast<void>(clock.sample(options, kernel.call(), graph));
    CHECK(launched == 10);
    CHECK(notes().graph_launches == 2);
    CHECK(notes().graphs == before + 1);
    auto more = options;
    more.calls = 7;
    static_cast<void>(clock.sample(more, kernel.call(), graph));
    CHECK(launched == 17);
    CHECK(notes().graphs == before + 1);
  }
  CHECK(notes().graphs == before);
  CHECK(notes().streams == 0);
}

TEST_CASE("what cannot be recorded is said, and leaves nothing behind") {
  counted_kernel kernel;
  tune::sampler clock{kernel.device()};
  tune::recorded_graph graph;
  const tune::sample_options options{.calls = 5, .launches = tune::launch_mode::graph};
  const int before = notes().graphs;
  {
    const misbehaviour no_instances{"no_instances"};
    CHECK(error_of([&] { (void)clock.keep_recorded(options, kernel.call(), graph); }).code() ==
          sy::error_code::driver_failed);
  }
  CHECK(notes().graphs == before);
  CHECK(graph.get() == nullptr);
  // The next attempt finds the stream as it was.
  CHECK(clock.keep_recorded(options, kernel.call(), graph));
  const auto failing = [](sy::stream) {
    throw sy::driver_error{sy::error_code::launch_failed, "as a test has it"};
  };
  CHECK(error_of([&] {
          (void)clock.keep_recorded({.calls = 2, .launches = tune::launch_mode::graph}, failing, graph);
        }).code() == sy::error_code::launch_failed);
  CHECK(notes().graphs == before + 1);
}

TEST_CASE("a driver without graphs launches the calls one by one") {
  const misbehaviour lacking{"lacks=cuGraphLaunch"};
  counted_kernel kernel{renamed()};
  CHECK_FALSE(kernel.device()->has_graphs());
  tune::sampler clock{kernel.device()};
  CHECK(clock.sample({.calls = 5, .launches = tune::launch_mode::graph}, kernel.call()) == 200);
  CHECK(launched == 5);
  CHECK(notes().graph_launches == 0);
}

TEST_CASE("the state of the caches decides what runs before a call") {
  counted_kernel kernel;
  tune::sampler clock{kernel.device()};
  // Cold: one call, behind a fill of more than the cache.
  CHECK(clock.sample({.calls = 5, .launches = tune::launch_mode::stream, .cache = tune::cache_state::cold},
                     kernel.call()) == 1000);
  CHECK(launched == 1);
  CHECK(notes().filled_bytes == static_cast<std::size_t>(tune::cache_bytes(kernel.device()->properties())));
  // Warm: one more call, behind whatever displaced the tensors.
  launched = 0;
  CHECK(clock.sample({.calls = 5, .cache = tune::cache_state::warm}, kernel.call()) == 200);
  CHECK(launched == 6);
  // And as many untimed ones as are asked for.
  launched = 0;
  CHECK(clock.sample({.calls = 5, .untimed = 9}, kernel.call()) == 200);
  CHECK(launched == 14);
}

namespace {

/// A device of a megabyte, whose memory is of the host.
class small_device final : public tune::forwarding_driver {
 public:
  using forwarding_driver::forwarding_driver;

  [[nodiscard]] const sy::device_properties& properties() const noexcept override { return properties_; }
  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream /*on*/) noexcept override {
    if (bytes > largest) return nullptr;
    ++parts;
    return std::malloc(bytes);
  }
  void release(void* address, sy::stream /*on*/) noexcept override {
    --parts;
    std::free(address);
  }

  std::size_t largest = std::size_t{1} << 20U;
  int parts = 0;  ///< not given back

 private:
  sy::device_properties properties_ = [] {
    sy::device_properties out;
    out.backend = "cuda";
    out.set("memory_bytes", std::int64_t{1} << 20);
    return out;
  }();
};

}  // namespace

TEST_CASE("an arena begins anew once everything was released, and passes on what does not fit") {
  const auto device = std::make_shared<small_device>(sy::cuda::open(0, fake_options()));
  {
    tune::arena memory{device};
    CHECK(memory.bytes() == std::size_t{1} << 19U);
    CHECK(device->parts == 1);
    void* const first = memory.allocate(1000, {});
    void* const second = memory.allocate(100'000, {});
    CHECK(memory.used() == 1024 + 100'352);
    CHECK(static_cast<std::byte*>(second) - static_cast<std::byte*>(first) == 1024);
    void* const large = memory.allocate(600'000, {});
    CHECK(device->parts == 2);
    memory.release(large, {});
    CHECK(device->parts == 1);
    memory.release(first, {});
    CHECK(memory.used() > 0);
    memory.release(second, {});
    CHECK(memory.used() == 0);
    CHECK(memory.allocate(1000, {}) == first);
    memory.release(first, {});
  }
  CHECK(device->parts == 0);
  device->largest = 100'000;  // a device that is nearly full
  {
    tune::arena memory{device};
    CHECK(memory.bytes() == std::size_t{1} << 16U);
  }
  device->largest = 0;
  tune::arena none{device};
  CHECK(none.bytes() == 0);
  CHECK(none.allocate(1, {}) == nullptr);
}
