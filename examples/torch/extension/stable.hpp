// What the extension uses of libtorch's stable ABI: nothing else of torch is included anywhere.
#pragma once

#include <optional>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

namespace switchyard_torch {

using torch::stable::Tensor;
using optional_tensor = std::optional<Tensor>;

}  // namespace switchyard_torch
