// SPDX-License-Identifier: MIT
// What an engine's monitoring asks for: counters as data and for Prometheus, workspaces from the engine's own
// allocator, and ranges for a profiler. None of it costs a call that was met before.
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <switchyard/observing/prometheus.hpp>
#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;

// With CUDA: cudaMallocAsync(&address, bytes, stream), or a pool of the engine's own.
void* allocate(void*, std::size_t bytes, const sy::device_properties& device, sy::stream) noexcept {
  std::printf("%zu bytes on %s\n", bytes, device.backend.c_str());
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}
void release(void*, void* address, const sy::device_properties&, sy::stream) noexcept {
  std::free(address);
}

void begin_range(void*, const char* name) noexcept {
  std::printf("begin %s\n", name);
}
void end_range(void*) noexcept {
  std::puts("end");
}

}  // namespace

int main() {
  using sy::operators::rms_norm_backward;
  sy::catalog_options options;
  options.memory = {allocate, release};
  options.ranges = {begin_range, end_range};  // or sy::open_ranges("nvtx"), or SWITCHYARD_RANGES=nvtx
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<rms_norm_backward> run{catalog, sy::device::host()};

  std::vector<float> memory(4, 1.0F);
  std::vector<float> weights(4, 1.0F);
  const sy::tensor x{std::span{memory}, {1, 4}};
  const sy::tensor rstd{std::span{memory}.first(1), {1}};
  const sy::tensor gamma{std::span{weights}, {4}};
  for (int i = 0; i < 2; ++i)
    run({}, rms_norm_backward::call(x, x, rstd, x, {.gamma = gamma, .grad_gamma = gamma}));

  const sy::operator_counters counted = catalog.counters().operators.at(0);
  std::printf("%s: %d plan, %d load, %zu errors\n", counted.name.c_str(), static_cast<int>(counted.plans),
              static_cast<int>(counted.loads), counted.errors.size());
  // catalog.write_counters(path), or SWITCHYARD_METRICS=path, writes this every 15 seconds.
  const std::string text = sy::to_prometheus(catalog.counters());
  std::fwrite(text.data(), 1, text.find("# HELP", 1), stdout);
}
