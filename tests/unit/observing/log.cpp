// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <switchyard/observing/log.hpp>

#include "../temporary.hpp"
#include "threads.hpp"

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
    switchyard::test::run_threads(4, [&out](int t) {
      for (int i = 0; i < 500; ++i) out.line(std::string(100, static_cast<char>('a' + t)));
    });
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

TEST_CASE("a program's own logger receives each line with its kind and code") {
  struct received {
    std::vector<std::string> lines;
  } mine;
  const log_receiver receiver{[](void* context, const log_line& line) noexcept {
                                CHECK(line.text.data()[line.text.size()] == 0);
                                static_cast<received*>(context)->lines.push_back(
                                    std::to_string(static_cast<int>(line.kind)) + " " +
                                    std::to_string(line.code) + " " + std::string{line.text});
                              },
                              &mine};
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const int standard_error = ::dup(2);
  ::dup2(ends[1], 2);
  {
    switchyard::log out{debug_level::choices, false, 2, &::write, receiver};
    out.warn("/a/b.json: [switchyard.110] entry 3");
    out.warn("no code");
    out.line("switchyard: loaded\nforged");
    out.line("switchyard: softmax", log_kind::choice);
    out.count(of(reason::exact));
  }
  ::dup2(standard_error, 2);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) < 0);  // nothing was written
  for (const int descriptor : {ends[0], ends[1], standard_error}) ::close(descriptor);
  REQUIRE(mine.lines.size() == 5);
  CHECK(mine.lines[0] == "0 110 /a/b.json: [switchyard.110] entry 3");
  CHECK(mine.lines[1] == "0 0 no code");
  CHECK(mine.lines[2] == "2 0 loaded\\u000aforged");
  CHECK(mine.lines[3] == "1 0 softmax");
  CHECK(mine.lines[4].substr(0, 12) == "3 0 summary:");

  // A file that was asked for gets them as well, whole.
  const temporary_folder folder;
  mine.lines.clear();
  {
    switchyard::log out{debug_level::silent, true, open_file(folder / "a"), &::write, receiver};
    out.warn("[switchyard.302] b");
  }
  CHECK(slurp(folder / "a") == "{\"event\":\"warning\",\"message\":\"[switchyard.302] b\"}\n");
  CHECK(mine.lines ==
        std::vector<std::string>{"0 302 {\"event\":\"warning\",\"message\":\"[switchyard.302] b\"}"});
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
