// SPDX-License-Identifier: MIT
// What nodes of a graph become, by kind. Each function makes the calls of a node, and is false where the
// device does not take it: see calls.hpp.
#pragma once

#include "calls.hpp"
#include "ggml.h"

namespace switchyard_ggml {

[[nodiscard]] bool make_product(calls& with, const ggml_tensor* node);
/// MUL_MAT_ID: products with the matrices of the experts that tokens are routed to.
[[nodiscard]] bool make_expert_products(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_get_rows(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_set_rows(calls& with, const ggml_tensor* node);
/// RMS_NORM and NORM.
[[nodiscard]] bool make_norm(calls& with, const ggml_tensor* node);
/// RMS_NORM and the MUL after it, whose result alone is written; with `sum`, the ADD before it as well.
[[nodiscard]] bool make_scaled_norm(calls& with, const ggml_tensor* sum, const ggml_tensor* norm,
                                    const ggml_tensor* product);
[[nodiscard]] bool make_rope(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_attention(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_softmax(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_gated(calls& with, const ggml_tensor* node);
/// Arithmetic, functions of one tensor, and copies.
[[nodiscard]] bool make_elements(calls& with, const ggml_tensor* node);

/// The calls of any node. Views need none.
[[nodiscard]] bool make_calls(calls& with, const ggml_tensor* node);

}  // namespace switchyard_ggml
