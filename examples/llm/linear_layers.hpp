// SPDX-License-Identifier: MIT
// The linear layers of a step: by matmul_quantized, or where there are many rows by cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/tensor.hpp>

#include "cublaslt.hpp"
#include "device_memory.hpp"
#include "step_workspace.hpp"
#include "weights.hpp"

namespace llm {

class linear_layers {
 public:
  /// `hidden` is the type of the input. cuBLASLt serves if `uses_cublaslt` is set and the library is found.
  /// All references must outlive the object.
  linear_layers(switchyard::catalog& catalog, const switchyard::device& device,
                const std::shared_ptr<const device_api>& api, const model_weights& weights,
                step_workspace& calls, switchyard::dtype hidden, bool int8_activations, bool uses_cublaslt);

  /// Each part of a projection writes its columns of `out`.
  void multiply(const switchyard::const_tensor& x, const projection& with, const switchyard::tensor& out);

  /// Why cuBLASLt does not serve many rows; empty if it does.
  [[nodiscard]] const std::string& why_no_cublaslt() const noexcept { return why_no_cublaslt_; }

 private:
  /// The fewest rows that cuBLASLt serves. Fewer rows are bound by reading the weights, which are smaller
  /// quantised than dequantised.
  static constexpr std::int64_t least_rows = 65;

  [[nodiscard]] bool multiply_with_cublaslt(const switchyard::const_tensor& x, const projection::part& with,
                                            const switchyard::tensor& out);
  [[nodiscard]] const void* dequantised(const switchyard::operators::weight_matrix& of,
                                        switchyard::dtype type);

  step_workspace& calls_;
  bool int8_activations_;
  switchyard::dispatcher<switchyard::operators::matmul_quantized> matmul_;
  switchyard::dispatcher<switchyard::operators::embedding> rows_;
  std::unique_ptr<cublaslt> cublaslt_;
  std::string why_no_cublaslt_;
  device_memory row_numbers_;  ///< 0, 1, 2, ...: all rows of a matrix
  device_memory plain_;        ///< a matrix, dequantised
};

}  // namespace llm
