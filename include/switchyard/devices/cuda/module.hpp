// SPDX-License-Identifier: MIT
// Loaded modules: loading an image into a context, and finding its kernels.
//
// The bytes of an image outlive its module. Errors name the blob, the device and, from the driver's log, the
// cause.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/properties.hpp>
#include <switchyard/devices/load_failure.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

struct loaded_module {
  CUmod_st* module = nullptr;
  std::string name;
  std::string text;  ///< of PTX, which must end in a null character
};

/// Loads a cubin, a fatbin or PTX. PTX is compiled here, which can take seconds. Throws driver_error.
[[nodiscard, gnu::cold]] inline std::unique_ptr<loaded_module> load_module(const api& library,
                                                                           CUctx_st* context,
                                                                           const device_facts& facts,
                                                                           std::span<const std::byte> image,
                                                                           const std::string& name) {
  const image_kind kind = kind_of(image);
  if (kind == image_kind::broken) {
    throw driver_error{error_code::blob_not_loadable,
                       name + ": " + std::to_string(image.size()) +
                           " bytes that are neither a whole cubin, nor a fatbin, nor PTX: rebuild the blob"};
  }
  auto record = std::make_unique<loaded_module>();
  record->name = name;
  const void* data = image.data();
  if (kind == image_kind::ptx) {
    record->text.assign(reinterpret_cast<const char*>(image.data()), image.size());
    data = record->text.c_str();
  }

  constexpr std::size_t log_bytes = 8192;
  std::vector<char> information(log_bytes, '\0');
  std::vector<char> errors(log_bytes, '\0');
  std::array<int, 4> names{load_option::info_log, load_option::info_log_bytes, load_option::error_log,
                           load_option::error_log_bytes};
  std::array<void*, 4> values{information.data(), reinterpret_cast<void*>(log_bytes), errors.data(),
                              reinterpret_cast<void*>(log_bytes)};
  const context_guard guard{library, context};
  require(library, guard.status(), facts.properties.name, "cannot make the context current");
  const relaxed_capture relaxed{library};
  const int code =
      library.module_load_data_ex(&record->module, data, names.size(), names.data(), values.data());
  if (code != result::success) {
    std::string text = name + ": " + describe(library, code) + "; the device is " + facts.properties.arch +
                       " (" + facts.properties.name + ", CUDA " + version_text(facts.driver_version) + ")";
    if (const auto built_for = compute_capability_of(image)) {
      (text += ", the blob is for ") += architecture_name(*built_for);
    }
    for (auto* const log : {&errors, &information}) {
      log->back() = '\0';
      // An error is one line.
      for (std::string_view rest{log->data()}; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        if (!line.empty()) (text += "; ") += line;
      }
    }
    const load_failure failure = classify_load_failure(code);
    throw driver_error{failure.code, text, failure.kind};
  }
  return record;
}

/// Finds a kernel and loads its code onto the device. Throws driver_error; `device` names the device there.
[[nodiscard, gnu::cold]] inline CUfunc_st* find_kernel(const api& library, CUctx_st* context,
                                                       const std::string& device, const loaded_module& record,
                                                       const std::string& kernel) {
  const context_guard guard{library, context};
  require(library, guard.status(), device, "cannot make the context current");
  const relaxed_capture relaxed{library};
  CUfunc_st* function = nullptr;
  int code = library.module_get_function(&function, record.module, kernel.c_str());
  if (code == result::not_found) {
    throw driver_error{
        error_code::kernel_not_found,
        record.name + " has no kernel '" + kernel +
            "': compare with the names cuobjdump -symbols prints; without extern \"C\" they are mangled"};
  }
  if (code == result::success) {
    if (library.func_load != nullptr) {
      code = library.func_load(function);
    } else {
      int registers = 0;
      code = library.func_get_attribute(&registers, function_attribute::max_threads_per_block, function);
    }
  }
  if (code != result::success) {
    const load_failure failure = classify_load_failure(code);
    throw driver_error{failure.code,
                       record.name + ": kernel '" + kernel + "' cannot be loaded: " + describe(library, code),
                       failure.kind};
  }
  return function;
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
