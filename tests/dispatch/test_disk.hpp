// SPDX-License-Identifier: MIT
// A root on disk made for one test: manifests with the real hashes of real blobs, tables, overlays, and the
// catalog that reads them.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/switchyard.hpp>

namespace test {

namespace sy = switchyard;
using nlohmann::json;

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

inline std::size_t count_of(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (std::size_t at = text.find(piece); at != std::string_view::npos;
       at = text.find(piece, at + piece.size())) {
    ++count;
  }
  return count;
}

inline bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

class disk {
 public:
  disk() {
    static std::atomic<int> number{0};
    root_ = std::filesystem::temp_directory_path() /
            ("switchyard_dispatch_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(root_);
  }
  /// With a manifest of an operator, and a table where there are groups.
  disk(std::string_view op, std::vector<json> variants, const std::vector<json>& groups = {}) : disk{} {
    put_manifest(op, std::move(variants));
    if (!groups.empty()) put_table(op, groups);
  }
  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;
  ~disk() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }
  [[nodiscard]] std::filesystem::path kernels(std::string_view op) const {
    return root_ / "kernels" / op / ("host-" + architecture());
  }
  [[nodiscard]] std::filesystem::path manifest_path(std::string_view op) const {
    return kernels(op) / "manifest.json";
  }

  /// Where the build put the shared objects of kernels_for_tests.
  [[nodiscard]] static std::filesystem::path built(std::string_view blob) {
    return std::filesystem::path{SWITCHYARD_TEST_KERNELS} / blob;
  }

  [[nodiscard]] static std::string architecture() { return sy::host::read_properties().arch; }

  /// Replaces a file as an installer does: written beside it, then renamed.
  void write(const std::filesystem::path& path, std::string_view text) const {
    std::filesystem::create_directories(path.parent_path());
    const std::filesystem::path partial = path.string() + ".partial";
    std::ofstream{partial, std::ios::binary} << text;
    std::filesystem::rename(partial, path);
  }

  void put_blob(std::string_view op, std::string_view built_name, std::string_view name) const {
    write(kernels(op) / name, read_text(built(built_name)));
  }

  /// Writes a manifest. Blobs that the folder lacks are copied from the build, and hashes that a launch does
  /// not give are those of the files. It runs one block of one thread where it does not say otherwise.
  void put_manifest(std::string_view op, std::vector<json> variants) const {
    for (json& variant : variants) {
      for (json& launch : variant["launches"]) {
        if (!launch.contains("blob")) continue;
        const std::string blob = launch["blob"];
        if (!std::filesystem::exists(kernels(op) / blob) && std::filesystem::exists(built(blob))) {
          put_blob(op, blob, blob);
        }
        if (!launch.contains("sha256")) launch["sha256"] = hash_of(kernels(op) / blob);
        for (const char* const extents : {"grid", "block"})
          if (!launch.contains(extents)) launch[extents] = {1, 1, 1};
      }
    }
    const json manifest{{"schema", "switchyard.manifest/1"},
                        {"operator", op},
                        {"target", {{"backend", "host"}, {"arch", architecture()}}},
                        {"variants", variants}};
    write(manifest_path(op), manifest.dump());
  }

  [[nodiscard]] static std::string hash_of(const std::filesystem::path& path) {
    const std::string bytes = read_text(path);
    return sy::sha256(std::as_bytes(std::span{bytes}));
  }

  /// A table of this machine, or of `device`.
  [[nodiscard]] static json make_table(std::string_view op, const std::vector<json>& groups,
                                       const std::string& device = {}) {
    const sy::device_properties here = sy::host::read_properties();
    return {
        {"schema", "switchyard.table/1"},
        {"operator", op},
        {"device", {{"backend", "host"}, {"arch", here.arch}, {"name", device.empty() ? here.name : device}}},
        {"groups", groups}};
  }
  [[nodiscard]] std::filesystem::path table_path(std::string_view op) const {
    return root_ / "tables" / op / "here.json";
  }
  void put_table(std::string_view op, const std::vector<json>& groups) const {
    write(table_path(op), make_table(op, groups).dump());
  }

  /// Options of a catalog that sees this root alone and writes warnings and debug lines to a file.
  [[nodiscard]] sy::catalog_options options() const {
    sy::catalog_options out;
    out.roots = {root_.string()};
    out.default_roots = false;
    out.settings = {};
    out.settings.debug_file = log_path().string();
    return out;
  }
  [[nodiscard]] std::filesystem::path log_path() const { return root_ / "log"; }
  [[nodiscard]] std::string log() const { return read_text(log_path()); }

 private:
  std::filesystem::path root_;
};

struct catalog_of_disk {
  sy::catalog catalog;
};

/// A dispatcher with a catalog of the files of a disk, or of whatever has options for one.
template <class Operator>
struct disk_dispatcher : catalog_of_disk, sy::dispatcher<Operator> {
  template <class Files, class... Device>
  explicit disk_dispatcher(Files& files, Device&&... device)
      : catalog_of_disk{sy::catalog{files.options()}},
        sy::dispatcher<Operator>{catalog, std::forward<Device>(device)...} {}
};

}  // namespace test
