// SPDX-License-Identifier: MIT
// Gives each warning once, although the same files are read again and again. Any thread may enter and thereby
// call the sink.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Takes a warning for the log.
using warning_sink = std::function<void(const std::string&)>;

class warning_filter {
 public:
  explicit warning_filter(warning_sink warn) : warn_{std::move(warn)} {}

  /// Passes a warning on whether or not it was given before.
  void warn(const std::string& message) const { warn_(message); }

  /// Forgets what was said of a file, of which a new version is about to be read.
  void forget(const std::string& path);

  /// What was found while a file, or some of its entries, was read. A mistake of many entries is said once
  /// for each version of the file.
  void add(const warnings& warned, const std::string& path);

  /// What was found while selectors were built, which happens again and again: each text is said once.
  void add_once(const std::vector<std::string>& warned);

  /// What is wrong with a file or folder that several readers read: overlays and roots are read again for
  /// every operator and kind of file. The first reader to find it says it for all, and a fault that comes
  /// back is said again.
  void add_shared(const std::string& reader, const std::string& message);

 private:
  static constexpr std::size_t max_known = 10'000;

  struct said_times {
    std::size_t in_all = 0;
    std::map<std::string, std::size_t> by_reader;  // how often it found this
  };

  warning_sink warn_;
  switchyard::mutex mutex_;
  std::set<std::string> known_;
  std::map<std::string, said_times> shared_;
  std::map<std::string, std::set<std::string>> of_files_;  // what was said, by file
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/warning_filter_impl.hpp>
#endif
