// SPDX-License-Identifier: MIT
#include "library.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <string_view>
#include <utility>

#include <switchyard/catalog.hpp>
#include <switchyard/devices/host/driver.hpp>

#include "ggml-impl.h"
#include "graph.hpp"
#include "operators.hpp"

#if GGML_BACKEND_API_VERSION != 3
#error "this backend is written for version 3 of ggml's backend interface"
#endif

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

/// ../share/switchyard beside this library's folder.
[[nodiscard]] std::string own_root() {
  static const char inside = 0;
  Dl_info found{};
  if (::dladdr(&inside, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code problem;
  const auto path = std::filesystem::canonical(found.dli_fname, problem);
  return problem ? std::string{} : (path.parent_path().parent_path() / "share/switchyard").string();
}

[[nodiscard]] sy::catalog_options catalog_options() {
  sy::catalog_options out;
  if (std::string root = own_root(); !root.empty()) {
    // Behind SWITCHYARD_PATH, so that it overrides what is installed.
    std::error_code unknown;
    if (std::filesystem::is_directory(root, unknown)) out.settings.path.push_back(std::move(root));
  }
  return out;
}

struct library {
  sy::catalog catalog{catalog_options()};
  std::vector<std::unique_ptr<device>> devices;
  ggml_backend_reg handle{};

  library() {
    int gpus = 0;
    for (const sy::device& target : sy::device::all()) {
      const bool is_host = target.properties().backend == "host";
      auto made = std::make_unique<device>(catalog, target,
                                           is_host ? "SwitchyardCPU" : "Switchyard" + std::to_string(gpus));
      if (!made->has_products()) continue;
      if (!is_host) ++gpus;
      devices.push_back(std::move(made));
    }
    if (devices.empty()) explain_none();
    catalog.watch();
  }

  void explain_none() const {
    std::string roots;
    for (const std::string& root : catalog.roots()) roots += " " + root;
    GGML_LOG_WARN(
        "switchyard: no device, because these folders have no kernels for this machine:%s. Build the "
        "target ggml_switchyard_kernels, or name their folder in SWITCHYARD_PATH\n",
        roots.c_str());
  }
};

[[nodiscard]] library& the_library() {
  static library all;
  return all;
}

const char* name_of(ggml_backend_reg_t /*of*/) {
  return "Switchyard";
}
std::size_t count_devices(ggml_backend_reg_t /*of*/) {
  return the_library().devices.size();
}
ggml_backend_dev_t find_device(ggml_backend_reg_t /*of*/, std::size_t index) {
  const auto& all = the_library().devices;
  return index < all.size() ? &all[index]->handle : nullptr;
}
void* find_function(ggml_backend_reg_t /*of*/, const char* name) {
  if (std::string_view{name} == "ggml_backend_set_n_threads") return reinterpret_cast<void*>(&set_threads);
  return nullptr;
}

}  // namespace

device::device(sy::catalog& catalog, sy::device target, std::string name)
    : catalog_{catalog}, target_{std::move(target)}, api_{target_}, name_{std::move(name)} {
  buffers = {buffer_type_functions(), &handle, this};
  host_buffers = {host_buffer_type_functions(), &handle, this};
  handle = {device_functions(), nullptr, this};
}

device::~device() {
  by_threads_.erase(0);
  for (auto& [threads, entry] : by_threads_) {
    entry.with.reset();
    if (entry.driver != nullptr) entry.driver->end_threads();  // before this code is unmapped
  }
}

std::uint64_t device::generation() const noexcept {
  return catalog_.generation();
}

bool device::has_products() {
  using sy::operators::matmul_quantized;
  using sy::operators::weight_format;
  matmul_quantized::arguments call;
  alignas(64) static float any[64];  // NOLINT(modernize-avoid-c-arrays): only its address is looked at
  call.x = call.w = call.out = &any[0];
  call.rows = 1;
  call.in_features = call.out_features = 256;
  call.x_stride_row = call.out_stride_row = 256;
  for (const weight_format format : {weight_format::f16, weight_format::bf16, weight_format::q8_0}) {
    call.weights = format;
    call.w_row_bytes = sy::operators::row_bytes(format, call.in_features);
    if (with_threads(0).of<matmul_quantized>().serves(call)) return true;
  }
  return false;
}

operators& device::with_threads(int threads) {
  if (!is_host() || threads < 0) threads = 0;
  const std::scoped_lock lock{mutex_};
  threaded& found = by_threads_[threads];
  if (found.with == nullptr) {
    if (threads > 0) found.driver = std::make_shared<sy::host::driver>(static_cast<std::size_t>(threads));
    found.with = std::make_unique<operators>(catalog_, threads > 0 ? sy::device{found.driver} : target_);
  }
  return *found.with;
}

bool device::supports(const ggml_tensor* node) {
  operators& with = with_threads(0);
  {
    const std::scoped_lock lock{mutex_};
    if (const std::uint64_t now = catalog_.generation(); now != generation_) {
      with.forget();
      generation_ = now;
    }
  }
  return is_served(with, node);
}

const std::vector<std::unique_ptr<device>>& devices() {
  return the_library().devices;
}

ggml_backend_reg_t open_library() {
  try {
    library& all = the_library();
    all.handle = {GGML_BACKEND_API_VERSION, {name_of, count_devices, find_device, find_function}, &all};
    for (const auto& backend_device : all.devices) backend_device->handle.reg = &all.handle;
    return &all.handle;
  } catch (const std::exception& problem) {
    GGML_LOG_ERROR("switchyard: %s\n", problem.what());
    return nullptr;
  }
}

}  // namespace switchyard_ggml

GGML_BACKEND_DL_IMPL(switchyard_ggml::open_library)
