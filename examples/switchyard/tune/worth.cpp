// SPDX-License-Identifier: MIT
#include "tune/worth.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_measurement.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/io/file.hpp>

#include "operators.hpp"
#include "tables/table_files.hpp"
#include "tune/rebuilt_kernels.hpp"
#include "tune/run.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

/// A row by its type and sizes; axes that files add have numbers of their own in each description.
[[nodiscard]] std::string row_name(const sy::operator_description& op,
                                   const std::vector<sy::axis_value>& type,
                                   const std::map<std::uint32_t, std::int64_t>& sizes) {
  std::set<std::string> words;
  for (const sy::axis_value& value : type)
    words.insert("type " + std::string{op.axes[value.axis].name} + "=" + std::to_string(value.value));
  for (const auto& [axis, value] : sizes) {
    if (op.axes[axis].kind == sy::axis_kind::size)
      words.insert(std::string{op.axes[axis].name} + "=" + std::to_string(value));
  }
  std::string out;
  for (const std::string& word : words) out += word + "\n";
  return out;
}

}  // namespace

std::string_view to_string(worth of) noexcept {
  switch (of) {
    case worth::changed:
      return "kernels that changed";
    case worth::foreign:
      return "rows of tables with runs of other programs";
    case worth::undecided:
      return "calls that no row decides";
    case worth::between:
      return "calls between rows";
    case worth::measured:
      break;
  }
  return "other rows";
}

std::map<std::string, bool> rows_of(const session& session, const sy::operator_description& op,
                                    const sy::table& table) {
  std::map<std::string, bool> out;
  const rebuilt_kernels rebuilt{session, op};
  for (const sy::row_group& group : table.groups) {
    std::vector<bool> changed;
    for (std::size_t i = 0; i < group.ids.size(); ++i) changed.push_back(rebuilt.has(group, i));
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      std::map<std::uint32_t, std::int64_t> sizes;
      for (std::size_t i = 0; i < group.axes.size(); ++i) sizes[group.axes[i]] = group.coordinates(row)[i];
      const auto times = group.row_times(row);
      bool& known = out[row_name(op, group.type, sizes)];
      known = known || std::any_of(times.begin(), times.end(),
                                   [&changed](const auto& time) { return changed[time.variant]; });
    }
  }
  return out;
}

std::string row_of(const sy::operator_description& op, const tuning_problem& problem) {
  return row_name(op, problem.type, problem.axes);
}

replaced_table::replaced_table(const session& session, const sy::operator_description& op,
                               const sy::device_properties& device, const std::string& folder)
    : op_{op}, catalog_{session.options()}, files_{catalog_.files(op)} {
  const std::string path = (fs::path{folder} / std::string{op.name} / table_name_of(device)).string();
  const sy::operator_description& described = files_.described != nullptr ? *files_.described : op;
  std::vector<std::shared_ptr<const sy::table>> tables;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    sy::warnings warned;
    const std::string text = sy::read_file(path, sy::max_json_bytes);
    auto table = std::make_shared<sy::table>(sy::parse_table(text, path, described, warned));
    for (const std::string& message : warned.messages)
      std::fprintf(stderr, "switchyard: %s\n", message.c_str());
    if (const std::string other = other_device_text(table->device, device); !other.empty())
      throw usage_error{"--replaces: " + path + " " + other + "; its rows are none of this device"};
    const std::vector<sy::measurement> runs = sy::read_measurements(sy::parse_json(text, path));
    is_foreign_ = runs.empty() || std::any_of(runs.begin(), runs.end(),
                                              [](const sy::measurement& run) { return run.tool.empty(); });
    rows_ = rows_of(session, described, *table);
    tables.push_back(std::move(table));
  }
  std::vector<std::string> not_installed;  // variants that the table names
  rules_ =
      sy::build_selector({&described, device, files_.manifests, {}, std::move(tables), {}}, not_installed);
  read_pending((fs::path{folder} / "kernels.json").string(), device.name);
}

/// Finds the candidates of kernels that are pending on this device. A kernel's name is OPERATOR/PREFIX of its
/// blobs' names; of several prefixes, the longest names the kernel.
void replaced_table::read_pending(const std::string& path, const std::string& device) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const nlohmann::json document = sy::parse_json(sy::read_file(path, sy::max_json_bytes), path);
  std::map<std::string, bool> kernels;  // whether each of the operator's is pending
  const std::string head = std::string{op_.name} + "/";
  const auto add = [&](const std::string& name, bool is_pending) {
    if (name.starts_with(head)) kernels[name.substr(head.size())] |= is_pending;
  };
  const sy::json_place file{document, path};
  static_cast<void>(file.object());
  if (const auto measured = file.find("measured")) {
    for (const auto& [name, digest] : measured->object()) add(name, false);
  }
  if (const auto pending = file.find("pending")) {
    for (std::size_t i = 0; i < pending->array_size(); ++i) {
      const auto entry = pending->at(i);
      const auto kernel = entry.at("kernel");
      const auto on = entry.find("device");
      add(kernel.string(), !on || on->string() == device);
    }
  }
  for (std::uint32_t i = 0; i < rules_->candidates.size(); ++i) {
    const auto& launches = rules_->candidates[i].variant->launches;
    const bool is_pending = std::any_of(launches.begin(), launches.end(), [&kernels](const auto& launch) {
      const std::string blob = fs::path{launch.blob}.filename().string();
      bool out = false;
      for (const auto& [prefix, of_this] : kernels) {  // sorted: a longer one comes later
        if (!launch.is_fill && blob.starts_with(prefix)) out = of_this;
      }
      return out;
    });
    if (is_pending) pending_.push_back(i);
  }
}

worth replaced_table::worth_of(const known_operator& known, const tuning_problem& problem) const {
  // What rows decide is known where the axes that the workload chooses have defaults.
  std::vector<std::int64_t> full(std::max(rules_->op->axes.size(), op_.axes.size()));
  std::vector<bool> given(full.size());
  for (const auto& [axis, value] : problem.axes) {
    if (axis >= op_.own_axes()) continue;
    full[axis] = value;
    given[axis] = true;
  }
  sy::reason why = sy::reason::exact;
  const bool is_whole = fill_defaults(known, full, given).empty();
  if (is_whole) why = sy::select_fitting(*rules_, full).why;
  const bool decides = why != sy::reason::heuristic && why != sy::reason::none;
  const bool is_pending = is_whole && std::any_of(pending_.begin(), pending_.end(), [&](std::uint32_t i) {
                            return rules_->admissible(i, full, {});
                          });
  if (is_pending) return worth::changed;
  const auto row = rows_.find(row_of(op_, problem));
  if (row == rows_.end()) return is_whole && decides ? worth::between : worth::undecided;
  if (row->second || !decides) return worth::changed;
  return is_foreign_ ? worth::foreign : worth::measured;
}

}  // namespace tool
