// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstddef>
#include <string>

#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/scan_json.hpp>

#include "sanitized.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace {

const std::string file_path = "folder/file.json";

template <class Function>
std::string refusal_of(const Function& read, error_code expected = error_code::invalid_entry) {
  return switchyard::test::refusal_by<file_error>(expected, [&] { return read(); });
}

}  // namespace

TEST_CASE("a place's pointer escapes what RFC 6901 asks for") {
  const auto document = nlohmann::json::parse(R"({"a/b": {"~": [0, {"~1/": 5}]}, "": 1})");
  const json_place file{document, file_path};
  CHECK(file.pointer().empty());
  const auto a = file.at("a/b");
  const auto b = a.at("~");
  const auto c = b.at(std::size_t{1});
  const auto d = c.at("~1/");
  CHECK(d.pointer() == "/a~1b/~0/1/~01~1");
  CHECK(d.integer() == 5);
  // The pointer leads to the value when JSON's own reader follows it.
  CHECK(document.at(nlohmann::json::json_pointer{d.pointer()}) == 5);
  const auto empty = file.at("");
  CHECK(empty.pointer() == "/");
}

TEST_CASE("a missing member and a wrong kind are named with file, pointer and what was found") {
  const auto document = nlohmann::json::parse(R"({"rows": [{"at": "x"}, [1, 2], null]})");
  const json_place file{document, file_path};
  const auto rows = file.at("rows");
  const auto first = rows.at(std::size_t{0});
  const auto at = first.at("at");
  CHECK(refusal_of([&] { return first.at("times_us").integer(); }) ==
        "[switchyard.107] folder/file.json: /rows/0: 'times_us' is missing");
  CHECK(refusal_of([&] { return at.integer(); }) ==
        "[switchyard.107] folder/file.json: /rows/0/at: expected an integer, got \"x\"");
  CHECK(refusal_of([&] { return at.array_size(); }) ==
        "[switchyard.107] folder/file.json: /rows/0/at: expected an array, got \"x\"");
  const auto second = rows.at(std::size_t{1});
  CHECK_THAT(refusal_of([&] { return second.at("x").integer(); }),
             has_text("expected an object, got an array of 2"));
  CHECK_THAT(refusal_of([&] { return second.string(); }), has_text("expected a string, got an array of 2"));
  CHECK_THAT(refusal_of([&] { return first.number(); }), has_text("expected a number, got an object"));
  const auto third = rows.at(std::size_t{2});
  CHECK_THAT(refusal_of([&] { return third.boolean(); }), has_text("expected true or false, got null"));
  CHECK_THAT(refusal_of([&] { return third.object().size(); }), has_text("expected an object, got null"));
}

TEST_CASE("integers are whole and fit 64 bits") {
  const auto document = nlohmann::json::parse(
      "[9223372036854775807, -9223372036854775808, 9223372036854775808, 1.0, 18446744073709551616]");
  const json_place file{document, file_path};
  const auto at = [&file](std::size_t i) { return file.at(i); };
  CHECK(at(0).integer() == INT64_MAX);
  CHECK(at(1).integer() == INT64_MIN);
  CHECK_THAT(refusal_of([&] { return at(2).integer(); }), has_text("/2: the number does not fit 64 bits"));
  CHECK_THAT(refusal_of([&] { return at(3).integer(); }), has_text("/3: expected an integer, got 1.0"));
  CHECK_THAT(refusal_of([&] { return at(4).integer(); }), has_text("/4: expected an integer"));
  CHECK(at(4).number() == 18446744073709551616.0);
}

TEST_CASE("messages stay short and whole characters, whatever the file holds") {
  const nlohmann::json document{{"id", std::string(59, 'a') + "\xc3\xa9" + std::string(1 << 20, 'b')},
                                {std::string(1 << 20, 'k'), 1}};
  const json_place file{document, file_path};
  const auto id = file.at("id");
  const std::string said = refusal_of([&] { return id.integer(); });
  CHECK(said.size() < 200);
  CHECK_THAT(said, has_text("..."));
  CHECK(said.find('\xc3') == std::string::npos);
  const std::string long_key(1 << 20, 'k');
  const auto entry = file.at(long_key.c_str());
  CHECK(refusal_of([&] { return entry.string(); }).size() < 600);
}

TEST_CASE("text that is no JSON is refused with the place of the mistake") {
  const auto of = [](std::string_view text) {
    return refusal_of([&] { return parse_json(text, file_path).size(); }, error_code::malformed_json);
  };
  CHECK_THAT(of("{\"a\": 1,\n \"b\": }"),
             has_text("folder/file.json: is not JSON: parse error at line 2, column 7"));
  CHECK_THAT(of("{\"a\": [1, 2"), has_text("Was the file cut off or saved half-way?"));
  CHECK_THAT(of(""), has_text("is not JSON"));
  CHECK_THAT(of("{} {}"), has_text("is not JSON"));
  CHECK_THAT(of("[NaN]"), has_text("is not JSON"));
  CHECK_THAT(of("[1e999]"), has_text("is not JSON"));
  CHECK_THAT(of("{\"a\": \"\xff\"}"), has_text("UTF-8"));
  CHECK_THAT(of("{\"a\": \"\xc0\x80\"}"), has_text("UTF-8"));
  CHECK(of("\"" + std::string(1 << 20, 'x')).size() < 600);
}

TEST_CASE("a zero byte, where a parser would stop, is refused with its place") {
  const auto of = [](std::string_view text) {
    return refusal_of([&] { return parse_json(text, file_path).size(); }, error_code::malformed_json);
  };
  using namespace std::string_view_literals;
  CHECK(of("{} \0 garbage"sv) ==
        "[switchyard.103] folder/file.json: is not JSON: byte 4 is zero. Was the file cut off or saved "
        "half-way?");
  CHECK_THAT(of("{}\0"sv), has_text("byte 3 is zero"));
  CHECK_THAT(of("{\"a\0b\": 1}"sv), has_text("byte 4 is zero"));
  CHECK(parse_json(R"({"a\u0000b": 1})", file_path).size() == 1);
}

TEST_CASE("a key that stands twice in an object is refused with its pointer") {
  const auto of = [](std::string_view text) {
    return refusal_of([&] { return parse_json(text, file_path).size(); }, error_code::malformed_json);
  };
  CHECK(of(R"({"a": 1, "b": 2, "a": 3})") ==
        "[switchyard.103] folder/file.json: /a: the key is repeated; remove one of the two");
  CHECK_THAT(of(R"({"rows": [1, {"at": {}}, {"x/y": {"~": [], "z": 1, "~": {"q": [2]}}}]})"),
             has_text("/rows/2/x~1y/~0: the key"));
  CHECK_THAT(of(R"({"id": 1, "\u0069\u0064": 2})"), has_text("/id: the key"));
  CHECK_THAT(of(R"({"\ud83d\ude82": 1, "🚂": 2})"), has_text("/🚂: the key"));
  CHECK_THAT(of(R"({"\"\\\/\n": 1, "\u0022\u005c/\u000a": 2})"), has_text("the key is repeated"));
  CHECK_THAT(of(R"({"": 1, "": 2})"), has_text("/: the key"));
  CHECK(parse_json(R"({"a": {"a": [{"a": 1}, {"a": "a"}]}, "b": "a", "c": "\"a\": 1", "aa": 1})", file_path)
            .size() == 4);
  // Very many, and in linear time.
  constexpr std::size_t count = ::test::at_scale(std::size_t{200'000});
  std::string many = "{";
  for (std::size_t i = 0; i < count; ++i) many += "\"k" + std::to_string(i) + "\": 1, ";
  CHECK(parse_json(many + "\"last\": 1}", file_path).size() == count + 1);
  CHECK_THAT(of(many + "\"k7777\": 1}"), has_text("/k7777: the key"));
  CHECK_THAT(of(many + "\"k3\": 1}"), has_text("/k3: the key"));
}

TEST_CASE("nesting is counted before anything is parsed, and not inside strings") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_json(nested(max_json_depth), file_path).is_array());
  CHECK_THAT(refusal_of([&] { return parse_json(nested(max_json_depth + 1), file_path); },
                        error_code::malformed_json),
             has_text("nests 65 levels deep; at most 64 are read"));
  CHECK_THAT(refusal_of([&] { return parse_json(nested(1'000'000), file_path); }, error_code::malformed_json),
             has_text("nests 1000000 levels deep"));
  CHECK(
      parse_json("[\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"]", file_path).size() ==
      1);
}

TEST_CASE("the schema's name and major version are checked") {
  const auto check = [](const char* schema, error_code expected) {
    const nlohmann::json document{{"schema", schema}};
    const json_place file{document, file_path};
    return refusal_of(
        [&] {
          check_schema(file, "table");
          return 0;
        },
        expected);
  };
  CHECK(check("switchyard.table/1", {}).empty());
  CHECK(check("switchyard.table/1.7", {}).empty());
  CHECK(check("switchyard.manifest/1", error_code::wrong_schema) ==
        "[switchyard.104] folder/file.json: /schema: expected \"switchyard.table/1\", got "
        "\"switchyard.manifest/1\"");
  CHECK_THAT(check("switchyard.table/2", error_code::unsupported_schema_version),
             has_text("Update the library"));
  CHECK_FALSE(check("switchyard.table/10", error_code::unsupported_schema_version).empty());
  CHECK_FALSE(check("switchyard.table/", error_code::unsupported_schema_version).empty());
  CHECK_FALSE(check("", error_code::wrong_schema).empty());
}

TEST_CASE("of very many warnings a hundred are kept, and the rest counted") {
  warnings all;
  for (int i = 0; i < 250; ++i) all.add(std::to_string(i));
  CHECK(all.messages.size() == 100);
  CHECK(all.messages.back() == "99");
  CHECK(all.left_out == 150);
}
