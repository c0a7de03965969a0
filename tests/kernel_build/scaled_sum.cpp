// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

namespace {

template <class Real, std::int64_t Tile>
void scaled_sum(const switchyard::host::block& block, const Real* x, Real* y, std::int64_t n, float a) {
  const std::int64_t begin = std::int64_t{block.index.x} * Tile;
  for (std::int64_t i = begin; i < std::min(begin + Tile, n); ++i) y[i] += static_cast<Real>(a) * x[i];
}

}  // namespace

#define SCALED_SUM(name, Real, tile)                                                      \
  extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel name = \
      switchyard::host::make_kernel<&scaled_sum<Real, tile>>();
