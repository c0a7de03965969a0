#include <array>

#include <switchyard/tune/workloads/embedding.hpp>
#include <switchyard/tune/workloads/matmul_quantized.hpp>
#include <switchyard/tune/workloads/rotary_cache.hpp>

#include "tune_benches.hpp"

namespace tool {

std::span<const known_bench> engine_benches() {
  namespace ops = switchyard::operators;
  static const std::array all{bench_of<ops::embedding>(), bench_of<ops::matmul_quantized>(),
                              bench_of<ops::rotary_cache>()};
  return all;
}

}  // namespace tool
