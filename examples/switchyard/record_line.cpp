// SPDX-License-Identifier: MIT
#include "record_line.hpp"

#include <switchyard/base/text.hpp>
#include <switchyard/files/scan_json.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

[[nodiscard]] const nlohmann::ordered_json& member(const nlohmann::ordered_json& of, const char* name) {
  const auto found = of.find(name);
  if (found == of.end()) throw bad_line{"'" + std::string{name} + "' is missing"};
  return *found;
}

/// An axis' value as the operator spells it; throws bad_line for what the operator does not have.
void check_axis(const sy::operator_description& op, const std::string& name,
                const nlohmann::ordered_json& value) {
  try {
    const sy::axis_description& axis = op.axes[require_axis(op, name)];
    // A value without a name, such as a newer engine's enumerator, is recorded as a number.
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    static_cast<void>(require_value(axis, text));
  } catch (const usage_error& problem) {
    throw bad_line{problem.what()};
  }
}

/// The problem under the present names of its axes, so that lines of older engines add up with new ones.
[[nodiscard]] ordered_json with_current_names(const sy::operator_description& op,
                                              const ordered_json& problem) {
  ordered_json out = ordered_json::object();
  for (const auto& [axis, value] : problem.items()) {
    check_axis(op, axis, value);
    const std::string name{sy::current_name(op, axis)};
    if (out.contains(name)) {
      throw bad_line{"axis '" + name +
                     "' is given twice, by its name and a former one; remove one of the two"};
    }
    out[name] = value;
  }
  return out;
}

/// Names end up in tables and on terminals.
void check_name(const char* which, const std::string& name) {
  if (const std::string control = sy::text::find_control(name); !control.empty())
    throw bad_line{"'" + std::string{which} + "' has a control character, " + control};
}

}  // namespace

template <class Json>
Json parse_json_object(std::string_view text) {
  const sy::json_scan found = sy::scan_json(text);
  const bool readable = found.depth <= sy::max_json_depth && found.zero_byte == sy::json_scan::nowhere;
  Json out = readable ? Json::parse(text, nullptr, false) : Json{};
  if (!out.is_object()) throw bad_line{"is not a JSON object"};
  if (found.has_repeated_key)
    throw bad_line{sy::text::shortened(found.repeated_key, 100) + ": the key is repeated"};
  return out;
}
template nlohmann::json parse_json_object(std::string_view text);
template nlohmann::ordered_json parse_json_object(std::string_view text);

record_line parse_record_line(std::string_view text) {
  const auto document = parse_json_object<ordered_json>(text);
  const auto& name = member(document, "operator");
  auto problem = member(document, "problem");
  const auto& count = member(document, "count");
  if (!name.is_string()) throw bad_line{"'operator' is not a string"};
  if (!problem.is_object()) throw bad_line{"'problem' is not an object"};
  if (!count.is_number_unsigned() || count.get<std::uint64_t>() == 0) {
    throw bad_line{"'count' is not a positive integer"};
  }
  // An engine's own operators are not known here; the tuner that knows them checks theirs.
  if (const known_operator* known = find_operator(name.get<std::string>())) {
    problem = with_current_names(*known->description, problem);
    for (const sy::axis_description& axis : known->description->axes) {
      if (!problem.contains(std::string{axis.name})) {
        throw bad_line{"axis '" + std::string{axis.name} + "' of operator '" + name.get<std::string>() +
                       "' is missing: the recording engine used another version"};
      }
    }
  }
  const auto device = document.find("device");
  record_line out{
      {name.get<std::string>(),
       device != document.end() && device->is_string() ? device->get<std::string>() : std::string{},
       problem.dump(-1, ' ', false, ordered_json::error_handler_t::replace)},
      count.get<std::uint64_t>()};
  check_name("operator", out.problem.operator_name);
  check_name("device", out.problem.device);
  return out;
}

}  // namespace tool
