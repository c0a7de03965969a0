// SPDX-License-Identifier: MIT
// Variants and rows of files that do not name an axis that an operator got later.
#include <array>
#include <catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/operator.hpp>

using namespace switchyard;

namespace {

/// `dtype_y` came later: until then y had the type of x. So did `tilted`: until then nothing was.
struct widened {
  static constexpr std::string_view name = "widened";
  struct arguments {
    const void* x = nullptr;
    std::int64_t rows = 0;
    switchyard::dtype dtype_y = dtype::f32;
    switchyard::dtype dtype_x = dtype::f32;
    bool masked = false;
    bool tilted = false;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::rows, &arguments::dtype_y, &arguments::dtype_x,
                         &arguments::masked, &arguments::tilted>;
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype_y>(), switchyard::type_axis<&arguments::masked>(),
      switchyard::type_axis<&arguments::dtype_x>(), switchyard::size_axis<&arguments::rows>(),
      switchyard::type_axis<&arguments::tilted>());
  static constexpr std::array implied{implied_axis{"dtype_y", "dtype_x"},
                                      implied_axis{"tilted", implied_axis::no}};
};

const operator_description& op() {
  return describe<widened>();
}

variant variant_with(const std::string& members) {
  warnings warned;
  const manifest out = parse_manifest(
      R"({"schema": "switchyard.manifest/1", "operator": "widened",
      "target": {"backend": "host", "arch": "any"}, "variants": [{"id": "v", )" +
          members + R"("launches": [{"blob": "a.so", "sha256": ")" + std::string(64, 'a') +
          R"(", "kernel": "k", "grid": [1], "block": [1], "parameters": ["x"]}]}]})",
      "kernels/widened/host-any/manifest.json", op(), warned);
  REQUIRE(out.variants.size() == 1);
  return out.variants[0];
}

std::vector<axis_value> group_type(const std::string& members) {
  warnings warned;
  const table out = parse_table(R"({"schema": "switchyard.table/1", "operator": "widened", "groups": [{)" +
                                    members + R"("axes": ["rows"], "rows": []}]})",
                                "tables/widened/card.json", op(), warned);
  REQUIRE(out.groups.size() == 1);
  return out.groups[0].type;
}

bool holds(const variant& of, dtype x, dtype y) {
  static const attribute_values attributes{};
  const std::array<std::int64_t, 5> problem{static_cast<int>(y), 0, static_cast<int>(x), 1, 0};
  for (const condition& required : of.conditions) {
    if (required.value.evaluate({problem, attributes, op().fields, nullptr}).value == 0) return false;
  }
  return true;
}

constexpr auto f16 = static_cast<std::int64_t>(dtype::f16);
constexpr auto e4m3 = static_cast<std::int64_t>(dtype::f8_e4m3);

}  // namespace

TEST_CASE("a variant that does not name an implied axis serves the value that all calls had") {
  using type = std::vector<axis_value>;
  CHECK(variant_with(R"("type": {"dtype_x": "f16"}, )").type == type{{0, f16}, {2, f16}, {4, 0}});
  CHECK(variant_with(R"("type": {"dtype_x": "f16", "masked": true}, )").type ==
        type{{0, f16}, {1, 1}, {2, f16}, {4, 0}});
  CHECK(variant_with(R"("type": {"dtype_x": "f16", "dtype_y": "f8_e4m3"}, )").type ==
        type{{0, e4m3}, {2, f16}, {4, 0}});
}

TEST_CASE("a variant that does not name an axis implied as no serves only what is not") {
  using type = std::vector<axis_value>;
  CHECK(variant_with("").type == type{{4, 0}});
  CHECK(variant_with(R"("type": {"tilted": true}, )").type == type{{4, 1}});
  CHECK(variant_with(R"("requires": ["tilted >= 0"], )").type.empty());
}

TEST_CASE("a variant of every type has a condition on the implied axis, unless it has its own") {
  const variant any = variant_with("");
  CHECK(any.type == std::vector<axis_value>{{4, 0}});
  REQUIRE(any.conditions.size() == 1);
  CHECK(holds(any, dtype::bf16, dtype::bf16));
  CHECK(!holds(any, dtype::bf16, dtype::f8_e4m3));
  const variant own = variant_with(R"("requires": ["dtype_y == f8_e4m3"], )");
  REQUIRE(own.conditions.size() == 1);
  CHECK(holds(own, dtype::bf16, dtype::f8_e4m3));
  CHECK(!holds(own, dtype::bf16, dtype::bf16));
}

TEST_CASE("rows of a group that does not name an implied axis hold for the value that all calls had") {
  using type = std::vector<axis_value>;
  CHECK(group_type(R"("type": {"dtype_x": "f16"}, )") == type{{0, f16}, {2, f16}});
  CHECK(group_type(R"("type": {"dtype_x": "f16", "dtype_y": "f8_e4m3"}, )") == type{{0, e4m3}, {2, f16}});
  CHECK(group_type("").empty());
}

TEST_CASE("rows of a group that does not name an axis implied as no hold for both values") {
  using type = std::vector<axis_value>;
  CHECK(group_type(R"("type": {"masked": true}, )") == type{{1, 1}});
  CHECK(group_type(R"("type": {"masked": true, "tilted": true}, )") == type{{1, 1}, {4, 1}});
}

TEST_CASE("denials hold for all values of an implied axis") {
  warnings warned;
  const table out = parse_table(
      R"({"schema": "switchyard.table/1", "operator": "widened", "groups": [],
      "deny": [{"variant": "v", "reason": "slow", "type": {"dtype_x": "f16"}}]})",
      "tables/widened/card.json", op(), warned);
  REQUIRE(out.denials.size() == 1);
  CHECK(out.denials[0].type == std::vector<axis_value>{{2, f16}});
}
