// SPDX-License-Identifier: MIT
#include <switchyard/tune/workloads/norm.hpp>

#include "tune/bench_of.hpp"

namespace tool {

namespace ops = switchyard::operators;
template known_bench bench_of<ops::rms_norm>();
template known_bench bench_of<ops::rms_norm_backward>();
template known_bench bench_of<ops::layer_norm>();
template known_bench bench_of<ops::layer_norm_backward>();

}  // namespace tool
