// SPDX-License-Identifier: MIT
// Errors. Each has a number; README.md beside this header lists causes and cures.
//
// Reading, loading and planning throw error; choosing and launching on the hot path do not. A message says
// what was asked, what was found and what to do: "[switchyard.107] tables/rotary/a.json: /groups/2/rows/7/at:
// expected 4 integers, got 3". It is always one line, even if a path, a variable or a driver's text has line
// breaks.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Numbers are stable. The number of a removed code is not used again.
enum class error_code : int {
  // Files
  unreadable_file = 101,
  file_too_large = 102,
  malformed_json = 103,
  wrong_schema = 104,
  unsupported_schema_version = 105,
  unknown_operator = 106,
  invalid_entry = 107,
  unknown_axis = 108,
  duplicate_id = 109,
  unknown_variant = 110,
  invalid_expression = 111,
  path_escapes_folder = 112,
  refused_file = 113,

  // Devices and blobs
  driver_absent = 201,
  driver_too_old = 202,
  no_device = 203,
  unsupported_device = 204,
  blob_missing = 205,
  blob_hash_differs = 206,
  blob_not_loadable = 207,
  kernel_not_found = 208,
  parameter_mismatch = 209,
  out_of_memory = 210,
  launch_failed = 211,
  load_during_capture = 212,
  driver_failed = 213,

  // Calls
  invalid_argument = 301,
  no_variant = 302,
  nothing_forced = 303,
  invalid_environment = 304,
  evaluation_failed = 305,
  not_prepared = 306,
  check_failed = 307,
};

class error : public std::runtime_error {
 public:
  error(error_code code, const std::string& message);

  [[nodiscard]] error_code code() const noexcept { return code_; }

  /// The text without its number, for an error that replaces this one.
  [[nodiscard]] std::string_view message() const noexcept;

 private:
  error_code code_;
};

/// A manifest, a table or a folder is invalid.
class file_error : public error {
 public:
  /// `cause` is the errno of a system call that failed, 0 where none did.
  file_error(error_code code, const std::string& message, int cause = 0)
      : error{code, message}, cause_{cause} {}

  [[nodiscard]] int cause() const noexcept { return cause_; }

 private:
  int cause_;
};

/// What a failed load says about the variant that needed it.
enum class failure_kind : unsigned char {
  permanent,  ///< the blob, the manifest or this device: the variant is out of service until files change
  transient,  ///< memory, descriptors, a service that is not up yet: tried again later
  context,    ///< nothing can run in this context any more: no variant is at fault
};

/// A device, its driver or a blob failed.
class driver_error : public error {
 public:
  driver_error(error_code code, const std::string& message, failure_kind kind = failure_kind::permanent)
      : error{code, message}, kind_{kind} {}

  [[nodiscard]] failure_kind kind() const noexcept { return kind_; }

 private:
  failure_kind kind_;
};

/// A call is illegal, or no variant serves it.
class call_error : public error {
 public:
  using error::error;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/error_impl.hpp>
#endif
