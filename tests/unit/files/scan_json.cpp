// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/scan_json.hpp>

#include "environment.hpp"

namespace json_scanning {

using namespace switchyard;

/// The pointer of the first key that stands twice, or nothing.
std::optional<std::string> repeated_in(std::string_view text) {
  const json_scan found = scan_json(text);
  if (!found.has_repeated_key) {
    CHECK(found.repeated_key.empty());
    return std::nullopt;
  }
  return found.repeated_key;
}

std::string hex(std::uint32_t unit, bool is_upper) {
  char out[8];
  std::snprintf(out, sizeof out, is_upper ? "\\u%04X" : "\\u%04x", unit);
  return out;
}

/// A character as JSON spells it with numbers.
std::string escaped(std::uint32_t code, bool is_upper) {
  if (code < 0x10000) return hex(code, is_upper);
  return hex(0xd800 + ((code - 0x10000) >> 10U), is_upper) +
         hex(0xdc00 + ((code - 0x10000) & 0x3ffU), !is_upper);
}

/// A character as it is.
std::string plain(std::uint32_t code) {
  return nlohmann::json::parse("\"" + escaped(code, false) + "\"").get<std::string>();
}

TEST_CASE("a key that is spelt with an escape is the one that it means, at every length of UTF-8") {
  std::mt19937 random{switchyard::test::seed_or(31)};
  std::vector<std::uint32_t> codes{0x20,    0x30,    0x41,    0x7e,     0x7f,    0x80,    0xbf,
                                   0xc0,    0xe9,    0x7ff,   0x800,    0xfff,   0x1000,  0xd7ff,
                                   0xe000,  0xfffd,  0xffff,  0x10000,  0x103ff, 0x10400, 0x1f682,
                                   0x3ffff, 0x40000, 0xfffff, 0x100000, 0x10ffff};
  for (int i = 0; i < 3000; ++i) {
    const auto code = static_cast<std::uint32_t>(0x20 + random() % (0x110000 - 0x20));
    if (code >= 0xd800 && code < 0xe000) continue;
    codes.push_back(code >> random() % 12);
    if (codes.back() < 0x20 || (codes.back() >= 0xd800 && codes.back() < 0xe000)) codes.pop_back();
  }
  for (const std::uint32_t code : codes) {
    INFO(code);
    if (code == '"' || code == '\\' || code == '~' || code == '/') continue;
    const std::string as_it_is = plain(code);
    for (const bool is_upper : {false, true}) {
      const std::string spelt = escaped(code, is_upper);
      REQUIRE(repeated_in("{\"x" + as_it_is + "y\": 1, \"x" + spelt + "y\": 2}") == "/x" + as_it_is + "y");
      REQUIRE(repeated_in("{\"" + spelt + "\": 1, \"" + spelt + "\": 2}") == "/" + as_it_is);
      REQUIRE_FALSE(repeated_in("{\"" + spelt + "\": 1, \"" + spelt + "0\": 2}"));
    }
    const std::uint32_t next = code == 0x10ffff ? 0x10fffe : code + 1;
    if (next == 0xd800 || next == '"' || next == '\\') continue;
    REQUIRE_FALSE(repeated_in("{\"" + as_it_is + "\": 1, \"" + escaped(next, false) + "\": 2}"));
  }
}

TEST_CASE("short escapes mean their characters, and none means another's") {
  const std::string letters = "\"\\/bfnrt";
  const std::vector<std::uint32_t> meant{0x22, 0x5c, 0x2f, 0x08, 0x0c, 0x0a, 0x0d, 0x09};
  for (std::size_t i = 0; i < letters.size(); ++i) {
    for (std::size_t j = 0; j < meant.size(); ++j) {
      INFO(letters[i] << " and " << meant[j]);
      const std::string text =
          std::string{"{\"a\\"} + letters[i] + "\": 1, \"a" + hex(meant[j], false) + "\": 2}";
      REQUIRE(repeated_in(text).has_value() == (i == j));
    }
  }
  CHECK(repeated_in(R"({"a\"b": 1, "a": 2, "b": 3, "a\"b": 4})") == "/a\"b");
  CHECK_FALSE(repeated_in(R"({"\\": 1, "\\\\": 2, "\\\"": 3})"));
}

TEST_CASE("half a character stays as it is spelt") {
  CHECK(repeated_in(R"({"\ud800": 1, "\ud800": 2})") == R"(/\ud800)");
  CHECK(repeated_in(R"({"\udc00": 1, "\udc00": 2})") == R"(/\udc00)");
  CHECK(repeated_in(R"({"\udfff": 1, "\udfff": 2})") == R"(/\udfff)");
  CHECK(repeated_in(R"({"\ud800x": 1, "\ud800x": 2})") == R"(/\ud800x)");
  CHECK(repeated_in(R"({"\ud800\ud800": 1, "\ud800\ud800": 2})") == R"(/\ud800\ud800)");
  CHECK(repeated_in(R"({"\udbff\u0041": 1, "\udbff\u0041": 2})") == R"(/\udbffA)");
  CHECK(repeated_in(R"({"\ud800\ue000": 1, "\ud800\ue000": 2})") == "/\\ud800\xee\x80\x80");
  CHECK(repeated_in(R"({"\ud800_udc00": 1, "\ud800_udc00": 2})") == R"(/\ud800_udc00)");
  CHECK_FALSE(repeated_in(R"({"\ud800": 1, "\ud801": 2, "\udc00": 3, "\ud800\udc00": 4})"));
  // Nor does what is no number, or is cut off, mean a character.
  for (const char* const none : {"u004", "u00g1", "u00:1", "u00@1", "u00`1", "u00G1", "x0041", "u"}) {
    const std::string key = std::string{"\\"} + none;
    CHECK(repeated_in("{\"" + key + "\": 1, \"" + key + "\": 2}") == "/" + key);
  }
  CHECK(repeated_in(R"({"\u00/1": 1, "\u00/1": 2})") == R"(/\u00~11)");
}

TEST_CASE("keys that stand twice are found among few and among many, in each object by itself") {
  for (std::size_t count = 1; count <= 40; ++count) {
    std::string members;
    for (std::size_t i = 0; i < count; ++i)
      members += (i > 0 ? ", \"k" : "\"k") + std::to_string(i) + "\": 1";
    INFO(count);
    REQUIRE_FALSE(repeated_in("{" + members + "}"));
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(repeated_in("{" + members + ", \"k" + std::to_string(i) + "\": 2}") ==
              "/k" + std::to_string(i));
    }
    // One after the other and one in the other, whose keys are the same.
    REQUIRE_FALSE(repeated_in("[{" + members + "}, {" + members + "}]"));
    REQUIRE_FALSE(repeated_in("{" + members + ", \"in\": {" + members + "}}"));
    REQUIRE_FALSE(repeated_in("{\"in\": {" + members + "}, " + members + "}"));
    REQUIRE(repeated_in("[{" + members + "}, {" + members + ", \"k0\": 2}]") == "/1/k0");
    REQUIRE(repeated_in("{\"in\": {" + members + "}, " + members + ", \"in\": 1}") == "/in");
    REQUIRE(repeated_in("{" + members + ", \"in\": {" + members + "}, \"k0\": 1}") == "/k0");
  }
}

TEST_CASE("the first key that stands twice is named, with its place") {
  CHECK(repeated_in(R"([1, [2, 3], {"a": [{}, {"b": 1, "c": {}, "b": 2, "c": 1}], "a": 1}])") == "/2/a/1/b");
  CHECK(repeated_in(R"({"~": {"/": 1, "/": 2}})") == "/~0/~1");
  CHECK(repeated_in(R"({"a": {"": 1, "": 2}})") == "/a/");
  // Strings that are values are no keys, and punctuation in strings none.
  CHECK_FALSE(repeated_in(R"({"a": "b", "b": "a", "c": ["a", "a", "a"], "d": "{\"a\": 1, \"a\": 1}"})"));
  CHECK_FALSE(repeated_in(R"({"a": "]}", "b": "[{"})"));
  // Of a long key 64 bytes are shown, and of none more.
  const std::string key(70, 'k');
  CHECK(repeated_in("{\"" + key + "\": 1, \"" + key + "\": 2}") == "/" + std::string(64, 'k'));
  const std::string fits(64, 'k');
  CHECK(repeated_in("{\"" + fits + "\": 1, \"" + fits + "\": 2}") == "/" + fits);
}

TEST_CASE("the depth is that of the deepest bracket, and what lies deeper than is read does not confuse it") {
  std::mt19937 random{switchyard::test::seed_or(32)};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::string open;
    std::size_t deepest = 0;
    for (int i = 0; i < 300; ++i) {
      if (random() % 8 < 5) {
        const bool is_object = random() % 2 == 0;
        text += is_object ? "{\"k[\": " : "[\"]\\\"}\", ";
        open += is_object ? '}' : ']';
        deepest = std::max(deepest, open.size());
      } else if (!open.empty()) {
        text += "1" + std::string{open.back()};
        open.pop_back();
      }
    }
    while (!open.empty()) {
      text += open.back();
      open.pop_back();
    }
    REQUIRE(scan_json(text).depth == deepest);
  }
  CHECK(scan_json("").depth == 0);
  CHECK(scan_json("1").depth == 0);
  CHECK(scan_json("]]][").depth == 1);
  for (const std::size_t depth :
       {max_json_depth - 1, max_json_depth, max_json_depth + 1, max_json_depth + 9}) {
    INFO(depth);
    std::string nest;
    for (std::size_t i = 1; i < depth; ++i) nest += i % 2 == 0 ? "[0, 0, " : "{\"k\": 1, \"n\": ";
    std::string back;
    for (std::size_t i = depth - 1; i >= 1; --i) back += i % 2 == 0 ? ']' : '}';
    // Of one array: a deep element, and one behind it whose key stands twice.
    CHECK(scan_json("[" + nest + back + ", {\"a\": 1, \"a\": 2}]").depth == depth);
    CHECK(repeated_in("[" + nest + back + ", {\"a\": 1, \"a\": 2}]") == "/1/a");
    CHECK(repeated_in("{\"a\": " + nest + back + ", \"b\": 0, \"a\": 2}") == "/a");
    CHECK_FALSE(repeated_in("{\"k\": " + nest + back + ", \"b\": 0, \"n\": 2}"));
    // A key that stands twice in the deepest object, which is read up to the limit.
    CHECK(repeated_in("[" + nest + "{\"k\": 1, \"k\": 2}" + back + "]").has_value() ==
          (depth < max_json_depth));
  }
}

TEST_CASE("the first zero byte is found inside strings and outside, but not behind a backslash") {
  using namespace std::string_view_literals;
  CHECK(scan_json("{\"a\": 1}"sv).zero_byte == json_scan::nowhere);
  CHECK(scan_json("\0{}\0"sv).zero_byte == 0);
  CHECK(scan_json("[1,\0 2]\0"sv).zero_byte == 3);
  CHECK(scan_json("[\"ab\0c\0\"]"sv).zero_byte == 4);
  CHECK(scan_json("[\"\\\\\0\"]"sv).zero_byte == 4);
  CHECK(scan_json("[\"[\\\"\0"sv).zero_byte == 5);
  CHECK(scan_json("[\"abc"sv).zero_byte == json_scan::nowhere);
  CHECK(scan_json("[\"abc\\"sv).zero_byte == json_scan::nowhere);
}

TEST_CASE("a text that ends early, or closes what it did not open, is scanned to its end") {
  const std::string text = R"({"a": [1, {"b\n": "c", "d": [[]]}], "e\u0041": {"a": "\ud800\udc00"}})";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    for (const char* const behind : {"", "]", "}", "\"", "\\", "\\u", ":", ","}) {
      const json_scan found = scan_json(text.substr(0, length) + behind);
      CHECK(found.depth <= 5);
      CHECK(found.zero_byte == json_scan::nowhere);
      CHECK(scan_json(behind + text.substr(length)).depth <= 5);
    }
  }
  CHECK(repeated_in(R"(}{"a": 1, "a": 2})") == "/a");
  CHECK_FALSE(repeated_in(R"("a": "a": "a": )"));
}

}  // namespace json_scanning
