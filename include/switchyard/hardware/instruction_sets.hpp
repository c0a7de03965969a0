// SPDX-License-Identifier: MIT
// The instruction sets of CPUs that kernels require, as attributes of a device: its name does not tell them.
#pragma once

#include <array>
#include <string_view>

namespace switchyard {
inline namespace v0 {
namespace detail {

inline constexpr std::array<std::string_view, 8> instruction_sets{
    "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "neon"};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
