// SPDX-License-Identifier: MIT
// The ops of torch.ops.switchyard. Each is functional: it writes new tensors only. A result that was not
// asked for is None. The Python package adds fake kernels and gradients, and says what arguments mean.
#include <string>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>

#include "attention.hpp"
#include "op_options.hpp"
#include "stable.hpp"

namespace {

namespace ops = switchyard::operators;

/// An op whose options are those that its operator describes.
template <class Operator>
void define(torch::stable::detail::StableLibrary& library, const char* operands, const char* results) {
  const std::string schema = std::string{Operator::name} + "(" + operands +
                             switchyard_torch::op_options<Operator>::schema() + ") -> (" + results + ")";
  library.def(schema.c_str());
}

}  // namespace

STABLE_TORCH_LIBRARY(switchyard, m) {
  define<ops::attention_forward>(m, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse");
  define<ops::attention_backward>(m, "Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse",
                                  "Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_bias");
  define<ops::attention_decode>(m, "Tensor q, Tensor k, Tensor v", "Tensor out, Tensor lse");
  m.def(
      "attention_dropout_mask(Tensor state, SymInt batch, SymInt heads, SymInt seqlen_q, SymInt seqlen_k, "
      "float dropout_p) -> Tensor");
  m.def(
      "rotary(Tensor q, Tensor? k=None, Tensor? cos=None, Tensor? sin=None, Tensor? positions=None, "
      "Tensor? sequence_offsets=None, Tensor? cu_seqlens=None, SymInt longest=-1, SymInt offset=0, "
      "int rotary_dim=-1, float base=10000.0, float scaling=1.0, int style=0, bool inverse=False) -> "
      "(Tensor q_out, Tensor k_out)");
  m.def(
      "rms_norm(Tensor x, Tensor? weight=None, Tensor? residual=None, float epsilon=1e-06, "
      "float weight_offset=0.0, bool with_statistics=False) -> (Tensor out, Tensor residual_out, Tensor "
      "rstd)");
  m.def(
      "rms_norm_backward(Tensor grad_out, Tensor h, Tensor rstd, Tensor? weight=None, "
      "Tensor? grad_residual=None, float weight_offset=0.0, bool with_grad_weight=False) -> "
      "(Tensor grad_x, Tensor grad_weight)");
  m.def(
      "layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, Tensor? residual=None, "
      "float epsilon=1e-05, float weight_offset=0.0, bool with_statistics=False) -> "
      "(Tensor out, Tensor residual_out, Tensor mean, Tensor rstd)");
  m.def(
      "layer_norm_backward(Tensor grad_out, Tensor h, Tensor mean, Tensor rstd, Tensor? weight=None, "
      "Tensor? grad_residual=None, float weight_offset=0.0, bool with_grad_weight=False, "
      "bool with_grad_bias=False) -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)");
  m.def("gated_activation(Tensor gate, Tensor? up=None, int function=0) -> Tensor");
  m.def(
      "gated_activation_backward(Tensor grad_out, Tensor gate, Tensor? up=None, int function=0) -> "
      "(Tensor grad_gate, Tensor grad_up)");
  m.def("softmax(Tensor x, float scale=1.0) -> Tensor");
  m.def("softmax_backward(Tensor grad_out, Tensor out, float scale=1.0) -> Tensor");
}
