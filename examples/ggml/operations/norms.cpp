// SPDX-License-Identifier: MIT
#include <cstddef>

#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/rms_norm.hpp>

#include "../kernels/round_norm.hpp"
#include "../operations.hpp"
#include "../tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::layer_norm;
using sy::operators::rms_norm;

namespace {

/// Whether a call may write `out` while it reads `in`: they lie apart, or row on row. Memory of what later
/// nodes need no more is reused, at any offset, so that joined nodes may meet.
[[nodiscard]] bool is_writable(const ggml_tensor* out, const ggml_tensor* in) {
  const auto* const first = static_cast<const std::byte*>(out->data);
  const auto* const other = static_cast<const std::byte*>(in->data);
  if (first + ggml_nbytes(out) <= other || other + ggml_nbytes(in) <= first) return true;
  return first == other && ggml_are_same_shape(out, in) && ggml_are_same_stride(out, in);
}

}  // namespace

bool make_norm(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  if (x->type != node->type) return false;
  const auto epsilon = parameter<float>(node, 0);
  return for_each_rows(with, {node, x}, [&](const row_block& rows) {
    const sy::tensor in = rows_of(with, x, rows);
    const sy::tensor out = rows_of(with, node, rows);
    if (node->op == GGML_OP_NORM) {
      layer_norm::options options;
      options.epsilon = epsilon;
      return with.make<layer_norm>(layer_norm::call(in, out, options));
    }
    rms_norm::options options;
    options.epsilon = epsilon;
    return with.make<rms_norm>(rms_norm::call(in, out, options));
  });
}

bool make_scaled_norm(calls& with, const ggml_tensor* sum, const ggml_tensor* norm,
                      const ggml_tensor* product) {
  const ggml_tensor* const gamma = product->src[0] == norm ? product->src[1] : product->src[0];
  const ggml_tensor* const x = sum != nullptr ? sum->src[0] : norm->src[0];
  const ggml_tensor* const residual = sum != nullptr ? sum->src[1] : nullptr;
  for (const ggml_tensor* tensor : {gamma, x, product, static_cast<const ggml_tensor*>(norm)}) {
    if (tensor->type != GGML_TYPE_F32) return false;
  }
  if (gamma->ne[0] != x->ne[0] || ggml_nrows(gamma) != 1 || gamma->nb[0] != sizeof(float)) return false;
  if (!is_writable(product, x) || !is_writable(product, gamma)) return false;
  if (sum != nullptr) {
    if (residual->type != GGML_TYPE_F32 || sum->type != GGML_TYPE_F32 || !ggml_are_same_shape(x, residual))
      return false;
    if (!is_writable(product, residual) || !is_writable(product, sum) || sum->data == product->data)
      return false;
    for (const ggml_tensor* tensor : {x, residual, sum, product}) {
      if (!row_stride(tensor)) return false;
    }
  }
  return for_each_rows(with, {product, x}, [&](const row_block& rows) {
    rms_norm::options options;
    options.epsilon = parameter<float>(norm, 0);
    options.gamma = sy::const_tensor{with.address(gamma), sy::dtype::f32, {gamma->ne[0]}};
    if (sum != nullptr) {
      options.residual = rows_of(with, residual, rows);
      options.residual_out = rows_of(with, sum, rows);
    }
    return with.make<rms_norm>(rms_norm::call(rows_of(with, x, rows), rows_of(with, product, rows), options));
  });
}

bool make_rounded_norm(calls& with, const ggml_tensor* sum, const ggml_tensor* norm,
                       const ggml_tensor* product, sy::dtype type) {
  const ggml_tensor* const gamma = product->src[0] == norm ? product->src[1] : product->src[0];
  const ggml_tensor* const x = sum != nullptr ? sum->src[0] : norm->src[0];
  const ggml_tensor* const residual = sum != nullptr ? sum->src[1] : nullptr;
  for (const ggml_tensor* tensor : {gamma, x, norm}) {
    if (tensor->type != GGML_TYPE_F32 || tensor->nb[0] != sizeof(float)) return false;
  }
  if (gamma->ne[0] != x->ne[0] || ggml_nrows(gamma) != 1 || !row_stride(x)) return false;
  round_norm::arguments call;
  call.x = static_cast<const float*>(with.address(x));
  call.gamma = static_cast<const float*>(with.address(gamma));
  call.rows = ggml_nrows(x);
  call.columns = x->ne[0];
  call.x_stride = *row_stride(x);
  call.epsilon = parameter<float>(norm, 0);
  call.out_dtype = type;
  if (sum != nullptr) {
    if (residual->type != GGML_TYPE_F32 || sum->type != GGML_TYPE_F32 || !ggml_are_same_shape(x, residual) ||
        !row_stride(residual) || !row_stride(sum) || residual->nb[0] != sizeof(float) ||
        !is_writable(sum, gamma))
      return false;
    call.residual = static_cast<const float*>(with.address(residual));
    call.sum = static_cast<float*>(with.address(sum));
    call.residual_stride = *row_stride(residual);
    call.sum_stride = *row_stride(sum);
  }
  call.out = with.rounding(product, type, call.rows * call.columns * sy::size_of(type));
  if (with.serves<round_norm>(call)) return with.make<round_norm>(call);
  with.forget_rounded();
  return false;
}

}  // namespace switchyard_ggml
