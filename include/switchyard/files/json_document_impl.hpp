// SPDX-License-Identifier: MIT
// The bodies of json_document.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/scan_json.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION void take_apart(
    nlohmann::json& value) noexcept {  // NOLINT(misc-no-recursion): as deep as it nests
  if (!value.is_structured() || value.empty()) return;
  for (nlohmann::json& element : value) take_apart(element);
  value.clear();
}

/// Builds a value from a parser's events. What was built until the parser gives up is left to the owner.
class json_builder final : public nlohmann::json::json_sax_t {
 public:
  explicit json_builder(nlohmann::json& root) noexcept : root_{root} {}

  /// What the parser said where it gave up.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*spelt*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // text has none
  bool start_object(std::size_t /*elements*/) override { return open(nlohmann::json::value_t::object); }
  bool key(string_t& name) override {
    member_ = &(*open_.back())[name];
    take_apart(*member_);  // a repeated key: the last one counts
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(nlohmann::json::value_t::array); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*last*/,
                   const nlohmann::json::exception& problem) override {
    problem_ = problem.what();
    return false;
  }

 private:
  [[nodiscard]] nlohmann::json& place(nlohmann::json&& value) {
    if (open_.empty()) return root_ = std::move(value);
    if (!open_.back()->is_array()) return *member_ = std::move(value);
    return open_.back()->emplace_back(std::move(value));
  }
  bool put(nlohmann::json&& value) {
    (void)place(std::move(value));
    return true;
  }
  bool open(nlohmann::json::value_t kind) {
    open_.push_back(&place(kind));
    return true;
  }
  bool close() noexcept {
    open_.pop_back();
    return true;
  }

  nlohmann::json& root_;
  std::vector<nlohmann::json*> open_;  // the arrays and objects around what comes next
  nlohmann::json* member_ = nullptr;   // of the innermost one, where that is an object
  std::string problem_;
};

/// False where the text is no JSON. sax_parse() of nlohmann_json 3 also compiles the readers of binary
/// formats: 41 KB. What it calls is not public; versions that were not tried are called through it.
SWITCHYARD_FUNCTION bool build_json(std::string_view text, json_builder& builder) {
#if NLOHMANN_JSON_VERSION_MAJOR == 3 && NLOHMANN_JSON_VERSION_MINOR <= 12
  auto bytes = nlohmann::detail::input_adapter(text.begin(), text.end());
  return nlohmann::detail::parser<nlohmann::json, decltype(bytes)>{std::move(bytes)}.sax_parse(&builder);
#else
  return nlohmann::json::sax_parse(text, &builder);
#endif
}

}  // namespace detail

SWITCHYARD_FUNCTION json_document::json_document(std::string_view text, const std::string& path,
                                                 const std::string& above)
    : json_document{} {  // so that the destructor runs when this throws
  const json_scan found = scan_json(text);
  const auto fail = [&path](const std::string& problem) {
    throw file_error{error_code::malformed_json, path + ": " + problem};
  };
  if (found.depth > max_json_depth) {
    fail("nests " + std::to_string(found.depth) + " levels deep; at most " + std::to_string(max_json_depth) +
         " are read");
  }
  if (found.zero_byte != json_scan::nowhere) {
    fail("is not JSON: byte " + std::to_string(found.zero_byte + 1) +
         " is zero. Was the file cut off or saved half-way?");
  }
  detail::json_builder builder{value_};
  if (!detail::build_json(text, builder)) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the number means nothing
    // here
    std::string_view message = builder.problem();
    if (const auto end = message.find("] "); end != std::string_view::npos) message.remove_prefix(end + 2);
    fail("is not JSON: " + text::shortened(message, 300) + ". Was the file cut off or saved half-way?");
  }
  if (found.has_repeated_key) {
    fail(text::shortened(above + found.repeated_key, 300) + ": the key is repeated; remove one of the two");
  }
}

SWITCHYARD_FUNCTION json_document& json_document::operator=(json_document&& other) noexcept {
  value_.swap(other.value_);
  return *this;
}

SWITCHYARD_FUNCTION json_document json_document::try_parse(std::string_view text) {
  json_document out;
  detail::json_builder builder{out.value_};
  if (!detail::build_json(text, builder)) return {};
  return out;
}

}  // namespace v0
}  // namespace switchyard
