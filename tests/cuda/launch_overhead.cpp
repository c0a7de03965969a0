// SPDX-License-Identifier: MIT
// What a launch costs over the driver's own call: through the cuda backend and through dispatchers, by stream
// and from a graph. Figures stand beside their budgets.
//
// Rounds of either kind alternate, and each is short enough not to fill the driver's queue; the figures are
// medians over rounds. TEST_KERNELS names the folder of kernels.sm_90a.cubin, HIP_OVER_CUDA_LIBRARY the
// library for the hip backend. Exits with 77 where there is no device, with 1 where a launch fails.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>

#include "../environment.hpp"
#include "raw.hpp"
#include "written_files.hpp"

namespace {

using namespace cuda_test;

/// Of the kernel with sixteen parameters.
struct sixteen {
  static constexpr std::string_view name = "sixteen";
  struct arguments {
    std::int32_t* out = nullptr;
    std::int32_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7;
    const float *h = nullptr, *i = nullptr, *j = nullptr;
    float k = 8, l = 9;
    std::int64_t m = 10, n = 11;
    double o = 12;
  };
  static constexpr auto fields =
      sy::fields<&arguments::out, &arguments::a, &arguments::b, &arguments::c, &arguments::d, &arguments::e,
                 &arguments::f, &arguments::g, &arguments::h, &arguments::i, &arguments::j, &arguments::k,
                 &arguments::l, &arguments::m, &arguments::n, &arguments::o>;
  static constexpr auto axes = sy::axes(sy::type_axis<&arguments::a>(), sy::type_axis<&arguments::b>(),
                                        sy::size_axis<&arguments::c>(), sy::size_axis<&arguments::d>(),
                                        sy::size_axis<&arguments::m>(), sy::size_axis<&arguments::n>());
};

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
  const char* const folder = sy::test::variable("TEST_KERNELS");
  const char* const library = sy::test::variable("HIP_OVER_CUDA_LIBRARY");
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

  const auto driver = sy::cuda::open_library();
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
  const auto show = [](const char* name, double nanoseconds, const char* budget = "") {
    std::printf("%-62s %8.1f ns  %s\n", name, nanoseconds, budget);
    std::fflush(stdout);
  };
  show("cuLaunchKernel, 16 parameters", median_of(bare));
  show("cuLaunchKernel over itself", difference_of(bare, bare));
  show("through the cuda backend, over bare", difference_of(bare, ours));
  show("the same on the null stream", difference_of(bare_on_null, on_null_stream));
  show("a cluster launch", median_of(with_cluster));
  show("cuCtxGetCurrent", median_of(current));
  show("asking whether a stream is captured", median_of(capturing));
  show("through the hip backend over hip_over_cuda", median_of(over_hip));

  {
    const written_files files{"sm_90a"};
    json parameters_of_call = json::array();
    for (const auto& field : sy::describe<sixteen>().fields) parameters_of_call.push_back(field.name);
    files.put(
        "sixteen", {image.data(), image.size()},
        {{{"id", "only"}, {"launches", {{{"kernel", "sixteen"}, {"parameters", parameters_of_call}}}}}});
    sy::catalog catalog{files.options()};
    sy::dispatcher<sixteen> bound{catalog, sy::device{device}};
    sy::dispatcher<sixteen> routed{catalog};
    sixteen::arguments call;
    std::array<void*, 16> call_parameters{&call.out, &call.a, &call.b, &call.c, &call.d, &call.e,
                                          &call.f,   &call.g, &call.h, &call.i, &call.j, &call.k,
                                          &call.l,   &call.m, &call.n, &call.o};
    const auto bare_call = [&](CUstream_st* launch_stream) {
      failures += driver->launch_kernel(static_cast<CUfunc_st*>(function), 1, 1, 1, 32, 1, 1, 0,
                                        launch_stream, call_parameters.data(), nullptr) != 0;
    };
    const auto on_stream = [&](auto& with, CUstream_st* launch_stream) {
      with.prepare(launch_stream, call);
      return difference_of([&] { bare_call(launch_stream); }, [&] { with(launch_stream, call); });
    };
    show("through a dispatcher of the device, over bare", on_stream(bound, stream.get()), "budget 25 ns");
    show("through a dispatcher of all devices, over bare", on_stream(routed, stream.get()), "budget 25 ns");
    show("of the device, on the null stream, over bare", on_stream(bound, nullptr));
    show("of all devices, on the null stream, over bare", on_stream(routed, nullptr));

    // A graph of as many launches, replayed: what was captured is the same.
    const auto replay_time = [&](const auto& work) {
      const raw::graph graph{stream.get(), 0, [&] {
                               for (int i = 0; i < launches; ++i) work();
                             }};
      std::vector<double> times;
      for (int round = 0; round < rounds / 10; ++round) {
        const auto start = std::chrono::steady_clock::now();
        graph.launch(stream.get());
        raw::call("cuStreamSynchronize", stream.get());
        const auto end = std::chrono::steady_clock::now();
        times.push_back(std::chrono::duration<double, std::nano>(end - start).count() / launches);
      }
      return median(times);
    };
    show("graph replay, a launch, captured bare", replay_time([&] { bare_call(stream.get()); }));
    show("graph replay, a launch, captured through the dispatcher",
         replay_time([&] { bound(stream.get(), call); }), "as captured bare");
    raw::call("cuCtxSynchronize");
  }
  raw::call("cuCtxSynchronize");
  device->unload(module);
  hip->unload(hip_module);
  return failures == 0 ? 0 : 1;
}
