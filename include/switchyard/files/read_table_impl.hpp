// SPDX-License-Identifier: MIT
// The bodies of read_table.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_axes.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_expression.hpp>
#include <switchyard/files/read_group.hpp>
#include <switchyard/files/read_measured_date.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/former_names.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD table table_reader::read_head(const json_place& file) {
  check_schema(file, "table");
  check_operator(file, op_);
  table out;
  out.path = file.path();
  out.operator_name = op_.name;
  read_device(file, out.device);
  if (file.has("other_devices")) out.other_devices = file.at("other_devices").boolean();
  out.measured_on = read_measured_date(file, *warned_);
  read_match(file, out.match);
  read_blobs(file, *warned_);
  each_entry(file, "deny", [&](const json_place& entry) { out.denials.push_back(read_denial(entry)); });
  each_entry(file, "pin", [&](const json_place& entry) { out.pins.push_back(read_pin(entry)); });
  return out;
}

SWITCHYARD_COLD void table_reader::read_blobs(const json_place& file, warnings& warned) {
  if (!file.has("blobs")) return;
  const auto blobs = file.at("blobs");
  for (const auto& [id, unused] : blobs.object()) {
    const auto entry = blobs.at(id.c_str());
    try {
      file_blobs_[id] = entry.string();
    } catch (const file_error& problem) {
      warned.add(problem.what());
    }
  }
}

SWITCHYARD_COLD void table_reader::add_group(const json_place& entry, std::size_t index, table& into,
                                             warnings& warned) {
  warned_ = &warned;
  try {
    group_reader reader{op_, *warned_, file_blobs_};
    into.groups.push_back(reader.read(entry));
    into.groups.back().source_group = static_cast<std::uint32_t>(index);
  } catch (const file_error& problem) {
    warned.add(problem.what());
  }
}

SWITCHYARD_COLD const std::string& table_reader::checked_text(const json_place& place) {
  place.check_text(place.string());
  return place.string();
}

SWITCHYARD_COLD void table_reader::read_device(const json_place& file, device_properties& device) {
  if (!file.has("device")) return;
  const auto place = file.at("device");
  for (const auto& [name, value] : place.object()) {
    const auto entry = place.at(name.c_str());
    if (name == "backend") {
      device.backend = checked_text(entry);
    } else if (name == "arch") {
      device.arch = checked_text(entry);
    } else if (name == "name") {
      device.name = checked_text(entry);
    } else if (value.is_number_integer()) {
      device.set(name, entry.integer());
    } else if (value.is_number_float() && entry.number() > 0 && entry.number() < 9e18) {
      device.set(name, static_cast<std::int64_t>(entry.number()));  // a bandwidth of 4.8e12
    }
  }
}

SWITCHYARD_COLD bool table_reader::is_name(std::string_view text) noexcept {
  return detail::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

SWITCHYARD_COLD axis_rule table_reader::read_rule(const json_place& entry) {
  if (entry.value().is_object()) {
    const bool is_log = entry.has("log");
    const auto unit = entry.at(is_log ? "log" : "linear");
    const axis_rule out{is_log ? axis_metric::log : axis_metric::linear, unit.number()};
    if (!(out.unit > 0)) unit.fail("the unit must be positive");
    return out;
  }
  if (entry.string() == "log") return {axis_metric::log, 1};
  if (entry.string() == "linear") return {axis_metric::linear, 1};
  if (entry.string() == "exact") return {axis_metric::exact, 1};
  if (entry.string() == "ignore") return {axis_metric::ignore, 1};
  entry.fail(
      "expected \"log\", \"linear\", \"exact\", \"ignore\", {\"log\": unit} or {\"linear\": unit}, got \"" +
      entry.string() + "\"");
}

SWITCHYARD_COLD match_feature table_reader::read_feature(const json_place& entry,
                                                         const std::string& text) const {
  match_feature out{with_current_names(op_, text), parse_at(entry, text, make_scope(op_)), read_rule(entry)};
  refuse_arguments(entry, text, op_, out.value);
  if (out.value.reads_attributes()) {
    entry.fail(error_code::invalid_expression,
               "'" + text + "' reads a device attribute; a quantity to match by reads axes alone");
  }
  return out;
}

SWITCHYARD_COLD void table_reader::read_match_of(const json_place& place, const std::string& name,
                                                 match_rule& rule) {
  const auto entry = place.at(name.c_str());
  if (is_name(name)) {
    rule.axes[read_axis_name(place, op_, name, axis_kind::size)] = read_rule(entry);
    return;
  }
  match_feature fresh = read_feature(entry, name);
  for (const match_feature& known : rule.features) {
    if (known.text == fresh.text)
      entry.fail("'" + fresh.text + "' is listed twice, once under a former name; remove one of the two");
  }
  rule.features.push_back(std::move(fresh));
}

SWITCHYARD_COLD void table_reader::read_match(const json_place& file, match_rule& rule) {
  rule.axes.assign(op_.axes.size(), axis_rule{});
  if (file.has("match")) {
    const auto place = file.at("match");
    check_given_once(place, op_);
    for (const auto& [name, unused] : place.object()) {
      try {
        read_match_of(place, name, rule);
      } catch (const file_error& refused) {
        // Groups whose rows go by an argument are left out, and no other group needs the rule.
        if (!argument_names{op_}.may_be_in(name)) throw;
        warned_->add(refused.what());
      }
    }
  }
  if (file.has("neighbours")) {
    const auto place = file.at("neighbours");
    const std::int64_t count = place.integer();
    if (count < 1 || count > 32) place.fail("expected 1 to 32, got " + std::to_string(count));
    rule.neighbours = static_cast<std::uint32_t>(count);
  }
  if (file.has("envelope")) {
    const auto place = file.at("envelope");
    rule.envelope = place.number();
    if (rule.envelope < 0) place.fail("must not be negative");
  }
}

SWITCHYARD_COLD std::string table_reader::read_reason(const json_place& place) {
  if (!place.has("reason")) return {};
  const auto reason = place.at("reason");
  return checked_text(reason);
}

SWITCHYARD_COLD denial table_reader::read_denial(const json_place& place) const {
  const auto id = place.at("variant");
  return {id.id(), read_reason(place), read_type(place, op_)};
}

SWITCHYARD_COLD pin table_reader::read_pin(const json_place& place) const {
  const auto id = place.at("variant");
  pin out{id.id(), read_reason(place), read_type(place, op_), {}};
  if (!place.has("at")) return out;
  const auto at = place.at("at");
  check_given_once(at, op_);
  for (const auto& [name, value] : at.object()) {
    if (find_condition(op_, name) < added_axes::no_room) {
      at.at(name.c_str())
          .fail(error_code::unknown_axis, "'" + name + "' is a condition on arguments; put it into 'type'");
    }
    const std::uint32_t axis = read_axis_name(at, op_, name, axis_kind::size);
    const auto entry = at.at(name.c_str());
    if (!value.is_array()) {
      const std::int64_t only = read_axis_value(entry, axis_at(op_, axis));
      out.at.push_back({axis, only, only});
      continue;
    }
    if (entry.array_size() != 2) entry.fail("expected a value or [first, last]");
    const auto first = entry.at(std::size_t{0});
    const auto last = entry.at(std::size_t{1});
    out.at.push_back({axis, first.integer(), last.integer()});
    if (out.at.back().first > out.at.back().last) entry.fail("the range ends before it begins");
  }
  return out;
}

}  // namespace detail

SWITCHYARD_COLD table parse_table(std::string_view text, const std::string& path,
                                  const operator_description& op, warnings& warned) {
  const json_document document{text, path};
  const json_place file{document.value(), path};
  detail::table_reader reader{op, warned};
  table out = reader.read_head(file);
  if (!file.has("groups")) return out;
  const auto list = file.at("groups");
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto entry = list.at(i);
    reader.add_group(entry, i, out, warned);
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
