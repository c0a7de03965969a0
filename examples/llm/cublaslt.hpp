// SPDX-License-Identifier: MIT
// Linear layers with plain weights by cuBLASLt, for prompts. The library is opened at run time if it is
// installed; the engine is not linked with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <switchyard/base/dtype.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>

#include "device_memory.hpp"

namespace llm {

/// out[rows, outputs] = x[rows, inputs] w[outputs, inputs]^T, all of one type, f16 or bf16; sums in f32.
struct plain_product {
  const void* x = nullptr;
  const void* w = nullptr;
  void* out = nullptr;
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  std::int64_t x_stride = 0, out_stride = 0;  ///< from row to row, in elements
  switchyard::dtype type = switchyard::dtype::bf16;
};

class cublaslt {
 public:
  /// Opens the library that LLM_CUBLASLT names, otherwise libcublasLt.so.13 or .12. Null if there is none, if
  /// the device is no CUDA device, or if the library refuses it; `why` then gives the reason.
  [[nodiscard]] static std::unique_ptr<cublaslt> open(const switchyard::device& device,
                                                      const std::shared_ptr<const device_api>& api,
                                                      std::string& why);
  cublaslt(const cublaslt&) = delete;
  cublaslt& operator=(const cublaslt&) = delete;
  ~cublaslt();

  /// Returns false if the library has no kernel for the product. The device must be current. Throws
  /// driver_error if a launch fails.
  [[nodiscard]] bool multiply(const plain_product& product, switchyard::stream on);

 private:
  struct algorithm;
  struct heuristic_result;
  struct functions;
  struct plan;
  struct shape;

  cublaslt(const switchyard::device& device, std::shared_ptr<const device_api> api,
           std::unique_ptr<functions> library, void* handle);
  [[nodiscard]] const plan& plan_of(const plain_product& product);
  [[nodiscard]] std::unique_ptr<plan> make_plan(const shape& of) const;

  std::shared_ptr<const device_api> api_;
  std::unique_ptr<functions> library_;
  void* handle_;
  device_memory workspace_;
  std::map<shape, std::unique_ptr<plan>> plans_;
};

}  // namespace llm
