// SPDX-License-Identifier: MIT
// Which candidates a variant's id names, and the warning for an id that names none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Several candidates may have one id: of other types, or for other architectures.
class candidate_ids {
 public:
  /// `is_installed` tells whether any manifest has a variant of an id, for whatever target and type.
  candidate_ids(const candidate_set& set, const std::function<bool(const std::string&)>& is_installed,
                std::vector<std::string>& warned);

  /// Candidates with this id, best fit first; null if there is none.
  [[nodiscard]] const std::vector<std::uint32_t>* find(const std::string& id) const;

  /// Warns that an entry of a table names a variant that no manifest has. A table may name as many as fit
  /// into its file: the first ones get a line each, see count_unknown.
  void warn_unknown(const std::string& table, const std::string& id, const char* entry);

  /// Warns how many further variants each table names that no manifest has.
  void count_unknown() const;

 private:
  static constexpr std::size_t max_unknown = 2;  ///< ids of one table that are named one by one

  [[nodiscard]] static std::string prefix_of(const std::string& table);

  const candidate_set& set_;
  const std::function<bool(const std::string&)>& is_installed_;
  std::vector<std::string>& warned_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_id_;
  std::map<std::string, std::size_t> unknown_;  // by table, how many ids no manifest has
};

}  // namespace detail
}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/candidate_ids_impl.hpp>
#endif
