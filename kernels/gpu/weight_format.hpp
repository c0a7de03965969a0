// SPDX-License-Identifier: MIT
// The formats of weights, named as in operators/weight_format.hpp, and their blocks.
#pragma once

namespace sy {

enum class weight_format { f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q6_k };

template <weight_format Format>
inline constexpr bool is_plain =
    Format == weight_format::f32 || Format == weight_format::f16 || Format == weight_format::bf16;

/// Weights and bytes of a block of a row.
template <weight_format Format>
inline constexpr int block_elements = is_plain<Format>                                                 ? 1
                                      : Format == weight_format::q4_k || Format == weight_format::q6_k ? 256
                                                                                                       : 32;
template <weight_format Format>
inline constexpr int block_bytes = Format == weight_format::f32    ? 4
                                   : is_plain<Format>              ? 2
                                   : Format == weight_format::q8_0 ? 34
                                   : Format == weight_format::q4_0 ? 18
                                   : Format == weight_format::q4_1 ? 20
                                   : Format == weight_format::q4_k ? 144
                                                                   : 210;

}  // namespace sy
