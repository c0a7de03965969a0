// SPDX-License-Identifier: MIT
// An operator's files for the fake driver: PTX that it takes for loaded, with kernels whose names tell it
// their parameters ("take_8_4").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/cuda/router.hpp>

#include "fake_cuda.hpp"
#include "written_files.hpp"

namespace fake_cuda {

using nlohmann::json;

/// An operator to serve.
struct touch {
  static constexpr std::string_view name = "touch";
  struct arguments {
    void* out = nullptr;
    std::int32_t n = 1;
    std::int64_t size = 1;
  };
  static constexpr auto fields = sy::fields<&arguments::out, &arguments::n, &arguments::size>;
  static constexpr auto axes = sy::axes(sy::size_axis<&arguments::size>());
};

/// An object of a manifest with what it takes over from a shared one.
[[nodiscard]] inline json inherit(json own, const json& shared) {
  if (!own.contains("like")) return own;
  const std::string like = own["like"];
  own.erase("like");
  for (const auto& [key, value] : shared.at(like).items()) {
    if (!own.contains(key)) own[key] = value;
  }
  return own;
}

/// One operator's files, for every CUDA device.
class fake_files {
 public:
  fake_files(std::string_view op, const std::vector<json>& variants) {
    files_.put(op, ".version 8.0\n.target sm_80\n", variants);
  }

  /// Options of a catalog that sees these files alone, with the fake's streams.
  [[nodiscard]] sy::catalog_options options() const {
    sy::catalog_options out = files_.options();
    out.streams = std::make_shared<sy::cuda::router>(fake_options());
    return out;
  }

 private:
  cuda_test::written_files files_{"compute_80"};
};

[[nodiscard]] inline sy::device fake_device(int ordinal) {
  return sy::device{sy::cuda::open(ordinal, fake_options())};
}

}  // namespace fake_cuda
