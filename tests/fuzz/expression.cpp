// SPDX-License-Identifier: MIT
// Arbitrary text as an integer and as a real expression, evaluated; and against itself with its constants
// hidden from folding.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/parse.hpp>

namespace {

namespace sy = switchyard;

constexpr std::array<std::int64_t, 6> axis_values{
    3, 0, -2, 64, 1'000'000'007, std::numeric_limits<std::int64_t>::max()};
constexpr std::array<std::int64_t, 2> attributes{32, 132};

struct call {
  float scale = 0.125F;
  std::int32_t stride = -7;
  double huge = 1e300;
};

sy::scope names(bool constants) {
  sy::scope out;
  out.add("pi", {sy::symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  for (std::uint32_t i = 0; i < axis_values.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    if (constants) {
      out.add_constant(name, axis_values[i]);
    } else {
      out.add(name, {sy::symbol::source::axis, i, 0, 0, false});
    }
  }
  out.add("scale", {sy::symbol::source::field, 0, 0, 0, false});
  out.add("stride", {sy::symbol::source::field, 1, 0, 0, false});
  out.add("huge", {sy::symbol::source::field, 2, 0, 0, false});
  out.add("w", {sy::symbol::source::attribute, 0, 0, 0, false});
  return out;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sy::scope variables = names(false);
  static const sy::scope constants = names(true);
  static const call arguments;
  static const std::array<sy::field_description, 3> fields{
      {{"scale", sy::value_kind::f32, offsetof(call, scale)},
       {"stride", sy::value_kind::i32, offsetof(call, stride)},
       {"huge", sy::value_kind::f64, offsetof(call, huge)}}};
  const sy::evaluation values{axis_values, attributes, fields,
                              reinterpret_cast<const std::byte*>(&arguments)};
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto check_refusal = [](const sy::expression_error& problem) {
    const std::string_view said = problem.what();
    require(said.find("column ") != std::string_view::npos && said.size() < 600);
  };
  try {
    const sy::integer_result late = sy::expression::parse(text, variables).evaluate(values);
    try {
      // With the axes' values known at load, the result is the same; what is refused has a fault.
      const sy::integer_result early = sy::expression::parse(text, constants).evaluate(values);
      require(early.why == late.why && (late.why != sy::fault::none || early.value == late.value));
    } catch (const sy::expression_error& problem) {
      check_refusal(problem);
      require(late.why != sy::fault::none);
    }
  } catch (const sy::expression_error& problem) {
    check_refusal(problem);
  }
  try {
    (void)sy::expression::parse_real(text, variables).evaluate_real(values);
    (void)sy::expression::parse_real(text, constants).evaluate_real(values);
  } catch (const sy::expression_error& problem) {
    check_refusal(problem);
  }
  return 0;
}
