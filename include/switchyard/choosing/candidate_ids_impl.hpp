// SPDX-License-Identifier: MIT
// The bodies of candidate_ids.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/candidate_ids.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION candidate_ids::candidate_ids(const candidate_set& set,
                                                 const std::function<bool(const std::string&)>& is_installed,
                                                 std::vector<std::string>& warned)
    : set_{set}, is_installed_{is_installed}, warned_{warned} {
  for (std::uint32_t i = 0; i < set.candidates.size(); ++i)
    by_id_[set.candidates[i].variant->id].push_back(i);
}

SWITCHYARD_FUNCTION const std::vector<std::uint32_t>* candidate_ids::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

SWITCHYARD_COLD void candidate_ids::warn_unknown(const std::string& table, const std::string& id,
                                                 const char* entry) {
  if (set_.candidates.empty() || is_installed_(id)) return;
  if (++unknown_[table] > max_unknown) return;
  std::vector<std::string_view> known;
  for (const candidate& candidate : set_.candidates) known.emplace_back(candidate.variant->id);
  warned_.push_back(prefix_of(table) + entry + " names variant '" + id +
                    "', which no manifest of operator '" + std::string{set_.op->name} + "' has" +
                    text::suggestion(id, known) +
                    "; it is not used. Install the kernels the table was made with, or tune again");
}

SWITCHYARD_COLD void candidate_ids::count_unknown() const {
  for (const auto& [table, count] : unknown_) {
    if (count <= max_unknown) continue;
    warned_.push_back(prefix_of(table) + "names " + std::to_string(count - max_unknown) +
                      " more variants that no manifest of operator '" + std::string{set_.op->name} + "' has");
  }
}

SWITCHYARD_FUNCTION std::string candidate_ids::prefix_of(const std::string& table) {
  return "[switchyard." + std::to_string(static_cast<int>(error_code::unknown_variant)) + "] " + table + ": ";
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
