// SPDX-License-Identifier: MIT
// Where manifests and tables are looked for, and what lies there.
//
// A root folder holds kernels/<operator>/<target>/*.json beside their blobs, and tables/<operator>/*.json.
// Folders whose names begin with a dot are not searched.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// The folders and files that are searched, most important first.
struct search_path {
  std::vector<std::string> roots;
  std::vector<std::string> overlays;  ///< tables that win over all others: files or folders
  std::vector<std::string> canary{};  ///< tables that win for a share of the problems: files or folders
};

/// ../share/switchyard beside the program's folder; the same beside the folder of the shared library that
/// this code is in, or above it for lib/x86_64-linux-gnu; `data`, the folder of the installation that the
/// program was built with; /usr/local/share/switchyard and /usr/share/switchyard. A set-uid program looks
/// beside itself for nothing: who starts it may have linked it to another place.
[[nodiscard]] std::vector<std::string> installed_roots(const std::string& data = {});

/// Drops folders that are named twice, say by SWITCHYARD_PATH and by the program's place: every variant would
/// be there twice.
void drop_repeated(std::vector<std::string>& roots);

/// The files that a search found, in search order.
struct file_listing {
  /// A folder or a file of the search path whose content cannot be told now.
  struct obstacle {
    std::string path;
    std::error_code problem;
  };

  std::vector<std::string> files;
  std::vector<obstacle> obstacles;

  /// Whether a file may be there although it was not found.
  [[nodiscard]] bool may_have(std::string_view file) const;
};

namespace detail {

[[nodiscard]] inline bool is_absent(const std::error_code& problem) noexcept {
  return problem == std::errc::no_such_file_or_directory || problem == std::errc::not_a_directory;
}

/// The outermost folder on the way to one that cannot be read because of which it cannot: one message serves
/// all that is under it.
[[nodiscard]] std::string find_obstacle_on(const std::string& way);

/// The path of an entry, as std::filesystem spells it.
[[nodiscard]] std::string joined(const std::string& folder, std::string_view name);

}  // namespace detail

/// Operators that have a folder of manifests, sorted.
[[nodiscard]] std::vector<std::string> list_operators(const search_path& path);

[[nodiscard]] file_listing list_manifests(const search_path& path, std::string_view operator_name);

[[nodiscard]] file_listing list_tables(const search_path& path, std::string_view operator_name);

[[nodiscard]] file_listing list_overlays(const search_path& path, std::string_view operator_name);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/search_path_impl.hpp>
#endif
