// SPDX-License-Identifier: MIT
// The checks of an operator's manifests against its tables: one object for one operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/target.hpp>

#include "check/findings.hpp"

namespace tool {

class together {
 public:
  together(const known_operator& known, const operator_files& files, report& out);

  void run();

 private:
  struct placed_variant {
    const switchyard::manifest* from;
    const switchyard::variant* variant;
  };

  /// Conditions that no problem of the variant's type can meet on the variant's own target.
  void check_conditions(const switchyard::manifest& from);

  void check_condition(const switchyard::manifest& from, const switchyard::variant& variant,
                       const switchyard::condition& condition, const switchyard::scope& names,
                       folded_findings& never, folded_findings& faults);

  /// Variants that do what an earlier one does for the same calls.
  void check_twins(const switchyard::manifest& from);

  /// Variants that only a table could choose, and no table does. Of two that state their time, the lesser
  /// decides.
  void check_hidden(const switchyard::manifest& from);

  /// Variants that no manifest has. Where nothing is installed for the table's device, that is no mistake of
  /// the table; one line tells it all either way.
  void check_ids(const switchyard::table& from);

  /// The variants that an id of a group can mean on the table's device.
  [[nodiscard]] std::vector<placed_variant> meant_by(const switchyard::table& from,
                                                     const switchyard::row_group& group,
                                                     const std::string& id) const;

  [[nodiscard]] static bool runs_on(const switchyard::device_properties& device,
                                    const switchyard::target& target);

  void check_stale(const switchyard::table& from);

  /// Times at sizes that the variant's own conditions exclude, and grids that cannot be launched there.
  void check_rows(const switchyard::table& from);

  void check_times(const switchyard::table& from, std::size_t g, std::size_t id,
                   const switchyard::variant& variant, const switchyard::device_properties& device,
                   const std::vector<bool>& known, std::vector<std::int64_t>& problem);

  /// Types that variants serve on the table's device, and that no group has rows for.
  void check_coverage(const switchyard::table& from);

  /// Whether a table, or one for every device, denies a variant for all of its calls.
  [[nodiscard]] bool is_denied(const switchyard::table& by, const switchyard::variant& variant) const;

  /// Types of which a table denies every variant: their calls are refused.
  void check_denials(const switchyard::table& from);

  [[nodiscard]] std::vector<std::vector<switchyard::axis_value>> types_on(
      const switchyard::device_properties& device) const;

  void check_untuned_targets();

  const switchyard::operator_description& op_;
  const operator_files& files_;
  report& out_;
  std::map<std::string, std::vector<placed_variant>> by_id_;
  std::set<std::string> measured_;
};

}  // namespace tool
