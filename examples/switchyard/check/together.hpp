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

  /// Reports conditions that no problem of the variant's type can meet on the variant's target.
  void check_conditions(const switchyard::manifest& from);

  void check_condition(const switchyard::manifest& from, const switchyard::variant& variant,
                       const switchyard::condition& condition, const switchyard::scope& names,
                       folded_findings& never, folded_findings& faults);

  /// Reports variants that do what an earlier variant does for the same calls.
  void check_twins(const switchyard::manifest& from);

  /// Reports variants that only a table could choose, and none does. Between two that state their time, the
  /// shorter time decides.
  void check_hidden(const switchyard::manifest& from);

  /// Reports ids that no manifest has, in one line. If nothing is installed for the table's device, this is
  /// no fault of the table.
  void check_ids(const switchyard::table& from);

  /// The variants that an id of a group can refer to on the table's device.
  [[nodiscard]] std::vector<placed_variant> meant_by(const switchyard::table& from,
                                                     const switchyard::row_group& group,
                                                     const std::string& id) const;

  [[nodiscard]] static bool runs_on(const switchyard::device_properties& device,
                                    const switchyard::target& target);

  void check_stale(const switchyard::table& from);

  /// Reports times at sizes that the variant's conditions exclude, and grids that cannot be launched there.
  void check_rows(const switchyard::table& from);

  void check_times(const switchyard::table& from, std::size_t g, std::size_t id,
                   const switchyard::variant& variant, const switchyard::device_properties& device,
                   const std::vector<bool>& known, std::vector<std::int64_t>& problem);

  /// Reports types that variants serve on the table's device and that have no rows.
  void check_coverage(const switchyard::table& from);

  /// Whether a table, or one for every device, denies a variant for all of its calls.
  [[nodiscard]] bool is_denied(const switchyard::table& by, const switchyard::variant& variant) const;

  /// Reports types for which a table denies every variant: their calls are refused.
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
