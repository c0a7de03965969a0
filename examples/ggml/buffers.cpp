// SPDX-License-Identifier: MIT
// Buffers: memory of a device, reached through its driver.
#include <cstdint>
#include <memory>

#include "ggml-impl.h"
#include "library.hpp"
#include "memory.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

/// Keeps the driver, so that a buffer may outlive the backend.
struct buffer_memory {
  std::shared_ptr<sy::device_driver> driver;
  void* address;
  bool is_owned;
};

[[nodiscard]] buffer_memory& of(ggml_backend_buffer_t buffer) {
  return *static_cast<buffer_memory*>(buffer->context);
}

/// ggml has no way to report that a transfer failed.
void require(ggml_backend_buffer_t buffer, sy::status result) {
  sy::device_driver& driver = *of(buffer).driver;
  if (result == 0) result = driver.synchronize({});
  if (result != 0) GGML_ABORT("switchyard: a transfer failed: %s", driver.describe(result).c_str());
}

void free_buffer(ggml_backend_buffer_t buffer) {
  const std::unique_ptr<buffer_memory> memory{&of(buffer)};
  if (memory->is_owned) memory->driver->release(memory->address, {});
}
void* get_base(ggml_backend_buffer_t buffer) {
  return of(buffer).address;
}
void fill_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, std::uint8_t value, std::size_t offset,
                 std::size_t bytes) {
  require(buffer, of(buffer).driver->fill(static_cast<std::byte*>(tensor->data) + offset, value, bytes, {}));
}
void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, std::size_t offset,
                std::size_t bytes) {
  require(buffer, of(buffer).driver->copy(static_cast<std::byte*>(tensor->data) + offset, data, bytes, {}));
}
void get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* tensor, void* data, std::size_t offset,
                std::size_t bytes) {
  require(buffer,
          of(buffer).driver->copy(data, static_cast<const std::byte*>(tensor->data) + offset, bytes, {}));
}
bool copy_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* from, ggml_tensor* to) {
  const ggml_backend_buffer_t source = from->view_src != nullptr ? from->view_src->buffer : from->buffer;
  if (source == nullptr || (source->buft != buffer->buft && !ggml_backend_buffer_is_host(source)))
    return false;
  require(buffer, of(buffer).driver->copy(to->data, from->data, ggml_nbytes(from), {}));
  return true;
}
void clear(ggml_backend_buffer_t buffer, std::uint8_t value) {
  require(buffer, of(buffer).driver->fill(of(buffer).address, value, buffer->size, {}));
}

[[nodiscard]] ggml_backend_buffer_t make_buffer(device& on, void* address, std::size_t bytes, bool is_owned) {
  ggml_backend_buffer_i functions{};
  functions.free_buffer = free_buffer;
  functions.get_base = get_base;
  functions.memset_tensor = fill_tensor;
  functions.set_tensor = set_tensor;
  functions.get_tensor = get_tensor;
  functions.cpy_tensor = copy_tensor;
  functions.clear = clear;
  auto memory = std::make_unique<buffer_memory>(buffer_memory{on.driver(), address, is_owned});
  return ggml_backend_buffer_init(&on.buffers, functions, memory.release(), bytes);
}

[[nodiscard]] device& of(ggml_backend_buffer_type_t type) {
  return *static_cast<device*>(type->context);
}

const char* get_name(ggml_backend_buffer_type_t type) {
  return of(type).name().c_str();
}
/// Null where there is no memory: ggml reports it.
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t bytes) {
  void* const address = of(type).driver()->allocate(bytes, {});
  if (address == nullptr) {
    GGML_LOG_ERROR("switchyard: %s has no %zu bytes left\n", of(type).name().c_str(), bytes);
    return nullptr;
  }
  // Allocated in the order of the default stream, which a backend's own stream does not wait for.
  static_cast<void>(of(type).driver()->synchronize({}));
  return make_buffer(of(type), address, bytes, true);
}
std::size_t get_alignment(ggml_backend_buffer_type_t /*type*/) {
  return 64;
}
bool is_host(ggml_backend_buffer_type_t type) {
  return of(type).is_host();
}

}  // namespace

ggml_backend_buffer_t wrap_host_memory(device& on, void* address, std::size_t bytes) {
  return make_buffer(on, address, bytes, false);
}

const ggml_backend_buffer_type_i& buffer_type_functions() {
  static const ggml_backend_buffer_type_i all = [] {
    ggml_backend_buffer_type_i out{};
    out.get_name = get_name;
    out.alloc_buffer = allocate;
    out.get_alignment = get_alignment;
    out.is_host = is_host;
    return out;
  }();
  return all;
}

}  // namespace switchyard_ggml
