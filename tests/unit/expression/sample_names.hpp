// SPDX-License-Identifier: MIT
// Names of every kind with their values, and short calls that parse and evaluate with them.
#pragma once

#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>

#include "thrown.hpp"

namespace sample_names {

using namespace switchyard;

inline constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
inline constexpr auto highest = std::numeric_limits<std::int64_t>::max();

struct call {
  float scale = 0.125F;
  std::int32_t stride = -7;
  std::uint8_t flags = 200;
  double big = 1e300;
  std::uint32_t seed = 0xffffffff;
  std::int16_t small = -300;
  std::uint16_t half_bits = 0x3c00;
  std::int8_t tiny = -128;
  std::int64_t wide = lowest;
};
inline const std::vector<field_description> call_fields{
    {"scale", value_kind::f32, offsetof(call, scale)},    {"stride", value_kind::i32, offsetof(call, stride)},
    {"flags", value_kind::u8, offsetof(call, flags)},     {"big", value_kind::f64, offsetof(call, big)},
    {"seed", value_kind::u32, offsetof(call, seed)},      {"small", value_kind::i16, offsetof(call, small)},
    {"bits", value_kind::f16, offsetof(call, half_bits)}, {"tiny", value_kind::i8, offsetof(call, tiny)},
    {"wide", value_kind::i64, offsetof(call, wide)}};

inline scope names() {
  scope out;
  out.add("pi", {symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  out.add_enumerator("first", 0);
  out.add_enumerator("second", 1);
  out.add_enumerator("clash", 1);
  out.add_enumerator("clash", 2);
  out.add_enumerator("second", 1);
  for (std::uint32_t i = 0; i < call_fields.size(); ++i) {
    out.add(call_fields[i].name, {symbol::source::field, i, 0, 0, false});
  }
  for (std::uint32_t i = 0; i < 6; ++i) {
    out.add(std::string(1, static_cast<char>('a' + i)), {symbol::source::axis, i, 0, 0, false});
  }
  out.add("warp_size", {symbol::source::attribute, 1, 0, 0, false});
  out.add_constant("block_m", 64);
  return out;
}

inline const std::vector<std::int64_t> axis_values{3, 5, 0, -2, 1'000'000'007, highest};
inline const std::vector<std::int64_t> attribute_values_here{132, 32};

inline evaluation values() {
  static const call arguments;
  return {axis_values, attribute_values_here, call_fields, reinterpret_cast<const std::byte*>(&arguments)};
}

inline integer_result run(const std::string& text) {
  return expression::parse(text, names()).evaluate(values());
}
inline std::int64_t value(const std::string& text) {
  const integer_result out = run(text);
  INFO(text);
  CHECK(to_string(out.why) == "none");
  return out.value;
}
inline double real(const std::string& text) {
  return expression::parse_real(text, names()).evaluate_real(values());
}
inline std::string refusal(const std::string& text) {
  return switchyard::test::refusal_by<expression_error>([&] { return expression::parse(text, names()); });
}
inline std::string real_refusal(const std::string& text) {
  return switchyard::test::refusal_by<expression_error>(
      [&] { return expression::parse_real(text, names()); });
}

}  // namespace sample_names
