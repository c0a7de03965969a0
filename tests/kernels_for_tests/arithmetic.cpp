// axpy in blocks of the launch's extent, and a sum in two steps that adds to partial sums which it expects to
// be zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "export.hpp"

namespace {

using switchyard::host::block;

void axpy(const block& where, float a, const float* x, float* y, std::int64_t n) {
  const std::int64_t size = where.extent.x;
  const std::int64_t begin = std::int64_t{where.index.x} * size;
  for (std::int64_t i = begin; i < std::min(begin + size, n); ++i) y[i] += a * x[i];
}

void add_parts(const block& where, const float* x, double* partial, std::int64_t n, std::int32_t parts) {
  const std::int64_t begin = n * where.index.x / parts;
  const std::int64_t end = n * (where.index.x + 1) / parts;
  for (std::int64_t i = begin; i < end; ++i) partial[where.index.x] += static_cast<double>(x[i]);
}

void combine(const block& /*where*/, const double* partial, double* out, std::int32_t parts) {
  double sum = 0;
  for (std::int32_t i = 0; i < parts; ++i) sum += partial[i];
  *out = sum;
}

/// Sums through the block's own memory: out[block] = sum of the bytes it could write there.
void use_scratch(const block& where, std::int64_t* out) {
  std::fill(where.scratch.begin(), where.scratch.end(), std::byte{1});
  std::int64_t sum = 0;
  for (const std::byte each : where.scratch) sum += std::to_integer<std::int64_t>(each);
  const bool aligned = reinterpret_cast<std::uintptr_t>(where.scratch.data()) % 64 == 0;
  out[where.index.x] = aligned ? sum : -1;
}

/// Writes where each block stands: out[i] = x + 1000 y + 1000000 z, in block order.
void locate(const block& where, std::int64_t* out) {
  const std::size_t i =
      (std::size_t{where.index.z} * where.grid.y + where.index.y) * where.grid.x + where.index.x;
  out[i] = where.index.x + std::int64_t{1000} * where.index.y + std::int64_t{1000000} * where.index.z;
}

}  // namespace

EXPORT_KERNEL(axpy_f32, axpy);
EXPORT_KERNEL(add_parts_f32, add_parts);
EXPORT_KERNEL(combine_f64, combine);
EXPORT_KERNEL(use_scratch_bytes, use_scratch);
EXPORT_KERNEL(locate_blocks, locate);
