// SPDX-License-Identifier: MIT
// Loaded modules: loading an image onto a device, and finding its kernels.
//
// The bytes of an image outlive its module. What a code object says of its kernels is read here, if the image
// has such notes.
#pragma once

#include <cstddef>
#include <forward_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <switchyard/base/search.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/code_object.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/properties.hpp>
#include <switchyard/devices/load_failure.hpp>
#include <switchyard/error.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

struct loaded_kernel {
  ihipModuleSymbol_t* function = nullptr;
  std::string name;
  std::optional<kernel_description> description;
};

struct loaded_module {
  ihipModule_t* module = nullptr;
  std::string name;
  std::optional<code_object> content;
  switchyard::mutex mutex;
  std::forward_list<loaded_kernel> kernels;  ///< found ones, behind handles
};

/// Loads a code object or a bundle of them. Throws driver_error.
[[nodiscard, gnu::cold]] inline std::unique_ptr<loaded_module> load_module(const api& library, int ordinal,
                                                                           const device_facts& facts,
                                                                           std::span<const std::byte> image,
                                                                           const std::string& name) {
  if (kind_of(image) == image_kind::broken) {
    throw driver_error{
        error_code::blob_not_loadable,
        name + ": " + std::to_string(image.size()) +
            " bytes that are neither a whole code object nor a bundle of them: rebuild the blob"};
  }
  auto record = std::make_unique<loaded_module>();
  record->name = name;
  if (const auto content = code_object_for(image, facts.properties))
    record->content = read_code_object(*content);
  const device_guard guard{library, ordinal};
  require(library, guard.status(), facts.properties.name, "cannot make the device current");
  const relaxed_capture relaxed{library};
  if (const int code = library.module_load_data(&record->module, image.data()); code != result::success) {
    library.get_last_error();  // clears it: the engine must not see our error
    std::string text = name + ": " + describe(library, code) + "; the device is " + facts.properties.arch +
                       " (" + facts.properties.name + ")";
    if (record->content && !record->content->target.empty())
      (text += ", the blob is for ") += record->content->target;
    const load_failure failure = classify_load_failure(code);
    throw driver_error{failure.code, text, failure.kind};
  }
  return record;
}

/// Finds a kernel, which lives as long as its module: the same record each time. Throws driver_error;
/// `device` names the device there.
[[nodiscard, gnu::cold]] inline loaded_kernel* find_kernel(const api& library, int ordinal,
                                                           const std::string& device, loaded_module& record,
                                                           const std::string& kernel) {
  const std::scoped_lock lock{record.mutex};
  for (loaded_kernel& known : record.kernels) {
    if (known.name == kernel) return &known;
  }
  const device_guard guard{library, ordinal};
  require(library, guard.status(), device, "cannot make the device current");
  const relaxed_capture relaxed{library};
  loaded_kernel found{nullptr, kernel, std::nullopt};
  if (const int code = library.module_get_function(&found.function, record.module, kernel.c_str());
      code != result::success) {
    library.get_last_error();
    std::string text = record.name + " has no kernel '" + kernel + "': " + describe(library, code);
    if (record.content) {
      text += "; it has";
      for (const auto& other : record.content->kernels) (text += ' ') += other.name;
    }
    if (code == result::not_found) throw driver_error{error_code::kernel_not_found, text};
    const load_failure failure = classify_load_failure(code);
    throw driver_error{failure.code, text, failure.kind};
  }
  if (record.content) {
    const auto& all = record.content->kernels;
    const auto description = switchyard::detail::find_if(
        all.begin(), all.end(), [&](const kernel_description& one) { return one.name == kernel; });
    if (description != all.end()) found.description = *description;
  }
  return &record.kernels.emplace_front(std::move(found));
}

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
