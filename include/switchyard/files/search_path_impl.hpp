// SPDX-License-Identifier: MIT
// The bodies of search_path.hpp.
#pragma once

#include <cerrno>
#include <dirent.h>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <sys/auxv.h>
#include <system_error>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/files/search_path.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// The program or shared library that this code is in; empty where it cannot be told. In a library whose
/// symbols are not hidden, another one may provide this code.
[[nodiscard]] inline std::filesystem::path find_own_file() {
  Dl_info found{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dladdr takes any address
  const auto* const inside = reinterpret_cast<const void*>(&find_own_file);
  if (::dladdr(inside, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code problem;
  const std::filesystem::path file = std::filesystem::canonical(found.dli_fname, problem);
  return problem ? std::filesystem::path{} : file;
}

}  // namespace detail

SWITCHYARD_COLD std::vector<std::string> installed_roots(const std::string& data) {
  std::vector<std::string> out;
  if (::getauxval(AT_SECURE) == 0) {
    std::error_code problem;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", problem);
    if (!problem) out.push_back((program.parent_path().parent_path() / "share/switchyard").string());
    const auto library = detail::find_own_file();
    if (!library.empty() && library != program) {
      auto prefix = library.parent_path().parent_path();
      if (prefix.filename() == "lib") prefix = prefix.parent_path();  // lib/x86_64-linux-gnu
      out.push_back((prefix / "share/switchyard").string());
    }
  }
  if (!data.empty()) out.push_back(std::filesystem::path{data}.lexically_normal().string());
  for (std::string installed : {"/usr/local/share/switchyard", "/usr/share/switchyard"})
    out.push_back(std::move(installed));
  return out;
}

SWITCHYARD_COLD void drop_repeated(std::vector<std::string>& roots) {
  std::set<std::filesystem::path> seen;
  std::erase_if(roots, [&seen](const std::string& root) {
    std::error_code unknown;
    const std::filesystem::path folder = std::filesystem::weakly_canonical(root, unknown);
    return !seen.insert(unknown ? std::filesystem::path{root} : folder).second;
  });
}

SWITCHYARD_COLD bool file_listing::may_have(std::string_view file) const {
  return detail::any_of(obstacles.begin(), obstacles.end(), [file](const obstacle& known) {
    return file == known.path ||
           (file.starts_with(known.path) && file.substr(known.path.size()).starts_with('/'));
  });
}

namespace detail {

SWITCHYARD_COLD std::string find_obstacle_on(const std::string& way) {
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
    void operator()(::DIR* stream) const noexcept { ::closedir(stream); }
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

SWITCHYARD_COLD std::string joined(const std::string& folder, std::string_view name) {
  std::string out = folder;
  if (!out.ends_with('/')) out += '/';
  return out += name;
}

/// The names of the folders in a folder.
[[nodiscard]] inline std::set<std::string> list_folders(const std::string& folder, file_listing& out) {
  std::set<std::string> found;
  visit_folder(folder, out, [&](std::string_view name, unsigned char type) {
    if (name.starts_with('.')) return;
    std::error_code problem;
    bool is_folder = type == DT_DIR;
    if (type == DT_LNK || type == DT_UNKNOWN) {
      const std::string path = joined(folder, name);
      is_folder = std::filesystem::is_directory(path, problem);
      if (problem && !is_absent(problem)) out.obstacles.push_back({path, problem});
    }
    if (is_folder) found.emplace(name);
  });
  return found;
}

/// Adds the JSON files of a folder, sorted by name.
inline void list_json(const std::string& folder, file_listing& out) {
  constexpr std::string_view extension = ".json";
  std::set<std::string> found;
  visit_folder(folder, out, [&](std::string_view name, unsigned char /*type*/) {
    if (name.size() > extension.size() && name.ends_with(extension)) found.insert(joined(folder, name));
  });
  for (const std::string& path : found) out.files.push_back(path);
}

}  // namespace detail

SWITCHYARD_COLD std::vector<std::string> list_operators(const search_path& path) {
  std::set<std::string> names;
  file_listing ignored;
  for (const std::string& root : path.roots) {
    names.merge(detail::list_folders(root + "/kernels", ignored));
  }
  return {names.begin(), names.end()};
}

SWITCHYARD_COLD file_listing list_manifests(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& root : path.roots) {
    const std::string folder = root + "/kernels/" + std::string{operator_name};
    for (const std::string& target : detail::list_folders(folder, out))
      detail::list_json(folder + "/" + target, out);
  }
  return out;
}

SWITCHYARD_COLD file_listing list_tables(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& root : path.roots)
    detail::list_json(root + "/tables/" + std::string{operator_name}, out);
  return out;
}

SWITCHYARD_COLD file_listing list_overlays(const search_path& path, std::string_view operator_name) {
  file_listing out;
  for (const std::string& overlay : path.overlays) {
    std::error_code problem;
    if (std::filesystem::is_directory(overlay, problem)) {
      detail::list_json(overlay, out);
      detail::list_json(overlay + "/" + std::string{operator_name}, out);
    } else if (problem && !detail::is_absent(problem)) {
      out.obstacles.push_back({overlay, problem});
    } else {
      out.files.push_back(overlay);
    }
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
