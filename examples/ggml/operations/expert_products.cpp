// SPDX-License-Identifier: MIT
#include "../kernels/expert_products.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/operators/matmul_quantized.hpp>

#include "../operations.hpp"
#include "../tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::matmul_quantized;
using sy::operators::weight_format;
using sy::operators::weight_matrix;

namespace {

/// A product of one token's row with one expert's matrix.
struct routed_row {
  const std::byte* in;
  std::byte* out;
};

/// The rows of each expert. Throws where there is no such expert.
[[nodiscard]] std::vector<std::vector<routed_row>> rows_by_expert(const calls& with,
                                                                  const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[1];
  const ggml_tensor* const ids = node->src[2];
  const auto row_of = [&](const ggml_tensor* of, std::int64_t slot, std::int64_t token) {
    return static_cast<std::byte*>(with.address(of)) + slot * static_cast<std::int64_t>(of->nb[1]) +
           token * static_cast<std::int64_t>(of->nb[2]);
  };
  std::vector<std::vector<routed_row>> out(static_cast<std::size_t>(node->src[0]->ne[2]));
  for (std::int64_t token = 0; token < ids->ne[1]; ++token) {
    for (std::int64_t slot = 0; slot < ids->ne[0]; ++slot) {
      std::int32_t expert = 0;
      std::memcpy(&expert,
                  static_cast<const std::byte*>(with.address(ids)) +
                      slot * static_cast<std::int64_t>(ids->nb[0]) +
                      token * static_cast<std::int64_t>(ids->nb[1]),
                  sizeof expert);
      if (expert < 0 || static_cast<std::size_t>(expert) >= out.size()) {
        throw sy::call_error{sy::error_code::invalid_argument,
                             "ids[" + std::to_string(token) + ", " + std::to_string(slot) + "] is " +
                                 std::to_string(expert) + ": it must be at least 0 and below " +
                                 std::to_string(out.size()) + ", the number of experts"};
      }
      out[static_cast<std::size_t>(expert)].push_back(
          {row_of(x, slot % x->ne[1], token), row_of(node, slot, token)});
    }
  }
  return out;
}

/// The rows of one expert: a single one where it lies, several as one matrix.
[[nodiscard]] bool multiply(calls& with, const weight_matrix& w, sy::dtype type,
                            const std::vector<routed_row>& rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (count == 0) return true;
  if (count == 1) {
    return with.make<matmul_quantized>(
        matmul_quantized::call(sy::const_tensor{rows[0].in, type, {1, w.columns}}, w,
                               sy::tensor{rows[0].out, sy::dtype::f32, {1, w.rows}}));
  }
  const std::int64_t in_bytes = w.columns * sy::size_of(type);
  const std::int64_t out_bytes = w.rows * sy::size_of(sy::dtype::f32);
  auto* const in = static_cast<std::byte*>(with.scratch(count * in_bytes));
  auto* const out = static_cast<std::byte*>(with.scratch(count * out_bytes));
  if (!with.is_asking()) {
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(in + i * in_bytes, rows[static_cast<std::size_t>(i)].in,
                  static_cast<std::size_t>(in_bytes));
  }
  if (!with.make<matmul_quantized>(matmul_quantized::call(sy::const_tensor{in, type, {count, w.columns}}, w,
                                                          sy::tensor{out, sy::dtype::f32, {count, w.rows}})))
    return false;
  if (!with.is_asking()) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(rows[static_cast<std::size_t>(i)].out, out + i * out_bytes,
                  static_cast<std::size_t>(out_bytes));
    }
  }
  return true;
}

/// One call, which reads the ids on the device.
[[nodiscard]] bool make_on_device(calls& with, const ggml_tensor* node, weight_format format) {
  const ggml_tensor* const w = node->src[0];
  const ggml_tensor* const x = node->src[1];
  const ggml_tensor* const ids = node->src[2];
  if (x->type != GGML_TYPE_F32 || (x->ne[1] != 1 && x->ne[1] != ids->ne[0])) return false;
  expert_products::arguments call;
  call.x = static_cast<const float*>(with.address(x));
  call.w = with.address(w);
  call.ids = static_cast<const std::int32_t*>(with.address(ids));
  call.out = static_cast<float*>(with.address(node));
  call.tokens = ids->ne[1];
  call.slots = ids->ne[0];
  call.experts = w->ne[2];
  call.in_features = w->ne[0];
  call.out_features = w->ne[1];
  for (int d = 0; d < 2; ++d) {
    call.x_stride[d] = static_cast<std::int64_t>(x->nb[d + 1]);
    call.ids_stride[d] = static_cast<std::int64_t>(ids->nb[d]);
    call.out_stride[d] = static_cast<std::int64_t>(node->nb[d + 1]);
    call.w_stride[d] = static_cast<std::int64_t>(w->nb[d + 1]);
  }
  if (x->ne[1] == 1) call.x_stride[0] = 0;  // the slots share a row
  call.weights = format;
  return with.make<expert_products>(call);
}

}  // namespace

/// On a GPU one call. On the CPU a call for each expert that a token is routed to: the ids are read here,
/// which only the CPU allows, whose launches have ended when they return.
bool make_expert_products(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const w = node->src[0];
  const ggml_tensor* const x = node->src[1];
  const ggml_tensor* const ids = node->src[2];
  const auto format = format_of(w);
  const auto type = dtype_of(x);
  if (!format || !type || ids->type != GGML_TYPE_I32 || node->type != GGML_TYPE_F32) return false;
  if (w->nb[0] != ggml_type_size(w->type) || !element_strides(x) || !element_strides(node)) return false;
  if (!with.is_host()) return make_on_device(with, node, *format);
  weight_matrix matrix{with.address(w), *format, w->ne[1], w->ne[0], static_cast<std::int64_t>(w->nb[1])};
  if (with.is_asking()) {
    const routed_row any{static_cast<const std::byte*>(with.address(x)),
                         static_cast<std::byte*>(with.address(node))};
    return multiply(with, matrix, *type, {any}) &&
           multiply(with, matrix, *type, std::vector(static_cast<std::size_t>(ids->ne[0] * ids->ne[1]), any));
  }
  for (const std::vector<routed_row>& rows : rows_by_expert(with, node)) {
    if (!multiply(with, matrix, *type, rows)) return false;
    matrix.data = static_cast<const std::byte*>(matrix.data) + w->nb[2];
  }
  return true;
}

}  // namespace switchyard_ggml
