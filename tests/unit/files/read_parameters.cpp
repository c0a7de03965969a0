// SPDX-License-Identifier: MIT
// The ends of what a manifest's parameters may be.
#include <catch.hpp>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/read_expression.hpp>
#include <switchyard/files/read_parameters.hpp>

#include "../sample_operator.hpp"
#include "thrown.hpp"

namespace reading_parameters {

using namespace switchyard;

parameter parameter_read(const std::string& text) {
  static const std::string path = "m.json";
  const nlohmann::json document = nlohmann::json::parse(text);
  detail::expression_reader expressions{sample::description()};
  std::vector<named_expression> workspace;
  workspace.push_back({"partial", expression{64}});
  workspace.push_back({"flags", expression{8}});
  return detail::parameter_reader{sample::description(), expressions, workspace}.read({document, path});
}

std::string refusal_of_parameter(const std::string& text) {
  return switchyard::test::refusal_by<file_error>([&] { return parameter_read(text); });
}

std::string struct_text(std::size_t count, const std::string& member, const std::string& extra = "") {
  std::string out = R"({"struct": [)";
  for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + member;
  return out + "]" + extra + "}";
}

std::string map_text(const std::string& extents, const std::string& strides, const std::string& box,
                     const std::string& extra = "") {
  return R"({"tensor_map": {"of": "x", "dtype": "f16", "extents": )" + extents +
         (strides.empty() ? "" : R"(, "strides": )" + strides) + R"(, "box": )" + box + extra + "}}";
}

TEST_CASE("a parameter that is a name is a workspace before an argument, with its index and size") {
  const parameter second = parameter_read(R"("flags")");
  // 'flags' is an argument of one byte as well.
  CHECK(second.from == parameter::source::workspace);
  CHECK(second.index == 1);
  CHECK(second.bytes == 8);
  CHECK(second.align == 8);
  CHECK(second.text == "flags");
  CHECK(parameter_read(R"("partial")").index == 0);
  const parameter stride = parameter_read(R"("stride")");
  CHECK(stride.from == parameter::source::field);
  CHECK(stride.bytes == 4);
  CHECK(stride.align == 4);
  CHECK(sample::description().fields[stride.index].name == "stride");
  CHECK(parameter_read(R"("x")").kind == value_kind::pointer);
  CHECK_THAT(refusal_of_parameter(R"("partia")"), has_text("did you mean 'partial'?"));
  CHECK_THAT(refusal_of_parameter(R"("alignment")"), has_text("so its type is not known"));
  CHECK_THAT(refusal_of_parameter("{}"), has_text("expected a name, or an object such as"));
  CHECK_THAT(refusal_of_parameter("5"), has_text("expected an object, got 5"));
  CHECK_THAT(refusal_of_parameter(R"({"int": 1})"), has_text("'int' is not a kind of parameter"));
}

TEST_CASE("the text of a parameter is shown whole up to eighty characters") {
  const auto shown = [](std::size_t length) {
    return parameter_read(R"({"i32":")" + std::string(length - 10, '1') + R"("})").text;
  };
  const auto spaced = [](std::size_t length) {
    return parameter_read(R"({"i32":"1)" + std::string(length - 11, ' ') + R"("})").text;
  };
  CHECK(shown(20).size() == 20);
  CHECK(spaced(80).size() == 80);
  CHECK(spaced(80).find("...") == std::string::npos);
  CHECK(spaced(81).size() == 83);
  CHECK(spaced(81).ends_with("\"..."));
  CHECK(spaced(82).ends_with(" ..."));
  CHECK(spaced(200) == spaced(82));
}

TEST_CASE("zero bytes are one to 4096, aligned by their number") {
  const auto null = [](int bytes) { return R"({"null": )" + std::to_string(bytes) + "}"; };
  CHECK(parameter_read(null(1)).bytes == 1);
  CHECK(parameter_read(null(1)).from == parameter::source::zeros);
  CHECK(parameter_read(null(4096)).bytes == 4096);
  CHECK_THAT(refusal_of_parameter(null(0)), has_text("expected 1 to 4096 bytes, got 0"));
  CHECK_THAT(refusal_of_parameter(null(-8)), has_text("got -8"));
  CHECK_THAT(refusal_of_parameter(null(4097)), has_text("got 4097"));
  for (const auto& [bytes, align] : std::vector<std::pair<int, std::uint32_t>>{
           {1, 1}, {2, 1}, {3, 1}, {4, 4}, {5, 1}, {8, 8}, {9, 1}, {12, 4}, {16, 8}, {20, 4}, {24, 8}}) {
    INFO(bytes);
    CHECK(parameter_read(null(bytes)).align == align);
  }
}

TEST_CASE("a struct has up to 256 members, nests four deep and may be as large as a kernel's parameters") {
  CHECK(parameter_read(struct_text(256, R"({"i8": 1})")).bytes == 256);
  CHECK_THAT(refusal_of_parameter(struct_text(257, R"({"i8": 1})")),
             has_text("/struct: the struct is too large"));
  CHECK(parameter_read(struct_text(7, R"({"null": 4096})", "")).bytes == 7 * 4096);
  const std::string seven =
      struct_text(7, R"({"null": 4096})").substr(0, struct_text(7, R"({"null": 4096})").size() - 2);
  CHECK(parameter_read(seven + R"(, {"null": 4092}]})").members.size() ==
        8);  // 32,764 bytes, and 4 more behind them
  CHECK_THAT(refusal_of_parameter(seven + R"(, {"null": 4093}]})"), has_text("the struct is too large"));
  CHECK_THAT(refusal_of_parameter(seven + R"(, {"null": 4096}]})"), has_text("the struct is too large"));
  std::string nested = R"({"i8": 1})";
  for (int depth = 0; depth < 4; ++depth) nested = R"({"struct": [)" + nested + "]}";
  CHECK(parameter_read(nested).bytes == 1);
  CHECK_THAT(refusal_of_parameter(R"({"struct": [)" + nested + "]}"),
             has_text("structs nest at most 4 deep"));
  CHECK_THAT(refusal_of_parameter(R"({"struct": []})"), has_text("/struct: a struct has members"));
  // Members lie where a C++ compiler puts them.
  CHECK(parameter_read(R"({"struct": [{"i8": 1}, {"i16": 1}, {"i8": 1}, {"i32": 1}]})").bytes == 12);
  CHECK(parameter_read(R"({"struct": [{"i16": 1}, {"i8": 1}, {"i8": 1}]})").bytes == 4);
  CHECK(parameter_read(R"({"struct": [{"i64": 1}, {"i8": 1}]})").bytes == 16);
  CHECK(parameter_read(R"({"struct": [{"i64": 1}, {"i8": 1}]})").align == 8);
  CHECK(parameter_read(R"({"struct": [{"i8": 1}, "y", {"i8": 1}]})").bytes == 24);
}

TEST_CASE("a struct's alignment is a power of two up to 64") {
  const auto aligned = [](int align) {
    return struct_text(1, R"({"i8": 1})", R"(, "align": )" + std::to_string(align));
  };
  for (const int align : {1, 2, 4, 8, 16, 32, 64}) {
    CHECK(parameter_read(aligned(align)).align == static_cast<std::uint32_t>(align));
    CHECK(parameter_read(aligned(align)).bytes == static_cast<std::uint32_t>(align));
  }
  for (const int align : {-1, 0, 3, 5, 6, 12, 48, 63, 65, 128})
    CHECK_THAT(refusal_of_parameter(aligned(align)), has_text("/align: expected a power of two up to 64"));
}

TEST_CASE("a tensor map has one to five extents, a stride fewer, and a box of as many") {
  const tensor_map_recipe line = parameter_read(map_text("[\"columns\"]", "", "[64]")).map.at(0);
  CHECK(line.extents.size() == 1);
  CHECK(line.stride_bytes.empty());
  CHECK(line.element_strides.empty());
  CHECK(line.element_type == 6);
  CHECK(line.address.reads_fields());
  CHECK(parameter_read(map_text("[8]", "[]", "[8]")).map.at(0).stride_bytes.empty());
  const tensor_map_recipe most =
      parameter_read(map_text("[1, 2, 3, 4, 5]", "[16, 32, 48, 64]", "[8, 1, 1, 1, 1]",
                              R"(, "element_strides": [1, 1, 1, 1, 2],
           "swizzle": "32B", "interleave": "16B", "l2_promotion": "64B", "fill": "zeros")"))
          .map.at(0);
  CHECK(most.extents.size() == 5);
  CHECK(most.stride_bytes.size() == 4);
  CHECK(most.box.size() == 5);
  CHECK(most.element_strides.size() == 5);
  CHECK(most.swizzle == 1);
  CHECK(most.interleave == 1);
  CHECK(most.l2_promotion == 1);
  CHECK(most.out_of_bounds_fill == 0);
  CHECK_THAT(refusal_of_parameter(map_text("[]", "", "[]")),
             has_text("/extents: expected 1 to 5 entries, got 0"));
  CHECK_THAT(refusal_of_parameter(map_text("[1, 2, 3, 4, 5, 6]", "[1, 1, 1, 1, 1]", "[1]")),
             has_text("/extents: expected 1 to 5 entries, got 6"));
  CHECK_THAT(refusal_of_parameter(map_text("[1, 2]", "", "[1, 1]")), has_text("'strides' is missing"));
  CHECK_THAT(refusal_of_parameter(map_text("[1, 2]", "[]", "[1, 1]")),
             has_text("/strides: expected 1 to 1 entries, got 0"));
  CHECK_THAT(refusal_of_parameter(map_text("[1, 2]", "[1, 1]", "[1, 1]")),
             has_text("/strides: expected 1 to 1 entries, got 2"));
  CHECK_THAT(refusal_of_parameter(map_text("[1]", "[1]", "[1]")),
             has_text("/strides: expected 0 to 0 entries, got 1"));
  CHECK_THAT(refusal_of_parameter(map_text("[1]", "", "[]")),
             has_text("/box: expected 1 to 1 entries, got 0"));
  CHECK_THAT(refusal_of_parameter(map_text("[1]", "", "[1, 1]")),
             has_text("/box: expected 1 to 1 entries, got 2"));
  CHECK_THAT(refusal_of_parameter(map_text("[1]", "", "[1]", R"(, "element_strides": [])")),
             has_text("/element_strides: expected 1 to 1 entries, got 0"));
  CHECK_THAT(refusal_of_parameter(map_text("[1]", "", "[1]", R"(, "swizzle": "16B")")),
             has_text("/swizzle: expected one of none, 32B, 64B, 128B, got \"16B\""));
  CHECK_THAT(refusal_of_parameter(R"({"tensor_map": {"of": "x", "extents": [1], "box": [1]}})"),
             has_text("'dtype' is missing"));
  CHECK_THAT(refusal_of_parameter(R"({"tensor_map": {"of": 5, "dtype": "u8", "extents": [1], "box": [1]}})"),
             has_text("/of: expected a string, got 5"));
  const char* const types[] = {"u8",  "u16", "u32", "i32",  "u64",     "i64",
                               "f16", "f32", "f64", "bf16", "f32_ftz", "tf32"};
  for (std::uint32_t i = 0; i < 12; ++i) {
    const tensor_map_recipe typed = parameter_read(std::string{R"({"tensor_map": {"of": "x", "dtype": ")"} +
                                                   types[i] + R"(", "extents": [1], "box": [1]}})")
                                        .map.at(0);
    CHECK(typed.element_type == i);
  }
}

}  // namespace reading_parameters
