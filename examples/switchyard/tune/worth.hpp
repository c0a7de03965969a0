// SPDX-License-Identifier: MIT
// What measuring a problem is worth where a table is to be replaced: problems whose rows mislead come first,
// then those that have no row.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>

#include "command.hpp"
#include "tune/problems.hpp"

namespace tool {

/// In the order of measurement.
enum class worth : std::uint8_t {
  changed,  ///< a kernel that serves it is pending on the device (FOLDER/kernels.json), or its row has times
            ///< of another build, or does not compare all variants
  foreign,  ///< its row is of a table with runs of other programs, which time otherwise
  undecided,  ///< it has no row, and rows of its kind decide nothing
  between,    ///< it has no row, and rows of its kind decide
  measured,   ///< it has a good row
};

inline constexpr std::array all_worths{worth::changed, worth::foreign, worth::undecided, worth::between,
                                       worth::measured};

/// "kernels that changed".
[[nodiscard]] std::string_view to_string(worth of) noexcept;

/// The rows of a table, by type and sizes; whether each has times of kernels that were rebuilt since.
[[nodiscard]] std::map<std::string, bool> rows_of(const session& session,
                                                  const switchyard::operator_description& op,
                                                  const switchyard::table& table);

/// A problem's row in that list.
[[nodiscard]] std::string row_of(const switchyard::operator_description& op, const tuning_problem& problem);

/// The table of one operator and device that is to be replaced.
class replaced_table {
 public:
  /// Reads FOLDER/OPERATOR/DEVICE.json, if it exists. Throws switchyard::file_error.
  replaced_table(const session& session, const switchyard::operator_description& op,
                 const switchyard::device_properties& device, const std::string& folder);

  [[nodiscard]] worth worth_of(const known_operator& known, const tuning_problem& problem) const;

 private:
  void read_pending(const std::string& path, const std::string& device);

  const switchyard::operator_description& op_;
  switchyard::catalog catalog_;
  switchyard::catalog::contents files_;
  std::map<std::string, bool> rows_;  ///< whether each has times of rebuilt kernels
  bool is_foreign_ = false;
  std::shared_ptr<const switchyard::selector> rules_;  ///< of the installed kernels and this table alone
  std::vector<std::uint32_t> pending_;  ///< candidates of kernels whose rows are to be measured
};

}  // namespace tool
