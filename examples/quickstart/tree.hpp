// SPDX-License-Identifier: MIT
// A tree of the installed kernels with tables of its own, and the writing of tables.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace quickstart {

namespace sy = switchyard;

/// kernels/ linked and tables/ empty, in a folder that goes away with the object.
class temporary_tree {
 public:
  temporary_tree(const std::vector<std::string>& roots, const std::vector<std::string>& operators) {
    namespace fs = std::filesystem;
    std::string name = (fs::temp_directory_path() / "switchyard-quickstart-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"cannot make a folder like " + name + ": " +
                               std::generic_category().message(errno)};
    }
    folder_ = name;
    fs::create_directories(folder_ / "kernels");
    fs::create_directories(folder_ / "tables");
    for (const std::string& op : operators) {
      for (const std::string& root : roots) {
        if (!fs::is_directory(fs::path{root} / "kernels" / op)) continue;
        fs::create_directory_symlink(fs::absolute(fs::path{root} / "kernels" / op), folder_ / "kernels" / op);
        fs::create_directories(folder_ / "tables" / op);
        break;
      }
      if (!fs::exists(folder_ / "kernels" / op)) {
        throw std::runtime_error{"no kernels of " + op +
                                 " were found. Build the target `kernels`, or name the folder that holds "
                                 "kernels/ in SWITCHYARD_PATH"};
      }
    }
  }
  temporary_tree(const temporary_tree&) = delete;
  temporary_tree& operator=(const temporary_tree&) = delete;
  ~temporary_tree() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

struct timed_variant {
  std::string variant;
  double microseconds = 0;
};

/// One measured problem.
struct measured_row {
  std::vector<std::int64_t> problem;
  timed_variant best;
};

/// A tuning table of these rows: one group for each combination of type values.
[[nodiscard]] inline nlohmann::ordered_json make_table(const sy::operator_description& op,
                                                       const sy::device_properties& device,
                                                       const std::vector<measured_row>& rows) {
  nlohmann::ordered_json out{{"schema", "switchyard.table/1"},
                             {"operator", std::string{op.name}},
                             {"device",
                              {{"backend", device.backend},
                               {"arch", device.arch},
                               {"name", device.name},
                               {"multiprocessors", device.attribute("multiprocessors")}}},
                             {"match", nlohmann::ordered_json::object()},
                             {"groups", nlohmann::ordered_json::array()}};
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const sy::axis_description& axis : op.axes) {
    if (axis.kind != sy::axis_kind::size) continue;
    out["match"][std::string{axis.name}] = "log";
    sizes.push_back(axis.name);
  }
  for (const measured_row& row : rows) {
    nlohmann::ordered_json type = nlohmann::ordered_json::object();
    nlohmann::ordered_json at = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      const sy::axis_description& axis = op.axes[i];
      if (axis.kind == sy::axis_kind::size) {
        at.push_back(row.problem[i]);
      } else if (axis.value_names.empty()) {
        type[std::string{axis.name}] = row.problem[i];
      } else {
        type[std::string{axis.name}] = sy::format_value(axis, row.problem[i]);
      }
    }
    nlohmann::ordered_json* group = nullptr;
    for (auto& entry : out["groups"]) {
      if (entry["type"] == type) group = &entry;
    }
    if (group == nullptr) {
      out["groups"].push_back({{"type", type}, {"axes", sizes}, {"rows", nlohmann::ordered_json::array()}});
      group = &out["groups"].back();
    }
    (*group)["rows"].push_back({{"at", at}, {"times_us", {{row.best.variant, row.best.microseconds}}}});
  }
  return out;
}

/// Puts a file in another's place in one step: who reads meanwhile sees the old one or the new one, whole.
inline void replace_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path fresh = path.string() + ".new";
  std::ofstream out{fresh, std::ios::binary};
  out << text;
  out.close();
  if (!out) throw std::runtime_error{fresh.string() + ": cannot be written"};
  std::filesystem::rename(fresh, path);
}

}  // namespace quickstart
