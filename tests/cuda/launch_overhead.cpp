// What a launch through the cuda backend costs over the driver's own call, for a kernel with 16 parameters.
//
// Rounds of either kind alternate, and each is short enough not to fill the driver's queue; the figures are
// medians over rounds. TEST_KERNELS names the folder of kernels.sm_90a.cubin, HIP_OVER_CUDA_LIBRARY the
// library for the hip backend. Exits with 77 where there is no device.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <switchyard/cuda/driver.hpp>
#include <switchyard/hip/driver.hpp>

#include "raw.hpp"

namespace {

namespace sy = switchyard;

constexpr int launches = 100;
constexpr int rounds = 4000;

/// Nanoseconds a call of `work`.
template <class Work>
double time_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) work();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(end - start).count() / launches;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  if (!raw::available()) {
    std::puts("skipped: no CUDA device");
    return 77;
  }
  raw::set_current(raw::primary_context());
  const char* const folder = std::getenv("TEST_KERNELS");
  const char* const library = std::getenv("HIP_OVER_CUDA_LIBRARY");
  if (folder == nullptr || library == nullptr) {
    std::puts("TEST_KERNELS or HIP_OVER_CUDA_LIBRARY is not set");
    return 2;
  }
  std::ifstream file{std::string{folder} + "/kernels.sm_90a.cubin", std::ios::binary};
  const std::vector<char> image{std::istreambuf_iterator<char>{file}, {}};
  const std::shared_ptr<sy::device_driver> device = sy::cuda::open(0);
  const auto module = device->load(std::as_bytes(std::span{image}), "kernels");
  const auto function = device->find(module, "sixteen");
  const sy::launch_geometry geometry{.grid = {1}, .block = {32}};
  device->configure(function, geometry);

  const auto driver = sy::cuda::open_driver();
  std::array<long long, 16> values{};
  std::array<void*, 16> parameters{};
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i] = &values[i];
  const raw::own_stream stream;
  int failures = 0;

  const auto bare = [&] {
    failures += driver->launch_kernel(static_cast<CUfunc_st*>(function), 1, 1, 1, 32, 1, 1, 0, stream.get(),
                                      parameters.data(), nullptr) != 0;
  };
  const auto ours = [&] {
    failures += device->launch(function, geometry, parameters.data(), stream.get()) != 0;
  };
  const auto bare_on_null = [&] {
    failures += driver->launch_kernel(static_cast<CUfunc_st*>(function), 1, 1, 1, 32, 1, 1, 0, nullptr,
                                      parameters.data(), nullptr) != 0;
  };
  const auto on_null_stream = [&] {
    failures += device->launch(function, geometry, parameters.data(), nullptr) != 0;
  };
  const sy::launch_geometry clustered{.grid = {2}, .block = {32}, .cluster = {2}};
  const auto with_cluster = [&] {
    failures += device->launch(function, clustered, parameters.data(), stream.get()) != 0;
  };
  const auto current = [&] {
    CUctx_st* context = nullptr;
    failures += driver->ctx_get_current(&context) != 0;
  };
  const auto capturing = [&] { failures += device->capturing(stream.get()) ? 1 : 0; };

  const std::shared_ptr<sy::device_driver> hip = sy::hip::open(0, {.library = library});
  const auto hip_module = hip->load(std::as_bytes(std::span{image}), "kernels");
  const auto hip_function = hip->find(hip_module, "sixteen");
  const auto over_hip = [&] {
    failures += hip->launch(hip_function, geometry, parameters.data(), stream.get()) != 0;
  };

  const auto measure = [&](const auto& work) {
    raw::call("cuCtxSynchronize");
    return time_of(work);
  };
  const auto median_of = [&](const auto& work) {
    std::vector<double> times;
    for (int round = 0; round < rounds / 10; ++round) times.push_back(measure(work));
    return median(times);
  };
  /// Median of what `second` takes longer than `first`, in rounds of both, which of them goes first
  /// alternating.
  const auto difference_of = [&](const auto& first, const auto& second) {
    std::vector<double> differences;
    for (int round = 0; round < rounds; ++round) {
      const double early = round % 2 == 0 ? measure(first) : 0;
      const double other = measure(second);
      differences.push_back(other - (round % 2 == 0 ? early : measure(first)));
    }
    return median(differences);
  };
  std::printf("{\"bare_ns\": %.1f, \"difference_ns\": %.1f, \"bare_less_bare_ns\": %.1f, ", median_of(bare),
              difference_of(bare, ours), difference_of(bare, bare));
  std::printf("\"null_stream_difference_ns\": %.1f, \"cluster_ns\": %.1f, ",
              difference_of(bare_on_null, on_null_stream), median_of(with_cluster));
  std::printf("\"ctx_get_current_ns\": %.1f, \"capturing_ns\": %.1f", median_of(current),
              median_of(capturing));
  std::printf(", \"hip_over_cuda_ns\": %.1f", median_of(over_hip));
  std::printf("}\n");
  raw::call("cuCtxSynchronize");
  device->unload(module);
  hip->unload(hip_module);
  return failures == 0 ? 0 : 1;
}
