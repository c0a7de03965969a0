// SPDX-License-Identifier: MIT
// What the real selector chooses from tables and manifests, on the tables' own device.
//
//   choose QUERIES
//
// A line of QUERIES is {"table": path, "manifest": path} or {"problem": {axis: value}, "usable": [variant]}:
// problems are asked of the last table named. The answer to each is a line {"variant", "reason", "distance",
// "us"}.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
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

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: choose QUERIES\n");
    return 64;
  }
  std::ifstream in{argv[1]};
  std::string text;
  std::unique_ptr<tool::table_file> table;
  std::shared_ptr<const sy::selector> rules;
  while (std::getline(in, text)) {
    const json line = json::parse(text);
    if (line.contains("table")) {
      table = std::make_unique<tool::table_file>(tool::read_table_file(line.at("table").get<std::string>()));
      sy::warnings warned;
      std::vector<std::string> unknown;
      rules = sy::build_selector({&table->op(),
                                  table->content.device,
                                  {std::make_shared<const sy::manifest>(sy::read_manifest(
                                      line.at("manifest").get<std::string>(), table->op(), warned))},
                                  {},
                                  {std::make_shared<const sy::table>(table->content)},
                                  {}},
                                 unknown);
      unknown.insert(unknown.end(), warned.messages.begin(), warned.messages.end());
      for (const std::string& message : unknown) std::fprintf(stderr, "%s\n", message.c_str());
      if (!unknown.empty()) return 2;
      continue;
    }
    if (rules == nullptr) return 2;
    const sy::operator_description& op = table->op();
    std::vector<std::int64_t> problem(op.axes.size());
    for (const auto& [name, value] : line.at("problem").items()) {
      const std::uint32_t axis = tool::require_axis(op, name);
      problem[axis] =
          tool::require_value(op.axes[axis], value.is_string() ? value.get<std::string>() : value.dump());
    }
    for (const sy::implied_axis& implied : op.implied) {  // the data is older than some axes
      if (!line.at("problem").contains(implied.axis) && implied.like != sy::implied_axis::no)
        problem[tool::require_axis(op, implied.axis)] = problem[tool::require_axis(op, implied.like)];
    }
    const auto usable = line.at("usable").get<std::set<std::string>>();
    std::vector<std::atomic<bool>> unusable(rules->candidates.size());
    for (std::size_t i = 0; i < unusable.size(); ++i) {
      unusable[i] = !usable.contains(rules->candidates[i].variant->id);
    }
    const sy::choice chosen = rules->select(problem, std::span<const std::atomic<bool>>{unusable});
    const json answer{
        {"variant",
         chosen.variant == sy::no_index ? json{} : json(rules->candidates[chosen.variant].variant->id)},
        {"reason", sy::to_string(chosen.why)},
        {"distance", chosen.distance},
        {"us", chosen.microseconds}};
    std::printf("%s\n", answer.dump().c_str());
  }
  return 0;
}
