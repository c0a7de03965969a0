// SPDX-License-Identifier: MIT
// A copy of one backend's installed kernels whose tables and blobs a test replaces.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/sha256.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace test {

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::json;

inline std::string read_text(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}

inline void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  const fs::path fresh = path.string() + ".new";
  std::ofstream{fresh, std::ios::binary} << text;
  fs::rename(fresh, path);
}

class replaced_root {
 public:
  /// Copies the manifests and blobs below an installed root; those of one operator where it is named.
  explicit replaced_root(const std::string& from, std::string backend = "cuda",
                         const std::string& operator_name = {})
      : backend_{std::move(backend)},
        root_{fs::temp_directory_path() / ("switchyard_replaced_" + std::to_string(::getpid()))} {
    for (const auto& at : fs::recursive_directory_iterator{fs::path{from} / "kernels" / operator_name}) {
      const fs::path inside = fs::relative(at.path(), from);
      if (at.is_directory() || inside.string().find("/" + backend_ + "-") == std::string::npos) continue;
      if (at.path().extension() == ".json") {
        manifests_.push_back({root_ / inside, json::parse(read_text(at.path()))});
      } else {
        blobs_.push_back({root_ / inside, read_text(at.path())});
      }
    }
    put_kernels(0);
  }
  replaced_root(const replaced_root&) = delete;
  replaced_root& operator=(const replaced_root&) = delete;
  ~replaced_root() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  [[nodiscard]] const fs::path& path() const noexcept { return root_; }

  /// Blobs under the names of one of two versions; the other version's files are deleted. A version's
  /// contents differ by bytes behind the image's end.
  void put_kernels(int version) const {
    std::map<std::string, std::string> hashes;
    for (const auto& [path, content] : blobs_) {
      const std::string bytes = content + std::string(static_cast<std::size_t>(8 * version), '\0');
      write(versioned(path, version), bytes);
      hashes[path.string()] = sy::sha256(std::as_bytes(std::span{bytes}));
    }
    for (const auto& [path, content] : manifests_) {
      json changed = content;
      for (json& variant : changed["variants"]) {
        for (json& launch : variant["launches"]) {
          if (!launch.contains("blob")) continue;
          const fs::path blob = path.parent_path() / launch["blob"].get<std::string>();
          launch["blob"] = versioned(blob.filename(), version).string();
          launch["sha256"] = hashes.at(blob.string());
        }
      }
      write(path, changed.dump());
    }
    for (const auto& [path, content] : blobs_) fs::remove(versioned(path, 1 - version));
  }

  /// A table that denies one variant of an operator, or none.
  void put_table(const std::string& op, const sy::device_properties& device,
                 const std::string& denied) const {
    json table{{"schema", "switchyard.table/1"},
               {"operator", op},
               {"device", {{"backend", backend_}, {"arch", device.arch}, {"name", device.name}}},
               {"groups", json::array()},
               {"deny", json::array()}};
    if (!denied.empty()) table["deny"].push_back({{"variant", denied}, {"reason", "replaced by the test"}});
    write(root_ / "tables" / op / "test.json", table.dump());
  }

 private:
  [[nodiscard]] static fs::path versioned(const fs::path& path, int version) {
    return path.parent_path() /
           (path.stem().string() + ".v" + std::to_string(version) + path.extension().string());
  }

  struct known_manifest {
    fs::path path;
    json content;
  };
  struct known_blob {
    fs::path path;
    std::string content;
  };

  std::string backend_;
  fs::path root_;
  std::vector<known_manifest> manifests_;
  std::vector<known_blob> blobs_;
};

}  // namespace test
