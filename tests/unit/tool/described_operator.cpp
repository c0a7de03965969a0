// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <nlohmann/json.hpp>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tool/described_operator.hpp>

namespace {

using nlohmann::json;
using switchyard::tool::described_operator;

json manifest() {
  return json::parse(R"_({"schema": "switchyard.manifest/1", "operator": "axpy",
    "target": {"backend": "cuda", "arch": "sm_90a"},
    "variants": [{"id": "a", "type": {"dtype": "bf16", "in_place": true, "head_dim": 64}, "config": {"tile": 4},
      "requires": ["n % tile == 0", "warp_size == 32", "mode != fast"], "workspace": {"partial": "4 * n"},
      "launches": [{"fill": "partial"},
        {"blob": "a.cubin", "sha256": ")_" +
                     std::string(64, '0') + R"_(", "kernel": "k",
         "grid": ["ceil_div(n, tile)", "rows", 1], "block": [128],
         "parameters": ["x", "partial", {"i32": "columns"}, {"f32": "scale * 0.5e1"}, {"pointer": "base + 4 * n"}]}]}]})_");
}

TEST_CASE("an operator is learned from a manifest", "[tool]") {
  described_operator learned{"axpy"};
  learned.learn(manifest());
  const auto& op = learned.get();
  const auto axis = [&op](std::string_view name) { return switchyard::find_axis(op, name); };
  REQUIRE(axis("dtype") < op.axes.size());
  CHECK(op.axes[axis("dtype")].kind == switchyard::axis_kind::type);
  CHECK(op.axes[axis("dtype")].value_names.size() == switchyard::enumerator_names<switchyard::dtype>.size());
  CHECK(op.axes[axis("in_place")].is_flag);
  CHECK(op.axes[axis("head_dim")].value_names.empty());
  for (const auto* const name : {"n", "rows", "columns", "scale", "mode"}) {
    INFO(name);
    REQUIRE(axis(name) < op.axes.size());
    CHECK(op.axes[axis(name)].kind == switchyard::axis_kind::size);
  }
  for (const auto* const name : {"tile", "warp_size", "partial", "ceil_div", "x", "base", "e1"}) {
    INFO(name);
    CHECK(axis(name) == op.axes.size());
  }
  CHECK(op.fields.size() == 2);  // x and base
  CHECK_FALSE(learned.knows_fields());
  switchyard::warnings warned;
  const auto read = switchyard::parse_manifest(manifest().dump(), "m.json", op, warned);
  CHECK(warned.messages.empty());
  CHECK(read.variants.size() == 1);
}

TEST_CASE("a description says which axes are implied", "[tool]") {
  const auto described =
      switchyard::tool::to_json(switchyard::describe<switchyard::operators::attention_forward>());
  CHECK(described["implied"].dump() == R"({"q_dtype":"dtype","kv_dtype":"dtype","block_masked":"false"})");
  described_operator read{"attention_forward"};
  read.read(switchyard::json_place{json::parse(described.dump()), "attention_forward.json"});
  REQUIRE(read.get().implied.size() == 3);
  CHECK(read.get().implied[0].axis == "block_masked");
  CHECK(read.get().implied[0].like == "false");
  CHECK(read.get().implied[1].axis == "kv_dtype");
  CHECK(read.get().implied[1].like == "dtype");
  CHECK(read.get().implied[2].axis == "q_dtype");
  CHECK(read.get().implied[2].like == "dtype");
  CHECK_FALSE(
      switchyard::tool::to_json(switchyard::describe<switchyard::operators::rotary>()).contains("implied"));
}

TEST_CASE("what is learned later leaves what is known where it is", "[tool]") {
  described_operator learned{"axpy"};
  learned.learn(manifest());
  const auto* const op = &learned.get();
  const auto before = switchyard::find_axis(*op, "n");
  const auto table =
      json::parse(R"({"schema": "switchyard.table/1", "operator": "axpy", "match": {"batch": "log"},
    "groups": [{"type": {"dtype": "f32", "mode": "fast"}, "axes": ["batch", "n"],
                "rows": [{"at": [1, 2], "times_us": {"a": 3}}]}]})");
  learned.learn(table);
  CHECK(&learned.get() == op);
  CHECK(switchyard::find_axis(*op, "n") == before);
  CHECK(op->axes[switchyard::find_axis(*op, "mode")].kind == switchyard::axis_kind::type);
  switchyard::warnings warned;
  const auto read = switchyard::parse_table(table.dump(), "t.json", *op, warned);
  CHECK(warned.messages.empty());
  CHECK(read.groups.size() == 1);
}

TEST_CASE("a description survives its file", "[tool]") {
  const auto& rotary = switchyard::describe<switchyard::operators::rotary>();
  const std::string text = switchyard::tool::to_json(rotary).dump();
  const json document = json::parse(text);
  described_operator again{"rotary"};
  again.read(switchyard::json_place{document, "rotary.json"});
  CHECK(again.knows_fields());
  CHECK(json::parse(switchyard::tool::to_json(again.get()).dump()) == document);
  REQUIRE(again.get().axes.size() == rotary.axes.size());
  REQUIRE(again.get().fields.size() == rotary.fields.size());
  for (std::size_t i = 0; i < rotary.fields.size(); ++i)
    CHECK(again.get().fields[i].kind == rotary.fields[i].kind);
}

TEST_CASE("a description that is none is refused with its place", "[tool]") {
  const auto refuse = [](const char* text, const std::string& part) {
    const json document = json::parse(text);
    described_operator op{"x"};
    CHECK_THROWS_WITH(op.read(switchyard::json_place{document, "d.json"}), has_text(part));
  };
  refuse(R"({"schema": "switchyard.table/1"})", "expected \"switchyard.operator/1\"");
  refuse(R"({"schema": "switchyard.operator/1", "axes": [{"name": "n", "kind": "sise"}]})",
         "d.json: /axes/0/kind: expected \"type\" or \"size\", got \"sise\"");
  refuse(R"({"schema": "switchyard.operator/1", "axes": [], "arguments": [{"name": "x", "type": "i7"}]})",
         "'i7' is no type of an argument");
}

}  // namespace
