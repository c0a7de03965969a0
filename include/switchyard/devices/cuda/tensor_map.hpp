// SPDX-License-Identifier: MIT
// Encodes tensor maps for the tensor memory accelerator.
#pragma once

#include <iterator>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/tensor_map_request.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// Encodes into `map`, tensor_map_bytes bytes. CUDA_ERROR_NOT_SUPPORTED with drivers before CUDA 12.0.
[[nodiscard]] inline status encode_tensor_map(const api& library, CUctx_st* context,
                                              const tensor_map_request& request, void* map) noexcept {
  if (library.tensor_map_encode_tiled == nullptr) return result::not_supported;
  if (request.rank == 0 || request.rank > std::size(request.extents)) return result::invalid_value;
  // Encoding touches no device, but fails with CUDA_ERROR_INVALID_CONTEXT on a thread without a context.
  const context_guard guard{library, context};
  if (guard.status() != result::success) return guard.status();
  return library.tensor_map_encode_tiled(
      map, static_cast<int>(request.element_type), request.rank, request.address, request.extents,
      request.stride_bytes, request.box, request.element_strides, static_cast<int>(request.interleave),
      static_cast<int>(request.swizzle), static_cast<int>(request.l2_promotion),
      static_cast<int>(request.out_of_bounds_fill));
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
