// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>

#include <switchyard/operators/embedding.hpp>

#include "../kernels/set_rows.hpp"
#include "../operations.hpp"
#include "../tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::embedding;

bool make_get_rows(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const table = node->src[0];
  const ggml_tensor* const ids = node->src[1];
  const auto format = format_of(table);
  if (!format || node->type != GGML_TYPE_F32 || ids->type != GGML_TYPE_I32) return false;
  if (table->nb[0] != ggml_type_size(table->type) || ids->nb[0] != sizeof(std::int32_t)) return false;
  for (std::int64_t k = 0; k < ids->ne[2]; ++k) {
    for (std::int64_t j = 0; j < ids->ne[1]; ++j) {
      const auto at = [&](const ggml_tensor* of, std::size_t inner) {
        return static_cast<const std::byte*>(with.address(of)) +
               j * static_cast<std::int64_t>(of->nb[inner]) +
               k * static_cast<std::int64_t>(of->nb[inner + 1]);
      };
      const sy::operators::weight_matrix matrix{at(table, 2), *format, table->ne[1], table->ne[0],
                                                static_cast<std::int64_t>(table->nb[1])};
      const sy::const_tensor numbers{at(ids, 1), sy::dtype::i32, {ids->ne[0]}};
      const sy::tensor out = rows_of(with, node, {ids->ne[0], j, k, false});
      if (!with.make<embedding>(embedding::call(matrix, numbers, out))) return false;
      if (with.is_asking()) return true;
    }
  }
  return true;
}

bool make_set_rows(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  const ggml_tensor* const ids = node->src[1];
  const auto from = dtype_of(x);
  const auto to = format_of(node);
  const auto numbers = dtype_of(ids);
  if (!from || !to || !numbers) return false;
  if (x->nb[0] != ggml_type_size(x->type) || node->nb[0] != ggml_type_size(node->type)) return false;
  set_rows::arguments call;
  call.x = with.address(x);
  call.ids = with.address(ids);
  call.out = with.address(node);
  call.columns = x->ne[0];
  call.out_rows = node->ne[1];
  for (int d = 0; d < 3; ++d) {
    call.extent[d] = x->ne[d + 1];
    call.x_stride[d] = static_cast<std::int64_t>(x->nb[d + 1]);
    call.ids_stride[d] = static_cast<std::int64_t>(ids->nb[d]);
    call.out_stride[d] = static_cast<std::int64_t>(node->nb[d + 1]);
  }
  call.ids_extent[0] = ids->ne[1];
  call.ids_extent[1] = ids->ne[2];
  call.x_dtype = *from;
  call.ids_dtype = *numbers;
  call.out_format = *to;
  return with.make<set_rows>(call);
}

}  // namespace switchyard_ggml
