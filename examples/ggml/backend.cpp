// SPDX-License-Identifier: MIT
// The functions that ggml calls on a backend, which is a device in use.
#include <memory>

#include "graph.hpp"
#include "library.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

struct backend {
  explicit backend(device& on_) : on{on_}, with{&on_.with_threads(0)}, memory{on_.driver()} {}
  device& on;
  operators* with;
  graph_memory memory;
};

[[nodiscard]] backend& of(ggml_backend_t handle) {
  return *static_cast<backend*>(handle->context);
}

const char* get_name(ggml_backend_t handle) {
  return of(handle).on.name().c_str();
}
void free_backend(ggml_backend_t handle) {
  const std::unique_ptr<ggml_backend> outer{handle};
  const std::unique_ptr<backend> inner{&of(handle)};
}
/// What failed in the stream is reported by the transfer that follows.
void synchronize(ggml_backend_t handle) {
  static_cast<void>(of(handle).on.driver()->synchronize({}));
}
ggml_status graph_compute(ggml_backend_t handle, ggml_cgraph* graph) {
  return compute_graph(graph, *of(handle).with, of(handle).memory);
}

ggml_guid_t guid() {
  static ggml_guid bytes = {0x73, 0x77, 0x69, 0x74, 0x63, 0x68, 0x79, 0x61,
                            0x72, 0x64, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x01};
  return &bytes;
}

}  // namespace

ggml_backend_t make_backend(device& on) {
  try {
    ggml_backend_i functions{};
    functions.get_name = get_name;
    functions.free = free_backend;
    functions.synchronize = synchronize;
    functions.graph_compute = graph_compute;
    auto inner = std::make_unique<backend>(on);
    return new ggml_backend{guid(), functions, &on.handle, inner.release()};
  } catch (const std::exception&) {
    return nullptr;
  }
}

void set_threads(ggml_backend_t handle, int threads) {
  if (handle == nullptr || !ggml_guid_matches(handle->guid, guid())) return;
  of(handle).with = &of(handle).on.with_threads(threads);
}

}  // namespace switchyard_ggml
