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
  std::vector<std::string> warned;
  const auto ranked = rank_tables(
      running, {measured_on(device_named("overlay", "sm_80", 90)), measured_on({}), measured_on(running)},
      {measured_on(device_named("older far", "sm_80", 10)),
       measured_on(device_named("older near", "sm_80", 90)),
       measured_on(device_named("sister far", "sm_90", 50)),
       measured_on(device_named("sister", "sm_90", 110)), measured_on(running),
       measured_on(device_named("other", "gfx942", 100, "hip")), measured_on({})},
      warned);
  std::vector<std::string> order;
  for (const ranked_table& each : ranked)
    order.push_back((each.overlay ? "+" : "") + each.source->device.name + " " +
                    std::string{to_string(each.rank)});
  CHECK(order == std::vector<std::string>{"+overlay same_backend", "+ this_device", "+here this_device",
                                          "here this_device", "sister same_arch", "sister far same_arch",
                                          "older near same_backend", "older far same_backend"});
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].starts_with("[switchyard.107] .json: /device/backend: is missing"));
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
  std::vector<std::string> warned;
  const auto ranked = rank_tables(running, {},
                                  {measured_on(device_named("four times", "sm_90", 400)),
                                   measured_on(device_named("a little larger", "sm_90", 110)),
                                   measured_on(device_named("a little smaller", "sm_90", 95))},
                                  warned);
  REQUIRE(ranked.size() == 3);
  CHECK(ranked[0].source->device.name == "a little smaller");
  CHECK(ranked[1].source->device.name == "a little larger");
  CHECK(ranked[2].source->device.name == "four times");
}
