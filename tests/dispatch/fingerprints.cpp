// SPDX-License-Identifier: MIT
// Fingerprints: equal where hosts choose alike, and the name of what differs where they do not.
#include <cstdint>
#include <string>
#include <utility>

#include "catch.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

void put_stamps(const disk& files) {
  files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
  files.put_table("stamp", {stamp_group({row(1, 16, {{"one", 1.0}, {"two", 2.0}})})});
}

[[nodiscard]] sy::fingerprint fingerprint_of(const sy::catalog_options& options) {
  sy::catalog catalog{options};
  return catalog.fingerprint(sy::describe<stamp>(), sy::host::read_properties());
}

}  // namespace

TEST_CASE("hosts with the same files have the same fingerprint, wherever the files lie") {
  const disk here;
  const disk there;
  put_stamps(here);
  put_stamps(there);
  const sy::fingerprint mine = fingerprint_of(here.options());
  const sy::fingerprint other = fingerprint_of(there.options());
  CHECK(mine.hash.size() == 64);
  CHECK(mine.hash == other.hash);
  CHECK(describe_difference(mine, other).empty());
  REQUIRE(mine.parts.size() == 4);
  CHECK(mine.parts[0].name.substr(0, 11) == "switchyard ");
  CHECK(mine.parts[1].name == "device " + sy::host::read_properties().name);
  CHECK(mine.parts[2].name == "kernels/stamp/host-" + disk::architecture() + "/manifest.json");
  CHECK(mine.parts[3].name == "tables/stamp/here.json");

  // What other devices' files say does not matter, whoever asked for them before.
  json foreign = disk::make_table("stamp", {});
  foreign["device"]["backend"] = "cuda";
  there.write(there.root() / "tables/stamp/cuda.json", foreign.dump());
  sy::catalog all{there.options()};
  (void)all.files(sy::describe<stamp>());
  CHECK(all.fingerprint(sy::describe<stamp>(), sy::host::read_properties()).hash == mine.hash);
  CHECK(all.fingerprint(sy::describe<stamp>(), sy::host::read_properties()).hash ==
        fingerprint_of(there.options()).hash);
}

TEST_CASE("the first thing that differs is named") {
  const disk here;
  const disk there;
  put_stamps(here);
  put_stamps(there);
  const sy::fingerprint mine = fingerprint_of(here.options());
  there.put_table("stamp", {stamp_group({row(1, 16, {{"one", 2.0}, {"two", 1.0}})})});
  const std::string difference = describe_difference(mine, fingerprint_of(there.options()));
  CHECK_THAT(difference, has_text("tables/stamp/here.json differs: " + mine.parts[3].hash + " here, "));

  there.write(there.root() / "tables/stamp/more.json", disk::make_table("stamp", {}).dump());
  put_stamps(there);
  CHECK(describe_difference(mine, fingerprint_of(there.options())) == "tables/stamp/more.json is only there");
  CHECK(describe_difference(fingerprint_of(there.options()), mine) == "tables/stamp/more.json is only here");

  sy::catalog_options overlaid = here.options();
  overlaid.tables = {(there.root() / "tables/stamp/more.json").string()};
  CHECK(describe_difference(mine, fingerprint_of(overlaid)) ==
        "overlay of stamp tables/stamp/more.json is only there");

  sy::catalog_options forced = here.options();
  forced.settings.forced = {{"stamp", "two"}};
  CHECK(describe_difference(fingerprint_of(forced), mine) == "SWITCHYARD_FORCE stamp is only here");

  sy::device_properties smaller = sy::host::read_properties();
  smaller.set("multiprocessors", 3);
  sy::catalog catalog{here.options()};
  CHECK_THAT(describe_difference(mine, catalog.fingerprint(sy::describe<stamp>(), smaller)),
             has_text("device " + smaller.name + " differs: "));

  // A file that is damaged now leaves its previous version in use.
  const sy::fingerprint before = catalog.fingerprint(sy::describe<stamp>(), sy::host::read_properties());
  here.write(here.table_path("stamp"), "{");
  CHECK(catalog.fingerprint(sy::describe<stamp>(), sy::host::read_properties()).hash == before.hash);
}

TEST_CASE("a fingerprint of several operators travels as text") {
  const disk files;
  put_stamps(files);
  files.put_manifest("axpy", {});
  sy::catalog catalog{files.options()};
  const sy::operator_description* const both[] = {&sy::describe<axpy>(), &sy::describe<stamp>()};
  const sy::fingerprint mine = catalog.fingerprint(both, sy::host::read_properties());
  CHECK(mine.parts.size() == 5);
  const sy::fingerprint read = sy::parse_fingerprint(to_string(mine));
  CHECK(read.hash == mine.hash);
  CHECK(describe_difference(mine, read).empty());

  sy::fingerprint reordered = mine;
  std::swap(reordered.parts[2], reordered.parts[3]);
  CHECK(describe_difference(mine, reordered) == mine.parts[2].name + " comes earlier here");
  CHECK_THROWS_WITH(sy::parse_fingerprint(to_string(mine) + "xyz"),
                    "[switchyard.301] line 6 of a fingerprint is not a hash and a name");
  CHECK_THROWS_WITH(sy::parse_fingerprint("0123456789abcdeg name\n"),
                    has_text("line 1 of a fingerprint is not a hash and a name"));
  CHECK(sy::parse_fingerprint("").parts.empty());
}

TEST_CASE("choices really made are compared for the problems that both hosts met") {
  const disk here;
  const disk there;
  put_stamps(here);
  put_stamps(there);
  sy::catalog mine{here.options()};
  sy::catalog other{there.options()};
  CHECK(mine.fingerprint_of_choices().parts.empty());
  {
    sy::dispatcher<stamp> on{mine, sy::device::host()};
    sy::dispatcher<stamp> twice{mine, sy::device::host()};
    sy::dispatcher<stamp> off{other, sy::device::host()};
    for (const std::int64_t seqlen : {16, 32}) {
      CHECK(run(on, {.seqlen = seqlen}) == 1);
      CHECK(run(twice, {.seqlen = seqlen}) == 1);
      CHECK(run(off, {.seqlen = 48 - seqlen}) == 1);  // in the other order
    }
    const sy::fingerprint chosen = mine.fingerprint_of_choices();
    REQUIRE(chosen.parts.size() == 2);  // each once
    CHECK(chosen.parts[0].name ==
          "choice of stamp {dtype=f32 head_dim=64 batch=1 seqlen=16} on " + sy::host::read_properties().name);
    CHECK(chosen.hash == other.fingerprint_of_choices().hash);

    // Another problem changes the hash; that one host has not met it is no difference.
    CHECK(run(off, {.seqlen = 64}) == 1);
    CHECK(chosen.hash != other.fingerprint_of_choices().hash);
    CHECK(describe_difference(chosen, other.fingerprint_of_choices()).empty());

    there.put_table("stamp", {stamp_group({row(1, 16, {{"one", 2.0}, {"two", 1.0}})})});
    other.reload();
    CHECK_THAT(describe_difference(chosen, other.fingerprint_of_choices()),
               has_text(chosen.parts[0].name + " differs: " + chosen.parts[0].hash + " here, "));

    // One text of both kinds: files first.
    const sy::operator_description& op = sy::describe<stamp>();
    const sy::device_properties& device = sy::host::read_properties();
    const std::string text = to_string(mine.fingerprint(op, device)) + to_string(chosen);
    const std::string other_text =
        to_string(other.fingerprint(op, device)) + to_string(other.fingerprint_of_choices());
    CHECK_THAT(describe_difference(sy::parse_fingerprint(text), sy::parse_fingerprint(other_text)),
               has_text("tables/stamp/here.json differs: "));
    CHECK(describe_difference(sy::parse_fingerprint(text), sy::parse_fingerprint(text)).empty());
  }
  CHECK(mine.fingerprint_of_choices().parts.empty());  // dispatchers are gone
}

TEST_CASE("limits of a catalog are in its fingerprint") {
  const disk here;
  put_stamps(here);
  sy::catalog_options limited = here.options();
  limited.limits.workspace_bytes = 1024;
  CHECK(describe_difference(fingerprint_of(limited), fingerprint_of(here.options())) ==
        "limits is only here");
  sy::catalog_options other = limited;
  other.limits.max_error = 0.5;
  CHECK_THAT(describe_difference(fingerprint_of(limited), fingerprint_of(other)),
             has_text("limits differs: "));
  sy::catalog_options close = other;
  close.limits.max_error = 0.5 + 1e-9;
  CHECK(fingerprint_of(other).hash != fingerprint_of(close).hash);
}
