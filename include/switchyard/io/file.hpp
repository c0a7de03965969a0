// SPDX-License-Identifier: MIT
// Reads whole files as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Reads a whole file, or its first `most` bytes. Throws file_error: unreadable_file, or file_too_large
/// before anything is read.
[[nodiscard]] std::string read_file(const std::string& path, std::size_t limit, std::size_t most = SIZE_MAX);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/file_impl.hpp>
#endif
