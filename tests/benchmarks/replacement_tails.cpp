// SPDX-License-Identifier: MIT
// How long calls take while tables and blobs are replaced under them: eight threads, each on a stream of its
// own.
//
//   replacement_tails ROOT [SECONDS] [PAUSE_US]
//
// ROOT holds the installed kernels. Prints lines for each of: `control`, which only launches an empty kernel
// through the driver; `steady`, the dispatcher without replacements; `replaced`, with a replacement every 20
// ms, every fifth of all blobs; `unloaded`, where every tenth is also followed by unloading. One call in 16
// is a new problem, shown apart.
//
// Each thread waits for its stream after 64 calls, then pauses: 200 us, or PAUSE_US. With 0, threads launch
// without pause. CUDA's driver then starves the thread that replaces: each of its functions wants a lock that
// the launches hold in turns, and a single reload takes until they end. Calls are not delayed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/switchyard.hpp>

#include "../cuda/raw.hpp"
#include "../gpu/replaced_root.hpp"
#include "../threads.hpp"

namespace {

namespace sy = switchyard;
using rms_norm = sy::operators::rms_norm;
using steady = std::chrono::steady_clock;

constexpr int thread_count = 8;
constexpr std::int64_t columns = 256;
constexpr std::int64_t max_rows = 4096;
constexpr int new_every = 16;
constexpr int wait_every = 64;

constexpr std::string_view empty_kernel = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
)";

bool has_cuda() {
  static const bool known = raw::available();
  return known;
}

/// A stream of the calling thread; on the CPU there is nothing to wait for.
class queue {
 public:
  queue() {
    if (!has_cuda()) return;
    raw::set_current(raw::primary_context());
    stream_ = std::make_unique<raw::own_stream>();
  }
  [[nodiscard]] CUstream_st* get() const noexcept { return stream_ == nullptr ? nullptr : stream_->get(); }
  void wait() const {
    if (stream_ != nullptr) raw::call("cuStreamSynchronize", stream_->get());
  }

 private:
  std::unique_ptr<raw::own_stream> stream_;
};

/// Zeros on the device.
class zeros {
 public:
  explicit zeros(std::size_t elements) {
    if (has_cuda()) {
      device_ = std::make_unique<raw::buffer<std::uint16_t>>(elements);
    } else {
      host_.resize(elements + 16);
    }
  }
  [[nodiscard]] std::uint16_t* get() noexcept {
    if (device_ != nullptr) return device_->get();
    const auto address = reinterpret_cast<std::uintptr_t>(host_.data());
    return reinterpret_cast<std::uint16_t*>((address + 31) / 32 * 32);
  }

 private:
  std::unique_ptr<raw::buffer<std::uint16_t>> device_;
  std::vector<std::uint16_t> host_;
};

struct samples {
  std::vector<std::uint32_t> known;
  std::vector<std::uint32_t> fresh;
};

double microseconds_at(std::vector<std::uint32_t>& sorted, double quantile) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))] / 1000.0;
}

void print(const std::string& name, std::vector<std::uint32_t>& times) {
  std::sort(times.begin(), times.end());
  std::printf("%-18s %9zu calls  p50 %8.2f  p99 %8.2f  p99.9 %8.2f  p99.99 %8.2f  max %9.2f us\n",
              name.c_str(), times.size(), microseconds_at(times, 0.5), microseconds_at(times, 0.99),
              microseconds_at(times, 0.999), microseconds_at(times, 0.9999), microseconds_at(times, 1));
  std::fflush(stdout);
}

struct pace {
  double seconds = 5;
  std::chrono::microseconds pause{200};
};

/// Runs `call(stream, thread, number)` on all threads for a while; a call whose number is a multiple of
/// `new_every` counts as one of a new problem.
template <class Call>
void measure(const std::string& name, const pace& at, const Call& call, const auto& meanwhile) {
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<samples> all(thread_count);
  auto threads = sy::test::start_threads(thread_count, [&](int t) {
    const queue stream;
    for (std::int64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      const auto begin = steady::now();
      try {
        call(stream.get(), t, i);
      } catch (const std::exception& problem) {
        if (failed++ == 0) std::fprintf(stderr, "%s\n", problem.what());
      }
      const auto took = static_cast<std::uint32_t>((steady::now() - begin).count());
      (i % new_every == 0 ? all[static_cast<std::size_t>(t)].fresh : all[static_cast<std::size_t>(t)].known)
          .push_back(took);
      // The queue stays short: a launch must not wait for room in it.
      if (i % wait_every != 0) continue;
      stream.wait();
      if (at.pause.count() > 0) std::this_thread::sleep_for(at.pause);
    }
  });
  // On a thread of its own: the driver may hold it up for as long as others launch.
  int rounds = 0;
  double longest_ms = 0;
  std::thread replacing{[&] {
    if (has_cuda()) raw::set_current(raw::primary_context());
    while (!stop.load(std::memory_order_relaxed)) {
      const auto begin = steady::now();
      meanwhile(rounds++);
      longest_ms =
          std::max(longest_ms, std::chrono::duration<double, std::milli>(steady::now() - begin).count());
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  }};
  std::this_thread::sleep_for(std::chrono::duration<double>(at.seconds));
  stop = true;
  sy::test::join_all(threads);
  replacing.join();
  samples sum;
  for (const samples& part : all) {
    sum.known.insert(sum.known.end(), part.known.begin(), part.known.end());
    sum.fresh.insert(sum.fresh.end(), part.fresh.begin(), part.fresh.end());
  }
  print(name + " known", sum.known);
  print(name + " new", sum.fresh);
  std::printf("%-18s %d failed calls; %d replacements, the longest took %.1f ms\n", name.c_str(),
              failed.load(), rounds, longest_ms);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: replacement_tails ROOT [SECONDS] [PAUSE_US]\n");
    return 64;
  }
  pace at;
  if (argc > 2) at.seconds = std::atof(argv[2]);
  if (argc > 3) at.pause = std::chrono::microseconds{std::atoi(argv[3])};
  if (has_cuda()) raw::set_current(raw::primary_context());
  const test::replaced_root files{argv[1], has_cuda() ? "cuda" : "host", "rms_norm"};
  sy::catalog_options options;
  options.roots = {files.path().string()};
  options.default_roots = false;
  sy::catalog catalog{options};
  const sy::device device =
      has_cuda() ? sy::device{sy::cuda::current()} : sy::device{std::make_shared<sy::host::driver>(1)};
  sy::dispatcher<rms_norm> norm{catalog, device};

  const std::size_t elements = static_cast<std::size_t>(thread_count * max_rows * columns);
  zeros x{elements};
  zeros gamma{static_cast<std::size_t>(columns)};
  zeros out{elements};
  const auto call_of = [&](int thread, std::int64_t number) {
    const std::int64_t first = thread * max_rows * columns;
    const std::int64_t rows =
        number % new_every == 0 ? 1 + (number / new_every + thread * 512) % max_rows : 1 + number % 4;
    const auto view = [&](void* address) { return sy::tensor{address, sy::dtype::bf16, {rows, columns}}; };
    return rms_norm::call(view(x.get() + first), view(out.get() + first),
                          {.gamma = sy::const_tensor{gamma.get(), sy::dtype::bf16, {columns}}});
  };

  const auto idle = [](int /*round*/) {};
  if (has_cuda()) {
    const std::string ptx{empty_kernel};
    const sy::module_handle module = device.driver()->load(std::as_bytes(std::span{ptx}), "empty kernel");
    const sy::function_handle nothing = device.driver()->find(module, "nothing");
    measure(
        "control", at,
        [&](CUstream_st* stream, int /*thread*/, std::int64_t /*number*/) {
          sy::launch_geometry geometry;
          geometry.grid = geometry.block = {1, 1, 1};
          void* none = nullptr;
          (void)device.driver()->launch(nothing, geometry, &none, stream);
        },
        idle);
  }

  const auto launch = [&](CUstream_st* stream, int thread, std::int64_t number) {
    norm(stream, call_of(thread, number));
  };
  for (int i = 1; i <= 4; ++i) norm({}, call_of(0, i));
  const std::string winner = norm.explain(call_of(0, 1)).variant;
  measure("steady", at, launch, idle);
  for (const bool unloads : {false, true}) {
    measure(unloads ? "unloaded" : "replaced", at, launch, [&](int round) {
      if (round % 5 == 0) files.put_kernels(round / 5 % 2);
      files.put_table("rms_norm", device.properties(), round % 2 == 0 ? winner : "");
      (void)catalog.reload();
      if (unloads && round % 10 == 0) (void)catalog.unload_unused();
    });
  }
}
