// SPDX-License-Identifier: MIT
// The bodies of check_parameters.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/check_parameters.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

[[nodiscard]] inline std::string format_slots(const std::vector<parameter>& parameters) {
  std::string out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out += ", ";
    out += parameters[i].text + " (" + std::to_string(parameters[i].bytes) + " bytes)";
  }
  return out;
}

}  // namespace detail

SWITCHYARD_COLD void check_parameters(const launch& of, const std::vector<parameter_slot>& found) {
  const auto fail = [&of](const std::string& problem) {
    throw driver_error{error_code::parameter_mismatch,
                       of.blob + ": kernel '" + of.kernel + "': " + problem +
                           ". The manifest does not belong to this blob: build both together"};
  };
  if (found.size() != of.parameters.size()) {
    fail("the manifest has " + std::to_string(of.parameters.size()) + " parameters, the kernel takes " +
         std::to_string(found.size()) + " (" + detail::format_slots(of.parameters) + ")");
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].bytes == of.parameters[i].bytes) continue;
    fail("parameter " + std::to_string(i) + ", " + of.parameters[i].text + ", has " +
         std::to_string(of.parameters[i].bytes) + " bytes in the manifest and " +
         std::to_string(found[i].bytes) + " in the kernel");
  }
}

}  // namespace v0
}  // namespace switchyard
