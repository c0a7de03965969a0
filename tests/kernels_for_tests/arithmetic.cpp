// SPDX-License-Identifier: MIT
// axpy in blocks of the launch's extent, and a sum in two steps that adds to partial sums which it expects to
// be zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "export.hpp"

namespace {

using switchyard::host::block;

void axpy(const block& this_block, float a, const float* x, float* y, std::int64_t n) {
  const std::int64_t size = this_block.extent.x;
  const std::int64_t begin = std::int64_t{this_block.index.x} * size;
  for (std::int64_t i = begin; i < std::min(begin + size, n); ++i) y[i] += a * x[i];
}

void add_parts(const block& this_block, const float* x, double* partial, std::int64_t n, std::int32_t parts) {
  const std::int64_t begin = n * this_block.index.x / parts;
  const std::int64_t end = n * (this_block.index.x + 1) / parts;
  for (std::int64_t i = begin; i < end; ++i) partial[this_block.index.x] += static_cast<double>(x[i]);
}

void combine(const block& /*where*/, const double* partial, double* out, std::int32_t parts) {
  double sum = 0;
  for (std::int32_t i = 0; i < parts; ++i) sum += partial[i];
  *out = sum;
}

/// Sums through the block's own memory: out[block] = sum of the bytes it could write there.
void use_scratch(const block& this_block, std::int64_t* out) {
  std::fill(this_block.scratch.begin(), this_block.scratch.end(), std::byte{1});
  std::int64_t sum = 0;
  for (const std::byte byte : this_block.scratch) sum += std::to_integer<std::int64_t>(byte);
  const bool aligned = reinterpret_cast<std::uintptr_t>(this_block.scratch.data()) % 64 == 0;
  out[this_block.index.x] = aligned ? sum : -1;
}

/// Writes where each block stands: out[i] = x + 1000 y + 1000000 z, in block order.
void locate(const block& this_block, std::int64_t* out) {
  const std::size_t i =
      (std::size_t{this_block.index.z} * this_block.grid.y + this_block.index.y) * this_block.grid.x +
      this_block.index.x;
  out[i] = this_block.index.x + std::int64_t{1000} * this_block.index.y +
           std::int64_t{1000000} * this_block.index.z;
}

}  // namespace

EXPORT_KERNEL(axpy_f32, axpy);
EXPORT_KERNEL(add_parts_f32, add_parts);
EXPORT_KERNEL(combine_f64, combine);
EXPORT_KERNEL(use_scratch_bytes, use_scratch);
EXPORT_KERNEL(locate_blocks, locate);
