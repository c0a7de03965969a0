// SPDX-License-Identifier: MIT
#include "device_stream.hpp"

#include <dlfcn.h>
#include <stdexcept>

namespace switchyard_torch {

namespace {

using current_stream_function = AOTITorchError (*)(std::int32_t device_index, void** stream);

/// The shim that tells torch's current stream. It is in the library of torch's GPU build, which is loaded
/// already where a GPU tensor exists. Looked up, not linked, so that one binary loads beside CPU-only builds.
[[nodiscard]] current_stream_function find_current_stream() {
  for (const char* library : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    // The library stays loaded, as torch does.
    if (void* const found = ::dlsym(handle, "aoti_torch_get_current_cuda_stream"))
      return reinterpret_cast<current_stream_function>(found);
  }
  return nullptr;
}

[[nodiscard]] void* current_stream(std::int32_t device_index) {
  static const current_stream_function get = find_current_stream();
  if (get == nullptr) throw std::runtime_error{"switchyard: torch's GPU library has no current-stream shim"};
  void* out = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(get(device_index, &out));
  return out;
}

}  // namespace

device_stream device_stream::of(const Tensor& tensor) {
  static const std::int32_t cpu = aoti_torch_device_type_cpu();
  static const std::int32_t cuda = aoti_torch_device_type_cuda();
  device_stream out;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &out.type));
  if (out.type == cpu) return out;
  if (out.type != cuda) throw std::runtime_error{"switchyard: tensors must be on the CPU or on a GPU"};
  out.is_cpu = false;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &out.index));
  out.stream = switchyard::stream{current_stream(out.index)};
  return out;
}

}  // namespace switchyard_torch
