// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/scan_json.hpp>

#include "../../environment.hpp"

using namespace switchyard;

namespace {

using nlohmann::json;

bool is_outlined(const std::string& text) {
  json_outline out;
  return outline_json(text, "list", out);
}

/// A random value, nested up to a depth.
json random_value(std::mt19937& random, int depth) {
  const auto draw = [&random](std::size_t limit) { return static_cast<int>(random() % limit); };
  switch (draw(depth > 0 ? 9 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return draw(2) == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - INT64_C(2'000'000'000);
    case 3:
      return static_cast<double>(draw(2'000'000) - 1'000'000) * 1.37e-9;
    case 4:
      return std::string(static_cast<std::size_t>(draw(40)), static_cast<char>('a' + draw(26)));
    case 5:
      return "line\nquote\" back\\slash \u00e9\u20ac\U0001f600 tab\t";
    case 6:
      return "";
    case 7: {
      json out = json::array();
      for (int i = draw(5); i > 0; --i) out.push_back(random_value(random, depth - 1));
      return out;
    }
    default: {
      json out = json::object();
      for (int i = draw(5); i > 0; --i)
        out["key" + std::to_string(draw(100))] = random_value(random, depth - 1);
      return out;
    }
  }
}

json random_document(std::mt19937& random) {
  json out = json::object();
  out["before"] = random_value(random, 3);
  json& list = out["list"] = json::array();
  for (std::size_t i = random() % 6; i > 0; --i) {
    json entry = random_value(random, 2);
    if (entry.is_object() && random() % 2 == 0) entry["id"] = "id" + std::to_string(i);
    if (entry.is_object() && random() % 2 == 0) entry["type"] = random_value(random, 1);
    list.push_back(entry);
  }
  out["ziel"] = random_value(random, 3);
  return out;
}

}  // namespace

TEST_CASE("an outline has the text of each member and of each entry of the list") {
  const std::uint32_t seed = switchyard::test::fresh_seed();
  INFO("SWITCHYARD_TEST_SEED=" << seed);
  std::mt19937 random{seed};
  for (int round = 0; round < 500; ++round) {
    const json document = random_document(random);
    const std::string text = document.dump(static_cast<int>(random() % 4) - 1, ' ', random() % 2 == 0);
    INFO(text);
    json_outline out;
    REQUIRE(outline_json(text, "list", out));
    REQUIRE(out.members.size() == document.size());
    for (const json_outline::member& member : out.members)
      CHECK(json::parse(member.value.in(text)) == document.at(std::string{member.key.in(text)}));
    REQUIRE(out.elements.size() == document["list"].size());
    for (std::size_t i = 0; i < out.elements.size(); ++i) {
      const json& element = document["list"][i];
      const json_outline::element& outlined = out.elements[i];
      CHECK(json::parse(outlined.whole.in(text)) == element);
      const bool has_id = element.is_object() && element.contains("id");
      const bool has_type = element.is_object() && element.contains("type");
      REQUIRE(outlined.id.empty() == !has_id);
      REQUIRE(outlined.type.empty() == !has_type);
      if (has_id) CHECK(json::parse(outlined.id.in(text)) == element["id"]);
      if (has_type) CHECK(json::parse(outlined.type.in(text)) == element["type"]);
    }
  }
}

TEST_CASE("an outline refuses exactly what the parser refuses") {
  const std::uint32_t seed = switchyard::test::fresh_seed();
  INFO("SWITCHYARD_TEST_SEED=" << seed);
  std::mt19937 random{seed};
  constexpr std::string_view bytes = "{}[]\",:\\/0123456789-+.eEtrufalsn \n\t\x01\x7f\xc3\xa9\xff";
  int refused = 0;
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = random_document(random).dump(round % 3 == 0 ? 1 : -1);
    for (std::size_t i = random() % 3; i > 0; --i) {
      const std::size_t at = random() % text.size();
      const char fresh = bytes[random() % bytes.size()];
      switch (random() % 3) {
        case 0:
          text[at] = fresh;
          break;
        case 1:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.insert(at, 1, fresh);
          break;
      }
      if (text.empty()) text = " ";
    }
    INFO(text);
    const json parsed = json::parse(text, nullptr, false);
    const bool is_sound = parsed.is_object();
    ++(is_sound ? accepted : refused);
    // Numbers beyond double's range and lone surrogates are the parser's to refuse.
    if (is_sound) {
      REQUIRE(is_outlined(text));
    } else if (is_outlined(text)) {
      CHECK((text.find("\\u") != std::string::npos || text.find_first_of("eE") != std::string::npos));
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);
}

TEST_CASE("an outline knows JSON's grammar") {
  for (const char* const sound :
       {"{}", " {\"a\" : [ ] } ", "\xef\xbb\xbf{}", R"({"a":-0.5e+10,"b":1E3,"c":"\u00e9\n\"\\\/"})",
        R"({"a":{"b":[{"c":null},true,false]}})", "{\"a\":\"\xf0\x9f\x98\x80\"}"}) {
    INFO(sound);
    CHECK(json::accept(sound));
    CHECK(is_outlined(sound));
  }
  for (const char* const wrong : {"",
                                  " ",
                                  "[]",
                                  "1",
                                  "null",
                                  "{",
                                  "{\"a\"}",
                                  "{\"a\":}",
                                  "{\"a\":1,}",
                                  "{,}",
                                  "{\"a\":01}",
                                  "{\"a\":+1}",
                                  "{\"a\":1.}",
                                  "{\"a\":.5}",
                                  "{\"a\":1e}",
                                  "{\"a\":-}",
                                  "{\"a\":\"\n\"}",
                                  "{\"a\":\"\\x\"}",
                                  "{\"a\":\"\\u12g4\"}",
                                  "{\"a\":[1,]}",
                                  "{\"a\":[1 2]}",
                                  "{\"a\":tru}",
                                  "{\"a\":nulll}",
                                  "{a:1}",
                                  "{'a':1}",
                                  "{}x",
                                  "{} {}",
                                  "{\"a\":\"\xc0\x80\"}",
                                  "{\"a\":\"\xed\xa0\x80\"}",
                                  "{\"a\":\"\xf5\x80\x80\x80\"}",
                                  "{\"a\":\"\xe2\x82\"}",
                                  "{\"a\":\"",
                                  "{\"a\":\"b"}) {
    INFO(wrong);
    CHECK_FALSE(is_outlined(wrong));
  }
  CHECK_FALSE(is_outlined(std::string{"{\"a\":1}\0", 8}));
}

TEST_CASE("an outline nests as deep as the parser may, and no deeper") {
  const auto nested = [](std::size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  const auto in_list = [](std::size_t depth) {
    return "{\"list\":[{\"a\":" + std::string(depth - 3, '[') + std::string(depth - 3, ']') + "}]}";
  };
  for (const auto& make : {+nested, +in_list}) {
    CHECK(is_outlined(make(max_json_depth)));
    CHECK_FALSE(is_outlined(make(max_json_depth + 1)));
    CHECK_FALSE(is_outlined(make(100'000)));
  }
}

TEST_CASE("a member is found in the beginning of a text if it lies there whole") {
  const std::string text =
      R"({"schema":"s","target":{"backend":"cuda","arch":"sm_90"},"variants":[{"id":"a"}]})";
  const std::size_t end = text.find(",\"variants\"");
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string beginning = text.substr(0, length);
    CHECK((find_member(beginning, "target") == R"({"backend":"cuda","arch":"sm_90"})") == (length >= end));
  }
  CHECK(find_member(text, "backend").empty());
  CHECK(find_member(text, "id").empty());
  CHECK(find_member("[1]", "target").empty());
}
