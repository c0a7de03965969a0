// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <filesystem>
#include <string>

#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>

#include "../temporary.hpp"

using namespace switchyard;

namespace {

error_code code_of(const std::string& path, std::size_t limit, std::string& message) {
  try {
    (void)read_file(path, limit);
  } catch (const file_error& problem) {
    message = problem.what();
    return problem.code();
  }
  return {};
}

}  // namespace

TEST_CASE("a file is read whole, zero bytes included") {
  const temporary_folder folder;
  std::string content(100'000, 'x');
  content[5] = '\0';
  content[99'999] = '\n';
  CHECK(read_file(folder.write("a", content), 100'000) == content);
  CHECK(read_file(folder.write("empty", ""), 0).empty());
}

TEST_CASE("a file that is too large is refused before it is read, with its size and the limit") {
  const temporary_folder folder;
  const std::string path = folder.write("sparse", "");
  std::filesystem::resize_file(path, std::uintmax_t{4} << 30U);
  std::string message;
  CHECK(code_of(path, 1000, message) == error_code::file_too_large);
  CHECK(message.find(path + ": has 4294967296 bytes; at most 1000 are read") != std::string::npos);
  folder.write("a", "1234");
  CHECK(code_of(folder / "a", 3, message) == error_code::file_too_large);
  CHECK(code_of(folder / "a", 4, message) == error_code{});
}

TEST_CASE("a file that is not there, a folder and a pipe are refused with their names") {
  const temporary_folder folder;
  std::string message;
  CHECK(code_of(folder / "none", 10, message) == error_code::unreadable_file);
  CHECK(message.find(folder / "none") != std::string::npos);
  CHECK(message.find("No such file") != std::string::npos);
  CHECK(code_of(folder.path(), 1 << 20, message) == error_code::unreadable_file);
  CHECK(message.find("is not a regular file") != std::string::npos);
  const std::string pipe = folder / "pipe";
  REQUIRE(std::system(("mkfifo " + pipe).c_str()) == 0);
  CHECK(code_of(pipe, 10, message) == error_code::unreadable_file);  // and does not wait for a writer
}

TEST_CASE("a file that is read on is the one that was opened, also where another took its name") {
  const temporary_folder folder;
  const std::string path = folder.write("a", "the first version");
  std::string bytes;
  const opened_file file{path, 100};
  file.read_on(bytes, 3);
  CHECK(bytes == "the");
  file.read_on(bytes, 2);
  CHECK(bytes == "the");
  std::filesystem::rename(folder.write("b", "another one, which is longer"), path);
  file.read_on(bytes);
  CHECK(bytes == "the first version");
  file.read_on(bytes);
  CHECK(bytes == "the first version");
}
