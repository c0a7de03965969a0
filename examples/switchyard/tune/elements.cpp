// SPDX-License-Identifier: MIT
#include <switchyard/tune/workloads/activation.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

#include "tune/bench_of.hpp"

namespace tool {

namespace ops = switchyard::operators;
template known_bench bench_of<ops::gated_activation>();
template known_bench bench_of<ops::gated_activation_backward>();
template known_bench bench_of<ops::softmax>();
template known_bench bench_of<ops::softmax_backward>();

}  // namespace tool
