// SPDX-License-Identifier: MIT
// The outcome of selection, as data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace switchyard {
inline namespace v0 {

/// Why a variant was chosen.
enum class reason : std::uint8_t {
  exact,         ///< a row of this device's tables has this problem
  interpolated,  ///< predicted from rows within the table's envelope
  extrapolated,  ///< predicted from rows outside the envelope
  other_device,  ///< a row of, or a prediction from, a table measured on another device
  heuristic,     ///< no rows decide: the manifest's costs and order
  forced,        ///< SWITCHYARD_FORCE
  pinned,        ///< a table's pin
  none,          ///< no variant serves the problem
};

[[nodiscard]] constexpr std::string_view to_string(reason why) noexcept {
  constexpr std::array<std::string_view, 8> names{"exact",     "interpolated", "extrapolated", "other_device",
                                                  "heuristic", "forced",       "pinned",       "none"};
  return names[static_cast<std::size_t>(why)];
}

/// How far from the running device a table was measured.
enum class table_rank : std::uint8_t { this_device, same_arch, same_backend };

[[nodiscard]] constexpr std::string_view to_string(table_rank rank) noexcept {
  constexpr std::array<std::string_view, 3> names{"this_device", "same_arch", "same_backend"};
  return names[static_cast<std::size_t>(rank)];
}

inline constexpr std::uint32_t no_index = UINT32_MAX;

/// What selection decided, and why. Indices refer to the selector that decided.
struct choice {
  std::uint32_t variant = no_index;
  reason why = reason::none;
  table_rank rank = table_rank::this_device;
  bool stale = false;              ///< the variant's blobs changed since the row was measured
  std::uint32_t group = no_index;  ///< the rows that decided
  std::uint32_t row = no_index;    ///< the nearest of them
  std::uint32_t pin = no_index;
  float distance = 0;      ///< to the nearest row, in the table's metric; 0 for an exact row
  float microseconds = 0;  ///< measured or predicted; 0 when nothing is known
  float growth = 0;        ///< the variant's cost here over its cost at `row`; 0: the manifest says none
};

}  // namespace v0
}  // namespace switchyard
