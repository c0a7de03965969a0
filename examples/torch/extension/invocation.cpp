// SPDX-License-Identifier: MIT
#include "invocation.hpp"

#include <array>
#include <string>

namespace switchyard_torch {

namespace sy = switchyard;

namespace {

/// torch's numbers of the element types that Switchyard knows, at the index of sy::dtype.
[[nodiscard]] const std::array<std::int32_t, 9>& dtypes() {
  static const std::array<std::int32_t, 9> all{
      aoti_torch_dtype_float16(), aoti_torch_dtype_bfloat16(),      aoti_torch_dtype_float32(),
      aoti_torch_dtype_float64(), aoti_torch_dtype_float8_e4m3fn(), aoti_torch_dtype_float8_e5m2(),
      aoti_torch_dtype_int8(),    aoti_torch_dtype_int32(),         aoti_torch_dtype_int64()};
  return all;
}

}  // namespace

std::int32_t dtype_of(const Tensor& tensor) {
  std::int32_t out = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &out));
  return out;
}

std::int32_t dtype_f32() noexcept {
  return dtypes()[static_cast<std::size_t>(sy::dtype::f32)];
}

std::int32_t dtype_e4m3() noexcept {
  return dtypes()[static_cast<std::size_t>(sy::dtype::f8_e4m3)];
}

std::int32_t dtype_bytes() noexcept {
  static const std::int32_t type = aoti_torch_dtype_uint8();
  return type;
}

void refuse(const char* op, const std::string& text) {
  throw sy::call_error{sy::error_code::invalid_argument, std::string{op} + ": " + text};
}

Tensor with_dense_rows(const Tensor& tensor) {
  const std::int64_t last = tensor.dim() - 1;
  if (last < 0 || tensor.stride(last) == 1 || tensor.size(last) <= 1) return tensor;
  return torch::stable::contiguous(tensor);
}

Tensor with_dense_elements(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

sy::dtype invocation::type_of(const Tensor& tensor, const char* name) const {
  std::int32_t device = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device));
  bool elsewhere = device != where_.type;
  if (!elsewhere && !where_.is_cpu) elsewhere = tensor.get_device_index() != where_.index;
  if (elsewhere) refuse(op_, std::string{name} + " is on another device than the first tensor");
  const std::int32_t type = dtype_of(tensor);
  const auto& all = dtypes();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == type) return static_cast<sy::dtype>(i);
  }
  refuse(op_, std::string{name} + " has an element type that no operator takes");
}

sy::tensor invocation::view(const Tensor& tensor, const char* name, std::initializer_list<int> order) const {
  const sy::dtype type = type_of(tensor, name);
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const std::size_t rank = sizes.size();
  if (rank > sy::max_rank || (order.size() != 0 && order.size() != rank)) {
    refuse(op_, std::string{name} + " has " + std::to_string(rank) + " dimensions" +
                    (order.size() != 0 ? " instead of " + std::to_string(order.size()) : std::string{}));
  }
  std::array<std::int64_t, sy::max_rank> extents{};
  std::array<std::int64_t, sy::max_rank> steps{};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t from = order.size() == 0 ? i : static_cast<std::size_t>(order.begin()[i]);
    extents[i] = sizes[from];
    steps[i] = strides[from];
  }
  void* address = tensor.data_ptr();
  if (address == nullptr && tensor.numel() == 0) address = of_empty_;
  return sy::tensor::from_spans(address, type, {extents.data(), rank}, {steps.data(), rank});
}

Tensor invocation::empty(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                         std::int32_t dtype) const {
  AtenTensorHandle out = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()),
                                                         sizes.data(), strides.data(), dtype, where_.type,
                                                         where_.index, &out));
  return Tensor{out};
}

Tensor invocation::empty(std::span<const std::int64_t> sizes, std::int32_t dtype) const {
  std::array<std::int64_t, 16> strides{};
  if (sizes.size() > strides.size()) refuse(op_, "more than 16 dimensions");
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return empty(sizes, {strides.data(), sizes.size()}, dtype);
}

bool may_have_padding(const invocation& call, const optional_tensor& cu_seqlens, std::int64_t tokens) {
  if (!cu_seqlens.has_value()) return false;
  const bool is_plain = call.type_of(*cu_seqlens, "cu_seqlens") == sy::dtype::i32 && cu_seqlens->dim() == 1;
  if (!call.is_on_host() || !is_plain || cu_seqlens->size(0) == 0) return true;
  const auto* const numbers = static_cast<const std::int32_t*>(cu_seqlens->data_ptr());
  return numbers[(cu_seqlens->size(0) - 1) * cu_seqlens->stride(0)] < tokens;
}

void invocation::explain_failure(const sy::error& problem) const {
  if (problem.code() != sy::error_code::load_during_capture) return;
  throw sy::driver_error{problem.code(),
                         std::string{problem.message()} +
                             "; in PyTorch: run the model once before the capture, as torch.cuda.graph's "
                             "warm-up does, or call switchyard.torch.prepare with the op and its arguments"};
}

}  // namespace switchyard_torch
