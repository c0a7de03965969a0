// SPDX-License-Identifier: MIT
// The message about a pipe or file that accepts no more output.
#pragma once

#include <cerrno>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether an error of write() lasts: the pipe has no reader, or the file has reached the size limit.
[[nodiscard]] inline bool is_closed_by(int error) noexcept {
  return error == EPIPE || error == EFBIG;
}

/// A line that warns of it. `variable` named the pipe or file; `effect` says what ends: "nothing more is
/// logged".
[[nodiscard]] std::string closed_warning(const char* variable, int error, const char* effect);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/closed_output_impl.hpp>
#endif
