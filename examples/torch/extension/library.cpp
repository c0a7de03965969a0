// SPDX-License-Identifier: MIT
// The ops of torch.ops.switchyard. Each is functional, and writes new tensors only, but rotary_cache and
// those named `_into`, which write what their schemas mark. A result that was not asked for is None. The
// Python package adds fake kernels and gradients, and says what arguments mean.
#include <string>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

#include "op_options.hpp"
#include "stable.hpp"

namespace {

namespace ops = switchyard::operators;

/// An op whose options are those that its operator describes.
template <class Operator>
void define(torch::stable::detail::StableLibrary& library, const char* operands, const char* results,
            const char* suffix = "") {
  const std::string schema = std::string{Operator::name} + suffix + "(" + operands +
                             switchyard_torch::op_options<Operator>::schema() + ") -> (" + results + ")";
  library.def(schema.c_str());
}

}  // namespace

STABLE_TORCH_LIBRARY(switchyard, m) {
  define<ops::attention_forward>(m, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse");
  define<ops::attention_forward>(m, "Tensor q, Tensor k, Tensor v, Tensor(a!) out", "Tensor lse", "_into");
  define<ops::attention_backward>(m, "Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse",
                                  "Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_bias");
  define<ops::attention_decode>(m, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse");
  define<ops::attention_decode>(m, "Tensor q, Tensor k, Tensor v, Tensor(a!) out", "Tensor lse", "_into");
  m.def(
      "attention_dropout_mask(Tensor state, SymInt batch, SymInt heads, SymInt seqlen_q, SymInt seqlen_k, "
      "float dropout_p) -> Tensor");
  define<ops::rotary>(m, "Tensor q, Tensor? k=None", "Tensor q_out, Tensor k_out");
  define<ops::rotary_cache>(m,
                            "Tensor(a!) q, Tensor k, Tensor v, Tensor(b!) k_cache, Tensor(c!) v_cache, "
                            "Tensor cos, Tensor sin, Tensor positions, Tensor slots",
                            "");
  define<ops::rms_norm>(m, "Tensor x", "Tensor out, Tensor residual_out, Tensor rstd");
  define<ops::rms_norm_backward>(m, "Tensor grad_out, Tensor h, Tensor rstd",
                                 "Tensor grad_x, Tensor grad_weight");
  define<ops::layer_norm>(m, "Tensor x", "Tensor out, Tensor residual_out, Tensor mean, Tensor rstd");
  define<ops::layer_norm_backward>(m, "Tensor grad_out, Tensor h, Tensor mean, Tensor rstd",
                                   "Tensor grad_x, Tensor grad_weight, Tensor grad_bias");
  define<ops::gated_activation>(m, "Tensor gate, Tensor? up=None", "Tensor out");
  define<ops::gated_activation_backward>(m, "Tensor grad_out, Tensor gate, Tensor? up=None",
                                         "Tensor grad_gate, Tensor grad_up");
  define<ops::softmax>(m, "Tensor x", "Tensor out");
  define<ops::softmax_backward>(m, "Tensor grad_out, Tensor out", "Tensor grad_x");
}
