// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <switchyard/base/sha256.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

namespace {

const std::string digest(64, 'a');

/// A manifest of one variant, with `extra` members and one launch with `launch_extra` ones.
std::string manifest_of(const std::string& variant) {
  return R"({"schema": "switchyard.manifest/1", "operator": "scale",
    "target": {"backend": "host", "arch": "any"}, "variants": [)" +
         variant + "]}";
}
std::string launch_of(const std::string& members) {
  return R"({"blob": "a.so", "sha256": ")" + digest +
         R"(", "kernel": "k", "grid": ["rows", 1, 1], "block": [1])" + members + "}";
}
std::string variant_of(const std::string& members, const std::string& launch_members) {
  return R"({"id": "v")" + members + R"(, "launches": [)" + launch_of(launch_members) + "]}";
}

manifest manifest_from(const std::string& text, warnings& warned) {
  return parse_manifest(text, "kernels/scale/host-any/manifest.json", sample::description(), warned);
}
variant sound(const std::string& variant_text) {
  warnings warned;
  manifest out = manifest_from(manifest_of(variant_text), warned);
  INFO((warned.messages.empty() ? std::string{} : warned.messages[0]));
  REQUIRE(out.variants.size() == 1);
  return out.variants[0];
}
parameter parameter_of(const std::string& text, const std::string& members = "") {
  return sound(variant_of(members, R"(, "parameters": [)" + text + "]")).launches[0].parameters.at(0);
}
std::string refusal(const std::string& variant_text) {
  warnings warned;
  const manifest out = manifest_from(manifest_of(variant_text), warned);
  CHECK(out.variants.empty());
  REQUIRE(warned.messages.size() == 1);
  return warned.messages[0];
}
std::string parameter_refusal(const std::string& text) {
  return refusal(variant_of("", R"(, "parameters": [)" + text + "]"));
}

std::int64_t at(const expression& parsed,
                std::initializer_list<std::pair<std::string_view, std::int64_t>> axes) {
  const auto problem = sample::problem(axes);
  static const attribute_values attributes{};
  const sample::scale::arguments arguments;
  return parsed
      .evaluate(
          {problem, attributes, sample::description().fields, reinterpret_cast<const std::byte*>(&arguments)})
      .value;
}

}  // namespace

TEST_CASE("a manifest's members are read") {
  warnings warned;
  const manifest out = manifest_from(
      R"json({"schema": "switchyard.manifest/1", "operator": "scale", "built_by": "g++ 12",
          "target": {"backend": "cuda", "arch": "sm_90a"}, "later": {"unknown": [1]},
          "variants": [{
            "id": "split", "type": {"masked": false, "dtype": "bf16", "width": 64, "layout": "paged"},
            "config": {"block_m": 64, "swizzled": true},
            "requires": ["rows <= block_m * 1024", "layout == paged && dtype != f16", "warp_size == 32"],
            "workspace": {"partial": "4 * rows", "flags": 1024},
            "launches": [
              {"fill": "flags", "byte": 255},
              {"blob": "sub/a.cubin", "sha256": ")json" +
          digest + R"json(", "kernel": "split_kernel",
               "grid": ["ceil_div(rows, block_m)", 2], "block": [128], "shared_bytes": "block_m * 16",
               "cluster": [2, 1, 1], "cooperative": true, "programmatic_dependent_launch": true,
               "parameters": ["x", "partial", {"i32": "rows"}]},
              {"blob": "b.cubin", "sha256": ")json" +
          std::string(64, '0') + R"json(", "kernel": "join", "grid": [1, 1, 1],
               "block": [32, 4, 1], "parameters": []}]}]})json",
      warned);
  CHECK(warned.messages.empty());
  CHECK(out.built_by == "g++ 12");
  CHECK(out.target.backend == "cuda");
  CHECK(out.target.arch == "sm_90a");
  REQUIRE(out.variants.size() == 1);
  const variant& v = out.variants[0];
  CHECK(v.type == std::vector<axis_value>{{0, 1}, {1, 2}, {2, 0}, {3, 64}});
  CHECK(format_config(v) == "block_m=64,swizzled=1");
  REQUIRE(v.conditions.size() == 3);
  CHECK(v.conditions[1].text == "layout == paged && dtype != f16");
  CHECK(at(v.conditions[0].value, {{"rows", 65536}}) == 1);
  CHECK(at(v.conditions[0].value, {{"rows", 65537}}) == 0);
  CHECK(at(v.conditions[1].value, {{"layout", 2}, {"dtype", 1}}) == 1);
  REQUIRE(v.workspace.size() == 2);
  REQUIRE(v.launches.size() == 3);
  CHECK(v.launches[0].is_fill);
  CHECK(v.launches[0].fill_byte == 255);
  CHECK(v.workspace[v.launches[0].fill_workspace].name == "flags");
  const launch& main = v.launches[1];
  CHECK(main.blob == "kernels/scale/host-any/sub/a.cubin");
  CHECK(main.sha256 == digest);
  CHECK(main.kernel == "split_kernel");
  CHECK(at(main.grid[0], {{"rows", 100}}) == 2);
  CHECK(at(main.grid[1], {}) == 2);
  CHECK(at(main.grid[2], {}) == 1);
  CHECK(at(main.shared_bytes, {}) == 1024);
  CHECK(at(main.cluster[0], {}) == 2);
  CHECK(main.cooperative);
  CHECK(main.programmatic_dependent_launch);
  CHECK(main.parameters[0].from == parameter::source::field);
  CHECK(main.parameters[1].from == parameter::source::workspace);
  CHECK(v.workspace[main.parameters[1].index].name == "partial");
  CHECK_FALSE(v.launches[2].cooperative);
  CHECK(blob_fingerprint(v) == std::string(16, 'a') + std::string(16, '0'));
}

TEST_CASE("a parameter that is an argument has its C++ type") {
  CHECK(parameter_of(R"("x")").bytes == 8);
  CHECK(parameter_of(R"("factor")").kind == value_kind::f32);
  CHECK(parameter_of(R"("stride")").bytes == 4);
  CHECK(parameter_of(R"("flags")").bytes == 1);
  CHECK(sample::description().fields[parameter_of(R"("columns")").index].name == "columns");
}

TEST_CASE("expressions become parameters of the size asked for") {
  const auto sample =
      GENERATE(std::pair{"i8", 1U}, std::pair{"u8", 1U}, std::pair{"i16", 2U}, std::pair{"u16", 2U},
               std::pair{"i32", 4U}, std::pair{"u32", 4U}, std::pair{"i64", 8U}, std::pair{"u64", 8U});
  const parameter out = parameter_of("{\"" + std::string{sample.first} + "\": \"rows * 2\"}");
  CHECK(out.from == parameter::source::integer);
  CHECK(out.bytes == sample.second);
  CHECK(out.align == sample.second);
  CHECK(at(out.value, {{"rows", 21}}) == 42);
  CHECK(parameter_of("{\"" + std::string{sample.first} + "\": 7}").value.is_constant());
}

TEST_CASE("real expressions may name scalars, axes, config and constants") {
  const auto value = [](const std::string& text, const std::string& members = "") {
    const parameter out = parameter_of(text, members);
    CHECK(out.from == parameter::source::real);
    const auto problem = sample::problem({{"rows", 3}});
    static const attribute_values attributes{};
    sample::scale::arguments arguments;
    arguments.factor = 0.5F;
    arguments.offset = 0.25;
    return out.value.evaluate_real(
        {problem, attributes, sample::description().fields, reinterpret_cast<const std::byte*>(&arguments)});
  };
  CHECK(value(R"({"f32": "factor * log2e"})") == Approx(0.5 * 1.4426950408889634));
  CHECK(value(R"({"f64": "offset + rows / 2"})") == 1.75);
  CHECK(value(R"({"f16": 1.5})") == 1.5);
  CHECK(value(R"({"bf16": -1e-05})") == -1e-05);
  CHECK(value(R"({"f32": "1 / tile"})", R"(, "config": {"tile": 4})") == 0.25);
  CHECK(parameter_of(R"({"f16": 1})").bytes == 2);
  CHECK(parameter_of(R"({"bf16": 1})").bytes == 2);
  CHECK(parameter_of(R"({"f32": 1})").bytes == 4);
  CHECK(parameter_of(R"({"f64": 1})").bytes == 8);
}

TEST_CASE("pointers with offsets, zero bytes, structs and tensor maps are laid out as a compiler would") {
  const parameter pointer = parameter_of(R"({"pointer": "x + 4 * columns"})");
  CHECK(pointer.kind == value_kind::pointer);
  CHECK(pointer.bytes == 8);
  CHECK(pointer.value.reads_fields());
  CHECK(parameter_of(R"({"null": 8})").align == 8);
  CHECK(parameter_of(R"({"null": 4})").align == 4);
  CHECK(parameter_of(R"({"null": 3})").align == 1);
  // struct { char a; int b; char c; } and one with a pointer
  const parameter flat = parameter_of(R"({"struct": [{"i8": 1}, {"i32": 2}, {"i8": 3}]})");
  CHECK(flat.bytes == 12);
  CHECK(flat.align == 4);
  CHECK(flat.members.size() == 3);
  CHECK(parameter_of(R"({"struct": ["x", {"i8": 1}], "align": 16})").bytes == 16);
  const parameter lower = parameter_of(R"({"struct": [{"i8": 1}, {"i32": 2}, {"i8": 3}], "align": 2})");
  CHECK(lower.align == 4);  // `align` only raises what the members need
  CHECK(lower.bytes == 12);
  const parameter nested = parameter_of(R"({"struct": [{"i8": 1}, {"struct": [{"i8": 1}, {"i64": 2}]}]})");
  CHECK(nested.bytes == 24);
  const parameter map = parameter_of(
      R"({"tensor_map": {"of": "x", "dtype": "bf16", "extents": ["columns", "rows"], "strides": ["2 * columns"],
          "box": [64, 128], "swizzle": "128B", "l2_promotion": "256B", "fill": "nan",
          "element_strides": [1, 1]}})");
  CHECK(map.bytes == 128);
  CHECK(map.align == 64);
  CHECK(map.map[0].element_type == 9);
  CHECK(map.map[0].swizzle == 3);
  CHECK(map.map[0].l2_promotion == 3);
  CHECK(map.map[0].out_of_bounds_fill == 1);
  CHECK(map.map[0].interleave == 0);
  CHECK(at(map.map[0].stride_bytes[0], {{"columns", 100}}) == 200);
}

TEST_CASE("config stands before axes and arguments of the same name, and ends with its variant") {
  warnings warned;
  const manifest out =
      manifest_from(manifest_of(variant_of(R"(, "config": {"rows": 7})", R"(, "parameters": [])") + "," +
                                R"({"id": "w", "launches": [)" + launch_of(R"(, "parameters": [])") + "]}"),
                    warned);
  REQUIRE(out.variants.size() == 2);
  CHECK(at(out.variants[0].launches[0].grid[0], {{"rows", 3}}) == 7);
  CHECK(at(out.variants[1].launches[0].grid[0], {{"rows", 3}}) == 3);
}

TEST_CASE("a shared list means for each variant what its config and workspace make of it") {
  const std::string shared =
      R"json({"schema": "switchyard.manifest/1", "operator": "scale",
          "target": {"backend": "host", "arch": "any"},
          "shared": {"launch": {"blob": "a.so", "kernel": "k", "grid": ["ceil_div(rows, block)"], "block": [1],
                                "parameters": ["x", {"i32": "rows"}, {"i64": "block * 2"}, {"i32": "rows"}]},
                     "variant": {"requires": ["rows > 7"]}}, "variants": [)json";
  const auto text = [](const std::string& id, const std::string& members) {
    return R"({"id": ")" + id + R"(", "like": "variant", "launches": [{"like": "launch", "sha256": ")" +
           digest + "\"}]" + members + "}";
  };
  warnings warned;
  const manifest out = manifest_from(
      shared + text("a", R"(, "config": {"block": 4})") + "," + text("b", R"(, "config": {"block": 8})") +
          "," + text("hides", R"(, "config": {"block": 8, "rows": 3})") + "," +
          text("named", R"(, "config": {"block": 2}, "workspace": {"x": 64})") + "," + text("lacks", "") +
          "," + text("c", R"(, "config": {"block": 16})") + "]}",
      warned);
  REQUIRE(warned.messages.size() == 1);
  CHECK_THAT(warned.messages[0], has_text("/variants/4") || has_text("/shared/launch"));
  REQUIRE(out.variants.size() == 5);
  const auto value = [&](std::size_t variant, std::size_t index) {
    return at(out.variants[variant].launches[0].parameters.at(index).value, {{"rows", 100}});
  };
  for (const auto& [variant, block] : {std::pair{0, 4}, {1, 8}, {4, 16}}) {
    INFO(out.variants[static_cast<std::size_t>(variant)].id);
    const auto number = static_cast<std::size_t>(variant);
    CHECK(out.variants[number].launches[0].parameters[0].from == parameter::source::field);
    CHECK(value(number, 1) == 100);
    CHECK(value(number, 2) == std::int64_t{block} * 2);
    CHECK(value(number, 3) == 100);
    CHECK(at(out.variants[number].launches[0].grid[0], {{"rows", 100}}) == (100 + block - 1) / block);
    CHECK(at(out.variants[number].conditions.at(0).value, {{"rows", 7}}) == 0);
  }
  CHECK(value(2, 1) == 3);
  CHECK(at(out.variants[2].conditions.at(0).value, {{"rows", 100}}) == 0);
  CHECK(out.variants[3].launches[0].parameters[0].from == parameter::source::workspace);
}

TEST_CASE("each mistake in a variant is refused with its place, and says what would be right") {
  const std::string p = R"(, "parameters": [])";
  const std::string place = "kernels/scale/host-any/manifest.json: /variants/0";
  CHECK_THAT(refusal("5"), has_text(place + ": expected an object, got 5"));
  CHECK_THAT(refusal("{}"), has_text(place + ": 'id' is missing"));
  CHECK_THAT(refusal(R"({"id": "", "launches": []})"), has_text("/id: an id has 1 to 200 characters"));
  CHECK_THAT(refusal(R"({"id": "v", "launches": []})"),
             has_text("/launches: a variant has 1 to 16 launches"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"dtyp": "f16"})", p)),
             has_text("[switchyard.108] " + place +
                      "/type: operator 'scale' has no axis 'dtyp'; did you mean 'dtype'?"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"rows": 4})", p)), has_text("'rows' is a size axis"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"dtype": "f17"})", p)),
             has_text("/type/dtype: axis 'dtype' has no value 'f17'; it has f16, bf16, f32"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"dtype": true})", p)),
             has_text("axis 'dtype' has no value 'true'"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"dtype": 9})", p)), has_text("axis 'dtype' has no value '9'"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"masked": 2})", p)),
             has_text("axis 'masked' has no value '2'; it has false, true"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"width": true})", p)),
             has_text("/type/width: expected an integer, got true"));
  CHECK_THAT(refusal(variant_of(R"(, "type": {"width": "x"})", p)),
             has_text("expected an integer, got \"x\""));
  CHECK_THAT(refusal(variant_of(R"(, "config": {"a": "1"})", p)), has_text("/config/a: expected an integer"));
  CHECK_THAT(
      refusal(variant_of(R"(, "requires": ["rows > colums"])", p)),
      has_text("[switchyard.111] " + place +
               "/requires/0: 'rows > colums': column 8: unknown name 'colums'; did you mean 'columns'?"));
  CHECK_THAT(refusal(variant_of(R"(, "requires": ["stride == 1"])", p)),
             has_text("reads an argument that no axis holds, so a choice could not depend on it"));
  CHECK_THAT(refusal(variant_of(R"(, "requires": [1])", p)),
             has_text("/requires/0: expected a string, got 1"));
  CHECK_THAT(refusal(variant_of(R"(, "cost": "rows * colums")", p)),
             has_text("/cost: 'rows * colums': column 8: unknown name 'colums'; did you mean 'columns'?"));
  CHECK_THAT(refusal(variant_of(R"(, "cost": "stride * rows")", p)),
             has_text("[switchyard.111] " + place +
                      "/cost: 'stride * rows' goes by the argument 'stride', which no axis of operator "
                      "'scale' holds. Tell calls apart by a condition"));
  CHECK_THAT(refusal(variant_of(R"(, "cost": "rows", "cost_us": 0)", p)),
             has_text("/cost_us: expected a time from 1e-12 to 1e6 us"));
  CHECK_THAT(refusal(variant_of(R"(, "cost_us": 0.5)", p)),
             has_text("/cost_us: the variant states no 'cost' that it could be the unit of"));
  CHECK_THAT(refusal(variant_of(R"(, "cost": 4)", p)), has_text("/cost: expected a string, got 4"));
  CHECK_THAT(refusal(variant_of(R"(, "cost_ns": 4)", p)), has_text("/cost_ns: expected a string, got 4"));
  CHECK_THAT(refusal(variant_of(R"(, "cost_ns": "rows * colums")", p)),
             has_text("/cost_ns: 'rows * colums': column 8: unknown name 'colums'"));
  CHECK_THAT(refusal(variant_of(R"(, "cost": "rows", "cost_us": 1, "cost_ns": "rows")", p)),
             has_text("/cost_ns: the variant states 'cost_us' as well; give one of the two"));
  for (const char* const wrong : {"0", "1.01", "-0.5"}) {
    CHECK_THAT(
        refusal(variant_of(std::string{R"(, "max_error": )"} + wrong, p)),
        has_text("/max_error: expected a number above 0, up to 1: the share of the operator's tolerance"));
  }
  CHECK_THAT(refusal(variant_of(R"(, "max_error": "small")", p)), has_text("/max_error: expected a number"));
  CHECK_THAT(refusal(variant_of(R"(, "reproducible": "")", p)),
             has_text("/reproducible: expected the name of a class of variants"));
  CHECK_THAT(refusal(variant_of(R"(, "reproducible": true)", p)),
             has_text("/reproducible: expected a string"));
  CHECK_THAT(refusal(variant_of(R"(, "workspace": {"w": "stride * 4"})", p)),
             has_text("/workspace/w: a workspace's size may read"));
  CHECK_THAT(refusal(variant_of(R"(, "workspace": {"w": 1.5})", p)),
             has_text("expected an integer or an expression, got 1.5"));
  CHECK_THAT(refusal(variant_of("", "")), has_text("/launches/0: 'parameters' is missing"));
  CHECK_THAT(refusal(variant_of("", R"(, "shared_bytes": "stride")" + p)),
             has_text("'shared_bytes' may read axes"));
  CHECK_THAT(refusal(variant_of("", R"(, "cooperative": 1)" + p)), has_text("expected true or false, got 1"));
  CHECK_THAT(refusal(variant_of("", R"(, "cluster": ["stride"])" + p)), has_text("'cluster' may read axes"));
  CHECK_THAT(refusal(variant_of("", R"(, "cluster": [])" + p)), has_text("/cluster: expected 1 to 3"));
  CHECK_THAT(refusal(R"({"id": "v", "launches": [{"fill": "w"}]})"),
             has_text("/fill: the variant has no workspace 'w'"));
  CHECK_THAT(refusal(R"({"id": "v", "workspace": {"w": 8}, "launches": [{"fill": "w", "byte": 256}]})"),
             has_text("/byte: expected 0 to 255, got 256"));
  const auto with = [&](const char* blob, const std::string& sha, const char* kernel) {
    return refusal(R"({"id": "v", "launches": [{"blob": ")" + std::string{blob} + R"(", "sha256": ")" + sha +
                   R"(", "kernel": ")" + kernel + R"(", "grid": [1], "block": [1], "parameters": []}]})");
  };
  CHECK_THAT(with("a.so", std::string(63, 'a'), "k"),
             has_text("/sha256: expected 64 lower-case hexadecimal digits"));
  CHECK_THAT(with("a.so", std::string(64, 'A'), "k"), has_text("/sha256: expected 64 lower-case"));
  CHECK_THAT(with("a.so", digest, ""), has_text("/kernel: expected the name of a kernel"));
  CHECK_THAT(with("a.so", digest, "k\\u0000x"), has_text("/kernel: expected the name of a kernel"));
  for (const char* blob : {"", "/etc/passwd", "..", "../a.so", "a/../../b.so", "a/..", "a\\u0000.so"}) {
    INFO(blob);
    CHECK_THAT(with(blob, digest, "k"), has_text("[switchyard.112] " + place + "/launches/0/blob"));
  }
}

TEST_CASE("each mistake in a parameter is refused with what would be right") {
  CHECK_THAT(
      parameter_refusal(R"("colums")"),
      has_text(
          "'colums' is neither an argument of operator 'scale' nor a workspace; did you mean 'columns'?"));
  CHECK_THAT(parameter_refusal(R"("alignment")"), has_text("write {\"i32\": \"alignment\"}"));
  CHECK_THAT(parameter_refusal("5"), has_text("/parameters/0: expected an object, got 5"));
  CHECK_THAT(parameter_refusal("{}"), has_text("expected a name, or an object such as"));
  CHECK_THAT(parameter_refusal(R"({"i33": 1})"), has_text("'i33' is not a kind of parameter; there are i8"));
  CHECK_THAT(parameter_refusal(R"({"i32": 1.5})"),
             has_text("/parameters/0/i32: expected an integer or an expression"));
  CHECK_THAT(parameter_refusal(R"({"i32": "1 / 0"})"), has_text("divides by zero"));
  CHECK_THAT(parameter_refusal(R"({"i32": "pi"})"), has_text("'pi' is real"));
  CHECK_THAT(parameter_refusal(R"({"f32": [1]})"), has_text("[switchyard.111]"));
  CHECK_THAT(parameter_refusal(R"({"f32": "factor % 2"})"), has_text("unexpected '%'"));
  CHECK_THAT(parameter_refusal(R"({"null": 0})"), has_text("expected 1 to 4096 bytes, got 0"));
  CHECK_THAT(parameter_refusal(R"({"struct": []})"), has_text("a struct has members"));
  CHECK_THAT(parameter_refusal(R"({"struct": [{"i8": 1}], "align": 3})"),
             has_text("expected a power of two up to 64"));
  CHECK_THAT(
      parameter_refusal(R"({"struct":[{"struct":[{"struct":[{"struct":[{"struct":[{"i8":1}]}]}]}]}]})"),
      has_text("structs nest at most 4 deep"));
  const std::string map_head = R"({"tensor_map": {"of": "x", "dtype": "f16", "extents": ["columns", "rows"])";
  CHECK_THAT(parameter_refusal(map_head + R"(, "strides": [], "box": [1, 1]}})"),
             has_text("/strides: expected 1 to 1 entries, got 0"));
  CHECK_THAT(parameter_refusal(map_head + R"(, "strides": [2], "box": [1]}})"),
             has_text("/box: expected 2 to 2 entries, got 1"));
  CHECK_THAT(parameter_refusal(map_head + R"(, "strides": [2], "box": [1, 1], "swizzle": "256B"}})"),
             has_text("expected one of none, 32B, 64B, 128B, got \"256B\""));
  CHECK_THAT(parameter_refusal(R"({"tensor_map": {"of": "x", "extents": [1], "box": [1]}})"),
             has_text("'dtype' is missing"));
  std::string many = R"({"null": 4096})";
  for (int i = 0; i < 8; ++i) many += R"(, {"null": 4096})";
  CHECK_THAT(parameter_refusal(many), has_text("the parameters take 36864 bytes; a kernel can have 32764"));
  std::string count = "{\"i8\": 1}";
  for (int i = 0; i < 256; ++i) count += ", {\"i8\": 1}";
  CHECK_THAT(parameter_refusal(count), has_text("a kernel has at most 256 parameters"));
}

TEST_CASE("a bad variant is left out and the others serve, in their order") {
  warnings warned;
  const std::string p = R"(, "parameters": [])";
  const auto named = [&](const char* id, const char* members) {
    return R"({"id": ")" + std::string{id} + "\"" + members + R"(, "launches": [)" + launch_of(p) + "]}";
  };
  const manifest out = manifest_from(
      manifest_of(named("a", "") + "," + named("b", R"(, "requires": ["x"])") + ", 7, " + named("c", "") +
                  "," + named("a", "") + "," + named("a", R"(, "type": {"dtype": "f16"})")),
      warned);
  REQUIRE(out.variants.size() == 3);
  CHECK(out.variants[0].id == "a");
  CHECK(out.variants[1].id == "c");
  CHECK(out.variants[2].id == "a");
  REQUIRE(warned.messages.size() == 3);
  CHECK_THAT(warned.messages[0], has_text("/variants/1/requires/0"));
  CHECK_THAT(warned.messages[1], has_text("/variants/2"));
  CHECK_THAT(warned.messages[2], has_text("[switchyard.109]") && has_text("variant 'a' is listed twice"));
}

TEST_CASE("enumerators that two axes number differently must be written as numbers") {
  // dense is 0 in layout only; f16 is an enumerator of dtype: both are clear.
  CHECK(at(sound(variant_of(R"(, "requires": ["layout == dense", "dtype == f32"])", R"(, "parameters": [])"))
               .conditions[1]
               .value,
           {{"dtype", 2}}) == 1);
  CHECK(at(sound(variant_of(R"(, "requires": ["masked == true"])", R"(, "parameters": [])"))
               .conditions[0]
               .value,
           {{"masked", 1}}) == 1);
}
