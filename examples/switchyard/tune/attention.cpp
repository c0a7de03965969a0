// SPDX-License-Identifier: MIT
#include <switchyard/tune/workloads/attention_backward.hpp>
#include <switchyard/tune/workloads/attention_decode.hpp>
#include <switchyard/tune/workloads/attention_dropout_mask.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/rotary.hpp>

#include "tune/bench_of.hpp"

namespace tool {

namespace ops = switchyard::operators;
template known_bench bench_of<ops::attention_forward>();
template known_bench bench_of<ops::attention_backward>();
template known_bench bench_of<ops::attention_decode>();
template known_bench bench_of<ops::attention_dropout_mask>();
template known_bench bench_of<ops::rotary>();

}  // namespace tool
