// SPDX-License-Identifier: MIT
// Cosines and sines of a rotary embedding's angles, one row for each token, as ggml defines them: with
// factors that divide the frequencies, and with YaRN's mix of interpolated and extrapolated angles.
//
//   extrapolated = position base^(-2 i / (2 pairs)) / factors[i],   interpolated = scale * extrapolated
//   mix = extrapolation * (1 - clamp((i - low) / max(0.001, high - low), 0, 1))
//   cos, sin of interpolated (1 - mix) + extrapolated mix, times the magnitude
//
// Source: Peng et al., YaRN, arXiv:2309.00071.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/operator.hpp>

namespace switchyard_ggml {

struct rope_table {
  static constexpr std::string_view name = "ggml_rope_table";

  struct arguments {
    const std::int32_t* positions = nullptr;  ///< [tokens]
    const float* factors = nullptr;           ///< [pairs]; null: 1
    float* cos = nullptr;                     ///< [tokens, pairs]
    float* sin = nullptr;                     ///< [tokens, pairs]
    std::int64_t tokens = 0;
    std::int64_t pairs = 0;
    float base = 10000;
    float scale = 1;
    float extrapolation = 0;
    float magnitude = 1;  ///< YaRN's own included
    float low = 0;        ///< pairs between which YaRN mixes
    float high = 0;

    [[nodiscard]] bool complete() const noexcept {
      return positions != nullptr && cos != nullptr && sin != nullptr;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::positions, &arguments::factors, &arguments::cos, &arguments::sin,
                         &arguments::tokens, &arguments::pairs, &arguments::base, &arguments::scale,
                         &arguments::extrapolation, &arguments::magnitude, &arguments::low, &arguments::high>;

  static constexpr auto axes = switchyard::axes(switchyard::type_axis<&arguments::complete>(),
                                                switchyard::size_axis<&arguments::tokens>(),
                                                switchyard::size_axis<&arguments::pairs>());

  [[nodiscard]] static std::string check(const arguments& a) {
    if (!a.complete()) return "positions, cos and sin must not be null";
    if (a.tokens < 0 || a.pairs < 1) return "tokens must not be negative, and pairs must be positive";
    return {};
  }
};

}  // namespace switchyard_ggml
