// What is said of a pipe or file that can take nothing more, when write() fails for it.
#pragma once

#include <cerrno>
#include <string>

namespace switchyard {
inline namespace v0 {

/// Whether an error of write() lasts: the pipe has no reader, or the file has reached the size limit.
[[nodiscard]] inline bool is_closed_by(int error) noexcept {
  return error == EPIPE || error == EFBIG;
}

/// A line that warns of it. `variable` named the pipe or file; `effect` says what ends: "nothing more is
/// logged".
[[nodiscard]] inline std::string closed_warning(const char* variable, int error, const char* effect) {
  return std::string{"switchyard: warning: "} + variable +
         (error == EPIPE ? ": its pipe has no reader: " : ": its file has reached the size limit: ") +
         effect + '\n';
}

}  // namespace v0
}  // namespace switchyard
