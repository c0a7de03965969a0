// SPDX-License-Identifier: MIT
// Operators' files written for one test: a manifest of a GPU's kernels that all lie in one blob.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/sha256.hpp>
#include <switchyard/switchyard.hpp>

namespace cuda_test {

namespace sy = switchyard;
using nlohmann::json;

/// A root of its own, gone with the object.
class written_files {
 public:
  explicit written_files(std::string architecture, std::string backend = "cuda")
      : architecture_{std::move(architecture)}, backend_{std::move(backend)} {
    static std::atomic<int> number{0};
    root_ = std::filesystem::temp_directory_path() /
            ("switchyard_written_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
  }
  written_files(const written_files&) = delete;
  written_files& operator=(const written_files&) = delete;
  ~written_files() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  /// Writes an operator's manifest and its blob. A launch says kernel and parameters, and may say the rest.
  void put(std::string_view op, std::string_view blob, const std::vector<json>& variants) const {
    const auto folder = root_ / "kernels" / op / (backend_ + "-" + architecture_);
    std::filesystem::create_directories(folder);
    std::ofstream{folder / "blob", std::ios::binary} << blob;
    json all = variants;
    for (json& variant : all) {
      for (json& launch : variant["launches"]) {
        if (launch.contains("fill")) continue;
        launch["blob"] = "blob";
        launch["sha256"] = sy::sha256(std::as_bytes(std::span{blob}));
        if (!launch.contains("grid")) launch["grid"] = {1, 1, 1};
        if (!launch.contains("block")) launch["block"] = {32, 1, 1};
      }
    }
    std::ofstream{folder / "manifest.json"}
        << json{{"schema", "switchyard.manifest/1"},
                {"operator", op},
                {"target", {{"backend", backend_}, {"arch", architecture_}}},
                {"variants", all}};
  }

  /// Options of a catalog that sees this root alone.
  [[nodiscard]] sy::catalog_options options() const {
    sy::catalog_options out;
    out.roots = {root_.string()};
    out.default_roots = false;
    out.settings = {};
    out.settings.debug_file = log_path();
    return out;
  }
  [[nodiscard]] std::string log_path() const { return (root_ / "log").string(); }

 private:
  std::string architecture_;
  std::string backend_;
  std::filesystem::path root_;
};

}  // namespace cuda_test
