// SPDX-License-Identifier: MIT
// The bodies of closed_output.hpp.
#pragma once

#include <cerrno>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/io/closed_output.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD std::string closed_warning(const char* variable, int error, const char* effect) {
  return std::string{"switchyard: warning: "} + variable +
         (error == EPIPE ? ": its pipe has no reader: " : ": its file has reached the size limit: ") +
         effect + '\n';
}

}  // namespace v0
}  // namespace switchyard
