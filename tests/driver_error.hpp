// SPDX-License-Identifier: MIT
// What tests of drivers ask about errors.
#pragma once

#include <stdexcept>
#include <string>

#include <switchyard/devices/driver.hpp>

#include "catch.hpp"

namespace switchyard::test {

/// The driver_error that a call throws; its text is shown if the test fails.
template <class Function>
[[nodiscard]] driver_error error_of(Function&& function) {
  try {
    function();
  } catch (const driver_error& error) {
    UNSCOPED_INFO(error.what());
    return error;
  }
  throw std::runtime_error{"no driver_error was thrown"};
}

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace switchyard::test
