// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>

#include <switchyard/error.hpp>
#include <switchyard/observing/environment.hpp>

#include "../temporary.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace {

/// Sets a variable for the life of the object.
class variable {
 public:
  variable(const char* name, const std::string& value) : name_{name} { ::setenv(name, value.c_str(), 1); }
  ~variable() { ::unsetenv(name_); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

 private:
  const char* name_;
};

std::string refusal(const char* name, const std::string& value) {
  const variable set{name, value};
  return switchyard::test::refusal_by<call_error>(error_code::invalid_environment,
                                                  [&] { return environment::read(); });
}

}  // namespace

TEST_CASE("without variables nothing is said, searched, forced or recorded") {
  for (const char* name :
       {"SWITCHYARD_DEBUG", "SWITCHYARD_DEBUG_FILE", "SWITCHYARD_PATH", "SWITCHYARD_TABLES",
        "SWITCHYARD_FORCE", "SWITCHYARD_RECORD", "SWITCHYARD_CHECK"}) {
    ::unsetenv(name);
  }
  const environment out = environment::read();
  CHECK(out.debug == debug_level::silent);
  CHECK_FALSE(out.debug_json);
  CHECK_FALSE(out.check);
  CHECK(out.path.empty());
  CHECK(out.tables.empty());
  CHECK(out.forced.empty());
  CHECK(out.open_recorder() == nullptr);
  CHECK(out.forced_for("rotary").empty());
}

TEST_CASE("SWITCHYARD_DEBUG is 0, 1, 2, json or a level with json") {
  const auto read = [](const char* value) {
    const variable set{"SWITCHYARD_DEBUG", value};
    return environment::read();
  };
  CHECK(read("").debug == debug_level::silent);
  CHECK(read("0").debug == debug_level::silent);
  CHECK(read("1").debug == debug_level::choices);
  CHECK(read("2").debug == debug_level::launches);
  CHECK_FALSE(read("2").debug_json);
  CHECK(read("json").debug == debug_level::choices);
  CHECK(read("json").debug_json);
  CHECK(read("2,json").debug == debug_level::launches);
  CHECK(read("json,2").debug == debug_level::launches);
  CHECK(read("2,json").debug_json);
  for (const char* const value : {"true", "on", "yes"}) {
    CHECK(read(value).debug == debug_level::choices);
    CHECK(read(value).doubts.empty());
  }
  for (const char* const value : {"false", "off", "no"}) CHECK(read(value).debug == debug_level::silent);
}

TEST_CASE("SWITCHYARD_DEBUG ends no engine: what it does not know is 1, with a warning") {
  const variable set{"SWITCHYARD_DEBUG", "verbose"};
  const environment out = environment::read();
  CHECK(out.debug == debug_level::choices);
  CHECK(out.doubts ==
        std::vector<std::string>{
            "SWITCHYARD_DEBUG: expected 0, 1, 2, json, or 2,json, got 'verbose'; took it for 1"});
}

TEST_CASE("SWITCHYARD_CHECK is 0 or 1; what it does not know is 1, with a warning") {
  const auto read = [](const char* value) {
    const variable set{"SWITCHYARD_CHECK", value};
    return environment::read();
  };
  for (const char* no : {"", "0", "off", "false", "no"}) CHECK_FALSE(read(no).check);
  for (const char* yes : {"1", "on", "true", "yes"}) {
    CHECK(read(yes).check);
    CHECK(read(yes).doubts.empty());
  }
  const environment out = read("twice");
  CHECK(out.check);
  CHECK(out.doubts ==
        std::vector<std::string>{"SWITCHYARD_CHECK: expected 0 or 1, got 'twice'; took it for 1"});
}

TEST_CASE("paths are separated by colons, and empty ones are left out") {
  const variable path{"SWITCHYARD_PATH", "/a:/b/c::/d:"};
  const variable tables{"SWITCHYARD_TABLES", "one.json"};
  const environment out = environment::read();
  CHECK(out.path == std::vector<std::string>{"/a", "/b/c", "/d"});
  CHECK(out.tables == std::vector<std::string>{"one.json"});
}

TEST_CASE("SWITCHYARD_FORCE names operators and what they are to use") {
  const variable force{"SWITCHYARD_FORCE", "rotary:plain;attention_forward:block_m=64,block_n=128"};
  const environment out = environment::read();
  CHECK(out.forced_for("rotary") == "plain");
  CHECK(out.forced_for("attention_forward") == "block_m=64,block_n=128");
  CHECK(out.forced_for("other").empty());
  for (const char* wrong : {"rotary", ":plain", "rotary:", "rotary:plain;x"}) {
    CHECK_THAT(refusal("SWITCHYARD_FORCE", wrong), has_text("expected operator:variant-id"));
  }
}

TEST_CASE("debug lines go to the file asked for, %p standing for the process") {
  const temporary_folder folder;
  const variable file{"SWITCHYARD_DEBUG_FILE", folder / "log.%p.txt"};
  const variable level{"SWITCHYARD_DEBUG", "1"};
  environment::read().open_log()->line("hello");
  environment::read().open_log()->line("again");
  CHECK(slurp(folder / ("log." + std::to_string(::getpid()) + ".txt")) == "hello\nagain\n");
}

TEST_CASE("a record that cannot be written is an error that names the variable and the file") {
  const variable file{"SWITCHYARD_RECORD", "/nonexistent/folder/x.jsonl"};
  const auto problem =
      switchyard::test::error_of<file_error>([&] { return environment::read().open_recorder(); });
  CHECK(problem.code() == error_code::unreadable_file);
  CHECK_THAT(problem.what(), has_text("SWITCHYARD_RECORD: /nonexistent/folder/x.jsonl: cannot be written"));
}

TEST_CASE("a pipe that nobody reads, or nobody empties, never makes a program wait") {
  const temporary_folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const variable debug{"SWITCHYARD_DEBUG_FILE", pipe};
  const variable record{"SWITCHYARD_RECORD", pipe};
  (void)environment::read().open_log();  // gives way to standard error
  const auto problem =
      switchyard::test::error_of<file_error>([&] { return environment::read().open_recorder(); });
  CHECK(std::string{problem.what()} ==
        "[switchyard.101] SWITCHYARD_RECORD: " + pipe +
            ": cannot be written: it is a pipe that nobody reads; name a file");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  {
    const auto log = environment::read().open_log();
    for (int i = 0; i < 4096; ++i) log->line(std::string(100, 'x'));  // more than a pipe holds
  }
  ::close(reader);
}
