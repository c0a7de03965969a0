// SPDX-License-Identifier: MIT
// Writes to pipes and files without the signals that end a process by default: SIGPIPE, if the pipe's reader
// has left, and SIGXFSZ, at the limit of the file size.
#pragma once

#include <cstddef>
#include <sys/types.h>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Like write(), with EPIPE and EFBIG as errors only: SIGPIPE and SIGXFSZ of this write are taken from the
/// calling thread. What the process does on these signals, and one that was pending before, stay as they are.
[[nodiscard]] ::ssize_t write_quietly(int file, const void* bytes, std::size_t count) noexcept;

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/io/write_quietly_impl.hpp>
#endif
