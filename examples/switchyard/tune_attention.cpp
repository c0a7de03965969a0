#include <array>

#include <switchyard/tune/workloads/attention_backward.hpp>
#include <switchyard/tune/workloads/attention_decode.hpp>
#include <switchyard/tune/workloads/attention_dropout_mask.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/rotary.hpp>

#include "tune_benches.hpp"

namespace tool {

std::span<const known_bench> attention_benches() {
  namespace ops = switchyard::operators;
  static const std::array all{bench_of<ops::attention_forward>(), bench_of<ops::attention_backward>(),
                              bench_of<ops::attention_decode>(), bench_of<ops::attention_dropout_mask>(),
                              bench_of<ops::rotary>()};
  return all;
}

}  // namespace tool
