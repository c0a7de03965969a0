// SPDX-License-Identifier: MIT
// What calls throw.
#pragma once

#include <stdexcept>
#include <string>

#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>

#include "catch.hpp"

namespace switchyard::test {

/// The Error that a call throws; its text is shown if the test fails.
template <class Error = driver_error, class Call>
[[nodiscard]] Error error_of(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    UNSCOPED_INFO(error.what());
    return error;
  }
  throw std::runtime_error{"no such error was thrown"};
}

/// The message of the Error that a call throws; empty where it throws none.
template <class Error, class Call>
[[nodiscard]] std::string refusal_by(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// The same, and checks the error's code.
template <class Error, class Call>
[[nodiscard]] std::string refusal_by(error_code expected, const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    CHECK(error.code() == expected);
    return error.what();
  }
  return {};
}

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace switchyard::test
