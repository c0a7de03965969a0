// The findings of `switchyard check`, and the files it read.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>

#include "operators.hpp"

namespace tool {

/// An error costs the entry or the file at run time, a warning is most likely not meant, a note is good to
/// know.
enum class severity { error, warning, note };

struct finding {
  severity level = severity::note;
  int code = 0;  ///< as switchyard::error_code numbers them; 0: none
  std::string file;
  std::string message;
};

class report {
 public:
  void add(severity level, std::string file, std::string message) {
    findings_.push_back({level, 0, std::move(file), std::move(message)});
  }
  void add(severity level, switchyard::error_code code, std::string file, std::string message) {
    findings_.push_back({level, static_cast<int>(code), std::move(file), std::move(message)});
  }
  /// Takes a message of the library, "[switchyard.107] file: ...", apart.
  void add_message(severity level, const std::string& file, std::string message) {
    finding each{level, 0, file, std::move(message)};
    constexpr std::string_view prefix = "[switchyard.";
    if (each.message.starts_with(prefix)) {
      std::from_chars(each.message.data() + prefix.size(), each.message.data() + each.message.size(),
                      each.code);
      each.message.erase(0, each.message.find("] ") + 2);
    }
    if (each.message.starts_with(file + ": ")) each.message.erase(0, file.size() + 2);
    findings_.push_back(std::move(each));
  }

  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] std::size_t count(severity level) const {
    return static_cast<std::size_t>(std::count_if(
        findings_.begin(), findings_.end(), [level](const finding& each) { return each.level == level; }));
  }

 private:
  std::vector<finding> findings_;
};

/// The files of one operator that could be read.
struct operator_files {
  std::vector<std::shared_ptr<const switchyard::manifest>> manifests;
  std::vector<std::shared_ptr<const switchyard::table>> tables;
  bool borrowed = false;  ///< the manifests were not to be checked, only what tables say of them
};

struct checked_files {
  std::map<const known_operator*, operator_files> operators;
  std::set<std::string> blobs;     ///< that manifests name
  std::set<std::string> not_read;  ///< folders whose manifest could not be read: their blobs are unknown
  std::size_t manifests = 0;
  std::size_t tables = 0;
};

/// Reads one file, whatever it is, and reports what is wrong in it.
void check_file(const std::string& path, report& out, checked_files& files);

/// Reports what is wrong between the files: reachability, rows, ids.
void check_together(const known_operator& known, const operator_files& files, report& out);

/// Reports rows that several tables of one device have with different winners, and which table decides.
void check_repeated_rows(const known_operator& known, const operator_files& files, report& out);

/// Reports keys of a manifest or table that the format does not have.
void check_keys(const std::string& path, std::string_view text, report& out);

}  // namespace tool
