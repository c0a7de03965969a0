// SPDX-License-Identifier: MIT
// What the extension uses of libtorch's stable ABI: nothing else of torch is included anywhere.
#pragma once

#include <optional>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

// Older headers, such as torch 2.11's, have it by another name.
#if !defined(STABLE_TORCH_ERROR_CODE_CHECK) && defined(TORCH_ERROR_CODE_CHECK)
#define STABLE_TORCH_ERROR_CODE_CHECK(call) TORCH_ERROR_CODE_CHECK(call)
#endif

namespace switchyard_torch {

using torch::stable::Tensor;
using optional_tensor = std::optional<Tensor>;

}  // namespace switchyard_torch
