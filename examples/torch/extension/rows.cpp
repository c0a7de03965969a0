// SPDX-License-Identifier: MIT
#include "rows.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>

namespace switchyard_torch {

namespace sy = switchyard;

namespace {

/// "[2, 3]"
[[nodiscard]] std::string text_of(std::span<const std::int64_t> sizes) {
  std::string out = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return out + "]";
}

}  // namespace

rows::rows(const invocation& call, const Tensor& first, std::int64_t columns_per_result)
    : call_{call}, rank_{static_cast<std::size_t>(first.dim())} {
  if (rank_ == 0 || rank_ > max_rank) refuse(call.op(), "tensors need 1 to 16 dimensions");
  const auto sizes = first.sizes();
  const auto strides = first.strides();
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  if (sizes_[rank_ - 1] % columns_per_result != 0) refuse(call.op(), "the last dimension must be even");
  columns_ = sizes_[rank_ - 1] / columns_per_result;
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(rank_) - 1;
  std::iota(order_.begin(), end, std::size_t{0});
  std::stable_sort(order_.begin(), end,
                   [&strides](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  for (std::size_t i = 0; i + 1 < rank_; ++i) count_ *= sizes_[i];
}

std::int64_t rows::row_stride(const Tensor& tensor) const {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (sizes[rank_ - 1] > 1 && strides[rank_ - 1] != 1) return -1;
  std::int64_t stride = -1;
  std::int64_t next = -1;
  for (std::size_t i = rank_ - 1; i-- > 0;) {
    const std::size_t dim = order_[i];
    if (sizes[dim] == 1) continue;
    if (stride < 0) {
      stride = strides[dim];
    } else if (strides[dim] != next) {
      return -1;
    }
    next = strides[dim] * sizes[dim];
  }
  return stride < 0 ? sizes[rank_ - 1] : stride;
}

Tensor rows::fit(const Tensor& tensor, const char* name, std::int64_t columns) const {
  const auto sizes = tensor.sizes();
  const bool fits = sizes.size() == rank_ && std::equal(sizes.begin(), sizes.end() - 1, sizes_.begin()) &&
                    sizes[rank_ - 1] == columns;
  if (!fits) {
    std::string text = " has another shape than the first tensor: ";
    text += text_of({sizes.data(), sizes.size()}) + " instead of ";
    std::array<std::int64_t, max_rank> wanted = sizes_;
    wanted[rank_ - 1] = columns;
    refuse(call_.op(), name + text + text_of({wanted.data(), rank_}));
  }
  if (is_empty() || row_stride(tensor) >= 0) return tensor;
  Tensor out = empty(dtype_of(tensor), columns);
  torch::stable::copy_(out, tensor);
  return out;
}

optional_tensor rows::fit(const optional_tensor& tensor, const char* name) const {
  return tensor.has_value() ? optional_tensor{fit(*tensor, name)} : tensor;
}

sy::tensor rows::view(const Tensor& tensor, const char* name) const {
  const std::int64_t columns = tensor.size(static_cast<std::int64_t>(rank_) - 1);
  const sy::dtype type = call_.type_of(tensor, name);
  const std::array<std::int64_t, 2> extents{count_, columns};
  const std::array<std::int64_t, 2> strides{row_stride(tensor), 1};
  return sy::tensor::from_spans(tensor.data_ptr(), type, extents, strides);
}

sy::tensor rows::view(const optional_tensor& tensor, const char* name) const {
  return tensor.has_value() ? view(*tensor, name) : sy::tensor{};
}

sy::tensor rows::view_per_row(const Tensor& tensor, const char* name) const {
  const std::array<std::int64_t, 1> extents{count_};
  const sy::dtype type = call_.type_of(tensor, name);
  if (tensor.numel() != count_) refuse(call_.op(), std::string{name} + " has not one element for each row");
  // As empty_per_row lays it out; another order would be silently wrong.
  std::int64_t step = 1;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (sizes.size() + 1 != rank_) refuse(call_.op(), std::string{name} + " is not what the forward returned");
  for (std::size_t i = rank_ - 1; i-- > 0;) {
    const std::size_t dim = order_[i];
    if (sizes[dim] != sizes_[dim] || (sizes[dim] > 1 && strides[dim] != step))
      refuse(call_.op(), std::string{name} + " is not laid out as the rows are");
    step *= sizes[dim];
  }
  return sy::tensor::from_spans(tensor.data_ptr(), type, extents);
}

Tensor rows::empty(std::int32_t dtype, std::int64_t columns) const {
  std::array<std::int64_t, max_rank> sizes = sizes_;
  std::array<std::int64_t, max_rank> strides{};
  sizes[rank_ - 1] = columns;
  strides[rank_ - 1] = 1;
  std::int64_t step = std::max<std::int64_t>(columns, 1);
  for (std::size_t i = rank_ - 1; i-- > 0;) {
    strides[order_[i]] = step;
    step *= std::max<std::int64_t>(sizes[order_[i]], 1);
  }
  return call_.empty({sizes.data(), rank_}, {strides.data(), rank_}, dtype);
}

Tensor rows::empty_per_row() const {
  std::array<std::int64_t, max_rank> strides{};
  std::int64_t step = 1;
  for (std::size_t i = rank_ - 1; i-- > 0;) {
    strides[order_[i]] = step;
    step *= std::max<std::int64_t>(sizes_[order_[i]], 1);
  }
  return call_.empty({sizes_.data(), rank_ - 1}, {strides.data(), rank_ - 1}, dtype_f32());
}

}  // namespace switchyard_torch
