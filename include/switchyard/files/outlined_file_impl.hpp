// SPDX-License-Identifier: MIT
// The bodies of outlined_file.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_axes.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION outlined_file::outlined_file(std::string text, std::string path, std::string list)
    : text_{std::move(text)}, path_{std::move(path)}, list_{std::move(list)} {
  if (!outline_json(text_, list_, outline_)) refuse();
  std::string reduced = "{";
  std::size_t lists = 0;
  for (const json_outline::member& member : outline_.members) {
    const std::string_view key = member.key.in(text_);
    if (key != list_ && string_in({member.key.begin - 1, member.key.end + 1}) == list_) {
      (void)json_document{text_, path_};  // says that the key stands twice, if it does
      throw file_error{error_code::malformed_json, path_ + ": the key \"" + text::shortened(key, 60) +
                                                       "\" is spelt with an escape; write it without"};
    }
    if (key == list_) {
      if (++lists > 1) refuse();
      has_list_ = member.value.in(text_).front() == '[';
      if (has_list_) continue;  // else whoever reads the head objects
    }
    if (reduced.size() > 1) reduced += ',';
    ((reduced += '"') += key) += "\":";
    reduced += member.value.in(text_);
  }
  head_ = json_document{reduced += '}', path_};
}

SWITCHYARD_FUNCTION void outlined_file::read_types(const operator_description& op, warnings& warned) {
  std::unordered_map<std::string_view, std::optional<std::uint32_t>> known;  // by how a type is spelt
  std::unordered_map<std::string, std::uint32_t> same;                       // by what it means
  entries_.reserve(outline_.elements.size());
  positions_.reserve(outline_.elements.size());
  for (std::size_t i = 0; i < outline_.elements.size(); ++i) {
    const json_outline::element& element = outline_.elements[i];
    const auto [found, is_new] = known.try_emplace(element.type.in(text_));
    if (is_new || !found->second) found->second = read_type_of(i, op, same, warned);
    if (!found->second) continue;
    entries_.push_back({element.whole, element.id, *found->second, element.conditions});
    positions_.push_back(static_cast<std::uint32_t>(i));
  }
  outline_ = {};
}

SWITCHYARD_FUNCTION std::string outlined_file::string_in(text_span part) const {
  const std::string_view spelt = part.in(text_);
  if (spelt.size() < 2 || spelt.front() != '"') return {};
  if (spelt.find('\\') == std::string_view::npos) return std::string{spelt.substr(1, spelt.size() - 2)};
  const json_document parsed = json_document::try_parse(spelt);
  return parsed.value().is_string() ? parsed.value().get_ref<const std::string&>() : std::string{};
}

SWITCHYARD_FUNCTION void outlined_file::refuse() const {
  const json_document document{text_, path_};
  if (!document.value().is_object()) json_place{document.value(), path_}.expected("an object");
  throw file_error{error_code::malformed_json, path_ + ": is not JSON"};
}

SWITCHYARD_FUNCTION std::string outlined_file::pointer_to(std::size_t index) const {
  return "/" + list_ + "/" + std::to_string(index);
}

SWITCHYARD_FUNCTION std::optional<std::uint32_t> outlined_file::read_type_of(
    std::size_t index, const operator_description& op, std::unordered_map<std::string, std::uint32_t>& same,
    warnings& warned) {
  const std::string_view spelt = outline_.elements[index].type.in(text_);
  try {
    const std::string pointer = pointer_to(index);
    const std::string owner = spelt.empty() ? "{}" : "{\"type\":" + std::string{spelt} + "}";
    const json_document document{owner, path_, pointer};
    std::vector<axis_value> type = detail::read_served_type(json_place{document.value(), path_, pointer}, op);
    std::string key;
    for (const axis_value& wanted : type)
      key += std::to_string(wanted.axis) + '=' + std::to_string(wanted.value) + ' ';
    const auto [found, is_new] = same.try_emplace(key, static_cast<std::uint32_t>(types_.size()));
    if (is_new) types_.push_back(std::move(type));
    return found->second;
  } catch (const file_error& problem) {
    warned.add(problem.what());
    return std::nullopt;
  }
}

}  // namespace v0
}  // namespace switchyard
