// SPDX-License-Identifier: MIT
// The functions that ggml calls on a device.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
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

void get_memory(ggml_backend_dev_t handle, std::size_t* free, std::size_t* total) {
  const device& on = of(handle);
  const std::int64_t bytes = on.driver()->properties().attribute("memory_bytes");
  *total = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  *free = on.is_host() ? std::min(available_bytes(), *total) : *total;
  if (on.api().memory_info == nullptr) return;
  const device_scope current{on.api()};
  std::size_t available = 0;
  std::size_t all = 0;
  if (on.api().memory_info(&available, &all) != 0) return;
  *free = available;
  *total = all;
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
  out->caps.async = !is_host;
  out->caps.host_buffer = of(handle).api().has_host_memory();
  out->caps.buffer_from_host_ptr = is_host;
  out->caps.events = of(handle).api().has_events();
  out->caps.mmap_support = true;
}

ggml_backend_t init_backend(ggml_backend_dev_t handle, const char* /*parameters*/) {
  return make_backend(of(handle));
}

ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t handle) {
  return &of(handle).buffers;
}

/// Null where there is no pinned memory: ggml then takes its own.
ggml_backend_buffer_type_t get_host_buffer_type(ggml_backend_dev_t handle) {
  return of(handle).api().has_host_memory() ? &of(handle).host_buffers : nullptr;
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

/// How many rows of activations share the weights that a node reads.
[[nodiscard]] std::int64_t rows_of_weights(const ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_GET_ROWS:
      return 0;  // reads few of them
    case GGML_OP_MUL_MAT:
      return node->ne[1];
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
      return node->ne[2];
    default:
      return ggml_nrows(node);
  }
}

/// Whether a GPU computes a node whose weights lie in the host's memory: the copy must be worth it.
bool offload_op(ggml_backend_dev_t handle, const ggml_tensor* node) {
  constexpr std::int64_t least = 32;
  return !of(handle).is_host() && rows_of_weights(node) >= least;
}

ggml_backend_event_t make_event(ggml_backend_dev_t handle) {
  void* const event = of(handle).api().make_event();
  return event != nullptr ? new ggml_backend_event{handle, event} : nullptr;
}
void free_event(ggml_backend_dev_t handle, ggml_backend_event_t event) {
  const std::unique_ptr<ggml_backend_event> owned{event};
  const device_scope current{of(handle).api()};
  of(handle).api().event_destroy(event->context);
}
void synchronize_event(ggml_backend_dev_t handle, ggml_backend_event_t event) {
  const device_scope current{of(handle).api()};
  of(handle).api().event_synchronize(event->context);
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
    out.get_host_buffer_type = get_host_buffer_type;
    out.buffer_from_host_ptr = buffer_from_host_ptr;
    out.supports_op = supports_op;
    out.supports_buft = supports_buft;
    out.offload_op = offload_op;
    out.event_new = make_event;
    out.event_free = free_event;
    out.event_synchronize = synchronize_event;
    return out;
  }();
  return all;
}

}  // namespace switchyard_ggml
