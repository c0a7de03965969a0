// Bounded reading of JSON files, with errors that name the file and the entry.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/file.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json_document.hpp>

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
  [[nodiscard]] std::string pointer() const {
    if (parent_ != nullptr) return parent_->pointer() + step();
    return above_ != nullptr ? *above_ : std::string{};
  }

  [[noreturn]] void fail(error_code code, const std::string& problem) const {
    const std::string place = text::shortened(pointer(), 300);
    throw file_error{code, *path_ + ": " + (place.empty() ? std::string{} : place + ": ") +
                               text::shortened(problem, 1000)};
  }
  [[noreturn]] void fail(const std::string& problem) const { fail(error_code::invalid_entry, problem); }
  [[noreturn]] void expected(std::string_view kind) const {
    fail("expected " + std::string{kind} + ", got " + shown());
  }

  [[nodiscard]] bool has(const char* key) const { return value_->is_object() && value_->contains(key); }

  /// A member; none where it is missing. The new place refers to this one.
  [[nodiscard]] std::optional<json_place> find(const char* key) const& {
    if (!value_->is_object()) return std::nullopt;
    const auto found = value_->find(key);
    if (found == value_->end()) return std::nullopt;
    return json_place{*found, *path_, this, key, 0};
  }
  std::optional<json_place> find(const char* key) const&& = delete;

  /// A required member. The new place refers to this one.
  [[nodiscard]] json_place at(const char* key) const& {
    if (!value_->is_object()) expected("an object");
    const auto found = value_->find(key);
    if (found == value_->end()) fail("'" + std::string{key} + "' is missing");
    return {*found, *path_, this, key, 0};
  }
  /// An element, which must exist, of an array.
  [[nodiscard]] json_place at(std::size_t index) const& {
    return {(*value_)[index], *path_, this, nullptr, index};
  }
  json_place at(const char* key) const&& = delete;
  json_place at(std::size_t index) const&& = delete;

  [[nodiscard]] std::size_t array_size() const {
    if (!value_->is_array()) expected("an array");
    return value_->size();
  }
  [[nodiscard]] const nlohmann::json::object_t& object() const {
    if (!value_->is_object()) expected("an object");
    return value_->get_ref<const nlohmann::json::object_t&>();
  }
  [[nodiscard]] const std::string& string() const {
    if (!value_->is_string()) expected("a string");
    return value_->get_ref<const std::string&>();
  }
  /// The id of a variant: 1 to 200 bytes without control characters.
  [[nodiscard]] const std::string& id() const {
    check_id(string());
    return string();
  }
  /// The same for this place's key.
  void check_id(std::string_view id) const {
    constexpr std::size_t most = 200;
    if (id.empty() || id.size() > most)
      fail("an id has 1 to " + std::to_string(most) + " characters, got " + std::to_string(id.size()));
    check_text(id);
  }
  /// A text that is shown to people is not longer than they read, and has no control characters: a newline
  /// would forge a line of a log, and a terminal obeys others.
  void check_text(std::string_view text) const {
    constexpr std::size_t most = 10000;
    if (text.size() > most)
      fail("has " + std::to_string(text.size()) + " characters; a name or a text has at most " +
           std::to_string(most));
    if (const std::string control = switchyard::text::find_control(text); !control.empty())
      fail("has a control character, " + control + "; ids, names and reasons have none");
  }
  [[nodiscard]] std::int64_t integer() const {
    if (value_->is_number_unsigned()) {
      const auto number = value_->get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(INT64_MAX)) fail("the number does not fit 64 bits");
      return static_cast<std::int64_t>(number);
    }
    if (!value_->is_number_integer()) expected("an integer");
    return value_->get<std::int64_t>();
  }
  [[nodiscard]] double number() const {
    if (!value_->is_number()) expected("a number");
    const auto number = value_->get<double>();
    if (!std::isfinite(number)) fail("the number is not finite");
    return number;
  }
  [[nodiscard]] bool boolean() const {
    if (!value_->is_boolean()) expected("true or false");
    return value_->get<bool>();
  }

 private:
  json_place(const nlohmann::json& value, const std::string& path, const json_place* parent, const char* key,
             std::size_t index)
      : value_{&value}, path_{&path}, parent_{parent}, key_{key}, index_{index} {}

  [[nodiscard]] std::string step() const {
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

  [[nodiscard]] std::string shown() const {
    if (value_->is_array()) return "an array of " + std::to_string(value_->size());
    if (value_->is_object()) return "an object";
    return text::shortened(value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
  }

  const nlohmann::json* value_;
  const std::string* path_;
  const std::string* above_ = nullptr;
  const json_place* parent_ = nullptr;
  const char* key_ = nullptr;
  std::size_t index_ = 0;
};

/// Accepts "switchyard.<kind>/1" and its minor versions; throws file_error for another kind or major version.
inline void check_schema(const json_place& file, std::string_view kind) {
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

/// Problems of entries that were left out of a file.
struct warnings {
  std::vector<std::string> messages;
  std::size_t left_out = 0;  ///< messages beyond the first hundred

  void add(const std::string& message) {
    if (messages.size() < 100) {
      messages.push_back(message);
    } else {
      ++left_out;
    }
  }
};

/// A message of a reader without the indices of its JSON pointer: equal for entries that are wrong in the
/// same way.
[[nodiscard]] inline std::string without_indices(const std::string& message, const std::string& path) {
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

/// Messages that differ in the number of an entry alone: one mistake of many entries.
struct group_of_same {
  std::string kind;
  std::string first;     ///< of the messages
  std::size_t more = 0;  ///< how many others
};

/// Groups messages of a file, in the order of the first of each group.
[[nodiscard]] inline std::vector<group_of_same> group_same(std::span<const std::string> messages,
                                                           const std::string& path) {
  std::vector<group_of_same> out;
  std::map<std::string, std::size_t> known;
  for (const std::string& each : messages) {
    std::string kind = without_indices(each, path);
    const auto [found, is_new] = known.try_emplace(kind, out.size());
    if (is_new) {
      out.push_back({std::move(kind), each, 0});
    } else {
      ++out[found->second].more;
    }
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
