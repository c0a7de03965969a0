#include <array>

#include <switchyard/tune/workloads/norm.hpp>

#include "tune_benches.hpp"

namespace tool {

std::span<const known_bench> norm_benches() {
  namespace ops = switchyard::operators;
  static const std::array all{bench_of<ops::rms_norm>(), bench_of<ops::rms_norm_backward>(),
                              bench_of<ops::layer_norm>(), bench_of<ops::layer_norm_backward>()};
  return all;
}

}  // namespace tool
