// SPDX-License-Identifier: MIT
// --threshold, which means the same in every command: the share by which times may differ.
#pragma once

#include <string>

#include "command.hpp"

namespace tool {

void add_threshold(CLI::App& command, std::string& text, const std::string& description);

/// "5%" or "0.05" as a share. Throws usage_error.
[[nodiscard]] double require_threshold(const std::string& text);

}  // namespace tool
