// SPDX-License-Identifier: MIT
#include "publish/provenance.hpp"

#include <array>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/error.hpp>
#include <switchyard/version.hpp>

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

/// What git prints; empty if it fails or is not installed.
[[nodiscard]] std::string git(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"git", "-C", folder.string()});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failure = ::posix_spawnp(&child, "git", &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string out;
  std::array<char, 4096> part{};
  if (failure == 0) {
    for (ssize_t count = 0; (count = ::read(ends[0], part.data(), part.size())) > 0;)
      out.append(part.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 1;
  if (failure == 0) ::waitpid(child, &status, 0);
  if (status != 0) return {};
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

[[nodiscard]] std::string utc(std::time_t when) {
  std::tm fields{};
  ::gmtime_r(&when, &fields);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields)};
}

[[nodiscard]] std::time_t time_of_release() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the tool has one thread here
  const char* const set = std::getenv("SOURCE_DATE_EPOCH");
  return set == nullptr ? std::time(nullptr) : static_cast<std::time_t>(std::strtoll(set, nullptr, 10));
}

/// The length of the stamp at the beginning of a text, including its comma; 0 if there is none.
[[nodiscard]] std::size_t end_of_stamp(std::string_view text, std::size_t brace) {
  constexpr std::string_view begin = "\n  \"release\": {";
  if (!text.substr(brace + 1).starts_with(begin)) return 0;
  const std::size_t end = text.find("},", brace);
  return end == std::string_view::npos ? 0 : end + 2;
}

}  // namespace

provenance provenance_of(const std::filesystem::path& folder) {
  provenance out;
  out.commit = git(folder, {"rev-parse", "HEAD"});
  // Of the folder alone: what else changes in the tree does not change the files.
  out.is_clean = !out.commit.empty() && git(folder, {"status", "--porcelain", "--", "."}).empty();
  out.tool = "switchyard " + std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
             std::to_string(SWITCHYARD_VERSION_MINOR) + "." + std::to_string(SWITCHYARD_VERSION_PATCH);
  out.date = utc(time_of_release());
  return out;
}

ordered_json to_json(const provenance& from) {
  return {{"serial", from.serial},
          {"commit", from.commit},
          {"clean", from.is_clean},
          {"tool", from.tool},
          {"date", from.date}};
}

std::string stamped(std::string_view text, const provenance& with, const std::string& path) {
  const ordered_json parsed = ordered_json::parse(text, nullptr, false);
  if (!parsed.is_object())
    throw sy::file_error{sy::error_code::malformed_json, path + ": is not a JSON object"};
  const std::size_t brace = text.find('{');
  const std::size_t old = end_of_stamp(text, brace);
  const std::string stamp = "\n  \"release\": " + to_json(with).dump() + ",";
  if (old != 0 || !parsed.contains("release")) {
    std::string out{text.substr(0, brace + 1)};
    out += stamp;
    out += text.substr(old != 0 ? old : brace + 1);
    ordered_json now = ordered_json::parse(out, nullptr, false);
    if (now.is_object() && now.contains("release")) return out;  // an object of nothing else would not be
  }
  ordered_json out{{"release", to_json(with)}};
  for (const auto& [key, value] : parsed.items()) {
    if (key != "release") out[key] = value;
  }
  return out.dump(2) + "\n";
}

}  // namespace tool
