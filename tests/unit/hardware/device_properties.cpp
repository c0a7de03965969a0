// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <set>

#include <switchyard/hardware/device_properties.hpp>

using namespace switchyard;

TEST_CASE("attributes are set and read by name") {
  device_properties device;
  device.set("warp_size", 32);
  CHECK(device.attribute("warp_size") == 32);
  CHECK(device.attributes[find_attribute("warp_size")] == 32);
  CHECK(device.attribute("multiprocessors") == 0);
}

TEST_CASE("a name that is no attribute is 0 and changes nothing") {
  device_properties device;
  device.set("flux_capacitors", 3);
  CHECK(device.attribute("flux_capacitors") == 0);
  CHECK(device.attributes == attribute_values{});
  CHECK(find_attribute("flux_capacitors") == attribute_names.size());
}

TEST_CASE("no attribute is named twice") {
  CHECK(std::set<std::string_view>(attribute_names.begin(), attribute_names.end()).size() ==
        attribute_names.size());
}
