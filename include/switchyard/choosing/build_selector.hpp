// SPDX-License-Identifier: MIT
// Builds a selector: the variants that can run on a device, and the rows of the tables that speak about it.
//
// The selector shares ownership of the manifests and tables. Nothing is read from disk; entries that do not
// fit together become warnings.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidate_ids.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// What a selector is built from.
struct selector_sources {
  const operator_description* op = nullptr;
  device_properties device;
  std::vector<std::shared_ptr<const manifest>> manifests;  ///< in search order
  std::vector<std::shared_ptr<const table>> overlays;      ///< SWITCHYARD_TABLES: they win over all others
  std::vector<std::shared_ptr<const table>> tables;        ///< in search order
  std::string force;  ///< SWITCHYARD_FORCE's part for this operator; empty: none
  /// Whether any manifest has a variant of this id, where `manifests` hold only some; null: they hold all.
  std::function<bool(const std::string&)> is_installed = nullptr;
  choice_limits limits{};
};

namespace detail {

class selector_builder {
 public:
  selector_builder(const selector_sources& sources, std::vector<std::string>& warned);

  [[nodiscard]] std::shared_ptr<const selector> build();

 private:
  void add_candidates();

  [[nodiscard]] bool has_variant(const std::string& id);

  [[nodiscard]] candidate make_candidate(const variant& served, const manifest& from) const;

  void add_denials_and_pins(candidate_ids& ids, const std::vector<ranked_table>& ranked);

  void add_force(const candidate_ids& ids);

  [[nodiscard]] static std::vector<std::pair<std::string, std::string>> split_config(const std::string& text);

  const selector_sources& sources_;
  std::vector<std::string>& warned_;
  std::shared_ptr<selector> out_;
  std::unordered_set<std::string_view> installed_;  // ids of all manifests, once one is asked for
};

}  // namespace detail

/// Builds a selector. A variant that a table names and no manifest has becomes a warning.
[[nodiscard]] inline std::shared_ptr<const selector> build_selector(const selector_sources& sources,
                                                                    std::vector<std::string>& warned) {
  return detail::selector_builder{sources, warned}.build();
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/build_selector_impl.hpp>
#endif
