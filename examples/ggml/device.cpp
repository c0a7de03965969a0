// SPDX-License-Identifier: MIT
// The functions that ggml calls on a device.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "library.hpp"
#include "operations.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

[[nodiscard]] device& of(ggml_backend_dev_t handle) {
  return *static_cast<device*>(handle->context);
}

const char* get_name(ggml_backend_dev_t handle) {
  return of(handle).name().c_str();
}
const char* get_description(ggml_backend_dev_t handle) {
  return of(handle).description().c_str();
}

/// Bytes that Linux could give now; 0: not known.
[[nodiscard]] std::size_t available_bytes() {
  std::ifstream info{"/proc/meminfo"};
  for (std::string word; info >> word;) {
    std::size_t kilobytes = 0;
    if (word == "MemAvailable:" && info >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// A GPU's free memory is not asked for: all of it is reported.
void get_memory(ggml_backend_dev_t handle, std::size_t* free, std::size_t* total) {
  const std::int64_t bytes = of(handle).driver()->properties().attribute("memory_bytes");
  *total = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  *free = of(handle).is_host() ? std::min(available_bytes(), *total) : *total;
}

/// The CPU counts as a GPU that shares the system's memory, so that models are offloaded to it.
enum ggml_backend_dev_type get_type(ggml_backend_dev_t handle) {
  return of(handle).is_host() ? GGML_BACKEND_DEVICE_TYPE_IGPU : GGML_BACKEND_DEVICE_TYPE_GPU;
}

void get_properties(ggml_backend_dev_t handle, ggml_backend_dev_props* out) {
  out->name = get_name(handle);
  out->description = get_description(handle);
  out->type = get_type(handle);
  get_memory(handle, &out->memory_free, &out->memory_total);
  const bool is_host = of(handle).is_host();
  out->caps.async = false;
  out->caps.host_buffer = false;
  out->caps.buffer_from_host_ptr = is_host;
  out->caps.events = false;
  out->caps.mmap_support = is_host;
}

ggml_backend_t init_backend(ggml_backend_dev_t handle, const char* /*parameters*/) {
  return make_backend(of(handle));
}

ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t handle) {
  return &of(handle).buffers;
}

ggml_backend_buffer_t buffer_from_host_ptr(ggml_backend_dev_t handle, void* address, std::size_t bytes,
                                           std::size_t /*largest_tensor*/) {
  return wrap_host_memory(of(handle), address, bytes);
}

bool supports_op(ggml_backend_dev_t handle, const ggml_tensor* node) {
  return of(handle).supports(node);
}

bool supports_buft(ggml_backend_dev_t handle, ggml_backend_buffer_type_t type) {
  return type == &of(handle).buffers || (of(handle).is_host() && ggml_backend_buft_is_host(type));
}

}  // namespace

const ggml_backend_device_i& device_functions() {
  static const ggml_backend_device_i all = [] {
    ggml_backend_device_i out{};
    out.get_name = get_name;
    out.get_description = get_description;
    out.get_memory = get_memory;
    out.get_type = get_type;
    out.get_props = get_properties;
    out.init_backend = init_backend;
    out.get_buffer_type = get_buffer_type;
    out.buffer_from_host_ptr = buffer_from_host_ptr;
    out.supports_op = supports_op;
    out.supports_buft = supports_buft;
    return out;
  }();
  return all;
}

}  // namespace switchyard_ggml
