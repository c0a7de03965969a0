// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/files/json.hpp>
#include <switchyard/files/warning_filter.hpp>

namespace filtering {

using namespace switchyard;

TEST_CASE("A warning is given once, until its file has a new version", "[files]") {
  std::vector<std::string> given;
  warning_filter filter{[&given](const std::string& message) { given.push_back(message); }};
  warnings of_entries;
  of_entries.messages = {"a.json: /rows/0: no time", "a.json: /rows/1: no time"};
  filter.add(of_entries, "a.json");
  CHECK(given == std::vector<std::string>{"a.json: /rows/0: no time (the same in 1 more entry)"});
  filter.add(of_entries, "a.json");
  CHECK(given.size() == 1);
  filter.forget("a.json");
  filter.add(of_entries, "a.json");
  CHECK(given.size() == 2);
  filter.add_once({"x", "x"});
  filter.add_once({"x"});
  CHECK(given.size() == 3);
  filter.warn("x");
  CHECK(given.size() == 4);
}

TEST_CASE("The first reader that finds a fault says it for all", "[files]") {
  std::vector<std::string> given;
  warning_filter filter{[&given](const std::string& message) { given.push_back(message); }};
  filter.add_shared("softmax tables", "o.json: unreadable");
  filter.add_shared("rotary tables", "o.json: unreadable");
  CHECK(given.size() == 1);
  filter.add_shared("rotary tables", "o.json: unreadable");  // it came back
  CHECK(given.size() == 2);
  filter.add_shared("softmax tables", "o.json: unreadable");
  CHECK(given.size() == 2);
}

}  // namespace filtering
