// SPDX-License-Identifier: MIT
#include "bench/shapes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/tune/tables/put_row.hpp>

#include "command.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// The integer nearest the geometric mean that is divisible by the power of two that divides both values:
/// kernels require that of many sizes. Empty if there is none between them.
[[nodiscard]] std::optional<std::int64_t> midpoint(std::int64_t a, std::int64_t b) {
  const auto [low, high] = std::minmax(a, b);
  if (low < 1 || high - low < 2) return std::nullopt;
  std::int64_t step = 1;
  while (low % (2 * step) == 0 && high % (2 * step) == 0 && 16 * step <= high - low) step *= 2;
  const double mean = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
  const auto out = static_cast<std::int64_t>(std::llround(mean / static_cast<double>(step))) * step;
  if (out <= low || out >= high) return std::nullopt;
  return out;
}

/// Shapes halfway between neighbouring rows that differ in one axis.
void add_midpoints(const sy::table& of, const sy::row_group& group, std::vector<tuning_problem>& out) {
  for (std::size_t along = 0; along < group.axes.size(); ++along) {
    const std::uint32_t axis = group.axes[along];
    if (axis < of.match.axes.size() && of.match.axes[axis].metric == sy::axis_metric::exact) continue;
    std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> lines;  // values by the other coordinates
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      const auto at = group.coordinates(row);
      std::vector<std::int64_t> others{at.begin(), at.end()};
      others[along] = 0;
      lines[std::move(others)].push_back(at[along]);
    }
    for (auto& [others, values] : lines) {
      std::sort(values.begin(), values.end());
      for (std::size_t i = 1; i < values.size(); ++i) {
        const auto between = midpoint(values[i - 1], values[i]);
        if (!between) continue;
        tuning_problem problem = make_problem(group, others);
        problem.axes[axis] = *between;
        out.push_back(std::move(problem));
      }
    }
  }
}

/// The first `most` of the wanted problems, in the order of coverage.
[[nodiscard]] std::vector<tuning_problem> taken(problem_list& list, const std::vector<axis_word>& filter,
                                                std::size_t most) {
  std::erase_if(list.problems(), [&](const tuning_problem& problem) {
    return std::any_of(filter.begin(), filter.end(), [&](const axis_word& wanted) {
      const auto found = problem.axes.find(wanted.axis);
      return found != problem.axes.end() && found->second != wanted.value;
    });
  });
  list.finish();
  std::vector<tuning_problem> out = std::move(list.problems());
  if (most > 0 && out.size() > most) out.resize(most);
  return out;
}

}  // namespace

std::vector<bench_shape> shapes_of(const table_file& table, const shape_wishes& wishes) {
  std::vector<axis_word> filter;
  for (const std::string& word : wishes.filter) filter.push_back(require_axis_word(table.op(), word));
  std::vector<bench_shape> out;
  problem_list rows{table.op()};
  rows.add_table(table.content);
  if (rows.problems().empty()) throw usage_error{table.content.path + " has no rows to measure"};
  for (tuning_problem& problem : taken(rows, filter, wishes.rows)) out.push_back({std::move(problem), false});
  if (out.empty()) {
    throw usage_error{table.content.path + " has no row with " + sy::text::join(wishes.filter) +
                      "; leave a filter out"};
  }
  if (!wishes.between) return out;
  std::vector<tuning_problem> middles;
  for (const sy::row_group& group : table.content.groups) add_midpoints(table.content, group, middles);
  problem_list between{table.op()};
  for (tuning_problem& problem : middles) between.add(std::move(problem));
  for (tuning_problem& problem : taken(between, filter, wishes.rows))
    out.push_back({std::move(problem), true});
  return out;
}

}  // namespace tool
