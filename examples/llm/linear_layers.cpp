// SPDX-License-Identifier: MIT
#include "linear_layers.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace llm {

namespace sy = switchyard;
namespace ops = switchyard::operators;

namespace {

[[nodiscard]] bool is_plain(ops::weight_format format, sy::dtype type) {
  return (format == ops::weight_format::bf16 && type == sy::dtype::bf16) ||
         (format == ops::weight_format::f16 && type == sy::dtype::f16);
}

/// Calls visit with every matrix of the layers.
template <class Visit>
void for_each_part(const model_weights& weights, Visit&& visit) {
  for (const layer_weights& layer : weights.layers()) {
    for (const projection* const projected :
         {&layer.qkv, &layer.attention_output, &layer.gate_and_up, &layer.down}) {
      for (const projection::part& part : projected->parts) visit(part);
    }
  }
}

}  // namespace

linear_layers::linear_layers(sy::catalog& catalog, const sy::device& device,
                             const std::shared_ptr<const device_api>& api, const model_weights& weights,
                             step_workspace& calls, sy::dtype hidden, bool int8_activations,
                             bool uses_cublaslt)
    : calls_{calls}, int8_activations_{int8_activations}, matmul_{catalog, device}, rows_{catalog, device} {
  if (!uses_cublaslt) {
    why_no_cublaslt_ = "it was not wanted";
    return;
  }
  cublaslt_ = cublaslt::open(device, api, why_no_cublaslt_);
  if (cublaslt_ == nullptr) return;
  std::int64_t rows = 0;
  std::int64_t elements = 0;
  for_each_part(weights, [&](const projection::part& part) {
    if (is_plain(part.weights.format, hidden)) return;
    rows = std::max(rows, part.weights.rows);
    elements = std::max(elements, part.weights.rows * part.weights.columns);
  });
  if (elements == 0) return;
  plain_ = device_memory{device, static_cast<std::size_t>(elements * sy::size_of(hidden))};
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  row_numbers_ = device_memory{device, numbers.size() * sizeof(std::int32_t)};
  row_numbers_.upload(numbers.data(), numbers.size() * sizeof(std::int32_t));
}

void linear_layers::multiply(const sy::const_tensor& x, const projection& with, const sy::tensor& out) {
  for (const projection::part& part : with.parts) {
    auto* const first = static_cast<std::byte*>(out.data()) + part.first * sy::size_of(out.dtype());
    const sy::tensor columns{first, out.dtype(), {out.extent(0), part.weights.rows}, {out.stride(0), 1}};
    if (multiply_with_cublaslt(x, part, columns)) continue;
    calls_.launch(matmul_,
                  ops::matmul_quantized::call(
                      x, part.weights, columns,
                      {.bias = part.bias, .int8_activations = int8_activations_, .w_is_constant = true}));
  }
}

/// Whether cuBLASLt may serve. Otherwise matmul_quantized does: for few rows, a bias (in f32, which cuBLASLt
/// does not add to 16 bits), and the logits (in f32, too).
bool linear_layers::multiply_with_cublaslt(const sy::const_tensor& x, const projection::part& with,
                                           const sy::tensor& out) {
  if (cublaslt_ == nullptr || x.extent(0) < least_rows || x.dtype() != out.dtype() ||
      with.bias.data() != nullptr)
    return false;
  plain_product product;
  product.w = dequantised(with.weights, x.dtype());
  if (product.w == nullptr) return false;
  product.x = x.data();
  product.out = out.data();
  product.rows = x.extent(0);
  product.inputs = with.weights.columns;
  product.outputs = with.weights.rows;
  product.x_stride = x.stride(0);
  product.out_stride = out.stride(0);
  product.type = x.dtype();
  return cublaslt_->multiply(product, calls_.stream());
}

/// The matrix itself if it is of this type, otherwise a copy that is valid until the next call. Null if it
/// does not fit, as the output matrix.
const void* linear_layers::dequantised(const ops::weight_matrix& of, sy::dtype type) {
  if (is_plain(of.format, type) && of.stride() == of.columns * sy::size_of(type)) return of.data;
  if (static_cast<std::size_t>(of.rows * of.columns * sy::size_of(type)) > plain_.bytes()) return nullptr;
  if (static_cast<std::size_t>(of.rows) * sizeof(std::int32_t) > row_numbers_.bytes()) return nullptr;
  calls_.launch(rows_, ops::embedding::call(of, {row_numbers_.data(), sy::dtype::i32, {of.rows}},
                                            {plain_.data(), type, {of.rows, of.columns}}));
  return plain_.data();
}

}  // namespace llm
