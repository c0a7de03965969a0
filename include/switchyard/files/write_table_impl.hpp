// SPDX-License-Identifier: MIT
// The bodies of write_table.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/hardware/instruction_sets.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD void table_writer::begin() {
  out_ = "{\n  \"schema\": \"switchyard.table/1\",\n  \"operator\": " + text::quote_json(op_.name) + ",\n";
  write_device();
}

SWITCHYARD_COLD std::string table_writer::write_denials_alone() {
  begin();
  write_match();
  write_denials();
  return std::move(out_) + "  \"groups\": []\n}\n";
}

SWITCHYARD_COLD std::string table_writer::write(std::span<const measurement> measured) {
  begin();
  write_measured(measured);
  write_match();
  write_denials();
  write_pins();
  out_ += "  \"groups\": [";
  std::vector<const row_group*> groups;
  for (const row_group& group : table_.groups) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const row_group* a, const row_group* b) {
    return std::lexicographical_compare(a->type.begin(), a->type.end(), b->type.begin(), b->type.end(),
                                        [](const axis_value& x, const axis_value& y) {
                                          return x.axis != y.axis ? x.axis < y.axis : x.value < y.value;
                                        });
  });
  for (std::size_t i = 0; i < groups.size(); ++i) {
    out_ += i > 0 ? ",\n    " : "\n    ";
    write_group(*groups[i]);
  }
  out_ += groups.empty() ? "]\n}\n" : "\n  ]\n}\n";
  return std::move(out_);
}

SWITCHYARD_COLD void table_writer::write_device() {
  const device_properties& device = table_.device;
  std::string members;
  const auto add = [&members](std::string_view name, const std::string& value) {
    members += (members.empty() ? "" : ", ") + text::quote_json(name) + ": " + value;
  };
  if (!device.backend.empty()) add("backend", text::quote_json(device.backend));
  if (!device.arch.empty()) add("arch", text::quote_json(device.arch));
  if (!device.name.empty()) add("name", text::quote_json(device.name));
  const auto add_attribute = [&](std::string_view name) {
    if (device.attribute(name) > 0) add(name, std::to_string(device.attribute(name)));
  };
  add_attribute("multiprocessors");
  add_attribute("memory_bandwidth");
  for (const std::string_view name : detail::instruction_sets) add_attribute(name);
  out_ += "  \"device\": {" + members + "},\n";
  if (!table_.other_devices) out_ += "  \"other_devices\": false,\n";
}

SWITCHYARD_COLD void table_writer::write_measured(std::span<const measurement> measured) {
  if (measured.empty()) return;
  const std::string last = format_members(measured[0]);
  out_ += "  \"measured\": {" + last;
  if (measured.size() > 1) out_ += std::string{last.empty() ? "" : ", "} + "\"before\": [\n    {";
  for (std::size_t i = 1; i < measured.size(); ++i)
    out_ += (i > 1 ? "},\n    {" : "") + format_members(measured[i]);
  out_ += measured.size() == 1 ? "},\n" : "}]},\n";
}

SWITCHYARD_COLD void table_writer::write_match() {
  out_ += "  \"match\": {";
  bool first = true;
  for (std::size_t i = 0; i < op_.axes.size(); ++i) {
    if (op_.axes[i].kind != axis_kind::size || i >= table_.match.axes.size()) continue;
    out_ += (first ? "" : ", ") + text::quote_json(op_.axes[i].name) + ": " + rule_of(table_.match.axes[i]);
    first = false;
  }
  for (const match_feature& feature : table_.match.features) {
    out_ += (first ? "" : ", ") + text::quote_json(feature.text) + ": " + rule_of(feature.rule);
    first = false;
  }
  out_ += "},\n  \"neighbours\": " + std::to_string(table_.match.neighbours) +
          ",\n  \"envelope\": " + decimal(table_.match.envelope) + ",\n";
}

SWITCHYARD_COLD std::string table_writer::rule_of(const axis_rule& rule) {
  switch (rule.metric) {
    case axis_metric::log:
      return rule.unit == 1 ? "\"log\"" : "{\"log\": " + decimal(rule.unit) + "}";
    case axis_metric::linear:
      return "{\"linear\": " + decimal(rule.unit) + "}";
    case axis_metric::exact:
      return "\"exact\"";
    case axis_metric::ignore:
      break;
  }
  return "\"ignore\"";
}

SWITCHYARD_COLD void table_writer::write_denials() {
  if (table_.denials.empty()) return;
  out_ += "  \"deny\": [";
  for (std::size_t i = 0; i < table_.denials.size(); ++i) {
    const denial& denied = table_.denials[i];
    out_ += (i > 0 ? ",\n    {" : "\n    {") + entry_of(denied.variant, denied.type) +
            ", \"reason\": " + text::quote_json(denied.reason) + "}";
  }
  out_ += "],\n";
}

SWITCHYARD_COLD void table_writer::write_pins() {
  if (table_.pins.empty()) return;
  out_ += "  \"pin\": [";
  for (std::size_t i = 0; i < table_.pins.size(); ++i) {
    const pin& pinned = table_.pins[i];
    out_ += (i > 0 ? ",\n    {" : "\n    {") + entry_of(pinned.variant, pinned.type);
    for (std::size_t j = 0; j < pinned.at.size(); ++j) {
      const axis_range& range = pinned.at[j];
      const axis_description& axis = op_.axes[range.axis];
      out_ += (j > 0 ? ", " : ", \"at\": {") + text::quote_json(axis.name) + ": ";
      if (range.first == range.last) {
        out_ += format_json_value(axis, range.first);
      } else {
        out_ += "[" + std::to_string(range.first) + ", " + std::to_string(range.last) + "]";
      }
    }
    out_ += (pinned.at.empty() ? "" : "}") + std::string{", \"reason\": "} + text::quote_json(pinned.reason) +
            "}";
  }
  out_ += "],\n";
}

SWITCHYARD_COLD std::string table_writer::entry_of(const std::string& variant,
                                                   const std::vector<axis_value>& type) const {
  const std::string out = "\"variant\": " + text::quote_json(variant);
  return type.empty() ? out : out + ", \"type\": " + type_of(type);
}

SWITCHYARD_COLD std::string table_writer::type_of(const std::vector<axis_value>& type) const {
  std::string out = "{";
  for (std::size_t i = 0; i < type.size(); ++i) {
    const axis_description& axis = op_.axes[type[i].axis];
    out += (i > 0 ? ", " : "") + text::quote_json(axis.name) + ": " + format_json_value(axis, type[i].value);
  }
  return out + "}";
}

SWITCHYARD_COLD void table_writer::write_group(const row_group& group) {
  out_ += "{\"type\": " + type_of(group.type) + ",\n     \"axes\": [";
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    out_ += (i > 0 ? ", " : "") + text::quote_json(op_.axes[group.axes[i]].name);
  }
  out_ += "],\n";
  write_measured_with(group);
  write_blobs(group);
  out_ += "     \"rows\": [";
  std::vector<std::size_t> order(group.row_count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&group](std::size_t a, std::size_t b) {
    const auto x = group.coordinates(a);
    const auto y = group.coordinates(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    out_ += i > 0 ? ",\n       {\"at\": [" : "\n       {\"at\": [";
    const auto at = group.coordinates(order[i]);
    for (std::size_t j = 0; j < at.size(); ++j) out_ += (j > 0 ? ", " : "") + std::to_string(at[j]);
    if (!group.timed) {
      write_winners(group, order[i]);
      continue;
    }
    out_ += "], \"times_us\": {";
    auto times =
        std::vector<measured_time>(group.row_times(order[i]).begin(), group.row_times(order[i]).end());
    std::sort(times.begin(), times.end(), [&group](const measured_time& a, const measured_time& b) {
      return group.ids[a.variant] < group.ids[b.variant];
    });
    for (std::size_t j = 0; j < times.size(); ++j) {
      out_ += (j > 0 ? ", " : "") + text::quote_json(group.ids[times[j].variant]) + ": " +
              decimal(static_cast<double>(times[j].microseconds));
    }
    out_ += "}";
    write_first(group, order[i]);
    if (const double share = group.row_uncertainty(order[i]); share > 0) {
      char text[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
      const int length = std::snprintf(text, sizeof text, "%.2g", share);
      out_ += ", \"uncertainty\": " + std::string{text, static_cast<std::size_t>(length)};
    }
    out_ += "}";
  }
  out_ += "]}";
}

SWITCHYARD_COLD void table_writer::write_winners(const row_group& group, std::size_t row) {
  out_ += "], \"winners\": [";
  const auto times = group.row_times(row);
  for (std::size_t i = 0; i < times.size(); ++i)
    out_ += (i > 0 ? ", " : "") + text::quote_json(group.ids[times[i].variant]);
  out_ += "]}";
}

SWITCHYARD_COLD void table_writer::write_measured_with(const row_group& group) {
  if (group.measured_with.empty()) return;
  out_ += "     \"measured_with\": {";
  for (std::size_t i = 0; i < group.measured_with.size(); ++i) {
    const auto& [axis, values] = group.measured_with[i];
    out_ += (i > 0 ? ", " : "") + text::quote_json(op_.axes[axis].name) + (values.size() > 1 ? ": [" : ": ");
    for (std::size_t v = 0; v < values.size(); ++v)
      out_ += (v > 0 ? ", " : "") + format_json_value(op_.axes[axis], values[v]);
    if (values.size() > 1) out_ += "]";
  }
  out_ += "},\n";
}

SWITCHYARD_COLD void table_writer::write_first(const row_group& group, std::size_t row) {
  const auto times = group.row_times(row);
  if (times.empty()) return;
  const auto slower = [](const measured_time& a, const measured_time& b) {
    return a.microseconds < b.microseconds;
  };
  const auto fastest = std::min_element(times.begin(), times.end(), slower);
  if (fastest->microseconds < times.front().microseconds)
    out_ += ", \"first\": " + text::quote_json(group.ids[times.front().variant]);
}

SWITCHYARD_COLD void table_writer::write_blobs(const row_group& group) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < group.ids.size() && i < group.blobs.size(); ++i) {
    if (!group.blobs[i].empty()) order.push_back(i);
  }
  if (order.empty()) return;
  std::sort(order.begin(), order.end(),
            [&group](std::size_t a, std::size_t b) { return group.ids[a] < group.ids[b]; });
  out_ += "     \"blobs\": {";
  for (std::size_t i = 0; i < order.size(); ++i) {
    out_ += (i > 0 ? ", " : "") + text::quote_json(group.ids[order[i]]) + ": " +
            text::quote_json(group.blobs[order[i]]);
  }
  out_ += "},\n";
}

SWITCHYARD_COLD std::string table_writer::format_json_value(const axis_description& axis,
                                                            std::int64_t value) {
  const std::string name = format_value(axis, value);
  const bool is_name = name != std::to_string(value);
  return is_name && name != "true" && name != "false" ? text::quote_json(name) : name;
}

SWITCHYARD_COLD std::string table_writer::decimal(double value) {
  char buffer[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  const int length = std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return {buffer, static_cast<std::size_t>(length)};
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
