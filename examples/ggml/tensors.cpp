// SPDX-License-Identifier: MIT
#include "tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::weight_format;

std::optional<sy::dtype> dtype_of(const ggml_tensor* of) {
  switch (of->type) {
    case GGML_TYPE_F32:
      return sy::dtype::f32;
    case GGML_TYPE_F16:
      return sy::dtype::f16;
    case GGML_TYPE_BF16:
      return sy::dtype::bf16;
    case GGML_TYPE_I32:
      return sy::dtype::i32;
    case GGML_TYPE_I64:
      return sy::dtype::i64;
    default:
      return std::nullopt;
  }
}

std::optional<weight_format> format_of(const ggml_tensor* of) {
  switch (of->type) {
    case GGML_TYPE_F32:
      return weight_format::f32;
    case GGML_TYPE_F16:
      return weight_format::f16;
    case GGML_TYPE_BF16:
      return weight_format::bf16;
    case GGML_TYPE_Q8_0:
      return weight_format::q8_0;
    case GGML_TYPE_Q4_0:
      return weight_format::q4_0;
    case GGML_TYPE_Q4_1:
      return weight_format::q4_1;
    case GGML_TYPE_Q4_K:
      return weight_format::q4_k;
    case GGML_TYPE_Q6_K:
      return weight_format::q6_k;
    case GGML_TYPE_Q5_K:
      return weight_format::q5_k;
    case GGML_TYPE_IQ4_NL:
      return weight_format::iq4_nl;
    case GGML_TYPE_MXFP4:
      return weight_format::mxfp4;
    case GGML_TYPE_Q5_0:
      return weight_format::q5_0;
    case GGML_TYPE_Q5_1:
      return weight_format::q5_1;
    default:
      return std::nullopt;
  }
}

std::optional<std::array<std::int64_t, 4>> element_strides(const ggml_tensor* of) {
  const auto type = dtype_of(of);
  if (!type) return std::nullopt;
  const std::int64_t bytes = sy::size_of(*type);
  std::array<std::int64_t, 4> out{};
  for (std::size_t d = 0; d < out.size(); ++d) {
    const auto stride = static_cast<std::int64_t>(of->nb[d]);
    if (stride % bytes != 0) return std::nullopt;
    out[d] = stride / bytes;
  }
  if (out[0] != 1) return std::nullopt;
  return out;
}

std::optional<std::int64_t> row_stride(const ggml_tensor* of) {
  std::int64_t stride = -1;
  std::int64_t rows = 1;
  for (int d = 1; d < GGML_MAX_DIMS; ++d) {
    if (of->ne[d] == 1) continue;
    const auto here = static_cast<std::int64_t>(of->nb[d]);
    if (stride < 0) stride = here;
    if (here != stride * rows) return std::nullopt;
    rows *= of->ne[d];
  }
  return stride < 0 ? static_cast<std::int64_t>(of->nb[1]) : stride;
}

sy::tensor rows_of(const calls& with, const ggml_tensor* of, const row_block& rows, std::int64_t first_column,
                   std::int64_t columns) {
  const auto type = dtype_of(of);
  if (!type) return {};
  const std::int64_t bytes = sy::size_of(*type);
  const std::int64_t stride = rows.is_whole ? *row_stride(of) : static_cast<std::int64_t>(of->nb[1]);
  if (static_cast<std::int64_t>(of->nb[0]) != bytes || stride % bytes != 0) return {};
  auto* const data = static_cast<std::byte*>(with.address(of)) +
                     rows.second * static_cast<std::int64_t>(of->nb[2]) +
                     rows.third * static_cast<std::int64_t>(of->nb[3]) + first_column * bytes;
  return {data, *type, {rows.rows, columns}, {stride / bytes, 1}};
}

}  // namespace switchyard_ggml
