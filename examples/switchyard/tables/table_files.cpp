// SPDX-License-Identifier: MIT
#include "tables/table_files.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_measurement.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/hardware/instruction_sets.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/problem/problem.hpp>

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

/// " avx2 fma": of a CPU, whose name does not tell them.
[[nodiscard]] std::string instruction_sets(const sy::device_properties& device) {
  std::string out;
  for (const std::string_view name : sy::detail::instruction_sets)
    if (device.attribute(name) > 0) out.append(" ").append(name);
  return out;
}

/// Tables that were written by hand may lack them.
[[nodiscard]] bool may_have_the_same_sets(const sy::device_properties& a, const sy::device_properties& b) {
  const std::string first = instruction_sets(a);
  const std::string second = instruction_sets(b);
  return first.empty() || second.empty() || first == second;
}

}  // namespace

table_file read_table_file(const std::string& path) {
  const std::string text = sy::read_file(path, sy::max_json_bytes);
  const nlohmann::json document = sy::parse_json(text, path);
  const sy::json_place file{document, path};
  sy::check_schema(file, "table");
  const auto name = file.at("operator");
  table_file out;
  out.known = &operator_of(name.string(), document);
  sy::warnings warned;
  out.content = sy::parse_table(text, path, out.op(), warned);
  for (const std::string& message : warned.messages)
    std::fprintf(stderr, "switchyard: %s\n", message.c_str());
  if (warned.left_out > 0) {
    std::fprintf(stderr, "switchyard: %s: and %zu more invalid entries\n", path.c_str(), warned.left_out);
  }
  out.measured = sy::read_measurements(document);
  return out;
}

void learn_operators(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const nlohmann::json document = sy::parse_json(sy::read_file(path, sy::max_json_bytes), path);
    if (!document.is_object() || !document.contains("operator") || !document["operator"].is_string())
      continue;
    static_cast<void>(operator_of(document["operator"].get<std::string>(), document));
  }
}

table_file read_measured_table(const std::string& path) {
  table_file out = read_table_file(path);
  const std::size_t without =
      std::erase_if(out.content.groups, [](const auto& group) { return !group.timed; });
  if (without > 0) {
    std::fprintf(stderr, "switchyard: %s: %zu groups list winners without times; they are left out\n",
                 path.c_str(), without);
  }
  return out;
}

std::vector<std::int64_t> problem_of_row(const sy::operator_description& op, const sy::row_group& group,
                                         std::size_t row) {
  std::vector<std::int64_t> out(op.axes.size());
  for (const sy::axis_value& value : group.type) out[value.axis] = value.value;
  for (std::size_t i = 0; i < group.axes.size(); ++i) out[group.axes[i]] = group.coordinates(row)[i];
  return out;
}

std::string format_row(const sy::operator_description& op, const sy::row_group& group, std::size_t row) {
  std::string out;
  const auto add = [&](std::uint32_t axis, std::int64_t value) {
    out += (out.empty() ? "" : " ") + std::string{op.axes[axis].name} + "=" +
           sy::format_value(op.axes[axis], value);
  };
  for (const sy::axis_value& value : group.type) add(value.axis, value.value);
  for (std::size_t i = 0; i < group.axes.size(); ++i) add(group.axes[i], group.coordinates(row)[i]);
  return out;
}

namespace {

/// The conditions that read nothing but what the group's rows say. Others hold for some calls of a row.
[[nodiscard]] std::vector<sy::condition> conditions_on_rows(const sy::variant& of,
                                                            const sy::row_group& group) {
  std::vector<sy::condition> out;
  for (const sy::condition& condition : of.conditions) {
    if (sy::is_decided_by(group.type, group.axes, condition.value)) out.push_back(condition);
  }
  return out;
}

}  // namespace

std::shared_ptr<const sy::manifest> named_variants(const std::vector<const table_file*>& tables,
                                                   const sy::selector& installed) {
  auto out = std::make_shared<sy::manifest>();
  const table_file& first = *tables.front();
  out->path = first.content.path;
  out->target = {first.content.device.backend, first.content.device.arch};
  // Tables may name very many.
  std::unordered_map<std::string_view, std::vector<const sy::variant*>> stated;
  for (const sy::candidate& candidate : installed.candidates)
    stated[candidate.variant->id].push_back(candidate.variant);
  std::unordered_set<std::string> known;
  const auto add = [&](const std::string& id, const sy::row_group& group) {
    if (!known.insert(id + "\n" + type_key(group.type)).second) return;
    sy::variant& variant = out->variants.emplace_back();
    variant.id = id;
    variant.type = group.type;
    const auto candidates = stated.find(id);
    if (candidates == stated.end()) return;
    for (const sy::variant* const other : candidates->second) {
      if (contradict(other->type, group.type)) continue;
      variant.cost = other->cost;
      variant.conditions = conditions_on_rows(*other, group);
      return;
    }
  };
  for (const table_file* table : tables) {
    for (const sy::row_group& group : table->content.groups) {
      for (const std::string& id : group.ids) add(id, group);
    }
  }
  return out;
}

std::shared_ptr<const sy::selector> installed_rules(sy::catalog& catalog, const sy::operator_description& op,
                                                    const sy::device_properties& device) {
  std::vector<std::string> ignored;
  const auto files = catalog.files(op);
  return sy::build_selector(
      {files.described != nullptr ? files.described : &op, device, files.manifests, {}, {}, {}}, ignored);
}

std::shared_ptr<const sy::selector> rules_of(const table_file& table,
                                             const std::shared_ptr<const sy::manifest>& variants) {
  std::vector<std::string> ignored;  // denials of variants that no row has
  return sy::build_selector({&table.op(),
                             table.content.device,
                             {variants},
                             {},
                             {std::make_shared<const sy::table>(table.content)},
                             {}},
                            ignored);
}

void erase_row(sy::row_group& rows, std::size_t row) {
  const auto axes = static_cast<std::ptrdiff_t>(rows.axes.size());
  const auto at = static_cast<std::ptrdiff_t>(row);
  rows.at.erase(rows.at.begin() + at * axes, rows.at.begin() + (at + 1) * axes);
  const std::uint32_t first = rows.first_time[row];
  const std::uint32_t count = rows.first_time[row + 1] - first;
  rows.times.erase(rows.times.begin() + first, rows.times.begin() + first + count);
  rows.first_time.erase(rows.first_time.begin() + at + 1);
  for (std::size_t i = row + 1; i < rows.first_time.size(); ++i) rows.first_time[i] -= count;
  rows.source_row.erase(rows.source_row.begin() + at);
  if (row < rows.uncertainty.size()) rows.uncertainty.erase(rows.uncertainty.begin() + at);
}

double time_of(const sy::row_group& group, std::size_t row, const std::string& id) {
  for (const sy::measured_time& time : group.row_times(row)) {
    if (group.ids[time.variant] == id) return static_cast<double>(time.microseconds);
  }
  return 0;
}

std::map<std::string, std::vector<std::string>> tables_of(const std::vector<std::string>& folders) {
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& folder : folders) {
    std::set<std::string> found;
    for (const fs::directory_entry& part : fs::directory_iterator{folder}) {
      if (!part.is_directory()) continue;
      for (const fs::directory_entry& file : fs::directory_iterator{part})
        if (file.path().extension() == ".json") found.insert(file.path().string());
    }
    for (const std::string& path : found) {
      const nlohmann::json document = sy::parse_json(sy::read_file(path, sy::max_json_bytes), path);
      const auto schema = document.is_object() ? document.find("schema") : document.end();
      // A version that cannot be read is refused, not left out.
      if (schema == document.end() || !schema->is_string() ||
          !schema->get_ref<const std::string&>().starts_with("switchyard.table/"))
        continue;
      const fs::path whole{path};
      std::string name = whole.stem().string();
      name.resize(std::min(name.size(), name.find(".shard-")));
      out[(whole.parent_path().filename() / (name + ".json")).string()].push_back(path);
    }
  }
  return out;
}

std::string full_name_of(const sy::device_properties& device) {
  if (device.name.empty()) {
    return "any " + device.backend + (device.backend.empty() ? "" : " ") + device.arch +
           (device.arch.empty() ? "" : " ") + "device";
  }
  const std::string sets = instruction_sets(device);
  return device.name + " (" + device.backend + " " + device.arch + ", " +
         std::to_string(device.attribute("multiprocessors")) + " multiprocessors" +
         (sets.empty() ? "" : "," + sets) + ")";
}

std::string other_device_text(const sy::device_properties& stated, const sy::device_properties& device) {
  if (stated.name.empty()) return {};
  if (stated.name != device.name) return "was measured on " + stated.name + ", and this is " + device.name;
  const std::int64_t multiprocessors = stated.attribute("multiprocessors");
  if ((stated.arch.empty() || stated.arch == device.arch) && may_have_the_same_sets(stated, device) &&
      (multiprocessors == 0 || multiprocessors == device.attribute("multiprocessors")))
    return {};
  return "was measured on " + full_name_of(stated) + ", and this is " + full_name_of(device);
}

std::string device_difference(const table_file& a, const table_file& b) {
  const sy::device_properties& first = a.content.device;
  const sy::device_properties& second = b.content.device;
  if (first.name == second.name && first.backend == second.backend && first.arch == second.arch &&
      first.attribute("multiprocessors") == second.attribute("multiprocessors") &&
      may_have_the_same_sets(first, second))
    return {};
  return a.content.path + " is of " + full_name_of(first) + ", " + b.content.path + " of " +
         full_name_of(second);
}

}  // namespace tool
