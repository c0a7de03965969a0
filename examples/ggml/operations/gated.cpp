// SPDX-License-Identifier: MIT
#include <cstdint>

#include <switchyard/operators/gated_activation.hpp>

#include "../operations.hpp"
#include "elements_call.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::gated_activation;
using sy::operators::gated_function;

namespace {

/// The halves of a packed tensor, or two tensors.
struct halves {
  const ggml_tensor* gate;
  const ggml_tensor* up;
  std::int64_t gate_column = 0;
  std::int64_t up_column = 0;

  explicit halves(const ggml_tensor* node)
      : gate{node->src[0]}, up{node->src[1] != nullptr ? node->src[1] : node->src[0]} {
    if (node->src[1] != nullptr) return;
    const bool is_swapped = parameter<std::int32_t>(node, 1) != 0;
    (is_swapped ? gate_column : up_column) = node->ne[0];
  }
};

[[nodiscard]] bool make_activation(calls& with, const ggml_tensor* node, gated_function function) {
  const halves of{node};
  const std::int64_t columns = node->ne[0];
  return for_each_rows(with, {node, of.gate, of.up}, [&](const row_block& rows) {
    return with.make<gated_activation>(
        gated_activation::call(rows_of(with, of.gate, rows, of.gate_column, columns),
                               rows_of(with, of.up, rows, of.up_column, columns), rows_of(with, node, rows),
                               {.function = function}));
  });
}

/// A function of gate and up by ggml_elements.
[[nodiscard]] bool make_elements_of(calls& with, const ggml_tensor* node, element_function function,
                                    const element_view& out) {
  const halves of{node};
  const auto half = [&](const ggml_tensor* tensor, std::int64_t column) {
    element_view view = view_of(with, tensor);
    view.data = static_cast<std::byte*>(view.data) + column * view.stride[0];
    view.extent[0] = node->ne[0];
    return view;
  };
  const element_view gate = half(of.gate, of.gate_column);
  const element_view up = half(of.up, of.up_column);
  const bool is_oai = function == element_function::gated_oai;
  return with.make<elements>(element_call(function, gate, &up, out, is_oai ? parameter<float>(node, 2) : 0,
                                          is_oai ? parameter<float>(node, 3) : 0));
}

/// What gated_activation lacks.
[[nodiscard]] bool make_other(calls& with, const ggml_tensor* node, element_function function) {
  return make_elements_of(with, node, function, view_of(with, node));
}

}  // namespace

bool make_gated(calls& with, const ggml_tensor* node) {
  const halves of{node};
  if (of.gate->type != node->type || of.up->type != node->type || !dtype_of(node)) return false;
  switch (ggml_get_glu_op(node)) {
    case GGML_GLU_OP_SWIGLU:
      return make_activation(with, node, gated_function::silu);
    case GGML_GLU_OP_GEGLU:
      return make_activation(with, node, gated_function::gelu_tanh);
    case GGML_GLU_OP_GEGLU_ERF:
      return make_activation(with, node, gated_function::gelu);
    case GGML_GLU_OP_REGLU:
      return make_other(with, node, element_function::gated_relu);
    case GGML_GLU_OP_GEGLU_QUICK:
      return make_other(with, node, element_function::gated_quick);
    case GGML_GLU_OP_SWIGLU_OAI:
      return make_other(with, node, element_function::gated_oai);
    default:
      return false;
  }
}

bool make_rounded_gated(calls& with, const ggml_tensor* node, sy::dtype type) {
  const halves of{node};
  if (of.gate->type != GGML_TYPE_F32 || of.up->type != GGML_TYPE_F32) return false;
  element_function function{};
  switch (ggml_get_glu_op(node)) {
    case GGML_GLU_OP_SWIGLU:
      function = element_function::gated_silu;
      break;
    case GGML_GLU_OP_GEGLU:
      function = element_function::gated_gelu;
      break;
    case GGML_GLU_OP_GEGLU_ERF:
      function = element_function::gated_gelu_erf;
      break;
    default:
      return false;
  }
  element_view out = view_of(with, node);
  out = dense_view(with.rounding(node, type, ggml_nelements(node) * sy::size_of(type)), type, out);
  return make_elements_of(with, node, function, out);
}

}  // namespace switchyard_ggml
