// SPDX-License-Identifier: MIT
// The functions that ggml calls on a backend, which is a device in use.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "ggml-impl.h"
#include "graph.hpp"
#include "library.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

/// Whether an environment variable does not turn something off.
[[nodiscard]] bool is_wanted(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || std::string_view{value} != "0";
}

/// A GPU's backends have a stream each, where the driver can make one; the CPU has only one.
class owned_stream {
 public:
  explicit owned_stream(std::shared_ptr<sy::device_driver> driver) : driver_{std::move(driver)} {
    if (driver_->has_graphs()) on_ = driver_->create_stream();
  }
  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;
  ~owned_stream() {
    static_cast<void>(driver_->synchronize(on_));
    driver_->destroy_stream(on_);
  }
  [[nodiscard]] sy::stream get() const noexcept { return on_; }

 private:
  std::shared_ptr<sy::device_driver> driver_;
  sy::stream on_;
};

struct backend {
  explicit backend(device& on_)
      : on{on_},
        with{&on_.with_threads(0)},
        memory{on_.driver()},
        stream{on_.driver()},
        replays{on_.driver(), stream.get(), is_wanted("SWITCHYARD_GGML_GRAPHS")} {}
  device& on;
  operators* with;
  graph_memory memory;  // behind the stream, which may use it to its end
  owned_stream stream;
  graph_replays replays;
  bool joins = is_wanted("SWITCHYARD_GGML_JOINS");
};

[[nodiscard]] backend& of(ggml_backend_t handle) {
  return *static_cast<backend*>(handle->context);
}

/// ggml has no way to report that a transfer failed.
void require(const backend& in, sy::status result) {
  if (result != 0) GGML_ABORT("switchyard: a transfer failed: %s", in.on.driver()->describe(result).c_str());
}

const char* get_name(ggml_backend_t handle) {
  return of(handle).on.name().c_str();
}
void free_backend(ggml_backend_t handle) {
  const std::unique_ptr<ggml_backend> outer{handle};
  const std::unique_ptr<backend> inner{&of(handle)};
}
void set_tensor_async(ggml_backend_t handle, ggml_tensor* tensor, const void* data, std::size_t offset,
                      std::size_t bytes) {
  const backend& in = of(handle);
  require(in,
          in.on.driver()->copy(static_cast<std::byte*>(tensor->data) + offset, data, bytes, in.stream.get()));
}
void get_tensor_async(ggml_backend_t handle, const ggml_tensor* tensor, void* data, std::size_t offset,
                      std::size_t bytes) {
  const backend& in = of(handle);
  require(in, in.on.driver()->copy(data, static_cast<const std::byte*>(tensor->data) + offset, bytes,
                                   in.stream.get()));
}
/// What failed in the stream is reported here, and by the transfer that follows.
void synchronize(ggml_backend_t handle) {
  const backend& in = of(handle);
  if (const sy::status result = in.on.driver()->synchronize(in.stream.get()); result != 0) {
    GGML_LOG_ERROR("switchyard: %s: %s\n", in.on.name().c_str(), in.on.driver()->describe(result).c_str());
  }
}
ggml_status graph_compute(ggml_backend_t handle, ggml_cgraph* graph) {
  backend& in = of(handle);
  return compute_graph(graph, *in.with, {in.stream.get(), in.memory, in.replays, in.joins},
                       in.on.generation());
}
void record_event(ggml_backend_t handle, ggml_backend_event_t event) {
  const backend& in = of(handle);
  const device_scope current{in.on.api()};
  require(in, in.on.api().event_record(event->context, in.stream.get().handle()));
}
void wait_for_event(ggml_backend_t handle, ggml_backend_event_t event) {
  const backend& in = of(handle);
  const device_scope current{in.on.api()};
  require(in, in.on.api().stream_wait_event(in.stream.get().handle(), event->context, 0));
}

ggml_guid_t guid() {
  static ggml_guid bytes = {0x73, 0x77, 0x69, 0x74, 0x63, 0x68, 0x79, 0x61,
                            0x72, 0x64, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x01};
  return &bytes;
}

[[nodiscard]] bool is_ours(ggml_backend_t handle) {
  return handle != nullptr && ggml_guid_matches(handle->guid, guid());
}

/// Between two backends of one GPU, in the order of both streams. ggml makes other copies itself.
bool copy_tensor_async(ggml_backend_t from_handle, ggml_backend_t to_handle, const ggml_tensor* from,
                       ggml_tensor* to) {
  if (!is_ours(from_handle) || !is_ours(to_handle)) return false;
  const backend& source = of(from_handle);
  const backend& target = of(to_handle);
  const device_api& api = source.on.api();
  const auto buffer_of = [](const ggml_tensor* tensor) {
    return tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
  };
  if (&source.on != &target.on || buffer_of(from)->buft != &source.on.buffers ||
      buffer_of(to)->buft != &source.on.buffers)
    return false;
  const bool is_one_stream = source.stream.get().handle() == target.stream.get().handle();
  void* const event = is_one_stream ? nullptr : api.make_event();
  if (!is_one_stream && event == nullptr) return false;
  require(source, source.on.driver()->copy(to->data, from->data, ggml_nbytes(from), source.stream.get()));
  if (event == nullptr) return true;
  const device_scope current{api};
  require(source, api.event_record(event, source.stream.get().handle()));
  require(source, api.stream_wait_event(target.stream.get().handle(), event, 0));
  api.event_destroy(event);  // once it has passed
  return true;
}

}  // namespace

ggml_backend_t make_backend(device& on) {
  try {
    ggml_backend_i functions{};
    functions.get_name = get_name;
    functions.free = free_backend;
    functions.synchronize = synchronize;
    functions.graph_compute = graph_compute;
    if (!on.is_host()) {
      functions.set_tensor_async = set_tensor_async;
      functions.get_tensor_async = get_tensor_async;
      functions.cpy_tensor_async = copy_tensor_async;
    }
    if (on.api().has_events()) {
      functions.event_record = record_event;
      functions.event_wait = wait_for_event;
    }
    auto inner = std::make_unique<backend>(on);
    return new ggml_backend{guid(), functions, &on.handle, inner.release()};
  } catch (const std::exception&) {
    return nullptr;
  }
}

void set_threads(ggml_backend_t handle, int threads) {
  if (!is_ours(handle)) return;
  of(handle).with = &of(handle).on.with_threads(threads);
}

}  // namespace switchyard_ggml
