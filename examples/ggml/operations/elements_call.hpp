// SPDX-License-Identifier: MIT
// Calls of ggml_elements on ggml's tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "../calls.hpp"
#include "../kernels/elements.hpp"
#include "../tensors.hpp"
#include "ggml.h"

namespace switchyard_ggml {

/// A tensor of a call: where its elements are, and how they lie.
struct element_view {
  void* data = nullptr;
  switchyard::dtype type = switchyard::dtype::f32;
  std::int64_t extent[4] = {1, 1, 1, 1};  // NOLINT(modernize-avoid-c-arrays)
  std::int64_t stride[4] = {};            // NOLINT(modernize-avoid-c-arrays): in bytes
};

/// `of` as it is; its type must have a dtype.
[[nodiscard]] element_view view_of(const calls& with, const ggml_tensor* of);
/// Contiguous elements with the extents of `like`.
[[nodiscard]] element_view dense_view(void* data, switchyard::dtype type, const element_view& like);

/// A call of a function of one or two tensors. a has out's extents; those of b divide them.
[[nodiscard]] elements::arguments element_call(element_function function, const element_view& a,
                                               const element_view* b, const element_view& out, float p = 0,
                                               float q = 0);

[[nodiscard]] std::int64_t bytes_of(const element_view& of);

/// `of` in another type, in memory until the next node; none where that is not served.
[[nodiscard]] std::optional<element_view> converted(calls& with, const element_view& of,
                                                    switchyard::dtype type);

/// A tensor in another type, which the nodes that follow may share.
[[nodiscard]] std::optional<element_view> rounded(calls& with, const ggml_tensor* of, switchyard::dtype type);

}  // namespace switchyard_ggml
