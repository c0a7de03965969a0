// Which candidates a variant's id names, and the warning for an id that names none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Several candidates may have one id: of other types, or for other architectures.
class candidate_ids {
 public:
  candidate_ids(const candidate_set& set, const std::vector<std::shared_ptr<const manifest>>& manifests,
                std::vector<std::string>& warned)
      : set_{set}, manifests_{manifests}, warned_{warned} {
    for (std::uint32_t i = 0; i < set.candidates.size(); ++i)
      by_id_[set.candidates[i].variant->id].push_back(i);
  }

  /// Candidates with this id, best fit first; null if there is none.
  [[nodiscard]] const std::vector<std::uint32_t>* find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second;
  }

  /// Warns that an entry of a table names a variant that no manifest has.
  void warn_unknown(const std::string& table, const std::string& id, const char* entry) const {
    if (set_.candidates.empty()) return;
    for (const auto& each : manifests_) {
      for (const variant& variant : each->variants) {
        if (variant.id == id) return;  // of another target
      }
    }
    std::vector<std::string_view> known;
    for (const candidate& each : set_.candidates) known.emplace_back(each.variant->id);
    warned_.push_back("[switchyard." + std::to_string(static_cast<int>(error_code::unknown_variant)) + "] " +
                      table + ": " + entry + " names variant '" + id + "', which no manifest of operator '" +
                      std::string{set_.op->name} + "' has" + text::suggestion(id, known) +
                      "; it is not used. Install the kernels the table was made with, or tune again");
  }

 private:
  const candidate_set& set_;
  const std::vector<std::shared_ptr<const manifest>>& manifests_;
  std::vector<std::string>& warned_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_id_;
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
