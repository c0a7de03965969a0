// SPDX-License-Identifier: MIT
// What the real selector chooses from tables and manifests, on the tables' own device.
//
//   choose QUERIES
//
// A line of QUERIES is {"table": path, "manifest": path} or {"problem": {axis: value}, "usable": [variant]}:
// problems are asked of the last table named. Without "usable" all variants may serve; with "without":
// [group, row], as the file counts them, the table lacks that row. The answer to each is a line {"variant",
// "reason", "distance", "us"}. It exits with 2 if a manifest has warnings, or if a problem with "usable" is
// asked of a table that names variants which the manifest lacks.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/problem/parse_value.hpp>

#include "operators.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
using nlohmann::json;

namespace {

/// The table and manifest that problems are asked of.
struct asked {
  tool::table_file table;
  std::shared_ptr<const sy::manifest> variants;

  [[nodiscard]] std::shared_ptr<const sy::selector> selector(const sy::table& rows,
                                                             std::vector<std::string>& unknown) const {
    return sy::build_selector(
        {&table.op(), rows.device, {variants}, {}, {std::make_shared<const sy::table>(rows)}, {}}, unknown);
  }
};

std::optional<asked> read_asked(const json& line) {
  tool::table_file table = tool::read_table_file(line.at("table").get<std::string>());
  sy::warnings warned;
  auto variants = std::make_shared<const sy::manifest>(
      sy::read_manifest(line.at("manifest").get<std::string>(), table.op(), warned));
  for (const std::string& message : warned.messages) std::fprintf(stderr, "%s\n", message.c_str());
  if (!warned.messages.empty()) return std::nullopt;
  return asked{std::move(table), std::move(variants)};
}

sy::table without_row(sy::table from, std::uint32_t group, std::uint32_t row) {
  for (sy::row_group& rows : from.groups) {
    if (rows.source_group != group) continue;
    const auto found = std::find(rows.source_row.begin(), rows.source_row.end(), row);
    if (found != rows.source_row.end())
      tool::erase_row(rows, static_cast<std::size_t>(found - rows.source_row.begin()));
  }
  return from;
}

std::vector<std::int64_t> problem_of(const sy::operator_description& op, const json& values) {
  std::vector<std::int64_t> problem(op.axes.size());
  for (const auto& [name, value] : values.items()) {
    const std::uint32_t axis = tool::require_axis(op, name);
    problem[axis] =
        tool::require_value(op.axes[axis], value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const sy::implied_axis& implied : op.implied) {  // the data is older than some axes
    if (!values.contains(implied.axis) && implied.like != sy::implied_axis::no)
      problem[tool::require_axis(op, implied.axis)] = problem[tool::require_axis(op, implied.like)];
  }
  return problem;
}

json answer_to(const json& line, const sy::operator_description& op, const sy::selector& rules) {
  std::vector<std::atomic<bool>> unusable(rules.candidates.size());
  if (line.contains("usable")) {
    const auto usable = line.at("usable").get<std::set<std::string>>();
    for (std::size_t i = 0; i < unusable.size(); ++i)
      unusable[i] = !usable.contains(rules.candidates[i].variant->id);
  }
  const sy::choice chosen =
      rules.select(problem_of(op, line.at("problem")), std::span<const std::atomic<bool>>{unusable});
  return {{"variant",
           chosen.variant == sy::no_index ? json{} : json(rules.candidates[chosen.variant].variant->id)},
          {"reason", sy::to_string(chosen.why)},
          {"distance", chosen.distance},
          {"us", chosen.microseconds}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: choose QUERIES\n");
    return 64;
  }
  std::ifstream in{argv[1]};
  std::string text;
  std::optional<asked> of;
  std::shared_ptr<const sy::selector> rules;
  std::vector<std::string> unknown;
  while (std::getline(in, text)) {
    const json line = json::parse(text);
    if (line.contains("table")) {
      of = read_asked(line);
      if (!of) return 2;
      unknown.clear();
      rules = of->selector(of->table.content, unknown);
      continue;
    }
    if (!of) return 2;
    if (line.contains("usable") && !unknown.empty()) {
      std::fprintf(stderr, "the manifest has no variant %s, which the table names\n",
                   unknown.front().c_str());
      return 2;
    }
    std::shared_ptr<const sy::selector> asked_of = rules;
    if (line.contains("without")) {
      const json& row = line.at("without");
      std::vector<std::string> same;
      asked_of = of->selector(without_row(of->table.content, row.at(0), row.at(1)), same);
    }
    std::printf("%s\n", answer_to(line, of->table.op(), *asked_of).dump().c_str());
  }
  return 0;
}
