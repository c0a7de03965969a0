// The SWITCHYARD_ environment variables, read when a catalog is opened.
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
#include <vector>

#include <switchyard/base/write_quietly.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>

namespace switchyard {
inline namespace v0 {

/// One operator's part of SWITCHYARD_FORCE: a variant's id, or "block_m=64,num_warps=4".
struct forced_choice {
  std::string operator_name;
  std::string wanted;
};

struct environment {
  debug_level debug = debug_level::silent;
  bool debug_json = false;
  std::string debug_file;           ///< empty: standard error; %p becomes the process id
  std::vector<std::string> path;    ///< roots searched for kernels/ and tables/
  std::vector<std::string> tables;  ///< overlay tables, files or folders
  std::vector<forced_choice> forced;
  std::string record;               ///< problems are appended to this file; %p as above
  std::vector<std::string> doubts;  ///< values that were taken for others; a catalog warns of them

  /// Reads the SWITCHYARD_ variables; set-uid programs ignore them. Throws call_error invalid_environment for
  /// an invalid SWITCHYARD_FORCE.
  [[nodiscard]] static environment read() {
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
    return out;
  }

  /// The forced choice for an operator; empty if there is none.
  [[nodiscard]] std::string forced_for(std::string_view operator_name) const {
    for (const forced_choice& each : forced) {
      if (each.operator_name == operator_name) return each.wanted;
    }
    return {};
  }

  /// Opens the log. If its file cannot be opened, or is a pipe that nobody reads, the log writes to standard
  /// error.
  [[nodiscard]] std::shared_ptr<log> open_log() const {
    const int descriptor = debug_file.empty() ? -1 : open_for_append(debug_file);
    return std::make_shared<log>(debug, debug_json, descriptor < 0 ? 2 : descriptor, &write_quietly);
  }

  /// Opens the recorder; null if SWITCHYARD_RECORD is not set. Throws file_error unreadable_file.
  [[nodiscard]] std::shared_ptr<recorder> open_recorder() const {
    if (record.empty()) return nullptr;
    const int descriptor = open_for_append(record);
    if (descriptor < 0) {
      const bool unread = errno == ENXIO;  // what opening a pipe says then
      throw file_error{error_code::unreadable_file,
                       "SWITCHYARD_RECORD: " + record + ": cannot be written: " +
                           (unread ? "it is a pipe that nobody reads; name a file"
                                   : std::generic_category().message(errno))};
    }
    return std::make_shared<recorder>(descriptor, &write_quietly);
  }

 private:
  [[nodiscard]] static int open_for_append(std::string path) {
    for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
      path.replace(at, 2, std::to_string(::getpid()));
    }
    // Neither opening nor writing waits for whoever reads a pipe: what it cannot take is lost.
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    struct stat found {};
    if (file >= 0 && ::fstat(file, &found) == 0 && !S_ISFIFO(found.st_mode))
      ::fcntl(file, F_SETFL, O_APPEND);  // terminals wait, as ever
    return file;
  }

  [[nodiscard]] static std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
      const std::size_t end = text.find(separator);
      if (end != 0) parts.emplace_back(text.substr(0, end));
      text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return parts;
  }

  void read_debug(std::string_view value) {
    for (const std::string& part : split(value, ',')) {
      if (part == "json") {
        debug_json = true;
        if (debug == debug_level::silent) debug = debug_level::choices;
      } else if (part == "0" || part == "false" || part == "off" || part == "no") {
        debug = debug_level::silent;
      } else if (part == "1" || part == "true" || part == "on" || part == "yes") {
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

  void read_force(std::string_view value) {
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
};

}  // namespace v0
}  // namespace switchyard
