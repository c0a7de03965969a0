// SPDX-License-Identifier: MIT
// The formats of weights, named as in operators/weight_format.hpp, and their blocks.
#pragma once

namespace sy {

enum class weight_format { f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q6_k, q5_k, iq4_nl, mxfp4, q5_0, q5_1 };

template <weight_format Format>
inline constexpr bool is_plain =
    Format == weight_format::f32 || Format == weight_format::f16 || Format == weight_format::bf16;

/// Whether four bits stand for an integer of a table.
template <weight_format Format>
inline constexpr bool has_codes = Format == weight_format::iq4_nl || Format == weight_format::mxfp4;

/// Weights and bytes of a block of a row.
template <weight_format Format>
inline constexpr int block_elements =
    is_plain<Format>                                                                                  ? 1
    : Format == weight_format::q4_k || Format == weight_format::q5_k || Format == weight_format::q6_k ? 256
                                                                                                      : 32;
template <weight_format Format>
inline constexpr int block_bytes = Format == weight_format::f32                                       ? 4
                                   : is_plain<Format>                                                 ? 2
                                   : Format == weight_format::q8_0                                    ? 34
                                   : Format == weight_format::q4_0 || Format == weight_format::iq4_nl ? 18
                                   : Format == weight_format::q4_1                                    ? 20
                                   : Format == weight_format::mxfp4                                   ? 17
                                   : Format == weight_format::q5_0                                    ? 22
                                   : Format == weight_format::q5_1                                    ? 24
                                   : Format == weight_format::q4_k                                    ? 144
                                   : Format == weight_format::q5_k                                    ? 176
                                                                                                      : 210;

/// What codes [4 Index, 4 Index + 4) of iq4_nl and mxfp4 stand for, plus 128, as the bytes of a word; for
/// mxfp4 twice the numbers of e2m1.
template <weight_format Format, int Index>
inline constexpr unsigned code_bytes = Format == weight_format::iq4_nl ? Index == 0   ? 0x3F2D1801U
                                                                         : Index == 1 ? 0x766A5D4FU
                                                                         : Index == 2 ? 0xA6998D81U
                                                                                      : 0xF1D9C5B5U
                                       : Index == 0                    ? 0x83828180U
                                       : Index == 1                    ? 0x8C888684U
                                       : Index == 2                    ? 0x7D7E7F80U
                                                                       : 0x74787A7CU;

}  // namespace sy
