// SPDX-License-Identifier: MIT
// The backend in tests: loaded from its file, with what it logs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"
#include "ggml_objects.hpp"
#include "tests/catch.hpp"

namespace switchyard::test {

/// What ggml and the backend log while the object lives.
class captured_log {
 public:
  captured_log() { ggml_log_set(&captured_log::add, this); }
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;
  ~captured_log() { ggml_log_set(nullptr, nullptr); }

  /// Lines of the backend.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const std::string& line : all_) {
      if (line.starts_with("switchyard: ")) out.push_back(line);
    }
    return out;
  }

 private:
  static void add(ggml_log_level /*level*/, const char* text, void* to) {
    static_cast<captured_log*>(to)->all_.emplace_back(text);
  }
  std::vector<std::string> all_;
};

/// The backend from a file, unloaded with the object.
class loaded {
 public:
  explicit loaded(const std::string& path = SWITCHYARD_GGML_BACKEND)
      : registry_{ggml_backend_load(path.c_str())} {
    REQUIRE(registry_ != nullptr);
  }
  loaded(const loaded&) = delete;
  loaded& operator=(const loaded&) = delete;
  ~loaded() { ggml_backend_unload(registry_); }

  [[nodiscard]] std::size_t devices() const { return ggml_backend_reg_dev_count(registry_); }
  /// A GPU, where there is one with kernels.
  [[nodiscard]] ggml_backend_dev_t first() const {
    REQUIRE(devices() > 0);
    return ggml_backend_reg_dev_get(registry_, 0);
  }
  [[nodiscard]] ggml_backend_dev_t cpu() const {
    REQUIRE(devices() > 0);
    return ggml_backend_reg_dev_get(registry_, devices() - 1);
  }

 private:
  ggml_backend_reg_t registry_;
};

}  // namespace switchyard::test
