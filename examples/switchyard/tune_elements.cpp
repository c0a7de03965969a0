#include <array>

#include <switchyard/tune/workloads/activation.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

#include "tune_benches.hpp"

namespace tool {

std::span<const known_bench> element_benches() {
  namespace ops = switchyard::operators;
  static const std::array all{bench_of<ops::gated_activation>(), bench_of<ops::gated_activation_backward>(),
                              bench_of<ops::softmax>(), bench_of<ops::softmax_backward>()};
  return all;
}

}  // namespace tool
