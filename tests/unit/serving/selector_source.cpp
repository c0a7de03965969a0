// SPDX-License-Identifier: MIT
// What a catalog of rules reads from disk, keeps, and says.
#include <catch.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/serving/selector_source.hpp>

#include "../choosing/sample_tables.hpp"
#include "../sample_operator.hpp"
#include "../temporary.hpp"

namespace catalogs {

using namespace switchyard;
using nlohmann::json;

json catalog_variant(const std::string& id) {
  return {{"id", id},
          {"launches",
           {{{"blob", id + ".cubin"},
             {"sha256", std::string(64, 'b')},
             {"kernel", "k"},
             {"grid", {1}},
             {"block", {1}},
             {"parameters", json::array()}}}}};
}

json catalog_manifest(const std::vector<std::string>& ids, const char* backend = "cuda",
                      const char* arch = "sm_90a") {
  json out{{"schema", "switchyard.manifest/1"},
           {"operator", "scale"},
           {"target", {{"backend", backend}, {"arch", arch}}},
           {"variants", json::array()}};
  for (const std::string& id : ids) out["variants"].push_back(catalog_variant(id));
  return out;
}

json catalog_table(const std::string& id, const char* backend = "cuda", double time = 1) {
  return {{"schema", "switchyard.table/1"},
          {"operator", "scale"},
          {"device", {{"backend", backend}, {"arch", "sm_90"}, {"name", "Card 90"}}},
          {"groups",
           {{{"type", json::object()},
             {"axes", {"rows"}},
             {"rows", json::array({{{"at", json::array({8})}, {"times_us", {{id, time}}}}})}}}}};
}

/// A root and an overlay folder, and a catalog of them.
struct disk {
  disk() {
    for (const char* name : {"kernels/scale/cuda", "kernels/scale/host", "tables/scale", "over"})
      std::filesystem::create_directories(root / name);
  }

  operator_files refresh(const char* arch = "sm_90", const char* backend = "cuda") {
    device_properties device = sample_tables::card();
    device.arch = arch;
    device.backend = backend;
    report = {};
    return rules.refresh(sample::description(), &device, report);
  }
  operator_files refresh_all() {
    report = {};
    return rules.refresh(sample::description(), nullptr, report);
  }

  temporary_folder root;
  std::vector<std::string> warned;
  std::string force;
  reload_report report;
  selector_source rules{search_path{{root.path()}, {root / "over"}},
                        [this](std::string_view name) { return name == "scale" ? force : std::string{"no"}; },
                        [this](const std::string& message) { warned.push_back(message); }};
};

TEST_CASE("a version grows when what serves changes, and only then") {
  disk all;
  CHECK(all.refresh().version == 0);
  all.root.write("kernels/scale/cuda/m.json", catalog_manifest({"a", "b"}).dump());
  CHECK(all.refresh().version == 1);
  CHECK(all.refresh().version == 1);
  all.root.write("tables/scale/t.json", catalog_table("a").dump());
  CHECK(all.refresh().version == 2);
  all.root.write("over/o.json", catalog_table("b").dump());
  CHECK(all.refresh().version == 3);
  all.root.write("over/o.json", catalog_table("b", "cuda", 2).dump());
  CHECK(all.refresh().version == 4);
  all.root.write("tables/scale/t.json", "{");
  CHECK(all.refresh().version == 4);
  CHECK(all.report.refused.size() == 1);
  CHECK(all.warned.size() == 1);
  std::filesystem::remove(all.root / "over/o.json");
  const operator_files left = all.refresh();
  CHECK(left.version == 5);
  CHECK(left.overlays.empty());
  CHECK(left.tables.size() == 1);
  CHECK(all.refresh().version == 5);
  CHECK(all.rules.path().roots.at(0) == all.root.path());
}

TEST_CASE("of files for other devices only the beginning is read, until such a device asks") {
  disk all;
  all.root.write("kernels/scale/cuda/m.json", catalog_manifest({"a"}).dump());
  all.root.write("kernels/scale/cuda/n.json", catalog_manifest({"b"}, "cuda", "sm_100a").dump());
  all.root.write("kernels/scale/host/m.json", catalog_manifest({"c"}, "host", "any").dump());
  all.root.write("tables/scale/t.json", catalog_table("a").dump());
  all.root.write("tables/scale/u.json", catalog_table("c", "host").dump());
  const auto read = [](const auto& list) {
    std::string out;
    for (const auto& file : list) out += file->is_read() ? '+' : '-';
    return out;
  };
  operator_files files = all.refresh();
  CHECK(read(files.manifests) == "+--");
  CHECK(read(files.tables) == "+-");
  CHECK(files.manifests[1]->target().arch == "sm_100a");
  CHECK(files.tables[1]->head().device.backend == "host");
  CHECK(files.version == 1);
  CHECK(files.manifests[2]->has_variant("c"));
  // What another device needs is read then, and what was read stays. Nobody was served by it before.
  files = all.refresh("sm_100");
  CHECK(read(files.manifests) == "++-");
  CHECK(files.version == 1);
  files = all.refresh("x86_64", "host");
  CHECK(read(files.manifests) == "+++");
  CHECK(read(files.tables) == "++");
  CHECK(files.version == 1);
  CHECK(read(all.refresh().manifests) == "+++");
  CHECK(all.warned.empty());
  disk whole;
  whole.root.write("kernels/scale/host/m.json", catalog_manifest({"c"}, "host", "any").dump());
  CHECK(read(whole.refresh_all().manifests) == "+");
}

TEST_CASE("a file whose beginning does not say what it is for is read whole") {
  disk all;
  const std::string spaces(70'000, ' ');
  // What stands behind the first 64 KiB is not looked for.
  std::string text = catalog_manifest({"a"}, "host", "any").dump();
  all.root.write("kernels/scale/host/late.json", "{" + spaces + text.substr(1));
  json without = catalog_manifest({"a"}, "host", "any");
  without["target"]["backend"] = 5;
  all.root.write("kernels/scale/host/wrong.json", without.dump());
  // Large ones: for this device, and for another.
  text = catalog_manifest({"a"}).dump();
  all.root.write("kernels/scale/cuda/large.json", text.substr(0, text.size() - 1) + spaces + "}");
  text = catalog_manifest({"b"}, "host", "any").dump();
  const std::size_t at = text.find("\"variants\"");
  all.root.write("kernels/scale/host/other.json", text.substr(0, at) + spaces + text.substr(at));
  const operator_files files = all.refresh();
  REQUIRE(files.manifests.size() == 3);
  CHECK(files.manifests[0]->path() == all.root / "kernels/scale/cuda/large.json");
  CHECK(files.manifests[0]->is_read());
  CHECK(files.manifests[0]->outline().entries().size() == 1);
  CHECK(files.manifests[1]->is_read());
  CHECK_FALSE(files.manifests[2]->is_read());
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("wrong.json: /target/backend: expected a string, got 5"));
  // A table that names no backend may be anyone's.
  json table = catalog_table("a");
  table.erase("device");
  all.root.write("tables/scale/t.json", table.dump());
  CHECK(all.refresh().tables.at(0)->is_read());
}

TEST_CASE("an overlay of another operator does not count, and a table of one is refused") {
  disk all;
  json other = catalog_table("a");
  other["operator"] = "rotary";
  all.root.write("over/o.json", other.dump());
  operator_files files = all.refresh();
  CHECK(files.overlays.empty());
  CHECK(all.warned.empty());
  CHECK(files.version == 0);
  json bad = catalog_table("a");
  bad["neighbours"] = 0;
  all.root.write("over/p.json", bad.dump());
  files = all.refresh();
  CHECK(files.overlays.empty());
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("p.json: /neighbours: expected 1 to 32"));
  all.root.write("tables/scale/t.json", other.dump());
  CHECK(all.refresh().tables.empty());
  REQUIRE(all.warned.size() == 2);
  CHECK_THAT(all.warned[1], has_text("is for operator 'rotary'"));
}

TEST_CASE("the last manifests stay when all go, with one warning each time") {
  disk all;
  CHECK(all.refresh().manifests.empty());
  CHECK(all.warned.empty());
  const std::string only = all.root.write("kernels/scale/cuda/m.json", catalog_manifest({"a"}).dump());
  all.refresh();
  std::filesystem::remove(only);
  operator_files files = all.refresh();
  CHECK(files.manifests.size() == 1);
  CHECK(files.version == 1);
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("[switchyard.302] scale: its last manifest was removed"));
  CHECK(all.refresh().manifests.size() == 1);
  CHECK(all.warned.size() == 1);
  all.root.write("kernels/scale/cuda/m.json", catalog_manifest({"b"}).dump());
  files = all.refresh();
  CHECK(files.version == 2);
  CHECK(files.manifests.at(0)->has_variant("b"));
  std::filesystem::remove(only);
  all.refresh();
  CHECK(all.warned.size() == 2);
}

TEST_CASE("warnings of a file are said when it is read, one mistake once, and those of rules once") {
  disk all;
  json manifest = catalog_manifest({"a"});
  for (int i = 0; i < 130; ++i) {
    json bad = catalog_variant("bad" + std::to_string(i));
    bad["type"] = {{"dtyp", "f16"}, {"number", i}};
    manifest["variants"].push_back(bad);
  }
  all.root.write("kernels/scale/cuda/m.json", manifest.dump());
  json table = catalog_table("gone");
  table["groups"].push_back({{"type", {{"dtype", "f17"}}}, {"axes", json::array()}, {"rows", json::array()}});
  all.root.write("tables/scale/t.json", table.dump());
  const operator_files files = all.refresh();
  REQUIRE(all.warned.size() == 3);  // the same mistake of many entries is said once
  CHECK_THAT(all.warned[0], has_text("/variants/1/type: ") && has_text("(the same in 99 more entries)"));
  CHECK(all.warned[1] == all.root / "kernels/scale/cuda/m.json: 30 more warnings");
  CHECK_THAT(all.warned[2], has_text("t.json: /groups/1/type/dtype: axis 'dtype' has no value 'f17'"));
  all.warned.clear();
  const device_properties device = sample_tables::card();
  const auto rules = all.rules.make_selectors(sample::description(), device, files);
  const auto problem = sample::problem({{"rows", 8}});
  CHECK(rules->read(rules->signature_of(problem))->select(problem).variant == 0);
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("a row names variant 'gone'"));
  (void)rules->read(rules->signature_of(problem));
  (void)all.rules.make_selector(sample::description(), device, all.rules.read_all(files));
  CHECK(all.warned.size() == 1);
}

TEST_CASE("all that files say is read whole, and a variant that is forced is forced in it") {
  disk all;
  all.root.write("kernels/scale/cuda/m.json", catalog_manifest({"a", "b"}).dump());
  all.root.write("kernels/scale/host/m.json", catalog_manifest({"c"}, "host", "any").dump());
  all.root.write("tables/scale/t.json", catalog_table("a").dump());
  all.root.write("over/o.json", catalog_table("b").dump());
  const operator_files files = all.refresh();
  const operator_contents whole = all.rules.read_all(files);
  REQUIRE(whole.manifests.size() == 1);  // the other one is not read
  CHECK(whole.manifests[0]->variants.size() == 2);
  REQUIRE(whole.tables.size() == 1);
  CHECK(whole.tables[0]->groups.size() == 1);
  CHECK(whole.overlays.size() == 1);
  const device_properties device = sample_tables::card();
  const auto problem = sample::problem({{"rows", 8}});
  const auto chosen = [&] {
    const auto rules = all.rules.make_selector(sample::description(), device, whole);
    return rules->select(problem);
  };
  CHECK(chosen().why == reason::exact);
  CHECK(chosen().variant == 1);  // the overlay's
  all.force = "a";
  CHECK(chosen().why == reason::forced);
  CHECK(chosen().variant == 0);
  const auto rules = all.rules.make_selectors(sample::description(), device, files);
  CHECK(rules->read(rules->signature_of(problem))->select(problem).why == reason::forced);
  CHECK(all.warned.empty());
}

TEST_CASE(
    "of tables for one device the newest decides, in whichever root it lies, from the next refresh on") {
  const temporary_folder first;
  const temporary_folder second;
  for (const temporary_folder* root : {&first, &second}) {
    std::filesystem::create_directories(*root / "kernels/scale/cuda");
    std::filesystem::create_directories(*root / "tables/scale");
  }
  first.write("kernels/scale/cuda/m.json", catalog_manifest({"a", "b", "c", "d"}).dump());
  std::vector<std::string> warned;
  selector_source rules{search_path{{first.path(), second.path()}, {}},
                        [](std::string_view) { return std::string{}; },
                        [&warned](const std::string& message) { warned.push_back(message); }};
  const auto chosen = [&] {
    reload_report report;
    const device_properties device = sample_tables::card();
    const auto book = rules.make_selectors(sample::description(), device,
                                           rules.refresh(sample::description(), &device, report));
    std::vector<std::int64_t> problem(sample::description().axes.size());
    problem[5] = 8;
    const auto from = book->read(book->signature_of(problem));
    const explanation why = explain(*from, problem, from->select(problem));
    return why.variant + (why.lost.empty() ? "" : " before " + why.lost.front().why);
  };
  const auto dated = [](const char* id, const nlohmann::json& date) {
    nlohmann::json out = catalog_table(id);
    if (!date.is_null()) out["measured"] = {{"date", date}};
    return out.dump();
  };
  first.write("tables/scale/b.json", dated("a", nullptr));
  CHECK(chosen() == "a");
  first.write("tables/scale/a.json", dated("b", nullptr));
  CHECK(chosen() == "b before undated too, a later name");
  second.write("tables/scale/z.json", dated("c", "2026-11-22"));
  CHECK(chosen() == "c before undated");
  // The same date: the earlier root, then the first name. A later day in the same file: that file.
  first.write("tables/scale/b.json", dated("a", "2026-11-22"));
  CHECK(chosen() == "a before measured 2026-11-22 too, in a later root");
  second.write("tables/scale/z.json", dated("d", "2026-11-23"));
  CHECK(chosen() == "d before measured 2026-11-22, older");
  CHECK(warned.empty());
  // Without its date it comes last, and that is said once.
  second.write("tables/scale/z.json", dated("d", "23 Nov 2026"));
  CHECK(chosen() == "a before undated");
  CHECK(chosen() == "a before undated");
  REQUIRE(warned.size() == 1);
  CHECK_THAT(warned[0],
             has_text("z.json: /measured/date: expected a day as in \"2026-11-22\", got \"23 Nov 2026\""));
}

TEST_CASE("what is wrong with an overlay or a root is said once, however many operators read it") {
  const temporary_folder folder;
  const std::string overlay = folder / "over.json";
  const std::string root = folder / "root";
  std::filesystem::create_symlink("root", root);
  std::vector<std::string> warned;
  selector_source rules{search_path{{root}, {overlay}}, [](std::string_view) { return std::string{}; },
                        [&warned](const std::string& message) { warned.push_back(message); }};
  const auto count_of_all = [&](std::size_t first = 0, std::size_t last = 8) {
    warned.clear();
    for (std::size_t i = first; i < last; ++i) {
      static const std::vector<std::string> names{"scale", "b", "c", "d", "e", "f", "g", "h"};
      static std::vector<operator_description> known(names.size(), sample::description());
      known[i].name = names[i];
      const device_properties device = sample_tables::card();
      reload_report report;
      (void)rules.refresh(known[i], &device, report);
    }
    return warned.size();
  };
  // The overlay is not there, and the root is a knot.
  CHECK(count_of_all(0, 3) == 2);
  CHECK_THAT(warned.at(0), has_text("[switchyard.101] " + root + ": cannot be read: "));
  CHECK_THAT(warned.at(1), has_text("[switchyard.101] " + overlay + ": cannot be opened") &&
                               has_text("(the file is not used)"));
  CHECK(count_of_all(3) == 0);
  CHECK(count_of_all() == 0);
  std::filesystem::remove(root);
  CHECK(count_of_all() == 0);
  // An overlay of one operator: the others have no part in it, whatever becomes of it.
  folder.write("over.json", catalog_table("a").dump());
  CHECK(count_of_all() == 0);
  folder.write("over.json", "{");
  CHECK(count_of_all() == 1);
  CHECK_THAT(warned.at(0),
             has_text("[switchyard.103] " + overlay) && has_text("(keeping the previously loaded version)"));
  CHECK(count_of_all() == 0);
  // What goes wrong again is said again.
  folder.write("over.json", catalog_table("a").dump());
  CHECK(count_of_all() == 0);
  std::filesystem::remove(overlay);
  CHECK(count_of_all() == 0);
  folder.write("over.json", catalog_table("a").dump());
  std::filesystem::create_symlink("root", root);
  CHECK(count_of_all() == 1);
  std::filesystem::remove(root);
  CHECK(count_of_all() == 0);
}

}  // namespace catalogs
