// SPDX-License-Identifier: MIT
// One line of what SWITCHYARD_RECORD writes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tool {

/// A problem as it was recorded. The members are the order of the output, after the counts.
struct recorded {
  std::string operator_name;
  std::string device;
  std::string problem;  ///< its JSON object, as it stands in the line

  // clang-tidy 14 takes what is generated for comparisons with a plain 0.
  friend auto operator<=>(const recorded&, const recorded&) = default;  // NOLINT(modernize-use-nullptr)
};

/// A line of a recording.
struct record_line {
  recorded problem;
  std::uint64_t count = 0;
};

/// Why a line cannot be used.
class bad_line : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads a line of any bytes. Throws bad_line.
[[nodiscard]] record_line parse_record_line(std::string_view text);

/// Parses a line into either JSON type. Throws bad_line unless the line is exactly one JSON object.
template <class Json>
[[nodiscard]] Json parse_json_object(std::string_view text);
extern template nlohmann::json parse_json_object(std::string_view text);
extern template nlohmann::ordered_json parse_json_object(std::string_view text);

}  // namespace tool
