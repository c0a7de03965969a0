// SPDX-License-Identifier: MIT
#include "operators.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/operators/built_in.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tool/described_operator.hpp>

#include "command.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// An operator that a program describes.
[[nodiscard]] known_operator know(const sy::operator_description& description) {
  known_operator out{&description, {description.axis_defaults.begin(), description.axis_defaults.end()}};
  // Pointers as allocators return them, and rows without gaps. An operator without such an axis ignores the
  // entry.
  for (const sy::axis_default axis :
       {sy::axis_default{"alignment", "16"}, {"dense", "true"}, {"gamma_dtype", "=dtype"}}) {
    out.defaults.push_back(axis);
  }
  return out;
}

/// An operator that files describe.
struct filed_operator {
  sy::tool::described_operator description;
  known_operator known;

  std::unique_ptr<sy::added_axes> arguments;  // once the types of arguments are known

  explicit filed_operator(const std::string& name)
      : description{name}, known{&description.get(), {}, true, false} {}
};

[[nodiscard]] std::vector<known_operator>& all_operators() {
  static std::vector<known_operator> all = [] {
    std::vector<known_operator> out;
    sy::operators::built_in::for_each([&out]<class Operator>() {
      static sy::added_axes arguments{sy::describe<Operator>()};
      out.push_back(know(arguments.live()));
    });
    return out;
  }();
  return all;
}

/// Operators that files describe, for the life of the program.
[[nodiscard]] std::map<std::string, std::unique_ptr<filed_operator>, std::less<>>& filed_operators() {
  static std::map<std::string, std::unique_ptr<filed_operator>, std::less<>> all;
  return all;
}

void add(known_operator fresh) {
  auto& all = all_operators();
  std::erase_if(all, [&fresh](const known_operator& known) {
    return known.description->name == fresh.description->name;
  });
  const auto at = std::find_if(all.begin(), all.end(), [&fresh](const known_operator& known) {
    return known.description->name > fresh.description->name;
  });
  all.insert(at, std::move(fresh));
}

}  // namespace

const std::vector<known_operator>& known_operators() {
  return all_operators();
}

void add_operators(std::span<const sy::tool::own_operator> own) {
  static std::vector<std::unique_ptr<sy::added_axes>> arguments;
  for (const sy::tool::own_operator& added : own) {
    arguments.push_back(std::make_unique<sy::added_axes>(*added.description));
    add(know(arguments.back()->live()));
  }
}

void add_described(const std::string& path) {
  const nlohmann::json document = sy::parse_json(sy::read_file(path, sy::max_json_bytes), path);
  const sy::json_place file{document, path};
  const auto name = file.at("operator");
  auto& kept = filed_operators()[name.string()];
  kept = std::make_unique<filed_operator>(name.string());
  kept->description.read(file);
  kept->known.is_learned = false;
  kept->known.knows_arguments = true;
  kept->arguments = std::make_unique<sy::added_axes>(kept->description.get());
  kept->known.description = &kept->arguments->live();
  add(kept->known);
}

const known_operator* find_operator(std::string_view name) {
  for (const known_operator& known : known_operators()) {
    if (known.description->name == name) return &known;
  }
  return nullptr;
}

const known_operator& operator_of(const std::string& name, const nlohmann::json& file) {
  if (const known_operator* const known = find_operator(name)) return *known;
  auto& found = filed_operators()[name];
  if (found == nullptr) found = std::make_unique<filed_operator>(name);
  found->description.learn(file);
  return found->known;
}

const known_operator* learn_installed(const std::vector<std::string>& roots, const std::string& name) {
  const sy::search_path path{roots, {}};
  const known_operator* out = nullptr;
  for (const sy::file_listing& list : {sy::list_manifests(path, name), sy::list_tables(path, name)}) {
    for (const std::string& file : list.files) {
      try {
        const nlohmann::json document = sy::parse_json(sy::read_file(file, sy::max_json_bytes), file);
        if (document.is_object() && document.value("operator", nlohmann::json{}) == name)
          out = &operator_of(name, document);
      } catch (const sy::file_error&) {  // the catalog warns of it
      }
    }
  }
  return out;
}

const known_operator& require_operator(std::string_view name, const std::vector<std::string>& roots) {
  if (const known_operator* const known = find_operator(name)) return *known;
  if (const known_operator* const learned = learn_installed(roots, std::string{name})) return *learned;
  return require_operator(name);
}

std::string unknown_operator_text(std::string_view name) {
  std::vector<std::string_view> names;
  for (const known_operator& known : known_operators()) names.push_back(known.description->name);
  return "operator '" + std::string{name} + "' is not known to this program" +
         sy::text::suggestion(name, names) + " (it knows " + sy::text::join(names) + ")";
}

const known_operator& require_operator(std::string_view name) {
  if (const known_operator* found = find_operator(name)) return *found;
  throw usage_error{unknown_operator_text(name)};
}

std::uint32_t require_axis(const sy::operator_description& op, std::string_view name) {
  const std::uint32_t axis = sy::find_axis(op, name);
  if (axis < op.axes.size()) return axis;
  if (const std::uint32_t added = sy::detail::find_condition(op, name); added < op.axes.size()) return added;
  std::vector<std::string_view> names;
  for (const sy::axis_description& described : op.axes) names.push_back(described.name);
  throw usage_error{"operator '" + std::string{op.name} + "' has no axis '" + std::string{name} + "'" +
                    sy::text::suggestion(name, names) + " (it has " + sy::text::join(names, sy::max_axes) +
                    ")"};
}

std::int64_t require_value(const sy::axis_description& axis, std::string_view text) {
  const auto value = sy::parse_value(axis, text);
  const bool named = !axis.value_names.empty();
  if (value && *value < 0 && !named && axis.kind == sy::axis_kind::size) {
    throw usage_error{"axis '" + std::string{axis.name} + "' has no value " + std::to_string(*value) +
                      "; a size is 0 or more"};
  }
  if (value && (!named || (*value >= 0 && static_cast<std::size_t>(*value) < axis.value_names.size()))) {
    return *value;
  }
  throw usage_error{"axis '" + std::string{axis.name} + "' has no value '" + std::string{text} + "'" +
                    (named ? sy::text::suggestion(text, axis.value_names) + " (it has " +
                                 sy::text::join(axis.value_names) + ")"
                           : std::string{"; it takes an integer"})};
}

axis_word require_axis_word(const sy::operator_description& op, std::string_view word) {
  const std::size_t equals = word.rfind('=');  // a condition on arguments has others before
  if (equals == 0 || equals == std::string_view::npos) {
    throw usage_error{"expected axis=value, got '" + std::string{word} + "'"};
  }
  const std::uint32_t axis = require_axis(op, word.substr(0, equals));
  return {axis, require_value(op.axes[axis], word.substr(equals + 1))};
}

std::string fill_defaults(const known_operator& known, std::vector<std::int64_t>& values,
                          const std::vector<bool>& given, std::vector<std::string>* assumed) {
  const sy::operator_description& op = *known.description;
  std::string missing;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    if (given[i]) continue;
    const sy::axis_description& axis = op.axes[i];
    const auto rule =
        std::find_if(known.defaults.begin(), known.defaults.end(),
                     [&axis](const sy::axis_default& entry) { return entry.axis == axis.name; });
    if (rule != known.defaults.end() && rule->value.starts_with('=')) {
      const std::uint32_t other = require_axis(op, rule->value.substr(1));
      if (!given[other]) continue;  // reported by its own name
      values[i] = values[other];
    } else if (rule != known.defaults.end()) {
      values[i] = require_value(axis, rule->value);
    } else if (axis.value_names.empty() || axis.name == "dtype") {
      missing += (missing.empty() ? "" : ", ") + std::string{axis.name};
      continue;
    }
    if (assumed != nullptr)
      assumed->push_back(std::string{axis.name} + "=" + sy::format_value(axis, values[i]));
  }
  return missing;
}

std::string format_type(const sy::operator_description& op, std::span<const sy::axis_value> type) {
  std::string out;
  for (const sy::axis_value& value : type) {
    out += (out.empty() ? "" : " ") + std::string{op.axes[value.axis].name} + "=" +
           sy::format_value(op.axes[value.axis], value.value);
  }
  return out.empty() ? "any type" : out;
}

std::string type_key(std::span<const sy::axis_value> type) {
  std::string out;
  for (const sy::axis_value& value : type)
    out += " " + std::to_string(value.axis) + "=" + std::to_string(value.value);
  return out;
}

}  // namespace tool
