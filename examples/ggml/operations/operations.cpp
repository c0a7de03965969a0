// SPDX-License-Identifier: MIT
#include "../operations.hpp"

#include "ggml-impl.h"

namespace switchyard_ggml {

bool make_calls(calls& with, const ggml_tensor* node) {
  if (ggml_op_is_empty(node->op)) return true;
  switch (node->op) {
    case GGML_OP_MUL_MAT:
      return make_product(with, node);
    case GGML_OP_MUL_MAT_ID:
      return make_expert_products(with, node);
    case GGML_OP_GET_ROWS:
      return make_get_rows(with, node);
    case GGML_OP_SET_ROWS:
      return make_set_rows(with, node);
    case GGML_OP_RMS_NORM:
    case GGML_OP_NORM:
      return make_norm(with, node);
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
      return make_rope(with, node);
    case GGML_OP_FLASH_ATTN_EXT:
      return make_attention(with, node);
    case GGML_OP_SOFT_MAX:
      return make_softmax(with, node);
    case GGML_OP_GLU:
      return make_gated(with, node);
    default:
      return make_elements(with, node);
  }
}

}  // namespace switchyard_ggml
