// SPDX-License-Identifier: MIT
// What nodes of a graph become, by kind. Each function makes the calls of a node, and is false where the
// device does not take it: see calls.hpp.
#pragma once

#include <switchyard/base/dtype.hpp>

#include "calls.hpp"
#include "ggml.h"

namespace switchyard_ggml {

[[nodiscard]] bool make_product(calls& with, const ggml_tensor* node);
/// The type that a product takes its activations in: a GPU rounds those of f32.
[[nodiscard]] switchyard::dtype activation_type(const calls& with, const ggml_tensor* product);
/// MUL_MAT_ID: products with the matrices of the experts that tokens are routed to.
[[nodiscard]] bool make_expert_products(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_get_rows(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_set_rows(calls& with, const ggml_tensor* node);
/// RMS_NORM and NORM.
[[nodiscard]] bool make_norm(calls& with, const ggml_tensor* node);
/// RMS_NORM and the MUL after it, whose result alone is written; with `sum`, the ADD before it as well.
[[nodiscard]] bool make_scaled_norm(calls& with, const ggml_tensor* sum, const ggml_tensor* norm,
                                    const ggml_tensor* product);
/// The same, of which products alone read the result, in this type: see graph_uses.hpp.
[[nodiscard]] bool make_rounded_norm(calls& with, const ggml_tensor* sum, const ggml_tensor* norm,
                                     const ggml_tensor* product, switchyard::dtype type);
[[nodiscard]] bool make_rope(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_attention(calls& with, const ggml_tensor* node);
/// The same, of which products alone read the result, in this type and as `reader`, another shape of it.
[[nodiscard]] bool make_rounded_attention(calls& with, const ggml_tensor* node, const ggml_tensor* reader,
                                          switchyard::dtype type);
[[nodiscard]] bool make_softmax(calls& with, const ggml_tensor* node);
[[nodiscard]] bool make_gated(calls& with, const ggml_tensor* node);
/// The same, of which products alone read the result, in this type.
[[nodiscard]] bool make_rounded_gated(calls& with, const ggml_tensor* node, switchyard::dtype type);
/// Arithmetic, functions of one tensor, and copies.
[[nodiscard]] bool make_elements(calls& with, const ggml_tensor* node);

/// The calls of any node. Views need none.
[[nodiscard]] bool make_calls(calls& with, const ggml_tensor* node);

}  // namespace switchyard_ggml
