// Where manifests and tables are looked for, and what lies there.
//
// A root folder holds kernels/<operator>/<target>/*.json beside their blobs, and tables/<operator>/*.json.
// Folders whose names begin with a dot are not searched.
#pragma once

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <sys/auxv.h>
#include <system_error>
#include <vector>

#include <switchyard/base/file.hpp>

namespace switchyard {
inline namespace v0 {

/// The folders and files that are searched, most important first.
struct search_path {
  std::vector<std::string> roots;
  std::vector<std::string> overlays;  ///< tables that win over all others: files or folders
};

/// ../share/switchyard beside the program's folder, then `data`, the folder of the installation that the
/// program was built with, /usr/local/share/switchyard and /usr/share/switchyard. A set-uid program looks
/// beside itself for nothing: who starts it may have linked it to another place.
[[nodiscard]] inline std::vector<std::string> installed_roots(const std::string& data = {}) {
  std::vector<std::string> out;
  std::error_code problem;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (!problem && ::getauxval(AT_SECURE) == 0)
    out.push_back((program.parent_path().parent_path() / "share/switchyard").string());
  if (!data.empty()) out.push_back(data);
  out.emplace_back("/usr/local/share/switchyard");
  out.emplace_back("/usr/share/switchyard");
  return out;
}

/// Drops folders that are named twice, say by SWITCHYARD_PATH and by the program's place: every variant would
/// be there twice.
inline void drop_repeated(std::vector<std::string>& roots) {
  std::set<std::filesystem::path> seen;
  std::erase_if(roots, [&seen](const std::string& each) {
    std::error_code unknown;
    const std::filesystem::path folder = std::filesystem::weakly_canonical(each, unknown);
    return !seen.insert(unknown ? std::filesystem::path{each} : folder).second;
  });
}

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
  [[nodiscard]] bool may_have(std::string_view file) const {
    return std::any_of(obstacles.begin(), obstacles.end(), [file](const obstacle& each) {
      return file == each.path ||
             (file.starts_with(each.path) && file.substr(each.path.size()).starts_with('/'));
    });
  }
};

namespace detail {

[[nodiscard]] inline bool is_absent(const std::error_code& problem) noexcept {
  return problem == std::errc::no_such_file_or_directory || problem == std::errc::not_a_directory;
}

/// The outermost folder on the way to one that cannot be read because of which it cannot: one message serves
/// all that is under it.
[[nodiscard]] inline std::string find_obstacle_on(const std::string& way) {
  for (std::size_t end = way.find('/', 1); end != std::string::npos; end = way.find('/', end + 1)) {
    std::error_code problem;
    static_cast<void>(std::filesystem::status(way.substr(0, end) + "/.", problem));
    if (problem && !is_absent(problem)) return way.substr(0, end);
  }
  return way;
}

/// Calls `visit` with each entry of a folder but "." and "..". One that is not there has none. libstdc++'s
/// directory_iterator ends the process where a path finds no memory.
template <class Visitor>
void visit_folder(const std::string& folder, file_listing& out, const Visitor& visit) {
  struct closer {
    void operator()(::DIR* each) const noexcept { ::closedir(each); }
  };
  const std::unique_ptr<::DIR, closer> from{::opendir(folder.c_str())};
  int problem = from == nullptr ? errno : 0;
  while (problem == 0) {
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this thread's own
    const ::dirent* const entry = ::readdir(from.get());
    if (entry == nullptr) problem = errno;
    if (entry == nullptr) break;
    const std::string_view name{&entry->d_name[0]};
    if (name != "." && name != "..") visit(name, entry->d_type);
  }
  const std::error_code failed{problem, std::generic_category()};
  if (failed && !is_absent(failed)) out.obstacles.push_back({find_obstacle_on(folder), failed});
}

/// The path of an entry, as std::filesystem spells it.
[[nodiscard]] inline std::string joined(const std::string& folder, std::string_view name) {
  std::string out = folder;
  if (!out.ends_with('/')) out += '/';
  return out += name;
}

/// The names of the folders in a folder, sorted.
[[nodiscard]] inline std::vector<std::string> list_folders(const std::string& folder, file_listing& out) {
  std::vector<std::string> found;
  visit_folder(folder, out, [&](std::string_view name, unsigned char type) {
    if (name.starts_with('.')) return;
    std::error_code problem;
    bool is_folder = type == DT_DIR;
    if (type == DT_LNK || type == DT_UNKNOWN) {
      const std::string path = joined(folder, name);
      is_folder = std::filesystem::is_directory(path, problem);
      if (problem && !is_absent(problem)) out.obstacles.push_back({path, problem});
    }
    if (is_folder) found.emplace_back(name);
  });
  std::sort(found.begin(), found.end());
  return found;
}

/// Adds the JSON files of a folder, sorted by name.
inline void list_json(const std::string& folder, file_listing& out) {
  constexpr std::string_view extension = ".json";
  std::vector<std::string> found;
  visit_folder(folder, out, [&](std::string_view name, unsigned char /*type*/) {
    if (name.size() > extension.size() && name.ends_with(extension)) found.push_back(joined(folder, name));
  });
  std::sort(found.begin(), found.end());
  out.files.insert(out.files.end(), found.begin(), found.end());
}

}  // namespace detail

/// Operators that have a folder of manifests, sorted.
[[nodiscard]] inline std::vector<std::string> list_operators(const search_path& path) {
  std::set<std::string> names;
  file_listing ignored;
  for (const std::string& root : path.roots) {
    for (std::string& each : detail::list_folders(root + "/kernels", ignored)) names.insert(std::move(each));
  }
  return {names.begin(), names.end()};
}

[[nodiscard]] inline file_listing list_manifests(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& root : path.roots) {
    const std::string folder = root + "/kernels/" + std::string{operator_name};
    for (const std::string& target : detail::list_folders(folder, out))
      detail::list_json(folder + "/" + target, out);
  }
  return out;
}

[[nodiscard]] inline file_listing list_tables(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& root : path.roots)
    detail::list_json(root + "/tables/" + std::string{operator_name}, out);
  return out;
}

[[nodiscard]] inline file_listing list_overlays(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& each : path.overlays) {
    std::error_code problem;
    if (std::filesystem::is_directory(each, problem)) {
      detail::list_json(each, out);
      detail::list_json(each + "/" + std::string{operator_name}, out);
    } else if (problem && !detail::is_absent(problem)) {
      out.obstacles.push_back({each, problem});
    } else {
      out.files.push_back(each);
    }
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
