// SPDX-License-Identifier: MIT
// Where files come from: what `publish` writes into each table and manifest under "release".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tool {

struct provenance {
  std::int64_t serial = 0;  ///< grows with each release of a store, whatever the clock says
  std::string commit;       ///< of the tree that the files lay in; empty: none
  bool is_clean = false;    ///< the tree had no change besides the commit
  std::string tool;         ///< "switchyard 0.1.0"
  std::string date;         ///< UTC, ISO 8601
};

/// For files in a folder, with the current time, or SOURCE_DATE_EPOCH if that is set. The serial is 0.
[[nodiscard]] provenance provenance_of(const std::filesystem::path& folder);

[[nodiscard]] nlohmann::ordered_json to_json(const provenance& from);

/// A JSON object's text with "release" added or replaced. The rest of the text is unchanged if "release"
/// comes first or is absent. Throws file_error malformed_json.
[[nodiscard]] std::string stamped(std::string_view text, const provenance& with, const std::string& path);

}  // namespace tool
