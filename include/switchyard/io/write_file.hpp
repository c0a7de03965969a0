// SPDX-License-Identifier: MIT
// Replaces a file as a whole, for several writers at once and in folders that others may write: readers see
// the old content or the new one, never a part.
#pragma once

#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Replaces a file as a whole; its mode is kept, and a symbolic link is followed. Throws file_error
/// unreadable_file, leaving the old content and nothing else.
void write_file(const std::string& path, std::string_view text);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/write_file_impl.hpp>
#endif
