// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/read_manifest.hpp>

#include "../sample_operator.hpp"
#include "../temporary.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace {

const std::string some_digest(64, 'a');

std::string variant_text(const std::string& id, const std::string& members = "") {
  return R"({"id": ")" + id + R"(")" + members + R"(, "launches": [{"blob": "a.so", "sha256": ")" +
         some_digest + R"(", "kernel": "k", "grid": ["rows"], "block": [1], "parameters": ["x"]}]})";
}

std::string manifest_text(const std::string& variants, const std::string& members = "") {
  return R"({"schema": "switchyard.manifest/1", "operator": "scale", )" + members +
         R"("target": {"backend": "host", "arch": "any"}, "variants": [)" + variants + "]}";
}

manifest_file outlined(const std::string& text, warnings& warned) {
  return {text, "kernels/scale/host-any/manifest.json", sample::description(), warned};
}

/// A manifest whose variants and launches are like shared ones.
std::string sharing(const std::string& variant_members, const std::string& launch_members) {
  return manifest_text(R"({"id": "v")" + variant_members + R"(, "launches": [{"sha256": ")" + some_digest +
                           "\"" + launch_members + "}]}",
                       R"j("shared": {
    "tile": {"blob": "tile.so", "kernel": "tile", "grid": ["ceil_div(rows, m)"], "block": [32, 2],
             "shared_bytes": 16, "parameters": ["x", "y", {"i32": "rows"}]},
    "general": {"config": {"m": 64}, "requires": ["columns % 8 == 0"], "cost": "rows * columns"}}, )j");
}

}  // namespace

TEST_CASE("an outlined manifest reads the variants that are asked for, once") {
  warnings warned;
  const auto file =
      outlined(manifest_text(variant_text("a", R"(, "type": {"dtype": "f32"})") + "," +
                             variant_text("b", R"(, "type": {"dtype": "f16"})") + "," + variant_text("c") +
                             "," + variant_text("d", R"(, "type": { "dtype" : "f32" })")),
               warned);
  REQUIRE(file.outline().entries().size() == 4);
  CHECK(file.outline().types().size() == 3);  // a and d have the same
  CHECK(file.outline().entries()[0].type == file.outline().entries()[3].type);
  CHECK(file.outline().id_of(file.outline().entries()[2]) == "c");
  const auto some = file.read({1, 3}, warned);
  REQUIRE(some->variants.size() == 2);
  CHECK(some->variants[0].id == "b");
  CHECK(some->variants[1].id == "d");
  CHECK(some->target.backend == "host");
  CHECK(some->variants[0].launches.at(0).blob == "kernels/scale/host-any/a.so");
  CHECK(file.read({1, 3}, warned) == some);
  CHECK(file.read({1}, warned) != some);
  CHECK(file.read_all(warned)->variants.size() == 4);
  CHECK(file.has_variant("a"));
  CHECK_FALSE(file.has_variant("e"));
  CHECK(warned.messages.empty());
}

TEST_CASE("a variant that cannot be read is said once, when it is asked for first") {
  warnings of_outline;
  const auto file =
      outlined(manifest_text(variant_text("good") + R"(, {"id": "bad", "launches": []})"), of_outline);
  CHECK(of_outline.messages.empty());
  warnings of_good;
  CHECK(file.read({0}, of_good)->variants.size() == 1);
  CHECK(of_good.messages.empty());
  warnings of_bad;
  CHECK(file.read({0, 1}, of_bad)->variants.size() == 1);
  REQUIRE(of_bad.messages.size() == 1);
  CHECK_THAT(of_bad.messages[0],
             has_text("kernels/scale/host-any/manifest.json: /variants/1/launches: a variant has 1 to 16"));
  warnings again;
  CHECK(file.read({1}, again)->variants.empty());
  CHECK(again.messages.empty());
}

TEST_CASE("a type that cannot be read leaves its variant out, with a warning when the file is outlined") {
  warnings warned;
  const auto file = outlined(
      manifest_text(variant_text("a", R"(, "type": {"dtyp": "f32"})") + "," + variant_text("b")), warned);
  REQUIRE(warned.messages.size() == 1);
  CHECK_THAT(warned.messages[0], has_text("/variants/0/type: operator 'scale' has no axis 'dtyp'"));
  REQUIRE(file.outline().entries().size() == 1);
  CHECK(file.read_all(warned)->variants.at(0).id == "b");
}

TEST_CASE("variants and launches take over what a shared object says, and say the rest themselves") {
  warnings warned;
  const auto read = [&](const std::string& variant_members, const std::string& launch_members) {
    const std::string text = sharing(variant_members, launch_members);
    manifest whole = parse_manifest(text, "m.json", sample::description(), warned);
    REQUIRE(outlined(text, warned).read_all(warned)->variants.size() == whole.variants.size());
    return whole;
  };
  const manifest plain = read(R"(, "like": "general")", R"(, "like": "tile")");
  REQUIRE(plain.variants.size() == 1);
  const variant& taken = plain.variants[0];
  CHECK(taken.config.at(0).value == 64);
  CHECK(taken.conditions.at(0).text == "columns % 8 == 0");
  CHECK(taken.cost.text == "rows * columns");
  CHECK(taken.launches.at(0).kernel == "tile");
  CHECK(taken.launches[0].parameters.size() == 3);
  const auto problem = sample::problem({{"rows", 100}});
  CHECK(taken.launches[0].grid[0].evaluate({problem, {}, {}, nullptr}).value == 2);  // with the config's m
  const manifest own = read(R"(, "like": "general", "config": {"m": 10})",
                            R"(, "like": "tile", "kernel": "other", "block": [64])");
  CHECK(own.variants.at(0).launches.at(0).kernel == "other");
  CHECK(own.variants[0].launches[0].block[0].evaluate({problem, {}, {}, nullptr}).value == 64);
  CHECK(own.variants[0].launches[0].block[1].evaluate({problem, {}, {}, nullptr}).value == 1);
  CHECK(own.variants[0].launches[0].grid[0].evaluate({problem, {}, {}, nullptr}).value == 10);
  CHECK(own.variants[0].conditions.size() == 1);
  CHECK(warned.messages.empty());
}

TEST_CASE("a shared object that is not there, or says what it may not, is named") {
  const auto said = [](const std::string& text) {
    warnings warned;
    CHECK(parse_manifest(text, "m.json", sample::description(), warned).variants.empty());
    REQUIRE(warned.messages.size() == 1);
    warnings of_outlined;
    CHECK(outlined(text, of_outlined).read_all(of_outlined)->variants.empty());
    REQUIRE(of_outlined.messages.size() == 1);
    return warned.messages[0];
  };
  CHECK_THAT(said(sharing(R"(, "like": "general")", R"(, "like": "tiles")")),
             has_text("/variants/0/launches/0/like: the file's 'shared' has no 'tiles'") &&
                 has_text("did you mean 'tile'?") && has_text("general, tile"));
  CHECK_THAT(said(manifest_text(variant_text("v", R"(, "like": "a")"))),
             has_text("/variants/0/like: the file's 'shared' has no 'a'; it has nothing"));
  CHECK_THAT(said(manifest_text(variant_text("v", R"(, "like": "a")"), R"("shared": {"a": {"id": "b"}}, )")),
             has_text("/shared/a: a shared object has no 'id'"));
  CHECK_THAT(said(sharing(R"(, "like": "general")", R"(, "like": "tile", "parameters": 1)")),
             has_text("/variants/0/launches/0/parameters: expected an array"));
  CHECK_THAT(said(manifest_text(variant_text("v", R"(, "like": 1)"))),
             has_text("/variants/0/like: expected a string"));
}

TEST_CASE("what is wrong with an outlined file as a whole is said like that of a parsed one") {
  const auto refusal = [](const std::string& text) {
    warnings warned;
    return switchyard::test::refusal_by<file_error>([&] { return outlined(text, warned); });
  };
  const std::string complete = manifest_text("");
  CHECK(refusal(complete).empty());
  CHECK_THAT(refusal("[]"), has_text("expected an object, got an array of 0"));
  CHECK_THAT(refusal(complete + "x"), has_text("[switchyard.103]") && has_text("is not JSON"));
  CHECK_THAT(refusal(manifest_text("", R"("a": 1, "a": 2, )")), has_text("/a: the key is repeated"));
  CHECK_THAT(refusal(manifest_text("", R"("variants": [], )")), has_text("/variants: the key is repeated"));
  CHECK_THAT(refusal(manifest_text("", R"("v\u0061riants": [], )")),
             has_text("/variants: the key is repeated"));
  CHECK_THAT(refusal(R"({"v\u0061riants": []})"), has_text("is spelt with an escape"));
  CHECK(refusal(manifest_text("", R"("caf\u00e9": [], )")).empty());
  CHECK_THAT(refusal(R"({"schema": "switchyard.manifest/1", "operator": "scale",
                         "target": {"backend": "host", "arch": "any"}})"),
             has_text("'variants' is missing"));
  CHECK_THAT(refusal(R"({"schema": "switchyard.manifest/1", "operator": "scale",
                         "target": {"backend": "host", "arch": "any"}, "variants": {}})"),
             has_text("/variants: expected an array, got an object"));
}

TEST_CASE("a file that is not read still knows its variants") {
  const temporary_folder folder;
  const std::string unread =
      folder.write("m.json", manifest_text(variant_text("here") + R"(, {"id": "n\u0061med"})"));
  const manifest_file file{unread, {"hip", "gfx942"}};
  CHECK_FALSE(file.is_read());
  CHECK(file.target().arch == "gfx942");
  CHECK(file.has_variant("here"));
  CHECK(file.has_variant("named"));
  CHECK_FALSE(file.has_variant("there"));
  CHECK_FALSE(manifest_file{folder / "gone.json", {"hip", "gfx942"}}.has_variant("here"));
}
