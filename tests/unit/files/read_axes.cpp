// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/read_axes.hpp>

#include "../sample_operator.hpp"

namespace reading_axes {

using namespace switchyard;

const std::string table_path = "t.json";

/// What an axis makes of a value, or why it refuses it.
std::string value_of_axis(const char* axis, const std::string& json) {
  const nlohmann::json document = nlohmann::json::parse(json);
  const operator_description& op = sample::description();
  try {
    return std::to_string(detail::read_axis_value({document, table_path}, op.axes[find_axis(op, axis)]));
  } catch (const file_error& problem) {
    return problem.what();
  }
}

TEST_CASE("an axis takes its names, its numbers and, where it is one, true and false") {
  CHECK(value_of_axis("masked", "true") == "1");
  CHECK(value_of_axis("masked", "false") == "0");
  CHECK(value_of_axis("masked", "\"true\"") == "1");
  CHECK(value_of_axis("masked", "1") == "1");
  CHECK(value_of_axis("masked", "0") == "0");
  CHECK_THAT(value_of_axis("masked", "2"), has_text("axis 'masked' has no value '2'; it has false, true"));
  CHECK_THAT(value_of_axis("masked", "-1"), has_text("axis 'masked' has no value '-1'"));
  CHECK_THAT(value_of_axis("masked", "\"yes\""), has_text("axis 'masked' has no value 'yes'"));
  CHECK(value_of_axis("layout", "\"dense\"") == "0");
  CHECK(value_of_axis("layout", "\"paged\"") == "2");
  CHECK(value_of_axis("layout", "2") == "2");
  CHECK_THAT(value_of_axis("layout", "3"),
             has_text("axis 'layout' has no value '3'; it has dense, packed, paged"));
  CHECK_THAT(value_of_axis("layout", "-1"), has_text("axis 'layout' has no value '-1'"));
  CHECK_THAT(value_of_axis("layout", "true"), has_text("axis 'layout' has no value 'true'"));
  CHECK_THAT(value_of_axis("layout", "false"), has_text("axis 'layout' has no value 'false'"));
  CHECK(value_of_axis("rows", "-3") == "-3");
  CHECK(value_of_axis("rows", "\"17\"") == "17");
  CHECK_THAT(value_of_axis("rows", "\"many\""), has_text("expected an integer, got \"many\""));
  CHECK_THAT(value_of_axis("rows", "true"), has_text("expected an integer, got true"));
  CHECK_THAT(value_of_axis("rows", "1.5"), has_text("expected an integer, got 1.5"));
}

TEST_CASE("an axis of two names that are not false and true takes no boolean") {
  static constexpr std::string_view names[] = {"off", "on"};
  axis_description axis = sample::description().axes[find_axis(sample::description(), "masked")];
  axis.value_names = names;
  const nlohmann::json document = true;
  CHECK_THROWS_AS(detail::read_axis_value({document, table_path}, axis), file_error);
  const nlohmann::json on = "on";
  CHECK(detail::read_axis_value({on, table_path}, axis) == 1);
}

TEST_CASE("a type is sorted by axis, whatever order it is written in") {
  // JSON's reader sorts members by name; axes are numbered otherwise.
  const auto type_of = [](const std::string& text) {
    const nlohmann::json document = nlohmann::json::parse(text);
    return detail::read_type({document, table_path}, sample::description());
  };
  CHECK(type_of("{}").empty());
  CHECK(type_of(R"({"type": {}})").empty());
  CHECK(
      type_of(
          R"({"type": {"alignment": 16, "dtype": "bf16", "layout": "packed", "masked": true, "width": 64}})") ==
      std::vector<axis_value>{{0, 1}, {1, 1}, {2, 1}, {3, 64}, {4, 16}});
  CHECK(type_of(R"({"type": {"width": 64, "alignment": 16}})") == std::vector<axis_value>{{3, 64}, {4, 16}});
  CHECK(type_of(R"({"type": {"alignment": 0, "dtype": "f16"}})") == std::vector<axis_value>{{0, 0}, {4, 0}});
  CHECK_THROWS_AS(type_of(R"({"type": {"rows": 1}})"), file_error);
  CHECK_THROWS_AS(type_of(R"({"type": []})"), file_error);
}

}  // namespace reading_axes
