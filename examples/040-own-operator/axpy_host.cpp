// SPDX-License-Identifier: MIT
// The CPU kernels of the operator. axpy.json lists them; the build appends one AXPY line for each to this
// file.
#include <algorithm>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

namespace {

template <class Real, std::int64_t Block>
void axpy(const switchyard::host::block& block, const void* x, void* y, std::int64_t n, float a) {
  const auto* in = static_cast<const Real*>(x);
  auto* out = static_cast<Real*>(y);
  const std::int64_t begin = std::int64_t{block.index.x} * Block;
  const std::int64_t end = std::min(begin + Block, n);
  for (std::int64_t i = begin; i < end; ++i) out[i] += static_cast<Real>(a) * in[i];
}

}  // namespace

#define AXPY(name, Real, block)                                                           \
  extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel name = \
      switchyard::host::make_kernel<&axpy<Real, block>>();
