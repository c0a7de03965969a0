// SPDX-License-Identifier: MIT
// Which results of a graph nothing reads but products.
#pragma once

#include <optional>

#include <switchyard/base/dtype.hpp>

struct ggml_cgraph;

namespace switchyard_ggml {

class calls;

/// The type to which products round the result of node `index`, where nothing else reads it, and nothing that
/// may round another tensor lies between: such a result is written in this type alone. A tensor that shares
/// memory with another is declined unless it `may_be_view`.
[[nodiscard]] std::optional<switchyard::dtype> type_of_products(const calls& with, const ggml_cgraph* graph,
                                                                int index, bool may_be_view = false);

}  // namespace switchyard_ggml
