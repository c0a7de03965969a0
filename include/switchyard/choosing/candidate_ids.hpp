// Which candidates a variant's id names, and the warning for an id that names none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Several candidates may have one id: of other types, or for other architectures.
class candidate_ids {
 public:
  /// `is_installed` tells whether any manifest has a variant of an id, for whatever target and type.
  candidate_ids(const candidate_set& set, const std::function<bool(const std::string&)>& is_installed,
                std::vector<std::string>& warned)
      : set_{set}, is_installed_{is_installed}, warned_{warned} {
    for (std::uint32_t i = 0; i < set.candidates.size(); ++i)
      by_id_[set.candidates[i].variant->id].push_back(i);
  }

  /// Candidates with this id, best fit first; null if there is none.
  [[nodiscard]] const std::vector<std::uint32_t>* find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second;
  }

  /// Warns that an entry of a table names a variant that no manifest has. A table may name as many as fit
  /// into its file: the first ones get a line each, see count_unknown.
  void warn_unknown(const std::string& table, const std::string& id, const char* entry) {
    if (set_.candidates.empty() || is_installed_(id)) return;
    if (++unknown_[table] > most_unknown) return;
    std::vector<std::string_view> known;
    for (const candidate& each : set_.candidates) known.emplace_back(each.variant->id);
    warned_.push_back(prefix_of(table) + entry + " names variant '" + id +
                      "', which no manifest of operator '" + std::string{set_.op->name} + "' has" +
                      text::suggestion(id, known) +
                      "; it is not used. Install the kernels the table was made with, or tune again");
  }

  /// Warns how many further variants each table names that no manifest has.
  void count_unknown() const {
    for (const auto& [table, count] : unknown_) {
      if (count <= most_unknown) continue;
      warned_.push_back(prefix_of(table) + "names " + std::to_string(count - most_unknown) +
                        " more variants that no manifest of operator '" + std::string{set_.op->name} +
                        "' has");
    }
  }

 private:
  static constexpr std::size_t most_unknown = 2;  ///< ids of one table that are named one by one

  [[nodiscard]] static std::string prefix_of(const std::string& table) {
    return "[switchyard." + std::to_string(static_cast<int>(error_code::unknown_variant)) + "] " + table +
           ": ";
  }

  const candidate_set& set_;
  const std::function<bool(const std::string&)>& is_installed_;
  std::vector<std::string>& warned_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_id_;
  std::map<std::string, std::size_t> unknown_;  // by table, how many ids no manifest has
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
