// SPDX-License-Identifier: MIT
// Where the kernels and tables of this installation are. `cmake --install` writes the relative path from this
// header to that folder here, so that an installation can be moved; in a source tree it is empty.
//
// It has internal linkage, because a library compiled before its installation has another value. Only
// catalog_options and tool::main read it, in the program's own source files.
#pragma once

#include <string_view>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Empty where the compiler was given the headers by a relative path, or was told to write another one: the
/// program is started in other folders.
[[nodiscard]] constexpr std::string_view if_absolute(std::string_view path) noexcept {
  return path.starts_with('/') ? path : std::string_view{};
}

}  // namespace detail

constexpr std::string_view data_folder = detail::if_absolute("");

}  // namespace v0
}  // namespace switchyard
