// SPDX-License-Identifier: MIT
// The bodies of read_manifest.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/inherited_place.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_axes.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_expression.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_parameters.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION variant manifest_reader::read(const json_place& own) {
  const inherited_place place{own, shared_};
  variant out;
  const auto id = own.at("id");
  out.id = id.id();
  out.type = read_served_type(own, op_);
  read_config(place, out);
  if (!expressions_.set_config(out.config)) known_.clear();
  read_conditions(place, out);
  imply_conditions(out);
  if (place.has("cost")) {
    const auto entry = place.at("cost");
    entry.check_text(entry.string());
    out.cost = read_cost(entry);
  }
  if (place.has("cost_us")) {
    const auto entry = place.at("cost_us");
    out.cost_us = entry.number();
    if (!(out.cost_us >= 1e-12 && out.cost_us <= 1e6)) entry.fail("expected a time from 1e-12 to 1e6 us");
    if (out.cost.text.empty()) entry.fail("the variant states no 'cost' that it could be the unit of");
  }
  if (place.has("cost_ns")) {
    const auto entry = place.at("cost_ns");
    entry.check_text(entry.string());
    out.cost_ns = read_cost(entry);
    if (out.cost_us > 0) entry.fail("the variant states 'cost_us' as well; give one of the two");
  }
  if (place.has("max_error")) {
    const auto entry = place.at("max_error");
    out.max_error = entry.number();
    if (!(out.max_error > 0 && out.max_error <= 1))
      entry.fail("expected a number above 0, up to 1: the share of the operator's tolerance");
  }
  if (place.has("reproducible")) {
    const auto entry = place.at("reproducible");
    entry.check_text(entry.string());
    out.reproducible = entry.string();
    if (out.reproducible.empty()) entry.fail("expected the name of a class of variants");
  }
  if (place.has("workspace")) {
    const auto buffers = place.at("workspace");
    for (const auto& [name, unused] : buffers.object()) {
      const auto entry = buffers.at(name.c_str());
      entry.check_text(name);
      out.workspace.push_back({name, expressions_.read(entry), text_of(entry)});
      if (out.workspace.back().value.reads_fields()) {
        entry.fail(error_code::invalid_expression,
                   "a workspace's size may read axes, config and device attributes only");
      }
    }
  }
  const auto launches = place.at("launches");
  const std::size_t count = launches.array_size();
  if (count == 0 || count > max_launches)
    launches.fail("a variant has 1 to " + std::to_string(max_launches) + " launches");
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = launches.at(i);
    out.launches.push_back(read_launch({entry, shared_}, out));
  }
  return out;
}

SWITCHYARD_FUNCTION void manifest_reader::find_conditions(const json_place& own) {
  const inherited_place place{own, shared_};
  variant out;
  read_config(place, out);
  if (!expressions_.set_config(out.config)) known_.clear();
  read_conditions(place, out);
}

SWITCHYARD_FUNCTION condition manifest_reader::read_cost(const json_place& entry) {
  condition out{entry.string(), expressions_.parse(entry)};
  refuse_arguments(entry, out.text, op_, out.value);
  return out;
}

SWITCHYARD_FUNCTION void manifest_reader::read_conditions(const inherited_place& place, variant& out) {
  if (!place.has("requires")) return;
  const auto list = place.at("requires");
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto entry = list.at(i);
    const std::string& text = entry.string();
    entry.check_text(text);
    // Only what reads an argument may have decimal numbers.
    if (op_.added != nullptr && text.find('.') != std::string::npos && read_argument_condition(entry, out))
      continue;
    condition read{text, expressions_.parse(entry)};
    if (!read.value.reads_fields()) {
      out.conditions.push_back(std::move(read));
    } else if (op_.added == nullptr) {
      entry.fail(error_code::invalid_expression, "'" + text +
                                                     "' reads an argument that no axis holds, so a "
                                                     "choice could not depend on it. Read the file through a "
                                                     "catalog, or give the operator a derived axis for it");
    } else {
      (void)read_argument_condition(entry, out);
    }
  }
}

SWITCHYARD_FUNCTION void manifest_reader::imply_conditions(variant& out) const {
  for (const implied_axis& implied : op_.implied) {
    const bool is_named = find_in_type(out.type, find_axis(op_, implied.axis)) != nullptr ||
                          detail::any_of(out.conditions.begin(), out.conditions.end(), [&](const auto& one) {
                            return one.text.find(implied.axis) != std::string::npos;
                          });
    if (is_named) continue;
    if (implied.like == implied_axis::no) {
      insert_in_type(out.type, {find_axis(op_, implied.axis), 0});
      continue;
    }
    std::string text = std::string{implied.axis} + " == " + std::string{implied.like};
    expression value = expression::parse(text, expressions_.plain_names());
    out.conditions.push_back({std::move(text), std::move(value)});
  }
}

SWITCHYARD_FUNCTION bool manifest_reader::read_argument_condition(const json_place& entry,
                                                                  variant& out) const {
  try {
    const std::string text =
        normalised_condition(op_, entry.string(), expressions_.names(), expressions_.plain_names());
    argument_condition condition = parse_condition(op_, text, expressions_.plain_names());
    if (!condition.value.reads_fields()) return false;
    if (text.size() > max_condition_text) {
      entry.fail(error_code::invalid_expression, "a condition on arguments has at most " +
                                                     std::to_string(max_condition_text) +
                                                     " characters, got " + std::to_string(text.size()));
    }
    const std::uint32_t axis = op_.added->add(text, std::move(condition));
    if (axis == added_axes::no_room) entry.fail(error_code::invalid_expression, describe_no_room(op_, text));
    const auto at = detail::find_if(out.type.begin(), out.type.end(),
                                    [axis](const axis_value& value) { return value.axis >= axis; });
    if (at == out.type.end() || at->axis != axis) out.type.insert(at, {axis, 1});
    return true;
  } catch (const expression_error& problem) {
    entry.fail(error_code::invalid_expression, problem.what());
  }
}

SWITCHYARD_FUNCTION void manifest_reader::read_config(const inherited_place& place, variant& out) {
  if (!place.has("config")) return;
  const auto config = place.at("config");
  for (const auto& [name, unused] : config.object()) {
    const auto entry = config.at(name.c_str());
    entry.check_text(name);
    const std::int64_t value = entry.value().is_boolean() ? (entry.boolean() ? 1 : 0) : entry.integer();
    out.config.push_back({name, value});
  }
}

SWITCHYARD_FUNCTION std::string manifest_reader::text_of(const json_place& entry) {
  return entry.value().is_string() ? text::shortened(text::printable(entry.string()), 100) : std::string{};
}

SWITCHYARD_FUNCTION void manifest_reader::read_extent(const inherited_place& owner, const char* key,
                                                      std::array<expression, 3>& out,
                                                      std::array<std::string, 3>& texts, bool per_plan) {
  out.fill(expression{1});
  if (!owner.has(key)) {
    if (std::string_view{key} != "cluster") owner.own().fail("'" + std::string{key} + "' is missing");
    return;
  }
  const auto place = owner.at(key);
  if (place.array_size() < 1 || place.array_size() > 3) place.fail("expected 1 to 3 integers or expressions");
  for (std::size_t i = 0; i < place.array_size(); ++i) {
    const auto entry = place.at(i);
    out[i] = expressions_.read(entry);
    texts[i] = text_of(entry);
    check_number(entry, key, out[i], op_);
    if (per_plan && out[i].reads_fields()) {
      entry.fail(error_code::invalid_expression,
                 "'" + std::string{key} + "' may read axes, config and device attributes only");
    }
  }
}

SWITCHYARD_FUNCTION launch manifest_reader::read_launch(const inherited_place& place, const variant& owner) {
  launch out;
  const parameter_reader parameters{op_, expressions_, owner.workspace};
  if (place.has("fill")) {
    const auto name = place.at("fill");
    out.is_fill = true;
    out.fill_workspace = parameters.workspace_index(name, name.string());
    if (place.has("byte")) {
      const auto byte = place.at("byte");
      const std::int64_t value = byte.integer();
      if (value < 0 || value > 255) byte.fail("expected 0 to 255, got " + std::to_string(value));
      out.fill_byte = static_cast<std::uint8_t>(value);
    }
    return out;
  }
  const auto blob = place.at("blob");
  out.blob = folder_ + "/" + checked_path(blob);
  const auto digest = place.at("sha256");
  out.sha256 = digest.string();
  bool hexadecimal = out.sha256.size() == 64;
  for (const char c : out.sha256)
    hexadecimal = hexadecimal && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
  if (!hexadecimal) digest.fail("expected 64 lower-case hexadecimal digits");
  const auto kernel = place.at("kernel");
  out.kernel = kernel.string();
  if (out.kernel.empty() || out.kernel.find('\0') != std::string::npos)
    kernel.fail("expected the name of a kernel");
  kernel.check_text(out.kernel);
  read_extent(place, "grid", out.grid, out.texts.grid, false);
  read_extent(place, "block", out.block, out.texts.block, true);
  read_extent(place, "cluster", out.cluster, out.texts.cluster, true);
  out.shared_bytes = expression{0};
  if (place.has("shared_bytes")) {
    const auto shared = place.at("shared_bytes");
    out.shared_bytes = expressions_.read(shared);
    out.texts.shared_bytes = text_of(shared);
    if (out.shared_bytes.reads_fields()) {
      shared.fail(error_code::invalid_expression,
                  "'shared_bytes' may read axes, config and device attributes only");
    }
  }
  if (place.has("cooperative")) {
    const auto flag = place.at("cooperative");
    out.cooperative = flag.boolean();
  }
  if (place.has("programmatic_dependent_launch")) {
    const auto flag = place.at("programmatic_dependent_launch");
    out.programmatic_dependent_launch = flag.boolean();
  }
  const auto list = place.at("parameters");
  if (list.array_size() > max_parameters) {
    list.fail("a kernel has at most " + std::to_string(max_parameters) + " parameters");
  }
  // A list of the variant's own is freed with it, and one of a variant with buffers may name them.
  const bool is_kept = place.inherits("parameters") && owner.workspace.empty();
  parameter_memory* const memory = is_kept ? &known_[&list.value()] : nullptr;
  std::size_t bytes = 0;
  out.parameters.reserve(list.array_size());
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto entry = list.at(i);
    out.parameters.push_back(memory != nullptr ? read_known(entry, i, parameters, *memory)
                                               : parameters.read(entry));
    bytes += out.parameters.back().bytes;
  }
  if (bytes > max_parameter_bytes) {
    list.fail("the parameters take " + std::to_string(bytes) + " bytes; a kernel can have " +
              std::to_string(max_parameter_bytes));
  }
  return out;
}

SWITCHYARD_FUNCTION parameter manifest_reader::read_known(const json_place& place, std::size_t index,
                                                          const parameter_reader& parameters,
                                                          parameter_memory& memory) const {
  while (memory.read.size() <= index) memory.read.push_back({});
  memory.is_known.resize(memory.read.size());
  if (memory.is_known[index]) return memory.read[index];
  parameter out = parameters.read(place);
  if (!expressions_.may_read_config(dump_json(place.value()))) {
    memory.read[index] = out;
    memory.is_known[index] = true;
  }
  return out;
}

SWITCHYARD_FUNCTION const std::string& manifest_reader::checked_path(const json_place& place) {
  const std::string& path = place.string();
  bool escapes = path.empty() || path.front() == '/' || path.find('\0') != std::string::npos;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = path.find('/', begin) == std::string::npos ? path.size() : path.find('/', begin);
    escapes = escapes || path.substr(begin, end - begin) == "..";
    begin = end + 1;
  }
  if (escapes) {
    place.fail(error_code::path_escapes_folder,
               "\"" + path + "\" leads out of the manifest's folder; a blob lies beside its manifest");
  }
  place.check_text(path);
  return path;
}

SWITCHYARD_FUNCTION manifest read_manifest_head(const json_place& file, const operator_description& op) {
  check_schema(file, "manifest");
  check_operator(file, op);
  manifest out;
  out.path = file.path();
  out.operator_name = op.name;
  const auto target_place = file.at("target");
  const auto backend = target_place.at("backend");
  const auto arch = target_place.at("arch");
  backend.check_text(backend.string());
  arch.check_text(arch.string());
  out.target = {backend.string(), arch.string()};
  if (file.has("built_by") && file.value()["built_by"].is_string())
    out.built_by = file.value()["built_by"].get_ref<const std::string&>();
  return out;
}

SWITCHYARD_FUNCTION void variant_list::add(const json_place& place, warnings& warned) {
  try {
    variant fresh = reader_.read(place);
    std::vector<std::uint32_t>& others = seen_[fresh.id];
    for (const std::uint32_t other : others) {
      if (into_.variants[other].type == fresh.type) {
        place.fail(
            error_code::duplicate_id,
            "variant '" + fresh.id + "' is listed twice with the same type; the first is used. Rename one");
      }
    }
    others.push_back(static_cast<std::uint32_t>(into_.variants.size()));
    into_.variants.push_back(std::move(fresh));
  } catch (const file_error& problem) {
    warned.add(problem.what());
  }
}

SWITCHYARD_FUNCTION std::string variant_list::folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace detail

SWITCHYARD_FUNCTION manifest parse_manifest(std::string_view text, const std::string& path,
                                            const operator_description& op, warnings& warned) {
  const json_document document{text, path};
  const json_place file{document.value(), path};
  manifest out = detail::read_manifest_head(file, op);
  const auto list = file.at("variants");
  out.variants.reserve(list.array_size());
  std::optional<json_place> shared;
  if (file.has("shared")) shared.emplace(file.at("shared"));
  detail::variant_list variants{op, out, shared ? &*shared : nullptr};
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto place = list.at(i);
    variants.add(place, warned);
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
