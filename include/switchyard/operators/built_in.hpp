// SPDX-License-Identifier: MIT
// The built-in operators, listed once: the C API, the tool and tests take them from here.
#pragma once

#include <switchyard/base/cpp20.hpp>
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

namespace switchyard {
inline namespace v0 {

namespace operators {

/// Operators by their C++ types.
template <class... Operators>
struct operator_list {
  /// Calls `visit` for each operator, with its type as the template argument.
  template <class Visitor>
  static constexpr void for_each(Visitor&& visit) {
    (visit.template operator()<Operators>(), ...);
  }
};

/// In the order of their names.
using built_in = operator_list<attention_backward, attention_decode, attention_dropout_mask,
                               attention_forward, embedding, gated_activation, gated_activation_backward,
                               layer_norm, layer_norm_backward, matmul_quantized, rms_norm, rms_norm_backward,
                               rotary, rotary_cache, softmax, softmax_backward>;

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
