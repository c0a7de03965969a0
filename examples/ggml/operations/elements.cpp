// SPDX-License-Identifier: MIT
#include <optional>

#include "../operations.hpp"
#include "elements_call.hpp"

namespace switchyard_ggml {

namespace {

[[nodiscard]] std::optional<element_function> unary_function(ggml_unary_op op) {
  switch (op) {
    case GGML_UNARY_OP_ABS:
      return element_function::absolute;
    case GGML_UNARY_OP_SGN:
      return element_function::sign;
    case GGML_UNARY_OP_NEG:
      return element_function::negate;
    case GGML_UNARY_OP_STEP:
      return element_function::step;
    case GGML_UNARY_OP_TANH:
      return element_function::tanh;
    case GGML_UNARY_OP_ELU:
      return element_function::elu;
    case GGML_UNARY_OP_RELU:
      return element_function::relu;
    case GGML_UNARY_OP_SIGMOID:
      return element_function::sigmoid;
    case GGML_UNARY_OP_GELU:
      return element_function::gelu;
    case GGML_UNARY_OP_GELU_QUICK:
      return element_function::gelu_quick;
    case GGML_UNARY_OP_GELU_ERF:
      return element_function::gelu_erf;
    case GGML_UNARY_OP_SILU:
      return element_function::silu;
    case GGML_UNARY_OP_HARDSWISH:
      return element_function::hard_swish;
    case GGML_UNARY_OP_HARDSIGMOID:
      return element_function::hard_sigmoid;
    case GGML_UNARY_OP_EXP:
      return element_function::exp;
    case GGML_UNARY_OP_SOFTPLUS:
      return element_function::softplus;
    default:
      return std::nullopt;
  }
}

[[nodiscard]] std::optional<element_function> function_of(const ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_DUP:
    case GGML_OP_CONT:
    case GGML_OP_CPY:
      return element_function::copy;
    case GGML_OP_ADD:
      return element_function::add;
    case GGML_OP_SUB:
      return element_function::subtract;
    case GGML_OP_MUL:
      return element_function::multiply;
    case GGML_OP_DIV:
      return element_function::divide;
    case GGML_OP_REPEAT:
      return element_function::repeat;
    case GGML_OP_SQR:
      return element_function::square;
    case GGML_OP_SQRT:
      return element_function::square_root;
    case GGML_OP_LOG:
      return element_function::logarithm;
    case GGML_OP_SIN:
      return element_function::sine;
    case GGML_OP_COS:
      return element_function::cosine;
    case GGML_OP_SCALE:
      return element_function::scale;
    case GGML_OP_CLAMP:
      return element_function::clamp;
    case GGML_OP_LEAKY_RELU:
      return element_function::leaky_relu;
    case GGML_OP_UNARY:
      return unary_function(ggml_get_unary_op(node));
    default:
      return std::nullopt;
  }
}

/// A copy between shapes goes by the order of the elements: a dense tensor may have the other's extents.
[[nodiscard]] bool make_copy(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  element_view from = view_of(with, x);
  element_view to = view_of(with, node);
  if (!ggml_are_same_shape(x, node)) {
    if (ggml_is_contiguous(node)) {
      to = dense_view(to.data, to.type, from);
    } else if (ggml_is_contiguous(x)) {
      from = dense_view(from.data, from.type, to);
    } else {
      return false;
    }
  }
  return with.make<elements>(element_call(element_function::copy, from, nullptr, to));
}

}  // namespace

bool make_elements(calls& with, const ggml_tensor* node) {
  const auto function = function_of(node);
  const ggml_tensor* const a = node->src[0];
  if (!function || !dtype_of(a) || !dtype_of(node)) return false;
  if (*function == element_function::copy) return make_copy(with, node);
  const element_view out = view_of(with, node);
  const element_view first = view_of(with, a);
  if (*function == element_function::repeat) {
    return with.make<elements>(element_call(*function, out, &first, out));
  }
  if (*function >= element_function::add) {
    const ggml_tensor* const b = node->src[1];
    if (!dtype_of(b)) return false;
    const element_view second = view_of(with, b);
    return with.make<elements>(element_call(*function, first, &second, out));
  }
  const bool has_parameters = node->op == GGML_OP_SCALE || node->op == GGML_OP_CLAMP;
  const float p = has_parameters || node->op == GGML_OP_LEAKY_RELU ? parameter<float>(node, 0) : 0;
  const float q = has_parameters ? parameter<float>(node, 1) : 0;
  return with.make<elements>(element_call(*function, first, nullptr, out, p, q));
}

}  // namespace switchyard_ggml
