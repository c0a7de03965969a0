// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>

#include <switchyard/operators/matmul_quantized.hpp>

#include "../operations.hpp"
#include "elements_call.hpp"
#include "ggml-backend.h"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::matmul_quantized;

namespace {

/// Whether nothing writes a tensor while graphs are computed.
[[nodiscard]] bool is_constant(const ggml_tensor* of) {
  const ggml_backend_buffer_t buffer = of->view_src != nullptr ? of->view_src->buffer : of->buffer;
  return of->op == GGML_OP_NONE && buffer != nullptr &&
         ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/// The rows of one matrix of activations.
[[nodiscard]] sy::tensor matrix_of(const element_view& of, std::int64_t second, std::int64_t third) {
  return {static_cast<std::byte*>(of.data) + second * of.stride[2] + third * of.stride[3],
          of.type,
          {of.extent[1], of.extent[0]},
          {of.stride[1] / sy::size_of(of.type), 1}};
}

}  // namespace

/// A GPU's fast kernels take 16 bits: where the weights have no more to say, so have the activations. bf16
/// has the range of f32.
sy::dtype activation_type(const calls& with, const ggml_tensor* product) {
  const sy::dtype given = dtype_of(product->src[1]).value_or(sy::dtype::f32);
  if (with.is_host() || given != sy::dtype::f32) return given;
  switch (product->src[0]->type) {
    case GGML_TYPE_F32:
      return given;
    case GGML_TYPE_F16:
      return parameter<std::int32_t>(product, 0) == GGML_PREC_F32 ? given : sy::dtype::f16;
    default:
      return sy::dtype::bf16;
  }
}

/// A call for each pair of matrices; src[0] repeats over the matrices of src[1].
bool make_product(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const w = node->src[0];
  const ggml_tensor* const x = node->src[1];
  const auto format = format_of(w);
  if (!format || !element_strides(x) || !element_strides(node) || node->type != GGML_TYPE_F32) return false;
  if (w->nb[0] != ggml_type_size(w->type)) return false;
  const auto in = rounded(with, x, activation_type(with, node));
  if (!in) return false;
  const std::int64_t second = x->ne[2] / w->ne[2];
  const std::int64_t third = x->ne[3] / w->ne[3];
  sy::operators::weight_matrix matrix{nullptr, *format, w->ne[1], w->ne[0],
                                      static_cast<std::int64_t>(w->nb[1])};
  matmul_quantized::options options;
  options.w_is_constant = is_constant(w);
  // Products of many rows are made once, in 16 bits, as ggml's own backends round to 8.
  constexpr std::int64_t few_rows = 32;
  options.int8_activations = !with.is_host() && ggml_is_quantized(w->type) && x->ne[1] > few_rows;
  for (std::int64_t k = 0; k < x->ne[3]; ++k) {
    for (std::int64_t j = 0; j < x->ne[2]; ++j) {
      matrix.data = static_cast<const std::byte*>(with.address(w)) +
                    j / second * static_cast<std::int64_t>(w->nb[2]) +
                    k / third * static_cast<std::int64_t>(w->nb[3]);
      const sy::tensor out = rows_of(with, node, {x->ne[1], j, k, false});
      if (!with.make<matmul_quantized>(matmul_quantized::call(matrix_of(*in, j, k), matrix, out, options)))
        return false;
      if (with.is_asking()) return true;
    }
  }
  return true;
}

}  // namespace switchyard_ggml
