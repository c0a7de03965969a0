// SPDX-License-Identifier: MIT
// Reads a tuning table. An error in the file as a whole is thrown. An error in a group, a row, a denial or a
// pin leaves that entry out and becomes a warning.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/io/file.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class table_reader {
 public:
  table_reader(const operator_description& op, warnings& warned) : op_{op}, warned_{&warned} {}

  /// All but the groups.
  [[nodiscard]] table read_head(const json_place& file);

  /// The fingerprints that the file gives for all its groups.
  void read_blobs(const json_place& file, warnings& warned);

  /// Adds a group, the one with this index in the file, or a warning. The file's head, or its blobs, were
  /// read before.
  void add_group(const json_place& entry, std::size_t index, table& into, warnings& warned);

 private:
  template <class Reader>
  void each_entry(const json_place& owner, const char* key, const Reader& reader) {
    if (!owner.has(key)) return;
    const auto list = owner.at(key);
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      const auto entry = list.at(i);
      try {
        reader(entry);
      } catch (const file_error& problem) {
        warned_->add(problem.what());
      }
    }
  }

  /// What is shown to people as it is.
  [[nodiscard]] static const std::string& checked_text(const json_place& place);

  static void read_device(const json_place& file, device_properties& device);

  [[nodiscard]] static bool is_name(std::string_view text) noexcept;

  [[nodiscard]] static axis_rule read_rule(const json_place& entry);

  [[nodiscard]] match_feature read_feature(const json_place& entry, const std::string& text) const;

  void read_match(const json_place& file, match_rule& rule);

  /// Reads the member `name` of `match`.
  void read_match_of(const json_place& place, const std::string& name, match_rule& rule);

  [[nodiscard]] static std::string read_reason(const json_place& place);

  [[nodiscard]] denial read_denial(const json_place& place) const;

  [[nodiscard]] pin read_pin(const json_place& place) const;

  const operator_description& op_;
  warnings* warned_;
  std::unordered_map<std::string, std::string> file_blobs_;
};

}  // namespace detail

/// Parses a table's text. `path` names the file in messages.
[[nodiscard]] table parse_table(std::string_view text, const std::string& path,
                                const operator_description& op, warnings& warned);

/// Reads a table. Throws file_error for the file as a whole.
[[nodiscard]] inline table read_table(const std::string& path, const operator_description& op,
                                      warnings& warned) {
  return parse_table(read_file(path, max_json_bytes), path, op, warned);
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_table_impl.hpp>
#endif
