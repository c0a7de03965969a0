// SPDX-License-Identifier: MIT
// Where the kernels and tables of this installation are. `cmake --install` puts the way from this header to
// the folder here, so that an installation can be moved; in a source tree it is empty.
//
// It has internal linkage, because a library that was compiled before it was installed has another value.
// Only catalog_options and tool::main read it, where the program is compiled.
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
