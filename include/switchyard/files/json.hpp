// SPDX-License-Identifier: MIT
// Bounded reading of JSON files, with errors that name the file and the entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

/// Largest JSON file that is read.
inline constexpr std::size_t max_json_bytes = std::size_t{256} << 20U;

/// A value in a file, with its JSON pointer. Its readers throw file_error invalid_entry with the file, the
/// pointer, what was expected and what was found.
class json_place {
 public:
  json_place(const nlohmann::json& value, const std::string& path) : value_{&value}, path_{&path} {}
  /// A value that was parsed by itself, and where it stands in the file: "/variants/17".
  json_place(const nlohmann::json& value, const std::string& path, const std::string& pointer)
      : value_{&value}, path_{&path}, above_{&pointer} {}

  [[nodiscard]] const nlohmann::json& value() const noexcept { return *value_; }
  [[nodiscard]] const std::string& path() const noexcept { return *path_; }
  [[nodiscard]] std::string pointer() const;

  [[noreturn]] void fail(error_code code, const std::string& problem) const;
  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void expected(std::string_view kind) const;

  [[nodiscard]] bool has(const char* key) const { return value_->is_object() && value_->contains(key); }

  /// A member; none where it is missing. The new place refers to this one.
  [[nodiscard]] std::optional<json_place> find(const char* key) const&;
  std::optional<json_place> find(const char* key) const&& = delete;

  /// A required member. The new place refers to this one.
  [[nodiscard]] json_place at(const char* key) const&;
  /// An element, which must exist, of an array.
  [[nodiscard]] json_place at(std::size_t index) const& {
    return {(*value_)[index], *path_, this, nullptr, index};
  }
  json_place at(const char* key) const&& = delete;
  json_place at(std::size_t index) const&& = delete;

  [[nodiscard]] std::size_t array_size() const;
  [[nodiscard]] const nlohmann::json::object_t& object() const;
  [[nodiscard]] const std::string& string() const;
  /// The id of a variant: 1 to 200 bytes without control characters.
  [[nodiscard]] const std::string& id() const;
  /// The same for this place's key.
  void check_id(std::string_view id) const;
  /// A text that is shown to people is not longer than they read, and has no control characters: a newline
  /// would forge a line of a log, and a terminal obeys others.
  void check_text(std::string_view text) const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;

 private:
  json_place(const nlohmann::json& value, const std::string& path, const json_place* parent, const char* key,
             std::size_t index)
      : value_{&value}, path_{&path}, parent_{parent}, key_{key}, index_{index} {}

  [[nodiscard]] std::string step() const;

  [[nodiscard]] std::string shown() const;

  const nlohmann::json* value_;
  const std::string* path_;
  const std::string* above_ = nullptr;
  const json_place* parent_ = nullptr;
  const char* key_ = nullptr;
  std::size_t index_ = 0;
};

/// A value as compact text, as nlohmann_json's dump() has it, whose writers of all kinds compile 13 KB.
[[nodiscard]] std::string dump_json(const nlohmann::json& value);

/// Accepts "switchyard.<kind>/1" and its minor versions; throws file_error for another kind or major version.
void check_schema(const json_place& file, std::string_view kind);

/// Problems of entries that were left out of a file.
struct warnings {
  std::vector<std::string> messages;
  std::size_t left_out = 0;  ///< messages beyond the first hundred

  void add(const std::string& message);
};

/// A message of a reader without the indices of its JSON pointer: equal for entries that are wrong in the
/// same way.
[[nodiscard]] std::string without_indices(const std::string& message, const std::string& path);

/// Messages that differ in the number of an entry alone: one mistake of many entries.
struct group_of_same {
  std::string kind;
  std::string first;     ///< of the messages
  std::size_t more = 0;  ///< how many others
};

/// Groups messages of a file, in the order of the first of each group.
[[nodiscard]] std::vector<group_of_same> group_same(std::span<const std::string> messages,
                                                    const std::string& path);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/json_impl.hpp>
#endif
