// SPDX-License-Identifier: MIT
// The problems to measure: from a grid on the command line, recordings of engines, or the rows of a table.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

#include "operators.hpp"

namespace tool {

struct tuning_problem {
  std::map<std::uint32_t, std::int64_t> axes;  ///< what is asked for, by axis; workloads decide the others
  std::vector<switchyard::axis_value> type;    ///< of the row's group, sorted by axis
  double weight = 1;                           ///< how often it is called

  /// "dtype=bf16 rows=64": what is asked for. Also what tells problems apart.
  [[nodiscard]] std::string text(const switchyard::operator_description& op) const;
};

/// The problems of one operator, each once, in the order in which they are best measured.
class problem_list {
 public:
  explicit problem_list(const switchyard::operator_description& op) : op_{op} {}

  /// Every combination of "axis=1,2,8..64*2,100..400+100" words. The rows' type is the type axes named.
  /// Throws usage_error.
  void add_grid(const std::vector<std::string>& words);

  /// The lines of a recording that are of this operator. The rows' type is all type axes. Lines that cannot
  /// be used are counted, and the first of them is described. Throws switchyard::file_error.
  void add_recording(const std::string& path);
  /// The same for its text; `path` names it in complaints.
  void add_lines(std::string_view recording, const std::string& path);

  /// The rows of a table, each of its group's type.
  void add_table(const switchyard::table& of);

  /// One problem; a second time, it weighs more.
  void add(tuning_problem each);

  /// Sorts; see switchyard::tune::coverage_order.
  void finish();

  [[nodiscard]] const std::vector<tuning_problem>& problems() const noexcept { return problems_; }
  [[nodiscard]] std::vector<tuning_problem>& problems() noexcept { return problems_; }
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

 private:
  const switchyard::operator_description& op_;
  std::vector<tuning_problem> problems_;
  std::map<std::string, std::size_t> known_;  // by text and type
  std::vector<std::string> complaints_;
};

/// The operators that recordings name, and how many calls of each. Throws switchyard::file_error.
[[nodiscard]] std::map<std::string, double> recorded_operators(const std::vector<std::string>& paths);

}  // namespace tool
