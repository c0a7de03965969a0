// Small pieces of message text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard::inline v0::text {

/// Edit distance (insertions, deletions, substitutions) of two names.
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = row[j] + 1;
      if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1;
      if (substituted < row[j]) row[j] = substituted;
    }
  }
  return row[b.size()];
}

/// "; did you mean 'x'?" for the known name nearest to a wrong one, or nothing when none is near.
template <class Names>
[[nodiscard]] std::string suggestion(std::string_view wrong, const Names& known) {
  std::string_view nearest;
  std::size_t best = wrong.size() / 3 + 1;
  for (const auto& name : known) {
    const std::size_t distance = edit_distance(wrong, name);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest.empty() ? std::string{} : "; did you mean '" + std::string{nearest} + "'?";
}

/// At most `limit` names, separated by commas, then how many were left out.
template <class Names>
[[nodiscard]] std::string join(const Names& names, std::size_t limit = 16) {
  std::string out;
  std::size_t count = 0;
  for (const auto& name : names) {
    if (count++ >= limit) continue;
    if (!out.empty()) out += ", ";
    out += name;
  }
  if (count > limit) out += ", and " + std::to_string(count - limit) + " more";
  return out;
}

/// A number with three significant digits or more: "0.0123", "41.2", "12345".
[[nodiscard]] inline std::string number(double value) {
  char buffer[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  const double magnitude = value < 0 ? -value : value;
  const char* format = magnitude >= 100 ? "%.0f" : magnitude >= 10 ? "%.1f" : "%.3g";
  const int length = __builtin_snprintf(buffer, sizeof buffer, format, value);
  return {buffer, static_cast<std::size_t>(length > 0 ? length : 0)};
}

/// A JSON string literal.
[[nodiscard]] inline std::string quote_json(std::string_view value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace switchyard::inline v0::text
