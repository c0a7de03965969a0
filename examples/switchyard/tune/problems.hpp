// SPDX-License-Identifier: MIT
// The problems to measure: from a grid on the command line, recordings of engines, or the rows of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

#include "operators.hpp"

namespace tool {

struct tuning_problem {
  std::map<std::uint32_t, std::int64_t> axes;   ///< what is asked for, by axis; workloads decide the others
  std::map<std::string, std::int64_t> options;  ///< what else its workload is asked for, by name
  std::vector<switchyard::axis_value> type;     ///< of the row's group, sorted by axis
  double weight = 1;                            ///< how often it is called

  /// All calls that end in one row, this one first, since no axis of the row tells them apart: their options
  /// differ, or axes that `type` lacks. Empty if there is one kind.
  std::vector<tuning_problem> kinds;

  /// The requested values, "dtype=bf16 rows=64", of all kinds. Identifies the problem.
  [[nodiscard]] std::string text(const switchyard::operator_description& op) const;
};

/// The problem at a group's coordinates.
[[nodiscard]] tuning_problem make_problem(const switchyard::row_group& group,
                                          std::span<const std::int64_t> at);

/// The problems of one operator, each once, in the order of measurement.
class problem_list {
 public:
  explicit problem_list(const switchyard::operator_description& op) : op_{op} {}

  /// Every combination of "axis=1,2,8..64*2,100..400+100" words. The type axes that are named form the rows'
  /// type. Axes behind the word "with" are requested, but are not part of the type; they may also be options
  /// of the workload that no axis holds: "window_left=1023". Throws usage_error.
  void add_grid(const std::vector<std::string>& words);

  /// The problems of this operator in a file: a recording, or a list if it does not begin with '{'. Throws
  /// switchyard::file_error, and usage_error for a list.
  void add_file(const std::string& path);
  /// The lines of a recording; `path` names it in complaints. The rows' type is all type axes. Lines that
  /// cannot be used are counted, and the first of them is described.
  void add_lines(std::string_view recording, const std::string& path);
  /// A list: lines of an operator and axes' values, as on a command line; '#' begins a comment. A line that
  /// ends with a colon and axes is followed by indented ones that give these axes' values:
  ///
  ///   attention_forward dtype=bf16 head_dim=128 : batch heads heads_kv seqlen_q seqlen_k
  ///     1,4 32 8 512..8192*2 4096
  ///
  /// `calls=100` says how often a problem is called. Throws usage_error.
  void add_list(std::string_view list, const std::string& path);

  /// The rows of a table, with their group's type.
  void add_table(const switchyard::table& of);
  /// The rows that have a time of a variant that `wanted(group, index of the variant in it)` accepts.
  void add_table(const switchyard::table& of,
                 const std::function<bool(const switchyard::row_group&, std::size_t)>& wanted);

  /// Adds a problem, or to the weight of one that is known.
  void add(tuning_problem problem);

  /// Replaces problems by those of another list that end in the same row, with their options and kinds.
  void take_options(problem_list&& from);

  /// Joins problems that end in one row, and sorts; see switchyard::tune::coverage_order.
  void finish();

  [[nodiscard]] const std::vector<tuning_problem>& problems() const noexcept { return problems_; }
  [[nodiscard]] std::vector<tuning_problem>& problems() noexcept { return problems_; }
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

 private:
  void add_grid(const std::vector<std::string>& words, double weight);
  void complete(std::vector<switchyard::axis_value>& type) const;
  void join_kinds();
  [[nodiscard]] std::string row_of(const tuning_problem& problem) const;

  const switchyard::operator_description& op_;
  std::vector<tuning_problem> problems_;
  std::map<std::string, std::size_t> known_;  // by text and type
  std::vector<std::string> complaints_;
};

/// The operators that recordings and lists name, and how many calls of each. Throws switchyard::file_error.
[[nodiscard]] std::map<std::string, double> recorded_operators(const std::vector<std::string>& paths);

}  // namespace tool
