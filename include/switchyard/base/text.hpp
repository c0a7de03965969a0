// SPDX-License-Identifier: MIT
// Small pieces of message text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {
namespace text {

/// Edit distance (insertions, deletions, substitutions) of two names.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// "; did you mean 'x'?" for the known name nearest to a wrong one, or nothing when none is near.
template <class Names>
[[nodiscard]] std::string suggestion(std::string_view wrong, const Names& known) {
  if (wrong.size() > 64) return {};  // no name is as long, and the distance would take long to compute
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
[[nodiscard]] std::string number(double value);

/// Bytes of the UTF-8 character that a text begins with; 0 when it is none (RFC 3629).
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/// The first control character of a text as "U+000A", for a message; empty if there is none.
[[nodiscard]] std::string find_control(std::string_view text);

/// Text of any origin as one line that a terminal shows and does not obey: control characters become
/// "\u000a", bytes that are no UTF-8 "\x9b". What has none is returned as it is, and so is what was escaped
/// before.
[[nodiscard]] std::string printable(std::string text);

/// A part of a file, for a message: not longer than a message may be, cut between characters, and without
/// control characters, of which a zero would end the message.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

/// A JSON string literal. Bytes that are no UTF-8, as paths may have, become U+FFFD.
[[nodiscard]] std::string quote_json(std::string_view value);

}  // namespace text
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/base/text_impl.hpp>
#endif
