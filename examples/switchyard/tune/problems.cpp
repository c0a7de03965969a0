// SPDX-License-Identifier: MIT
#include "tune/problems.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/measuring/coverage.hpp>

#include "command.hpp"
#include "record_line.hpp"
#include "tune/problem_lists.hpp"

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

namespace {

constexpr std::size_t longest_recording = std::size_t{256} << 20U;

}  // namespace

[[nodiscard]] static std::vector<std::string> words_of(const tuning_problem& of,
                                                       const sy::operator_description& op) {
  std::vector<std::string> out;
  for (const auto& [axis, value] : of.axes)
    out.push_back(std::string{op.axes[axis].name} + "=" + sy::format_value(op.axes[axis], value));
  for (const auto& [name, value] : of.options) out.push_back(name + "=" + std::to_string(value));
  return out;
}

[[nodiscard]] static std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string tuning_problem::text(const sy::operator_description& op) const {
  std::vector<std::string> common = words_of(*this, op);
  std::vector<std::vector<std::string>> own;
  for (const tuning_problem& kind : kinds) {
    own.push_back(words_of(kind, op));
    std::erase_if(common, [&words = own.back()](const std::string& word) {
      return std::find(words.begin(), words.end(), word) == words.end();
    });
  }
  std::string out = joined(common);
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::erase_if(own[i], [&common](const std::string& word) {
      return std::find(common.begin(), common.end(), word) != common.end();
    });
    out += (i == 0 ? " with " : ", ") + (own[i].empty() ? std::string{"nothing else"} : joined(own[i]));
  }
  return out.empty() ? "the usual problem" : out;
}

tuning_problem make_problem(const sy::row_group& group, std::span<const std::int64_t> at) {
  tuning_problem out;
  out.type = group.type;
  for (const sy::axis_value& value : group.type) out.axes[value.axis] = value.value;
  for (std::size_t i = 0; i < at.size(); ++i) out.axes[group.axes[i]] = at[i];
  return out;
}

/// Adds the axes that a type implies, as reading a file does, so that the tuner's groups match its table.
void problem_list::complete(std::vector<sy::axis_value>& type) const {
  const auto value_of = [&type](std::uint32_t axis) {
    return std::find_if(type.begin(), type.end(), [axis](const auto& value) { return value.axis == axis; });
  };
  for (const sy::implied_axis& implied : op_.implied) {
    const std::uint32_t axis = sy::find_axis(op_, implied.axis);
    const auto like = value_of(sy::find_axis(op_, implied.like));
    if (value_of(axis) == type.end() && like != type.end()) type.push_back({axis, like->value});
  }
  std::sort(type.begin(), type.end(),
            [](const sy::axis_value& a, const sy::axis_value& b) { return a.axis < b.axis; });
}

void problem_list::add(tuning_problem problem) {
  complete(problem.type);
  for (const sy::axis_value& axis : problem.type) problem.axes.emplace(axis.axis, axis.value);
  std::string key = problem.text(op_) + " of";
  for (const sy::axis_value& of : problem.type) key += " " + std::to_string(of.axis);
  const auto [found, is_new] = known_.emplace(std::move(key), problems_.size());
  if (!is_new) {
    problems_[found->second].weight += problem.weight;
    return;
  }
  if (problems_.size() == max_problems) {
    throw usage_error{"more than " + std::to_string(max_problems) +
                      " problems; measure fewer, or use several tables"};
  }
  problems_.push_back(std::move(problem));
}

void problem_list::add_grid(const std::vector<std::string>& words) {
  add_grid(words, 1);
}

void problem_list::add_grid(const std::vector<std::string>& words, double weight) {
  std::vector<axis_values> grid;
  std::map<std::string, std::int64_t> options;
  std::size_t named = 0;  // axes whose values the rows' type has
  bool is_type = true;
  for (const std::string& word : words) {
    if (word == "with") {
      is_type = false;
      continue;
    }
    if (const std::size_t equals = word.rfind('=');
        !is_type && equals != std::string::npos &&
        sy::find_axis(op_, word.substr(0, equals)) == op_.axes.size()) {
      const std::string value = word.substr(equals + 1);
      options[word.substr(0, equals)] = value == "true"    ? 1
                                        : value == "false" ? 0
                                                           : require_integer(value, word);
      continue;
    }
    grid.push_back(parse_word(op_, word));
    named += is_type ? 1U : 0U;
    const auto same = std::count_if(
        grid.begin(), grid.end(), [&](const axis_values& values) { return values.axis == grid.back().axis; });
    if (same > 1) {
      throw usage_error{"axis '" + std::string{op_.axes[grid.back().axis].name} +
                        "' is given twice, the second time in '" + word + "'; list its values after one '='"};
    }
  }
  std::vector<std::size_t> digits(grid.size());
  for (;;) {
    tuning_problem problem;
    problem.weight = weight;
    problem.options = options;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      problem.axes[grid[i].axis] = grid[i].values[digits[i]];
      if (i < named && op_.axes[grid[i].axis].kind == sy::axis_kind::type)
        problem.type.push_back({grid[i].axis, grid[i].values[digits[i]]});
    }
    std::sort(problem.type.begin(), problem.type.end(),
              [](const sy::axis_value& a, const sy::axis_value& b) { return a.axis < b.axis; });
    add(std::move(problem));
    std::size_t i = 0;
    while (i < grid.size() && ++digits[i] == grid[i].values.size()) digits[i++] = 0;
    if (i == grid.size()) break;
  }
}

void problem_list::add_file(const std::string& path) {
  const std::string text = sy::read_file(path, longest_recording);
  if (is_list(text)) {
    add_list(text, path);
  } else {
    add_lines(text, path);
  }
}

void problem_list::add_list(std::string_view list, const std::string& path) {
  for_each_entry(list, path, [this](const std::vector<std::string>& words) {
    if (words.front() != op_.name) return;
    add_grid({words.begin() + 1, words.end() - 1}, number_of_calls(words.back()));
  });
}

void problem_list::add_lines(std::string_view recording, const std::string& path) {
  std::size_t bad = 0;
  std::string first_bad;
  for_each_line(recording, [&](std::size_t number, std::string_view unparsed) {
    const auto complain = [&](const std::string& why) {
      if (bad++ == 0) first_bad = "line " + std::to_string(number) + ": " + why;
    };
    json line;
    try {
      line = parse_json_object<json>(unparsed);
    } catch (const bad_line& wrong) {
      return complain(wrong.what());
    }
    const auto name = line.find("operator");
    const auto problem = line.find("problem");
    if (name == line.end() || !name->is_string() || problem == line.end() || !problem->is_object())
      return complain("'operator' or 'problem' is missing");
    if (name->get<std::string>() != op_.name) return;
    tuning_problem entry;
    if (const auto count = line.find("count"); count != line.end() && count->is_number())
      entry.weight = count->get<double>();
    if (!is_number_of_calls(entry.weight)) return complain("'count' must be above 0, and at most 1e20");
    try {
      for (const auto& [axis_name, value] : problem->items()) {
        const std::uint32_t axis = require_axis(op_, axis_name);
        const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        if (!entry.axes.emplace(axis, require_value(op_.axes[axis], text)).second) {
          return complain("axis '" + std::string{op_.axes[axis].name} +
                          "' is given twice, by its name and a former one; remove one of the two");
        }
        if (op_.axes[axis].kind == sy::axis_kind::type) entry.type.push_back({axis, entry.axes[axis]});
      }
    } catch (const usage_error& wrong) {
      return complain(wrong.what());
    }
    std::sort(entry.type.begin(), entry.type.end(),
              [](const sy::axis_value& a, const sy::axis_value& b) { return a.axis < b.axis; });
    add(std::move(entry));
  });
  if (bad > 0) {
    complaints_.push_back(path + ": " + std::to_string(bad) + " lines were skipped; " + first_bad);
  }
}

void problem_list::add_table(const sy::table& of) {
  add_table(of, [](const sy::row_group&, std::size_t) { return true; });
}

void problem_list::add_table(const sy::table& of,
                             const std::function<bool(const sy::row_group&, std::size_t)>& wanted) {
  for (const sy::row_group& group : of.groups) {
    std::vector<bool> accepted;
    for (std::size_t i = 0; i < group.ids.size(); ++i) accepted.push_back(wanted(group, i));
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      const auto times = group.row_times(row);
      if (std::none_of(times.begin(), times.end(), [&](const auto& time) { return accepted[time.variant]; }))
        continue;
      add(make_problem(group, group.coordinates(row)));
    }
  }
}

/// The row that a problem ends in; empty if its workload decides a size.
std::string problem_list::row_of(const tuning_problem& problem) const {
  std::string out = type_key(problem.type);
  for (std::uint32_t axis = 0; axis < op_.axes.size(); ++axis) {
    if (op_.axes[axis].kind != sy::axis_kind::size) continue;
    const auto found = problem.axes.find(axis);
    if (found == problem.axes.end()) return {};
    out += " " + std::to_string(found->second);
  }
  return out;
}

void problem_list::join_kinds() {
  std::map<std::string, std::size_t> rows;
  std::vector<tuning_problem> out;
  for (tuning_problem& problem : problems_) {
    const std::string row = row_of(problem);
    const auto [found, is_new] = rows.emplace(row, out.size());
    if (is_new || row.empty()) {
      out.push_back(std::move(problem));
      continue;
    }
    tuning_problem& first = out[found->second];
    if (first.kinds.empty()) first.kinds.push_back(first);
    first.weight += problem.weight;
    first.kinds.push_back(std::move(problem));
  }
  problems_ = std::move(out);
}

void problem_list::take_options(problem_list&& from) {
  from.join_kinds();
  std::map<std::string, tuning_problem*> rows;
  for (tuning_problem& problem : from.problems_) rows.emplace(row_of(problem), &problem);
  rows.erase(std::string{});
  for (tuning_problem& problem : problems_) {
    const auto found = rows.find(row_of(problem));
    if (found != rows.end()) problem = *found->second;
  }
}

void problem_list::finish() {
  join_kinds();
  std::map<std::vector<std::int64_t>, std::size_t> kinds;
  std::vector<sy::tune::coverage_point> points;
  for (const tuning_problem& problem : problems_) {
    sy::tune::coverage_point point;
    point.weight = problem.weight;
    std::vector<std::int64_t> kind;
    for (const auto& [axis, value] : problem.axes) {
      if (op_.axes[axis].kind == sy::axis_kind::type) {
        kind.insert(kind.end(), {static_cast<std::int64_t>(axis), value});
      } else {
        kind.push_back(-1 - static_cast<std::int64_t>(axis));
        point.at.push_back(std::log2(static_cast<double>(std::max<std::int64_t>(value, 1))));
      }
    }
    point.kind = kinds.emplace(std::move(kind), kinds.size()).first->second;
    points.push_back(std::move(point));
  }
  std::vector<tuning_problem> sorted;
  for (const std::size_t index : sy::tune::coverage_order(points)) sorted.push_back(problems_[index]);
  problems_ = std::move(sorted);
}

std::map<std::string, double> recorded_operators(const std::vector<std::string>& paths) {
  std::map<std::string, double> out;
  for (const std::string& path : paths) {
    const std::string text = sy::read_file(path, longest_recording);
    if (is_list(text)) {
      for_each_entry(text, path, [&out](const std::vector<std::string>& words) {
        out[words.front()] += number_of_calls(words.back());
      });
      continue;
    }
    for_each_line(text, [&out](std::size_t, std::string_view unparsed) {
      const json line = json::parse(unparsed, nullptr, false);
      if (!line.is_object() || !line.contains("operator") || !line["operator"].is_string()) return;
      const auto count = line.find("count");
      const double calls = count != line.end() && count->is_number() ? count->get<double>() : 1;
      out[line["operator"].get<std::string>()] += is_number_of_calls(calls) ? calls : 0;
    });
  }
  return out;
}

}  // namespace tool
