// SPDX-License-Identifier: MIT
// Copies and events of a driver over the fake CUDA driver.
#pragma once

#include <switchyard/devices/driver.hpp>

#include "catch.hpp"

inline void test_copies_and_events(switchyard::device_driver& driver) {
  const int before = 41;
  int after = 0;
  CHECK(driver.copy(&after, &before, sizeof after, nullptr) == 0);
  CHECK(driver.copy(nullptr, nullptr, 0, nullptr) == 0);
  CHECK(driver.synchronize(nullptr) == 0);
  CHECK(after == before);
  const auto first = driver.create_event();
  const auto second = driver.create_event();
  double microseconds = -1;
  CHECK(driver.record(first, nullptr) == 0);
  CHECK(driver.record(second, nullptr) == 0);
  CHECK(driver.elapsed(first, second, microseconds) == 0);
  CHECK(microseconds == 1000);  // the fake's clock ticks once a record
  CHECK(driver.record(second, nullptr) == 0);
  CHECK(driver.elapsed(first, second, microseconds) == 0);
  CHECK(microseconds == 2000);
  driver.destroy_event(first);
  driver.destroy_event(second);
  driver.destroy_event(nullptr);
}
