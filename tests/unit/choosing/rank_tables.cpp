// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choosing/rank_tables.hpp>

using namespace switchyard;

namespace {

device_properties device_named(const char* name, const char* arch, std::int64_t multiprocessors,
                               const char* backend = "cuda") {
  device_properties out{backend, arch, name, {}};
  out.set("multiprocessors", multiprocessors);
  out.set("memory_bandwidth", 1000);
  return out;
}

std::shared_ptr<const table> measured_on(device_properties device) {
  auto out = std::make_shared<table>();
  out->path = device.name + ".json";
  out->device = std::move(device);
  return out;
}

}  // namespace

TEST_CASE("tables are ranked by device, then architecture, then backend, each nearest first") {
  const device_properties running = device_named("here", "sm_90", 100);
  const auto ranked = rank_tables(
      running, {measured_on(device_named("overlay", "sm_80", 90)), measured_on({}), measured_on(running)},
      {measured_on(device_named("older far", "sm_80", 10)),
       measured_on(device_named("older near", "sm_80", 90)),
       measured_on(device_named("sister far", "sm_90", 50)),
       measured_on(device_named("sister", "sm_90", 110)), measured_on({}), measured_on({"cuda", "", "", {}}),
       measured_on({"cuda", "sm_90", "", {}}), measured_on({"cuda", "sm_80", "", {}}),
       measured_on({"hip", "", "", {}}), measured_on(running),
       measured_on(device_named("other", "gfx942", 100, "hip"))});
  std::vector<std::string> order;
  for (const ranked_table& table : ranked) {
    const device_properties& device = table.source->device;
    order.push_back((table.overlay ? "+" : "") + device.backend + " " + device.arch + " " + device.name +
                    " " + std::string{to_string(table.rank)});
  }
  CHECK(order == std::vector<std::string>{"+cuda sm_80 overlay same_backend", "+   this_device",
                                          "+cuda sm_90 here this_device", "cuda sm_90 here this_device",
                                          "cuda sm_90  this_device", "cuda   this_device", "   this_device",
                                          "cuda sm_90 sister same_arch", "cuda sm_90 sister far same_arch",
                                          "cuda sm_80 older near same_backend", "cuda sm_80  same_backend",
                                          "cuda sm_80 older far same_backend"});
}

TEST_CASE("a table that is for its own device alone serves no other") {
  const auto own = [](device_properties device) {
    auto out = std::make_shared<table>();
    out->device = std::move(device);
    out->other_devices = false;
    return out;
  };
  const device_properties running = device_named("here", "sm_90", 100);
  const auto there = own(device_named("sister", "sm_90", 100));
  const auto older = own({"cuda", "sm_80", "", {}});
  const auto here = own(running);
  const auto any = own({"cuda", "", "", {}});
  const auto ranked = rank_tables(running, {there, here}, {older, any, there});
  REQUIRE(ranked.size() == 2);
  CHECK(ranked[0].source == here);
  CHECK(ranked[1].source == any);
}

TEST_CASE("a table of an AMD architecture serves devices with any of its features") {
  const device_properties running = device_named("here", "gfx942:sramecc+:xnack-", 100, "hip");
  CHECK(has_arch(running, device_named("there", "gfx942", 100, "hip")));
  CHECK(has_arch(running, device_named("there", "gfx942:xnack-", 100, "hip")));
  CHECK_FALSE(has_arch(running, device_named("there", "gfx942:xnack+", 100, "hip")));
  CHECK_FALSE(has_arch(running, device_named("there", "gfx90a", 100, "hip")));
}

TEST_CASE("devices are as far apart whichever of the two is the larger") {
  const device_properties running = device_named("here", "sm_90", 100);
  CHECK(device_distance(running, device_named("twice", "sm_90", 200)) == Approx(1));
  CHECK(device_distance(running, device_named("half", "sm_90", 50)) == Approx(1));
  CHECK(device_distance(running, running) == 0);
  device_properties silent = running;
  silent.set("multiprocessors", 0);
  CHECK(device_distance(running, silent) == 1);
  CHECK(device_distance(silent, running) == 1);
  const auto ranked = rank_tables(running, {},
                                  {measured_on(device_named("four times", "sm_90", 400)),
                                   measured_on(device_named("a little larger", "sm_90", 110)),
                                   measured_on(device_named("a little smaller", "sm_90", 95))});
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[0].source->device.name == "a little smaller");
  CHECK(ranked[1].source->device.name == "a little larger");
  CHECK(ranked[2].source->device.name == "four times");
}

TEST_CASE("tables of this very device keep their order, however their attributes differ") {
  // A table may state a bandwidth as it was measured: it is of this device all the same.
  const device_properties running = device_named("here", "sm_90", 100);
  const auto ranked = rank_tables(
      running, {},
      {measured_on(device_named("here", "sm_90", 50)), measured_on(device_named("here", "sm_90", 100)),
       measured_on(device_named("sister", "sm_90", 100))});
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[0].distance > 0);
  CHECK(ranked[1].distance == 0);
  CHECK(ranked[2].rank == table_rank::same_arch);
  CHECK_FALSE(ranked[0].overlay);
}

TEST_CASE("tables that are equally specific, or equally near, are ranked by date, then by the search path") {
  const device_properties running = device_named("here", "sm_90", 100);
  const auto dated = [](device_properties device, const char* path, const char* date) {
    auto out = std::make_shared<table>();
    out->path = path;
    out->device = std::move(device);
    out->measured_on = date;
    return out;
  };
  const device_properties sister = device_named("sister", "sm_90", 110);
  const auto ranked = rank_tables(
      running, {dated(running, "overlay 1", ""), dated(running, "overlay 2", "2026-11-25")},
      {dated(sister, "sister old", "2026-11-20"), dated({"cuda", "sm_90", "", {}}, "broad", "2026-11-25"),
       dated(running, "undated 1", ""), dated(running, "old 1", "2026-11-20"),
       dated(running, "undated 2", ""), dated(running, "new", "2026-11-22"),
       dated(running, "old 2", "2026-11-20"), dated(sister, "sister new", "2026-11-22"),
       dated(device_named("far sister", "sm_90", 10), "far", "2026-11-25")});
  std::vector<std::string> order;
  for (const ranked_table& table : ranked) order.push_back(table.source->path);
  CHECK(order == std::vector<std::string>{"overlay 1", "overlay 2", "new", "old 1", "old 2", "undated 1",
                                          "undated 2", "broad", "sister new", "sister old", "far"});
}

TEST_CASE(
    "an overlay of another backend does not count, and one of this backend counts wherever it is from") {
  const device_properties running = device_named("here", "sm_90", 100);
  const auto ranked = rank_tables(running,
                                  {measured_on(device_named("other", "gfx942", 100, "hip")),
                                   measured_on(device_named("older", "sm_80", 1))},
                                  {});
  REQUIRE(ranked.size() == 1);
  CHECK(ranked[0].source->device.name == "older");
  CHECK(ranked[0].rank == table_rank::same_backend);
}
