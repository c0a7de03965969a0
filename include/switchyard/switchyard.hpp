// Everything. It costs 2 s and 120,000 preprocessed lines to compile, for JSON: include it in one unit of an
// engine, and dispatcher.hpp, which costs a third, in the others.
#pragma once

#include <switchyard/base/cpp20.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/device.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>
#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>
#include <switchyard/version.hpp>
