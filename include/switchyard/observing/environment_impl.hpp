// SPDX-License-Identifier: MIT
// The bodies of environment.hpp.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <string>
#include <string_view>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/write_quietly.hpp>
#include <switchyard/observing/environment.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD environment environment::read() {
  environment out;
  if (::getauxval(AT_SECURE) != 0) return out;
  const auto get = [](const char* name) -> std::string_view {
    const char* value =
        std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, when a catalog is opened
    return value == nullptr ? std::string_view{} : std::string_view{value};
  };
  out.read_debug(get("SWITCHYARD_DEBUG"));
  out.debug_file = get("SWITCHYARD_DEBUG_FILE");
  out.path = split(get("SWITCHYARD_PATH"), ':');
  out.tables = split(get("SWITCHYARD_TABLES"), ':');
  out.read_force(get("SWITCHYARD_FORCE"));
  out.record = get("SWITCHYARD_RECORD");
  out.metrics = get("SWITCHYARD_METRICS");
  out.ranges = get("SWITCHYARD_RANGES");
  if (out.ranges == "0") out.ranges.clear();
  out.read_check(get("SWITCHYARD_CHECK"));
  return out;
}

SWITCHYARD_COLD std::string environment::forced_for(std::string_view operator_name) const {
  for (const forced_choice& one : forced) {
    if (one.operator_name == operator_name) return one.wanted;
  }
  return {};
}

SWITCHYARD_COLD std::shared_ptr<log> environment::open_log(const log_receiver& receiver) const {
  const int descriptor = debug_file.empty() ? -1 : open_for_append(debug_file);
  return std::make_shared<log>(debug, debug_json, descriptor < 0 ? 2 : descriptor, &write_quietly, receiver);
}

SWITCHYARD_COLD std::shared_ptr<recorder> environment::open_recorder() const {
  if (record.empty()) return nullptr;
  const int descriptor = open_for_append(record);
  if (descriptor < 0) {
    const bool unread = errno == ENXIO;  // what opening a pipe says then
    throw file_error{error_code::unreadable_file, "SWITCHYARD_RECORD: " + record + ": cannot be written: " +
                                                      (unread ? "it is a pipe that nobody reads; name a file"
                                                              : std::generic_category().message(errno))};
  }
  return std::make_shared<recorder>(descriptor, &write_quietly);
}

SWITCHYARD_COLD std::string environment::with_process(std::string path) {
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, std::to_string(::getpid()));
  }
  return path;
}

SWITCHYARD_COLD int environment::open_for_append(const std::string& name) {
  const std::string path = with_process(name);
  // Neither opening nor writing waits for whoever reads a pipe: what it cannot take is lost.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  struct stat found {};
  if (file >= 0 && ::fstat(file, &found) == 0 && !S_ISFIFO(found.st_mode))
    ::fcntl(file, F_SETFL, O_APPEND);  // terminals wait, as ever
  return file;
}

SWITCHYARD_COLD std::vector<std::string> environment::split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    std::string part{text.substr(0, end)};
    if (!part.empty()) parts.push_back(std::move(part));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return parts;
}

SWITCHYARD_COLD bool environment::is_no(std::string_view value) noexcept {
  return value == "0" || value == "false" || value == "off" || value == "no";
}

SWITCHYARD_COLD bool environment::is_yes(std::string_view value) noexcept {
  return value == "1" || value == "true" || value == "on" || value == "yes";
}

SWITCHYARD_COLD void environment::read_check(std::string_view value) {
  check = !value.empty() && !is_no(value);
  if (check && !is_yes(value))
    doubts.push_back("SWITCHYARD_CHECK: expected 0 or 1, got '" + std::string{value} + "'; took it for 1");
}

SWITCHYARD_COLD void environment::read_debug(std::string_view value) {
  for (const std::string& part : split(value, ',')) {
    if (part == "json") {
      debug_json = true;
      if (debug == debug_level::silent) debug = debug_level::choices;
    } else if (is_no(part)) {
      debug = debug_level::silent;
    } else if (is_yes(part)) {
      debug = debug_level::choices;
    } else if (part == "2") {
      debug = debug_level::launches;
    } else {
      // Whoever wants to see more must not end an engine by asking for it.
      if (debug == debug_level::silent) debug = debug_level::choices;
      doubts.push_back("SWITCHYARD_DEBUG: expected 0, 1, 2, json, or 2,json, got '" + std::string{value} +
                       "'; took it for 1");
    }
  }
}

SWITCHYARD_COLD void environment::read_force(std::string_view value) {
  for (const std::string& part : split(value, ';')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == part.size()) {
      throw call_error{
          error_code::invalid_environment,
          "SWITCHYARD_FORCE: expected operator:variant-id or operator:key=value,key=value, got '" + part +
              "'; separate several entries by semicolons"};
    }
    forced.push_back({part.substr(0, colon), part.substr(colon + 1)});
  }
}

}  // namespace v0
}  // namespace switchyard
