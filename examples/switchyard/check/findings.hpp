// SPDX-License-Identifier: MIT
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
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/tool/blob_facts.hpp>

#include "operators.hpp"

namespace tool {

/// An error: the entry or file is ignored at run time. A warning: probably a mistake. A note: for
/// information.
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
    add({level, 0, std::move(file), std::move(message)});
  }
  void add(severity level, switchyard::error_code code, std::string file, std::string message) {
    add({level, static_cast<int>(code), std::move(file), std::move(message)});
  }
  /// Splits a message of the library, "[switchyard.107] file: ...".
  void add_message(severity level, const std::string& file, std::string message) {
    finding found{level, 0, file, std::move(message)};
    constexpr std::string_view prefix = "[switchyard.";
    if (found.message.starts_with(prefix)) {
      std::from_chars(found.message.data() + prefix.size(), found.message.data() + found.message.size(),
                      found.code);
      found.message.erase(0, found.message.find("] ") + 2);
    }
    if (found.message.starts_with(file + ": ")) found.message.erase(0, file.size() + 2);
    add(std::move(found));
  }

  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  [[nodiscard]] std::size_t count(severity level) const {
    return static_cast<std::size_t>(std::count_if(
        findings_.begin(), findings_.end(), [level](const finding& found) { return found.level == level; }));
  }

 private:
  void add(finding found) {
    constexpr std::size_t most = 4000;  // a file may have names of any length
    if (found.message.size() > most) found.message = switchyard::text::shortened(found.message, most);
    findings_.push_back(std::move(found));
  }

  std::vector<finding> findings_;
};

/// Findings of one kind in several places of a file, reported once: the first place, and how many more.
class folded_findings {
 public:
  /// Findings with the same `kind` are folded.
  void add(const std::string& kind, std::string message) {
    const auto [at, is_new] = places_.try_emplace(kind, all_.size());
    if (is_new) {
      all_.push_back({std::move(message), 0});
    } else {
      ++all_[at->second].more;
    }
  }

  /// Calls `visit(message)` for each kind.
  template <class Visit>
  void visit(const Visit& visit) {
    for (one& entry : all_) {
      if (entry.more > 0) {
        entry.message +=
            " (and the same in " + std::to_string(entry.more) + " more place" + (entry.more > 1 ? "s)" : ")");
      }
      visit(entry.message);
    }
  }

 private:
  struct one {
    std::string message;
    std::size_t more;
  };
  std::vector<one> all_;
  std::unordered_map<std::string, std::size_t> places_;
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

/// Reads a manifest or table, and reports what is wrong in it.
void check_file(const std::string& path, report& out, checked_files& files);

/// Reports what is wrong between the files: reachability, rows, ids.
void check_together(const known_operator& known, const operator_files& files, report& out);

/// Reports rows for which tables of one device have different winners, and which table decides.
void check_repeated_rows(const known_operator& known, const operator_files& files, report& out);

/// Reports tables whose measurement date is in the future.
void check_dates(const operator_files& files, report& out);

/// Reports the libraries and symbols that a shared object needs and this machine does not have. Nothing is
/// loaded. `from` is the manifest that names the blob.
void check_libraries(const std::string& blob, const switchyard::tool::loading_needs& needs,
                     const std::string& from, report& out);

/// Reports keys of a manifest or table that the format does not have.
void check_keys(const std::string& path, std::string_view text, report& out);

}  // namespace tool
