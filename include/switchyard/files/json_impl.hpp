// SPDX-License-Identifier: MIT
// The bodies of json.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD std::string json_place::pointer() const {
  if (parent_ != nullptr) return parent_->pointer() + step();
  return above_ != nullptr ? *above_ : std::string{};
}

SWITCHYARD_COLD void json_place::fail(error_code code, const std::string& problem) const {
  const std::string place = text::shortened(pointer(), 300);
  throw file_error{
      code, *path_ + ": " + (place.empty() ? std::string{} : place + ": ") + text::shortened(problem, 1000)};
}

SWITCHYARD_COLD void json_place::fail(const std::string& problem) const {
  fail(error_code::invalid_entry, problem);
}

SWITCHYARD_COLD void json_place::expected(std::string_view kind) const {
  fail("expected " + std::string{kind} + ", got " + shown());
}

SWITCHYARD_FUNCTION std::optional<json_place> json_place::find(const char* key) const& {
  if (!value_->is_object()) return std::nullopt;
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return json_place{*found, *path_, this, key, 0};
}

SWITCHYARD_FUNCTION json_place json_place::at(const char* key) const& {
  if (!value_->is_object()) expected("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail("'" + std::string{key} + "' is missing");
  return {*found, *path_, this, key, 0};
}

SWITCHYARD_FUNCTION std::size_t json_place::array_size() const {
  if (!value_->is_array()) expected("an array");
  return value_->size();
}

SWITCHYARD_FUNCTION const nlohmann::json::object_t& json_place::object() const {
  if (!value_->is_object()) expected("an object");
  return value_->get_ref<const nlohmann::json::object_t&>();
}

SWITCHYARD_FUNCTION const std::string& json_place::string() const {
  if (!value_->is_string()) expected("a string");
  return value_->get_ref<const std::string&>();
}

SWITCHYARD_FUNCTION const std::string& json_place::id() const {
  check_id(string());
  return string();
}

SWITCHYARD_FUNCTION void json_place::check_id(std::string_view id) const {
  constexpr std::size_t most = 200;
  if (id.empty() || id.size() > most)
    fail("an id has 1 to " + std::to_string(most) + " characters, got " + std::to_string(id.size()));
  check_text(id);
}

SWITCHYARD_FUNCTION void json_place::check_text(std::string_view text) const {
  constexpr std::size_t most = 10000;
  if (text.size() > most)
    fail("has " + std::to_string(text.size()) + " characters; a name or a text has at most " +
         std::to_string(most));
  if (const std::string control = switchyard::text::find_control(text); !control.empty())
    fail("has a control character, " + control + "; ids, names and reasons have none");
}

SWITCHYARD_FUNCTION std::int64_t json_place::integer() const {
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(INT64_MAX)) fail("the number does not fit 64 bits");
    return static_cast<std::int64_t>(number);
  }
  if (!value_->is_number_integer()) expected("an integer");
  return value_->get<std::int64_t>();
}

SWITCHYARD_FUNCTION double json_place::number() const {
  if (!value_->is_number()) expected("a number");
  const auto number = value_->get<double>();
  if (!std::isfinite(number)) fail("the number is not finite");
  return number;
}

SWITCHYARD_FUNCTION bool json_place::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

SWITCHYARD_COLD std::string json_place::step() const {
  if (key_ == nullptr) return "/" + std::to_string(index_);
  std::string escaped = "/";
  for (const char* c = key_; *c != '\0'; ++c) {  // RFC 6901
    if (*c == '~') {
      escaped += "~0";
    } else if (*c == '/') {
      escaped += "~1";
    } else {
      escaped += *c;
    }
  }
  return escaped;
}

SWITCHYARD_COLD std::string json_place::shown() const {
  if (value_->is_array()) return "an array of " + std::to_string(value_->size());
  if (value_->is_object()) return "an object";
  return text::shortened(dump_json(*value_), 60);
}

namespace detail {

SWITCHYARD_COLD void append_json_string(std::string& out, std::string_view value) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char c : value) {  // UTF-8: the parser has checked it
    static constexpr std::string_view escaped = "\"\\\b\f\n\r\t";
    if (const std::size_t found = escaped.find(c); found != std::string_view::npos) {
      out += '\\';
      out += std::string_view{"\"\\bfnrt"}[found];
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// The fewest digits, from 15, that read back as the same number.
SWITCHYARD_COLD void append_json_number(std::string& out, double value) {
  char text[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  for (int precision = 15; precision <= 17; ++precision) {
    (void)std::snprintf(text, sizeof text, "%.*g", precision, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  bool is_integer = true;
  for (const char* c = text; *c != '\0'; ++c) {
    is_integer = is_integer && (*c == '-' || (*c >= '0' && *c <= '9'));
    out += *c == ',' ? '.' : *c;  // the decimal point of the engine's locale
  }
  if (is_integer) out += ".0";
}

SWITCHYARD_COLD void append_json(std::string& out,
                                 const nlohmann::json& value) {  // NOLINT(misc-no-recursion)
  using kind = nlohmann::json::value_t;
  bool is_first = true;
  switch (value.type()) {
    case kind::object:
      for (const auto& [key, member] : value.get_ref<const nlohmann::json::object_t&>()) {
        out += is_first ? '{' : ',';
        is_first = false;
        append_json_string(out, key);
        out += ':';
        append_json(out, member);
      }
      out += is_first ? "{}" : "}";
      return;
    case kind::array:
      for (const nlohmann::json& element : value.get_ref<const nlohmann::json::array_t&>()) {
        out += is_first ? '[' : ',';
        is_first = false;
        append_json(out, element);
      }
      out += is_first ? "[]" : "]";
      return;
    case kind::string:
      return append_json_string(out, value.get_ref<const std::string&>());
    case kind::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case kind::number_integer:
      out += std::to_string(value.get<std::int64_t>());
      return;
    case kind::number_unsigned:
      out += std::to_string(value.get<std::uint64_t>());
      return;
    case kind::number_float:
      return append_json_number(out, value.get<double>());
    case kind::null:
    case kind::binary:  // no JSON text has them
    case kind::discarded:
      break;
  }
  out += "null";
}

}  // namespace detail

SWITCHYARD_COLD std::string dump_json(const nlohmann::json& value) {
  std::string out;
  detail::append_json(out, value);
  return out;
}

SWITCHYARD_COLD void check_schema(const json_place& file, std::string_view kind) {
  const auto place = file.at("schema");
  const std::string& found = place.string();
  const std::string wanted = "switchyard." + std::string{kind} + "/";
  if (!found.starts_with(wanted)) {
    place.fail(error_code::wrong_schema, "expected \"" + wanted + "1\", got \"" + found + "\"");
  }
  const std::string version = found.substr(wanted.size());
  if (version != "1" && !version.starts_with("1.")) {
    place.fail(error_code::unsupported_schema_version,
               "\"" + found + "\" is of a version this library does not read; it reads " + wanted +
                   "1. Update the library, or write the file for version 1");
  }
}

SWITCHYARD_COLD void warnings::add(const std::string& message) {
  if (messages.size() < 100) {
    messages.push_back(message);
  } else {
    ++left_out;
  }
}

SWITCHYARD_COLD std::string without_indices(const std::string& message, const std::string& path) {
  std::size_t at = message.find(path + ": /");
  if (at == std::string::npos) return message;
  at += path.size() + 2;
  const std::size_t end = std::min(message.find(": ", at), message.size());
  std::string out = message.substr(0, at);
  for (bool in_index = false; at < end; ++at) {
    const bool is_digit = message[at] >= '0' && message[at] <= '9';
    in_index = is_digit && (in_index || message[at - 1] == '/');
    if (!in_index) out += message[at];
  }
  return out + message.substr(end);
}

SWITCHYARD_COLD std::vector<group_of_same> group_same(std::span<const std::string> messages,
                                                      const std::string& path) {
  std::vector<group_of_same> out;
  std::map<std::string, std::size_t> known;
  for (const std::string& message : messages) {
    std::string kind = without_indices(message, path);
    const auto [found, is_new] = known.try_emplace(kind, out.size());
    if (is_new) {
      out.push_back({std::move(kind), message, 0});
    } else {
      ++out[found->second].more;
    }
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
