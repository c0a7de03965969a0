// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <catch.hpp>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>

#include "../temporary.hpp"
#include "thrown.hpp"

using namespace switchyard;
namespace fs = std::filesystem;

namespace {

std::string refusal(const std::string& path, const std::string& text) {
  return switchyard::test::refusal_by<file_error>(error_code::unreadable_file,
                                                  [&] { write_file(path, text); });
}

std::vector<std::string> names_in(const temporary_folder& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator{folder.path()})
    out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

unsigned mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777U;
}

}  // namespace

TEST_CASE("a file is replaced as a whole, keeps its mode, and leaves nothing beside it") {
  const temporary_folder folder;
  write_file(folder / "t.json", "first");
  CHECK(slurp(folder / "t.json") == "first");
  const ::mode_t mask = ::umask(0);
  ::umask(mask);
  CHECK(mode_of(folder / "t.json") == (0666U & ~mask));
  for (const unsigned mode : {0640U, 0600U, 0664U}) {
    REQUIRE(::chmod((folder / "t.json").c_str(), mode) == 0);
    write_file(folder / "t.json", "mode " + std::to_string(mode));
    CHECK(slurp(folder / "t.json") == "mode " + std::to_string(mode));
    CHECK(mode_of(folder / "t.json") == mode);
  }
  CHECK(names_in(folder) == std::vector<std::string>{"t.json"});
}

TEST_CASE("a table that is a link stays one, and what it leads to is replaced") {
  const temporary_folder folder;
  fs::create_directory(folder / "real");
  const std::string real = folder.write("real/t.json", "old");
  fs::create_symlink("real/t.json", folder / "inner.json");
  fs::create_symlink(folder / "inner.json", folder / "t.json");
  write_file(folder / "t.json", "new");
  CHECK(slurp(real) == "new");
  CHECK(fs::is_symlink(folder / "t.json"));
  CHECK(fs::is_symlink(folder / "inner.json"));
  // One that leads nowhere yet: its target is made.
  fs::create_symlink("real/fresh.json", folder / "dangling.json");
  write_file(folder / "dangling.json", "made");
  CHECK(slurp(folder / "real/fresh.json") == "made");
  fs::create_symlink("loop", folder / "loop");
  CHECK_THAT(refusal(folder / "loop", "x"),
             has_text("loop: cannot be written: Too many levels of symbolic links"));
}

TEST_CASE("what is planted beside a table is neither followed nor waited for") {
  const temporary_folder folder;
  const std::string victim = folder.write("victim", "precious");
  fs::create_symlink(victim, folder / "t.json.partial");
  // The name that the next file would have: links and pipes there are left alone.
  REQUIRE(::mkfifo((folder / "u.json.partial").c_str(), 0600) == 0);
  write_file(folder / "t.json", "new");
  write_file(folder / "u.json", "new");
  CHECK(slurp(victim) == "precious");
  CHECK(slurp(folder / "t.json") == "new");
  CHECK(slurp(folder / "u.json") == "new");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const std::string said = refusal(folder / "pipe", "x");
  CHECK(said == "[switchyard.101] " + (folder / "pipe") +
                    ": is not a regular file, so it is not replaced; name another file");
}

TEST_CASE("a write that fails leaves the old content and no litter") {
  const temporary_folder folder;
  const std::string path = folder.write("t.json", "old");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = refusal(path, std::string(10'000, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, ignored);
  CHECK_THAT(said, has_text("t.json: cannot be written: File too large"));
  CHECK(slurp(path) == "old");
  CHECK(names_in(folder) == std::vector<std::string>{"t.json"});
  CHECK_THAT(refusal(folder / "none/t.json", "x"), has_text("none/t.json: cannot be written: No such file"));
  fs::create_directory(folder / "folder");
  CHECK_THAT(refusal(folder / "folder", "x"), has_text("is not a regular file"));
}

TEST_CASE("of several writers at once each leaves a whole file at every moment") {
  const temporary_folder folder;
  const std::string path = folder.write("t.json", std::string(50'000, 'a'));
  std::atomic<int> writing{4};
  std::vector<std::thread> writers;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) write_file(path, std::string(50'000, letter));
      --writing;
    });
  }
  std::size_t torn = 0;
  while (writing > 0) {
    const std::string seen = read_file(path, 1 << 20);
    if (seen != std::string(50'000, seen.empty() ? '?' : seen[0])) ++torn;
  }
  for (std::thread& thread : writers) thread.join();
  CHECK(torn == 0);
  CHECK(names_in(folder) == std::vector<std::string>{"t.json"});
}
