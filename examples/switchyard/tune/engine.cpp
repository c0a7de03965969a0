// SPDX-License-Identifier: MIT
#include <switchyard/tune/workloads/embedding.hpp>
#include <switchyard/tune/workloads/matmul_quantized.hpp>
#include <switchyard/tune/workloads/rotary_cache.hpp>

#include "tune/bench_of.hpp"

namespace tool {

namespace ops = switchyard::operators;
template known_bench bench_of<ops::embedding>();
template known_bench bench_of<ops::matmul_quantized>();
template known_bench bench_of<ops::rotary_cache>();

}  // namespace tool
