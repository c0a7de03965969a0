// SPDX-License-Identifier: MIT
// Where the kernels and tables of this installation are. `cmake --install` writes the folder here; in a
// source tree it is empty.
//
// It has internal linkage, because a library that was compiled before it was installed has another value.
// Only catalog_options and tool::main read it, where the program is compiled.
#pragma once

#include <string_view>

namespace switchyard {
inline namespace v0 {

constexpr std::string_view data_folder{};

}  // namespace v0
}  // namespace switchyard
