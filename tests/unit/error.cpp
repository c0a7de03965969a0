// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <type_traits>

#include <switchyard/error.hpp>

using namespace switchyard;

TEST_CASE("an error's text begins with its number") {
  const file_error problem{error_code::malformed_json, "a.json: is cut off"};
  CHECK(std::string{problem.what()} == "[switchyard.103] a.json: is cut off");
  CHECK(problem.code() == error_code::malformed_json);
}

TEST_CASE("every kind of error can be caught as error and as runtime_error") {
  const auto code_of = [](auto thrower) {
    try {
      thrower();
    } catch (const error& caught) {
      return caught.code();
    }
    return error_code::unreadable_file;
  };
  CHECK(code_of([] { throw file_error{error_code::unknown_axis, ""}; }) == error_code::unknown_axis);
  CHECK(code_of([] { throw driver_error{error_code::no_device, ""}; }) == error_code::no_device);
  CHECK(code_of([] { throw call_error{error_code::no_variant, ""}; }) == error_code::no_variant);
  static_assert(std::is_base_of_v<std::runtime_error, error>);
}

TEST_CASE("the numbers of errors are those that the guide lists") {
  CHECK(static_cast<int>(error_code::unreadable_file) == 101);
  CHECK(static_cast<int>(error_code::path_escapes_folder) == 112);
  CHECK(static_cast<int>(error_code::refused_file) == 113);
  CHECK(static_cast<int>(error_code::driver_absent) == 201);
  CHECK(static_cast<int>(error_code::driver_failed) == 213);
  CHECK(static_cast<int>(error_code::invalid_argument) == 301);
  CHECK(static_cast<int>(error_code::evaluation_failed) == 305);
}

TEST_CASE("a message is one line, whatever is put into it") {
  const error problem{error_code::blob_not_loadable, "a path\n[switchyard.999] forged \x1b[2J"};
  CHECK(std::string{problem.what()} == "[switchyard.207] a path\\u000a[switchyard.999] forged \\u001b[2J");
  const error again{problem.code(), std::string{problem.message()}};
  CHECK(std::string{again.what()} == problem.what());
}
