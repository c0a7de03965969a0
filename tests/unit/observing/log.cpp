// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/observing/log.hpp>

#include "../temporary.hpp"

using namespace switchyard;

namespace {
int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
}
choice of(reason why) {
  choice out;
  out.why = why;
  return out;
}
}  // namespace

TEST_CASE("lines of many threads stay whole") {
  const temporary_folder folder;
  {
    switchyard::log out{debug_level::choices, false, open_file(folder / "a")};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&out, t] {
        for (int i = 0; i < 500; ++i) out.line(std::string(100, static_cast<char>('a' + t)));
      });
    }
    for (auto& each : threads) each.join();
  }
  std::istringstream content{slurp(folder / "a")};
  int lines = 0;
  for (std::string line; std::getline(content, line); ++lines) {
    REQUIRE(line == std::string(100, line[0]));
  }
  CHECK(lines == 2000);
}

TEST_CASE("warnings are written at every level, as JSON where that is asked for") {
  const temporary_folder folder;
  {
    switchyard::log plain{debug_level::silent, false, open_file(folder / "plain")};
    plain.warn("a \"b\"");
    switchyard::log json{debug_level::choices, true, open_file(folder / "json")};
    json.warn("a \"b\"");
  }
  CHECK(slurp(folder / "plain") == "switchyard: warning: a \"b\"\n");
  CHECK(slurp(folder / "json") == "{\"event\":\"warning\",\"message\":\"a \\\"b\\\"\"}\n");
}

TEST_CASE("the summary names each type of calls that no rows decide once, up to a limit") {
  const temporary_folder folder;
  const auto write = [&](const char* name, bool json, int types) {
    {
      switchyard::log out{debug_level::choices, json, open_file(folder / name)};
      out.count(of(reason::heuristic));
      for (int i = 0; i < types; ++i) out.note_without_rows("scale {width=" + std::to_string(i) + "}");
      out.note_without_rows("scale {width=0}");
    }
    return slurp(folder / name);
  };
  CHECK_THAT(write("a", false, 2),
             has_text("switchyard: no rows decide: scale {width=0}; scale {width=1}\n"));
  CHECK_THAT(write("b", true, 2), has_text(R"(,"without_rows":["scale {width=0}","scale {width=1}"]})"));
  CHECK_THAT(write("c", false, 40), has_text("scale {width=31}; and others\n"));
}

TEST_CASE("the summary counts the choices by reason, and is left out where lines were not asked for") {
  const temporary_folder folder;
  const auto write = [&](const char* name, debug_level level, bool json, bool with_choices) {
    {
      switchyard::log out{level, json, open_file(folder / name)};
      if (with_choices) {
        out.count(of(reason::exact));
        out.count(of(reason::exact));
        out.count(of(reason::heuristic));
        out.count(of(reason::none));
        CHECK(out.counted(reason::exact) == 2);
      }
    }
    return slurp(folder / name);
  };
  CHECK(write("a", debug_level::choices, false, true) ==
        "switchyard: summary: exact 2 interpolated 0 extrapolated 0 other_device 0 heuristic 1 forced 0 "
        "pinned 0 failed 1\n");
  CHECK(write("b", debug_level::launches, true, true) ==
        "{\"event\":\"summary\",\"exact\":2,\"interpolated\":0,\"extrapolated\":0,\"other_device\":0,"
        "\"heuristic\":1,\"forced\":0,\"pinned\":0,\"failed\":1}\n");
  CHECK(write("c", debug_level::silent, false, true).empty());
  CHECK(write("d", debug_level::choices, false, false).empty());
}

TEST_CASE("no text forges a line of the log") {
  const temporary_folder folder;
  {
    switchyard::log plain{debug_level::silent, false, open_file(folder / "plain")};
    plain.warn("path a\nswitchyard: warning: forged\x1b[2J");
    plain.line("b\r\nc");
    switchyard::log json{debug_level::silent, true, open_file(folder / "json")};
    json.warn("a\nb\xc2\x9b");
  }
  CHECK(slurp(folder / "plain") ==
        "switchyard: warning: path a\\u000aswitchyard: warning: forged\\u001b[2J\nb\\u000d\\u000ac\n");
  CHECK(slurp(folder / "json") == "{\"event\":\"warning\",\"message\":\"a\\u000ab\\u009b\"}\n");
}
