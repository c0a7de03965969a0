// SPDX-License-Identifier: MIT
// The alphabet of byte-level BPE: a visible character for each byte.
#pragma once

#include <string>
#include <string_view>

namespace llm {

/// Appends the bytes that a text in the alphabet stands for. Returns false, and appends a part, where the
/// text has other characters.
[[nodiscard]] bool append_bytes(std::string_view text, std::string& bytes);

}  // namespace llm
