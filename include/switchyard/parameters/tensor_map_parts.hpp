// SPDX-License-Identifier: MIT
// The parts of a tensor map's recipe, and where their values lie in a request. The problem decides some of
// them, and the call the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Calls `visit(expression, member of the request)` for each part of a recipe.
template <class Visitor>
void visit_parts(const tensor_map_recipe& recipe, tensor_map_request& request, const Visitor& visit) {
  visit(recipe.address, request.address);
  for (std::size_t i = 0; i < recipe.extents.size(); ++i) {
    visit(recipe.extents[i], request.extents[i]);
    visit(recipe.box[i], request.box[i]);
    if (!recipe.element_strides.empty()) visit(recipe.element_strides[i], request.element_strides[i]);
  }
  for (std::size_t i = 0; i < recipe.stride_bytes.size(); ++i)
    visit(recipe.stride_bytes[i], request.stride_bytes[i]);
}

/// Sets a member of a request to the value of its part.
inline void set_part(void*& to, std::int64_t value) noexcept {
  __builtin_memcpy(&to, &value, sizeof to);
}
inline void set_part(std::uint64_t& to, std::int64_t value) noexcept {
  to = static_cast<std::uint64_t>(value);
}
inline void set_part(std::uint32_t& to, std::int64_t value) noexcept {
  to = static_cast<std::uint32_t>(value);
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
