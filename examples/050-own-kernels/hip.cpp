// SPDX-License-Identifier: MIT
// The HIP kernel in softmax_online.hip, on an AMD GPU. Without one, tests/hip/emulator/README.md tells how to
// run this program.
//
//   own_hip_kernel FOLDER      FOLDER holds kernels/softmax, built from softmax_hip.json
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <switchyard/devices/hip/open.hpp>
#include <switchyard/switchyard.hpp>

namespace sy = switchyard;
using sy::operators::softmax;

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: own_hip_kernel FOLDER\n");
    return 2;
  }
  const sy::device gpu{sy::hip::current()};
  sy::catalog catalog{{.roots = {argv[1]}, .tables = {}}};
  sy::dispatcher<softmax> run{catalog, gpu};

  // Rows of other lengths than the block's; a driver's calls copy, as hipMemcpyAsync does.
  const std::vector<std::int64_t> lengths{1, 100, 256, 1000};
  for (const std::int64_t columns : lengths) {
    constexpr std::int64_t rows = 3;
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
    const std::size_t bytes = values.size() * sizeof(float);
    auto* const memory = static_cast<float*>(gpu.driver()->allocate(bytes, {}));
    gpu.driver()->copy(memory, values.data(), bytes, {});
    const sy::tensor x{memory, sy::dtype::f32, {rows, columns}};
    const auto call = softmax::call(x, x);
    run({}, call);
    std::vector<float> found(values.size());
    gpu.driver()->copy(found.data(), memory, bytes, {});
    if (gpu.driver()->synchronize({}) != 0) return 1;  // the kernel failed
    gpu.driver()->release(memory, {});

    double worst = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(row * columns + i); };
      double sum = 0;
      for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(values[at(i)]));
      for (std::int64_t i = 0; i < columns; ++i) {
        const double wanted = std::exp(static_cast<double>(values[at(i)])) / sum;
        worst = std::max(worst, std::abs(static_cast<double>(found[at(i)]) / wanted - 1));
      }
    }
    std::printf("%s: rows of %lld: %s\n", run.explain(call).variant.c_str(), static_cast<long long>(columns),
                worst < 1e-5 ? "right" : "WRONG");
  }
} catch (const sy::error& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 1;
}
