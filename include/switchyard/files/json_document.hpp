// SPDX-License-Identifier: MIT
// Parses bounded JSON text into a document whose destruction allocates nothing.
//
// nlohmann_json's destructor allocates for nested values, and terminates the process if that fails. A
// document is therefore destroyed leaves first, which allocates nothing, even after the parser has failed.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Empties a value, which nests at most max_json_depth levels deep, so that its destructor needs no memory.
void take_apart(nlohmann::json& value) noexcept;

}  // namespace detail

class json_document {
 public:
  json_document() = default;

  /// Parses JSON text, that of a file or of a part of it that stands at the JSON pointer `above`. Throws
  /// file_error malformed_json.
  json_document(std::string_view text, const std::string& path, const std::string& above = {});
  json_document(json_document&& other) noexcept { value_.swap(other.value_); }
  json_document& operator=(json_document&& other) noexcept;
  json_document(const json_document&) = delete;
  json_document& operator=(const json_document&) = delete;
  ~json_document() { detail::take_apart(value_); }

  /// Parses text that nests at most max_json_depth levels deep; null where it is no JSON.
  [[nodiscard]] static json_document try_parse(std::string_view text);

  [[nodiscard]] const nlohmann::json& value() const& noexcept { return value_; }
  const nlohmann::json& value() const&& = delete;

  /// The value, for programs that end where there is no memory.
  [[nodiscard]] nlohmann::json release() && { return std::move(value_); }

 private:
  nlohmann::json value_;
};

/// Parses JSON text for a program that ends where there is no memory. Throws file_error malformed_json.
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, const std::string& path) {
  return json_document{text, path}.release();
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/json_document_impl.hpp>
#endif
