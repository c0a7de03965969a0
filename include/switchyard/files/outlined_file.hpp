// A JSON file of which little is parsed: its head, which is all but one long list, and of the list's entries
// where they are and which `type` they have. Entries are parsed when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/read_axes.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

class outlined_file {
 public:
  struct entry {
    text_span whole;
    text_span id;            ///< as it is spelt, with its quotes; empty: it has none
    std::uint32_t type = 0;  ///< index into types()
    text_span conditions;    ///< `requires` as it is spelt; empty: it has none of its own
    text_span cost;          ///< likewise
    text_span axes;          ///< likewise
  };

  /// Outlines a text, whose long list is the member `list`. Throws file_error malformed_json.
  outlined_file(std::string text, std::string path, std::string list)
      : text_{std::move(text)}, path_{std::move(path)}, list_{std::move(list)} {
    if (!outline_json(text_, list_, outline_)) refuse();
    std::string reduced = "{";
    std::size_t lists = 0;
    for (const json_outline::member& each : outline_.members) {
      const std::string_view key = each.key.in(text_);
      if (key != list_ && string_in({each.key.begin - 1, each.key.end + 1}) == list_) {
        (void)json_document{text_, path_};  // says that the key stands twice, if it does
        throw file_error{error_code::malformed_json, path_ + ": the key \"" + text::shortened(key, 60) +
                                                         "\" is spelt with an escape; write it without"};
      }
      if (key == list_) {
        if (++lists > 1) refuse();
        has_list_ = each.value.in(text_).front() == '[';
        if (has_list_) continue;  // else whoever reads the head objects
      }
      if (reduced.size() > 1) reduced += ',';
      ((reduced += '"') += key) += "\":";
      reduced += each.value.in(text_);
    }
    head_ = json_document{reduced += '}', path_};
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Whether the list is there, and is one.
  [[nodiscard]] bool has_list() const noexcept { return has_list_; }

  /// The file without its list.
  [[nodiscard]] const nlohmann::json& head() const noexcept { return head_.value(); }

  /// Reads the types of the entries; one that cannot be read becomes a warning, and its entry is left out.
  void read_types(const operator_description& op, warnings& warned) {
    std::unordered_map<std::string_view, std::optional<std::uint32_t>> known;  // by how a type is spelt
    std::unordered_map<std::string, std::uint32_t> same;                       // by what it means
    entries_.reserve(outline_.elements.size());
    positions_.reserve(outline_.elements.size());
    for (std::size_t i = 0; i < outline_.elements.size(); ++i) {
      const json_outline::element& each = outline_.elements[i];
      const auto [found, is_new] = known.try_emplace(each.type.in(text_));
      if (is_new || !found->second) found->second = read_type_of(i, op, same, warned);
      if (!found->second) continue;
      entries_.push_back({each.whole, each.id, *found->second, each.conditions, each.cost, each.axes});
      positions_.push_back(static_cast<std::uint32_t>(i));
    }
    outline_ = {};
  }

  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  /// The types that entries have, each once.
  [[nodiscard]] const std::vector<std::vector<axis_value>>& types() const noexcept { return types_; }

  /// A part of the text.
  [[nodiscard]] std::string_view spelt(text_span part) const noexcept { return part.in(text_); }

  /// The id of an entry; empty: it has none.
  [[nodiscard]] std::string id_of(const entry& each) const { return string_in(each.id); }

  /// Calls `visit` with the id of each element that has one, whatever else is in it.
  template <class Visitor>
  void for_each_id(const Visitor& visit) const {
    for (const json_outline::element& each : outline_.elements) visit_id(each.id, visit);
    for (const entry& each : entries_) visit_id(each.id, visit);
  }

  /// Calls `read(place, index in the list)` for an entry. One that is no JSON becomes a warning.
  template <class Reader>
  void parse_entry(std::size_t number, warnings& warned, const Reader& read) const {
    const std::size_t index = positions_[number];
    try {
      const std::string pointer = pointer_to(index);
      const json_document document{entries_[number].whole.in(text_), path_, pointer};
      const json_place place{document.value(), path_, pointer};
      read(place, index);
    } catch (const file_error& problem) {
      warned.add(problem.what());
    }
  }

 private:
  /// The string that a part of the text is; empty: it is none.
  [[nodiscard]] std::string string_in(text_span part) const {
    const std::string_view spelt = part.in(text_);
    if (spelt.size() < 2 || spelt.front() != '"') return {};
    if (spelt.find('\\') == std::string_view::npos) return std::string{spelt.substr(1, spelt.size() - 2)};
    const json_document parsed = json_document::try_parse(spelt);
    return parsed.value().is_string() ? parsed.value().get<std::string>() : std::string{};
  }
  template <class Visitor>
  void visit_id(text_span id, const Visitor& visit) const {
    if (!id.empty()) visit(string_in(id));
  }

  /// Throws what is wrong with the text.
  [[noreturn]] void refuse() const {
    const json_document document{text_, path_};
    if (!document.value().is_object()) json_place{document.value(), path_}.expected("an object");
    throw file_error{error_code::malformed_json, path_ + ": is not JSON"};
  }

  [[nodiscard]] std::string pointer_to(std::size_t index) const {
    return "/" + list_ + "/" + std::to_string(index);
  }

  [[nodiscard]] std::optional<std::uint32_t> read_type_of(
      std::size_t index, const operator_description& op, std::unordered_map<std::string, std::uint32_t>& same,
      warnings& warned) {
    const std::string_view spelt = outline_.elements[index].type.in(text_);
    try {
      const std::string pointer = pointer_to(index);
      const std::string owner = spelt.empty() ? "{}" : "{\"type\":" + std::string{spelt} + "}";
      const json_document document{owner, path_, pointer};
      std::vector<axis_value> type =
          detail::read_served_type(json_place{document.value(), path_, pointer}, op);
      std::string key;
      for (const axis_value& each : type)
        key += std::to_string(each.axis) + '=' + std::to_string(each.value) + ' ';
      const auto [found, is_new] = same.try_emplace(key, static_cast<std::uint32_t>(types_.size()));
      if (is_new) types_.push_back(std::move(type));
      return found->second;
    } catch (const file_error& problem) {
      warned.add(problem.what());
      return std::nullopt;
    }
  }

  std::string text_;
  std::string path_;
  std::string list_;
  bool has_list_ = false;
  json_document head_;
  json_outline outline_;  // its elements: until the types are read
  std::vector<entry> entries_;
  std::vector<std::uint32_t> positions_;  // of the entries in the list
  std::vector<std::vector<axis_value>> types_;
};

}  // namespace v0
}  // namespace switchyard
