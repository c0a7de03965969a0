// SPDX-License-Identifier: MIT
// An operator's description that is data, not a C++ type: read from a file that `switchyard describe` wrote,
// or learned from the manifests and tables of an operator that a program does not know.
//
// Learned axes are only added, so files that were read earlier keep theirs. Not synchronized.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

inline constexpr std::array<std::string_view, 13> value_kind_names{
    "pointer", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"};

class described_operator {
 public:
  explicit described_operator(std::string_view name) { out_.name = keep(name); }
  described_operator(const described_operator&) = delete;
  described_operator& operator=(const described_operator&) = delete;
  described_operator(described_operator&&) = delete;
  described_operator& operator=(described_operator&&) = delete;
  ~described_operator() = default;

  /// Stays where it is as long as this lives.
  [[nodiscard]] const operator_description& get() const noexcept { return out_; }
  /// Whether the arguments' types are known, not only their names.
  [[nodiscard]] bool knows_fields() const noexcept { return knows_fields_; }

  /// Reads what to_json() wrote. Throws file_error.
  void read(const json_place& file) {
    check_schema(file, "operator");
    const auto axes = file.at("axes");
    if (axes.array_size() > max_axes) {
      axes.fail("an operator has at most " + std::to_string(max_axes) + " axes, got " +
                std::to_string(axes.array_size()));
    }
    for (std::size_t i = 0; i < axes.array_size(); ++i) read_axis(axes.at(i));
    const auto arguments = file.at("arguments");
    for (std::size_t i = 0; i < arguments.array_size(); ++i) {
      const auto entry = arguments.at(i);
      const auto type = entry.at("type");
      const auto* const found = std::find(value_kind_names.begin(), value_kind_names.end(), type.string());
      if (found == value_kind_names.end()) type.fail("'" + type.string() + "' is no type of an argument");
      add_field(entry.at("name").string(), static_cast<value_kind>(found - value_kind_names.begin()));
    }
    if (file.has("formerly")) {
      const auto formerly = file.at("formerly");
      for (const auto& [former, unused] : formerly.object()) {
        formerly_.push_back({keep(former), keep(formerly.at(former.c_str()).string())});
      }
    }
    if (file.has("implied")) {
      const auto implied = file.at("implied");
      for (const auto& [axis, unused] : implied.object()) {
        implied_.push_back({keep(axis), keep(implied.at(axis.c_str()).string())});
      }
    }
    knows_fields_ = true;
    publish();
  }

  /// Learns the axes and arguments that a manifest or a table names.
  void learn(const nlohmann::json& file) {
    if (!file.is_object()) return;
    learn_types(file, 0);
    each_in(file, "groups", [this](const nlohmann::json& group) {
      each_in(group, "axes", [this](const nlohmann::json& axis) {
        if (axis.is_string()) add_size(axis.get_ref<const std::string&>());
      });
    });
    if (file.contains("match") && file["match"].is_object()) {
      for (const auto& [name, unused] : file["match"].items()) learn_names(name);
    }
    learn_local(file, 0);
    learn_launches(file, "", 0);
    publish();
  }

 private:
  static constexpr int deepest = 64;  // as read_json allows
  /// Arguments, and the values of all axes together, that are learnt at most: what the readers find no name
  /// for they refuse.
  static constexpr std::size_t max_names = 4096;

  struct axis_storage {
    std::string_view name;
    axis_kind kind = axis_kind::size;
    std::vector<std::string_view> values;
    bool is_flag = false;
  };

  [[nodiscard]] std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  template <class Visit>
  static void each_in(const nlohmann::json& owner, const char* key, const Visit& visit) {
    if (!owner.is_object() || !owner.contains(key) || !owner[key].is_array()) return;
    for (const nlohmann::json& element : owner[key]) visit(element);
  }

  void read_axis(const json_place& entry) {
    axis_storage& axis = find_or_add(entry.at("name").string());
    const auto kind = entry.at("kind");
    if (kind.string() != "type" && kind.string() != "size")
      kind.fail(R"(expected "type" or "size", got ")" + kind.string() + "\"");
    axis.kind = kind.string() == "type" ? axis_kind::type : axis_kind::size;
    axis.is_flag = entry.has("flag") && entry.at("flag").boolean();
    if (!entry.has("values")) return;
    const auto values = entry.at("values");
    for (std::size_t i = 0; i < values.array_size(); ++i) {
      axis.values.push_back(keep(values.at(i).string()));
      value_names_.emplace(axis.values.back());
    }
  }

  axis_storage& find_or_add(std::string_view name) {
    if (const auto known = axis_names_.find(name); known != axis_names_.end()) return axes_[known->second];
    axis_names_.emplace(std::string{name}, axes_.size());
    axis_storage& fresh = axes_.emplace_back();
    fresh.name = keep(name);
    return fresh;
  }

  void add_field(std::string_view name, value_kind kind) {
    if (fields_.size() == max_names || !field_names_.insert(std::string{name}).second) return;
    fields_.push_back({keep(name), kind, 0});
  }

  [[nodiscard]] bool has_axis(std::string_view name) const { return axis_names_.contains(name); }

  void add_size(const std::string& name) {
    if (has_axis(name) || name.empty()) return;
    if (axes_.size() < max_axes) {
      find_or_add(name);
    } else {
      add_field(name, value_kind::i64);
    }
  }

  /// Every `type` of a variant, a group, a denial or a pin, and what rows were `measured_with`.
  void learn_types(const nlohmann::json& at, int depth) {
    if (depth > deepest) return;
    if (at.is_object() && at.contains("type") && at["type"].is_object()) {
      for (const auto& [name, value] : at["type"].items()) learn_value(name, value);
    }
    if (at.is_object() && at.contains("measured_with") && at["measured_with"].is_object()) {
      for (const auto& [name, value] : at["measured_with"].items()) {
        if (!value.is_array()) learn_value(name, value);
        for (const nlohmann::json& element : value.is_array() ? value : nlohmann::json::array())
          learn_value(name, element);
      }
    }
    if (at.is_structured()) {
      for (const nlohmann::json& element : at) learn_types(element, depth + 1);
    }
  }

  void learn_value(const std::string& name, const nlohmann::json& value) {
    if (!has_axis(name) && axes_.size() >= max_axes) return;
    axis_storage& axis = find_or_add(name);
    axis.kind = axis_kind::type;
    const auto adopt = [&](const auto& names) {
      if (!axis.values.empty()) return;
      axis.values.assign(names.begin(), names.end());
      for (const std::string_view enumerator : names) value_names_.emplace(enumerator);
    };
    if (value.is_boolean()) {
      adopt(enumerator_names<bool>);
      axis.is_flag = true;
    }
    if (!value.is_string()) return;
    const auto& text = value.get_ref<const std::string&>();
    const auto& dtypes = enumerator_names<dtype>;
    if (std::find(dtypes.begin(), dtypes.end(), text) != dtypes.end()) adopt(dtypes);
    if (std::find(axis.values.begin(), axis.values.end(), text) == axis.values.end() &&
        value_names_.size() < max_names) {
      axis.values.push_back(keep(text));
      value_names_.insert(text);
    }
  }

  /// Names that are a variant's own: of its config and its workspace.
  void learn_local(const nlohmann::json& at, int depth) {
    if (depth > deepest) return;
    if (at.is_object()) {
      for (const char* const key : {"config", "workspace"}) {
        if (!at.contains(key) || !at[key].is_object()) continue;
        for (const auto& [name, unused] : at[key].items()) local_.insert(name);
      }
    }
    if (at.is_structured()) {
      for (const nlohmann::json& element : at) learn_local(element, depth + 1);
    }
  }

  /// Arguments and expressions, wherever a manifest has them. `key` is the member that holds `at`.
  void learn_launches(const nlohmann::json& at, std::string_view key, int depth) {
    constexpr std::array<std::string_view, 21> of_expressions{
        "requires", "cost", "workspace", "grid", "block",   "cluster", "shared_bytes",
        "i8",       "u8",   "i16",       "u16",  "i32",     "u32",     "i64",
        "u64",      "f16",  "bf16",      "f32",  "extents", "f64",     "strides"};
    if (depth > deepest) return;
    if (at.is_string()) {
      const auto& text = at.get_ref<const std::string&>();
      if (key == "parameters" || key == "struct") {
        if (!local_.contains(text)) add_field(text, value_kind::pointer);
      } else if (key == "of" || key == "pointer") {
        learn_names(text, true);
      } else if (std::find(of_expressions.begin(), of_expressions.end(), key) != of_expressions.end()) {
        learn_names(text);
      }
    } else if (at.is_array()) {
      for (const nlohmann::json& element : at) learn_launches(element, key, depth + 1);
    } else if (at.is_object()) {
      // Of a workspace, the keys are its buffers.
      for (const auto& [name, value] : at.items())
        learn_launches(value, key == "workspace" ? key : std::string_view{name}, depth + 1);
    }
  }

  /// The names of an expression that nothing else explains are axes, or arguments where it gives an address.
  void learn_names(std::string_view text, bool is_address = false) {
    if (text.size() > expression::max_text) return;  // the readers refuse it
    const auto begins_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const auto in_name = [&](char c) { return begins_name(c) || (c >= '0' && c <= '9'); };
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      while (end < text.size() && in_name(text[end])) ++end;
      if (end == begin) {
        ++begin;
        continue;
      }
      const std::string name{text.substr(begin, end - begin)};
      const std::size_t next = text.find_first_not_of(" \t", end);
      const bool is_call = next != std::string_view::npos && text[next] == '(';
      if (begins_name(name.front()) && !is_call && !explained(name)) {
        if (!is_address) {
          add_size(name);
        } else if (!has_axis(name)) {
          add_field(name, value_kind::pointer);
        }
      }
      begin = end;
    }
  }

  [[nodiscard]] bool explained(const std::string& name) const {
    constexpr std::array<std::string_view, 5> constants{"pi", "log2e", "ln2", "true", "false"};
    if (local_.contains(name) || find_attribute(name) != attribute_names.size()) return true;
    if (std::find(constants.begin(), constants.end(), name) != constants.end()) return true;
    return value_names_.contains(name);
  }

  void publish() {
    published_.clear();
    for (const axis_storage& stored : axes_) {
      // The readers tell a flag by its names.
      const std::span<const std::string_view> values =
          stored.is_flag ? std::span<const std::string_view>{enumerator_names<bool>} : stored.values;
      published_.push_back({stored.name, stored.kind, values, stored.is_flag});
    }
    out_.axes = published_;
    out_.fields = fields_;
    out_.formerly = formerly_;
    out_.implied = implied_;
  }

  std::deque<std::string> texts_;
  std::deque<axis_storage> axes_;
  std::vector<axis_description> published_;
  std::vector<field_description> fields_;
  std::vector<former_name> formerly_;
  std::vector<implied_axis> implied_;
  std::map<std::string, std::size_t, std::less<>> axis_names_;  // and each one's place
  std::set<std::string, std::less<>> field_names_;
  std::set<std::string, std::less<>> value_names_;  // of all axes
  std::set<std::string, std::less<>> local_;
  operator_description out_;
  bool knows_fields_ = false;
};

/// A description as JSON, for programs that do not have the C++ type.
[[nodiscard]] inline nlohmann::ordered_json to_json(const operator_description& op) {
  using nlohmann::ordered_json;
  ordered_json out{{"schema", "switchyard.operator/1"}, {"operator", op.name}};
  out["axes"] = ordered_json::array();
  for (const axis_description& described : op.axes) {
    ordered_json axis{{"name", described.name},
                      {"kind", described.kind == axis_kind::type ? "type" : "size"}};
    if (described.is_flag) axis["flag"] = true;
    if (!described.value_names.empty() && !described.is_flag)
      axis["values"] = std::vector<std::string>{described.value_names.begin(), described.value_names.end()};
    out["axes"].push_back(std::move(axis));
  }
  out["arguments"] = ordered_json::array();
  for (const field_description& described : op.fields) {
    ordered_json field{{"name", described.name}};
    field["type"] = value_kind_names[static_cast<std::size_t>(described.kind)];
    out["arguments"].push_back(std::move(field));
  }
  if (!op.formerly.empty()) {
    for (const former_name& renamed : op.formerly)
      out["formerly"][std::string{renamed.former}] = renamed.name;
  }
  for (const implied_axis& implied : op.implied) out["implied"][std::string{implied.axis}] = implied.like;
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
