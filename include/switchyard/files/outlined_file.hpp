// SPDX-License-Identifier: MIT
// A JSON file that is parsed in part: everything except one long list, and the position and `type` of each
// entry of that list. Entries are parsed when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

class outlined_file {
 public:
  struct entry {
    text_span whole;
    text_span id;            ///< as it is spelt, with its quotes; empty: it has none
    std::uint32_t type = 0;  ///< index into types()
    text_span conditions;    ///< `requires` as it is spelt; empty: it has none of its own
  };

  /// Outlines a text, whose long list is the member `list`. Throws file_error malformed_json.
  outlined_file(std::string text, std::string path, std::string list);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Whether the list is there, and is one.
  [[nodiscard]] bool has_list() const noexcept { return has_list_; }

  /// The file without its list.
  [[nodiscard]] const nlohmann::json& head() const noexcept { return head_.value(); }

  /// Reads the types of the entries; one that cannot be read becomes a warning, and its entry is left out.
  void read_types(const operator_description& op, warnings& warned);

  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  /// The types that entries have, each once.
  [[nodiscard]] const std::vector<std::vector<axis_value>>& types() const noexcept { return types_; }

  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  /// A part of the text.
  [[nodiscard]] std::string_view spelt(text_span part) const noexcept { return part.in(text_); }

  /// The id of an entry; empty: it has none.
  [[nodiscard]] std::string id_of(const entry& of) const { return string_in(of.id); }

  /// Calls `visit` with the id of each element that has one, whatever else is in it.
  template <class Visitor>
  void for_each_id(const Visitor& visit) const {
    for (const json_outline::element& element : outline_.elements) visit_id(element.id, visit);
    for (const entry& listed : entries_) visit_id(listed.id, visit);
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
  [[nodiscard]] std::string string_in(text_span part) const;
  template <class Visitor>
  void visit_id(text_span id, const Visitor& visit) const {
    if (!id.empty()) visit(string_in(id));
  }

  /// Throws what is wrong with the text.
  [[noreturn]] void refuse() const;

  [[nodiscard]] std::string pointer_to(std::size_t index) const;

  [[nodiscard]] std::optional<std::uint32_t> read_type_of(
      std::size_t index, const operator_description& op, std::unordered_map<std::string, std::uint32_t>& same,
      warnings& warned);

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

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/outlined_file_impl.hpp>
#endif
