// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>

#include <switchyard/operators/matmul_quantized.hpp>

#include "../operations.hpp"
#include "../tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::matmul_quantized;

/// A call for each pair of matrices; src[0] repeats over the matrices of src[1].
bool make_product(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const w = node->src[0];
  const ggml_tensor* const x = node->src[1];
  const auto format = format_of(w);
  const auto x_strides = element_strides(x);
  const auto out_strides = element_strides(node);
  if (!format || !x_strides || !out_strides || node->type != GGML_TYPE_F32) return false;
  if (w->nb[0] != ggml_type_size(w->type)) return false;
  const std::int64_t second = x->ne[2] / w->ne[2];
  const std::int64_t third = x->ne[3] / w->ne[3];
  const sy::operators::weight_matrix weights{nullptr, *format, w->ne[1], w->ne[0],
                                             static_cast<std::int64_t>(w->nb[1])};
  for (std::int64_t k = 0; k < x->ne[3]; ++k) {
    for (std::int64_t j = 0; j < x->ne[2]; ++j) {
      sy::operators::weight_matrix matrix = weights;
      matrix.data = static_cast<const std::byte*>(with.address(w)) +
                    j / second * static_cast<std::int64_t>(w->nb[2]) +
                    k / third * static_cast<std::int64_t>(w->nb[3]);
      const row_block rows{x->ne[1], j, k, false};
      const sy::tensor in = rows_of(with, x, rows);
      const sy::tensor out = rows_of(with, node, rows);
      if (!with.make<matmul_quantized>(matmul_quantized::call(in, matrix, out))) return false;
      if (with.is_asking()) return true;
    }
  }
  return true;
}

}  // namespace switchyard_ggml
