// SPDX-License-Identifier: MIT
// Buffers in pinned memory of the host: the CPU computes in them, and a GPU copies from and to them fast.

#include "ggml-impl.h"
#include "library.hpp"

namespace switchyard_ggml {

// Named, as buffers.cpp has functions of the same names.
namespace pinned {
namespace {

[[nodiscard]] device& of(ggml_backend_buffer_type_t type) {
  return *static_cast<device*>(type->context);
}

const char* get_name(ggml_backend_buffer_type_t /*type*/) {
  return "Switchyard_Host";
}

/// The buffer is of ggml's CPU kind but for its end. Devices live as long as the process.
void free_buffer(ggml_backend_buffer_t buffer) {
  const device_api& api = of(buffer->buft).api();
  const device_scope current{api};
  api.host_free(buffer->context);
}

/// Memory that is not pinned serves as well, if slower.
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t bytes) {
  const device_api& api = of(type).api();
  void* address = nullptr;
  {
    const device_scope current{api};
    constexpr unsigned for_all_contexts = 1;
    if (api.host_allocate(&address, bytes, for_all_contexts) != 0) address = nullptr;
  }
  if (address == nullptr) {
    GGML_LOG_DEBUG("switchyard: %s cannot pin %zu bytes\n", of(type).name().c_str(), bytes);
    return ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), bytes);
  }
  ggml_backend_buffer_t const buffer = ggml_backend_cpu_buffer_from_ptr(address, bytes);
  buffer->buft = type;
  buffer->iface.free_buffer = free_buffer;
  return buffer;
}
std::size_t get_alignment(ggml_backend_buffer_type_t /*type*/) {
  return ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
}
bool is_host(ggml_backend_buffer_type_t /*type*/) {
  return true;
}

}  // namespace
}  // namespace pinned

const ggml_backend_buffer_type_i& host_buffer_type_functions() {
  static const ggml_backend_buffer_type_i all = [] {
    ggml_backend_buffer_type_i out{};
    out.get_name = pinned::get_name;
    out.alloc_buffer = pinned::allocate;
    out.get_alignment = pinned::get_alignment;
    out.is_host = pinned::is_host;
    return out;
  }();
  return all;
}

}  // namespace switchyard_ggml
