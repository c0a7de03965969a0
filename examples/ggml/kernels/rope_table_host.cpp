// SPDX-License-Identifier: MIT
// Cosines and sines of rotary embeddings on the CPU. A block takes an equal share of the tokens.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "rope_table.hpp"

namespace {

using switchyard::host::block;
using table_arguments = switchyard_ggml::rope_table::arguments;

void rope_table(const block& here, table_arguments of) {
  const std::int64_t begin = of.tokens * here.index.x / here.grid.x;
  const std::int64_t end = of.tokens * (here.index.x + std::int64_t{1}) / here.grid.x;
  for (std::int64_t i = 0; i < of.pairs; ++i) {
    const auto index = static_cast<double>(i);
    const double frequency = std::pow(static_cast<double>(of.base), -index / static_cast<double>(of.pairs)) /
                             (of.factors != nullptr ? static_cast<double>(of.factors[i]) : 1.0);
    const double ramp = (index - static_cast<double>(of.low)) /
                        std::max(0.001, static_cast<double>(of.high) - static_cast<double>(of.low));
    const double mix = static_cast<double>(of.extrapolation) * (1.0 - std::clamp(ramp, 0.0, 1.0));
    const double turn = frequency * (static_cast<double>(of.scale) * (1.0 - mix) + mix);
    for (std::int64_t token = begin; token < end; ++token) {
      const double angle = static_cast<double>(of.positions[token]) * turn;
      of.cos[token * of.pairs + i] = static_cast<float>(std::cos(angle)) * of.magnitude;
      of.sin[token * of.pairs + i] = static_cast<float>(std::sin(angle)) * of.magnitude;
    }
  }
}

}  // namespace
