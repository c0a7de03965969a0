// SPDX-License-Identifier: MIT
// The bodies of error.hpp.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD error::error(error_code code, const std::string& message)
    : std::runtime_error{"[switchyard." + std::to_string(static_cast<int>(code)) + "] " +
                         text::printable(message)},
      code_{code} {}

SWITCHYARD_COLD std::string_view error::message() const noexcept {
  const std::string_view all = what();
  return all.substr(all.find("] ") + 2);
}

}  // namespace v0
}  // namespace switchyard
