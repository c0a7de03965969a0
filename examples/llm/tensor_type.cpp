// SPDX-License-Identifier: MIT
#include "tensor_type.hpp"

#include <array>
#include <string_view>

namespace llm {
namespace {

struct known_type {
  tensor_type type;
  std::string_view name;
  block_format block{};
};

// Bytes of a block: an f16 scale (Q4_1 and Q5_1: and an f16 minimum; MXFP4: eight bits in its place) and the
// packed values. Q4_K and Q5_K have 2 f16 scales, 12 bytes of 6-bit scales and 128 or 160 of values; Q6_K 128
// + 64 bytes of values, 16 scales of 8 bits, an f16 scale.
constexpr std::array known_types{
    known_type{tensor_type::f32, "F32", {1, 4}},
    known_type{tensor_type::f16, "F16", {1, 2}},
    known_type{tensor_type::bf16, "BF16", {1, 2}},
    known_type{tensor_type::q4_0, "Q4_0", {32, 18}},
    known_type{tensor_type::q4_1, "Q4_1", {32, 20}},
    known_type{tensor_type::q8_0, "Q8_0", {32, 34}},
    known_type{tensor_type::q4_k, "Q4_K", {256, 144}},
    known_type{tensor_type::q6_k, "Q6_K", {256, 210}},
    known_type{tensor_type::q5_0, "Q5_0", {32, 22}},
    known_type{tensor_type::q5_1, "Q5_1", {32, 24}},
    known_type{tensor_type::q5_k, "Q5_K", {256, 176}},
    known_type{tensor_type::iq4_nl, "IQ4_NL", {32, 18}},
    known_type{tensor_type::mxfp4, "MXFP4", {32, 17}},
    known_type{tensor_type::q8_1, "Q8_1"},
    known_type{tensor_type::q2_k, "Q2_K"},
    known_type{tensor_type::q3_k, "Q3_K"},
    known_type{tensor_type::q8_k, "Q8_K"},
    known_type{tensor_type::iq2_xxs, "IQ2_XXS"},
    known_type{tensor_type::iq2_xs, "IQ2_XS"},
    known_type{tensor_type::iq3_xxs, "IQ3_XXS"},
    known_type{tensor_type::iq1_s, "IQ1_S"},
    known_type{tensor_type::iq3_s, "IQ3_S"},
    known_type{tensor_type::iq2_s, "IQ2_S"},
    known_type{tensor_type::iq4_xs, "IQ4_XS"},
    known_type{tensor_type::i8, "I8"},
    known_type{tensor_type::i16, "I16"},
    known_type{tensor_type::i32, "I32"},
    known_type{tensor_type::i64, "I64"},
    known_type{tensor_type::f64, "F64"},
    known_type{tensor_type::iq1_m, "IQ1_M"},
    known_type{tensor_type::tq1_0, "TQ1_0"},
    known_type{tensor_type::tq2_0, "TQ2_0"},
};

}  // namespace

block_format block_of(tensor_type type) noexcept {
  for (const known_type& type_of : known_types) {
    if (type_of.type == type) return type_of.block;
  }
  return {};
}

std::string to_string(tensor_type type) {
  for (const known_type& type_of : known_types) {
    if (type_of.type == type) return std::string{type_of.name};
  }
  return "type " + std::to_string(static_cast<std::uint32_t>(type));
}

std::string readable_types() {
  std::string out;
  for (const known_type& type_of : known_types) {
    if (!type_of.block) continue;
    if (!out.empty()) out += ", ";
    out += type_of.name;
  }
  return out;
}

}  // namespace llm
