// SPDX-License-Identifier: MIT
// What compare_live() found: two variants at one real call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <switchyard/files/table.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

enum class comparison_outcome : std::uint8_t {
  compared,  ///< both compute the same, within the bounds
  differs,   ///< they do not: `denied` is out of service
  unsteady,  ///< the winner differs from itself: the call's inputs changed meanwhile, nothing is concluded
  no_rival,  ///< no other variant serves the call
  not_possible,  ///< the results' memory is not known, is too large, or cannot be had; or the stream is
                 ///< captured
};

/// A variant that took part.
struct compared_variant {
  std::string id;
  std::string blobs;             ///< what identifies its blobs: see blob_fingerprint()
  std::vector<axis_value> type;  ///< that its manifest gives
  std::vector<double> times_us;  ///< taken in turns with the other's, in order
  double median_us = 0;
};

struct live_comparison {
  comparison_outcome outcome = comparison_outcome::not_possible;
  std::string text;                   ///< what was found, or why nothing was, in a sentence
  std::vector<std::int64_t> problem;  ///< all axis values
  std::vector<axis_value> row_type;   ///< of the table rows that speak for the problem
  std::optional<match_rule> match;    ///< of their table; empty: no rows do
  compared_variant winner;            ///< that serves the call
  compared_variant rival;
  bool is_canary = false;  ///< new tables chose the winner; the rival is what the others choose
  std::string denied;      ///< the variant that a third one, or else the winner, contradicts; empty: none

  /// How much longer the winner takes than the faster of both, as a share: 0.1 for 10 %.
  [[nodiscard]] double regret() const noexcept {
    return rival.median_us > 0 && winner.median_us > rival.median_us ? winner.median_us / rival.median_us - 1
                                                                     : 0;
  }
};

}  // namespace v0
}  // namespace switchyard
