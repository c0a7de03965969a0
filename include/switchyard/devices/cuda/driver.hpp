// SPDX-License-Identifier: MIT
// The cuda backend: one CUDA context behind the interface of devices/driver.hpp.
//
// The context is the primary one, which CUDA's runtime, PyTorch and most engines use and which is retained as
// long as the driver lives, or one that an engine made, which must outlive the driver. Any thread may call:
// the context is made current if it is not, and the thread's own is restored afterwards. open.hpp makes
// drivers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/configure_kernel.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/module.hpp>
#include <switchyard/devices/cuda/properties.hpp>
#include <switchyard/devices/cuda/tensor_map.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

class driver final : public device_driver {
 public:
  /// Use open, current or of (open.hpp). Takes over one retention of the primary context when `primary`.
  driver(std::shared_ptr<const api> library, int ordinal, CUctx_st* context, bool primary)
      : library_{std::move(library)}, ordinal_{ordinal}, context_{context}, primary_{primary} {
    try {
      facts_ = read_facts(*library_, ordinal_, context_);
    } catch (...) {
      if (primary_) library_->primary_ctx_release(ordinal_);
      throw;
    }
  }
  ~driver() override {
    if (primary_) library_->primary_ctx_release(ordinal_);
  }
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  /// The context, as a CUcontext.
  [[nodiscard]] CUctx_st* context() const noexcept { return context_; }
  /// The device's number, as cuDeviceGet and cudaSetDevice count.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// 90 for compute capability 9.0.
  [[nodiscard]] int compute_capability() const noexcept { return facts_.compute_capability; }

  [[nodiscard]] const device_properties& properties() const noexcept override { return facts_.properties; }

  /// Takes a cubin, a fatbin or PTX. PTX is compiled here, which can take seconds.
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    return load_module(*library_, context_, facts_, image, name).release();
  }

  void unload(module_handle module) noexcept override {
    const std::unique_ptr<loaded_module> record{static_cast<loaded_module*>(module)};
    if (record == nullptr) return;
    const context_guard guard{*library_, context_};
    const relaxed_capture relaxed{*library_};
    if (guard.status() == result::success) library_->module_unload(record->module);
  }

  /// The handle is a CUfunction. Its code is on the device when this returns, whatever CUDA_MODULE_LOADING
  /// says, so no launch waits for it.
  [[nodiscard]] function_handle find(module_handle module, const std::string& kernel) override {
    return find_kernel(*library_, context_, facts_.properties.name,
                       *static_cast<const loaded_module*>(module), kernel);
  }

  /// False with drivers before CUDA 12.4.
  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    out.clear();
    if (library_->func_get_param_info == nullptr) return false;
    const context_guard guard{*library_, context_};
    require(guard.status(), "cannot make the context current");
    for (std::size_t index = 0;; ++index) {
      std::size_t offset = 0;
      std::size_t bytes = 0;
      const int code = library_->func_get_param_info(handle(function), index, &offset, &bytes);
      if (code == result::invalid_value) return true;  // one past the last
      if (code == result::not_supported) return false;
      require(code, launch_text(*library_, "does not report its parameters", handle(function)));
      out.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
    }
  }

  [[nodiscard]] bool accepts_grid(const launch_geometry& geometry) const noexcept override {
    return switchyard::detail::fits_cuda(geometry.grid);
  }

  void configure(function_handle function, const launch_geometry& geometry) override {
    const context_guard guard{*library_, context_};
    require(guard.status(), "cannot make the context current");
    const relaxed_capture relaxed{*library_};
    // Both attributes of a kernel only ever increase, so threads may configure it for different launches.
    const std::scoped_lock lock{configure_mutex_};
    configure_kernel(*library_, facts_, handle(function), geometry);
  }

  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream on) noexcept override {
    const status answer = try_launch(function, geometry, parameters, on);
    return answer == result::success ? answer : launch_again(answer, function, geometry, parameters, on);
  }

  /// A stream carries its context, whichever is current. Only a default stream (null, legacy, per-thread)
  /// needs the context made current.
  [[nodiscard]] status try_launch(function_handle function, const launch_geometry& geometry,
                                  void** parameters, stream on) noexcept override {
    if (is_default(on)) [[unlikely]]
      return launch_in_context(function, geometry, parameters, on);
    return start(handle(function), geometry, parameters, handle(on));
  }

  /// In the device's context, where a driver says that a stream of it needs that.
  [[nodiscard]] status launch_again(status refused, function_handle function, const launch_geometry& geometry,
                                    void** parameters, stream on) noexcept override {
    const bool names_context = refused == result::invalid_context || refused == result::invalid_handle;
    if (is_default(on) || !names_context) return refused;
    return launch_in_context(function, geometry, parameters, on);
  }

  [[nodiscard, gnu::noinline]] status launch_in_context(function_handle function,
                                                        const launch_geometry& geometry, void** parameters,
                                                        stream on) noexcept {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) [[unlikely]]
      return guard.status();
    return start(handle(function), geometry, parameters, handle(on));
  }

  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream on) noexcept override {
    if (bytes == 0) return result::success;
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->memset_d8_async(reinterpret_cast<std::uintptr_t>(address), byte, bytes, handle(on));
  }

  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream on) noexcept override {
    if (bytes == 0) return result::success;
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->memcpy_async(reinterpret_cast<std::uintptr_t>(to),
                                  reinterpret_cast<std::uintptr_t>(from), bytes, handle(on));
  }

  [[nodiscard]] status synchronize(stream on) noexcept override {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->stream_synchronize(handle(on));
  }

  [[nodiscard]] event_handle create_event() override {
    const context_guard guard{*library_, context_};
    require(guard.status(), "cannot make the context current");
    CUevent_st* event = nullptr;
    require(library_->event_create(&event, 0), "cannot create an event");
    return event;
  }
  void destroy_event(event_handle event) noexcept override {
    if (event == nullptr) return;
    const context_guard guard{*library_, context_};
    if (guard.status() == result::success) library_->event_destroy(static_cast<CUevent_st*>(event));
  }
  [[nodiscard]] status record(event_handle event, stream on) noexcept override {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->event_record(static_cast<CUevent_st*>(event), handle(on));
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    auto* const last = static_cast<CUevent_st*>(to);
    if (const int code = library_->event_synchronize(last); code != result::success) return code;
    float milliseconds = 0;
    const int code = library_->event_elapsed_time(&milliseconds, static_cast<CUevent_st*>(from), last);
    if (code == result::success) microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }
  [[nodiscard]] status elapsed_if_over(event_handle from, event_handle to, bool& is_over,
                                       double& microseconds) noexcept override {
    is_over = false;
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    const relaxed_capture relaxed{*library_};  // a query would end another stream's capture
    auto* const last = static_cast<CUevent_st*>(to);
    if (const int code = library_->event_query(last); code != result::success) {
      return code == result::not_ready ? result::success : code;
    }
    float milliseconds = 0;
    const int code = library_->event_elapsed_time(&milliseconds, static_cast<CUevent_st*>(from), last);
    if (code != result::success) return code;
    is_over = true;
    microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }

  /// From the device's current memory pool.
  [[nodiscard]] void* allocate(std::size_t bytes, stream on) noexcept override {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return nullptr;
    unsigned long long address = 0;
    const int code = library_->mem_alloc_async(&address, std::max(bytes, std::size_t{1}), handle(on));
    return code == result::success ? reinterpret_cast<void*>(address) : nullptr;
  }

  void release(void* address, stream on) noexcept override {
    if (address == nullptr) return;
    const context_guard guard{*library_, context_};
    if (guard.status() == result::success)
      library_->mem_free_async(reinterpret_cast<std::uintptr_t>(address), handle(on));
  }

  /// CUDA_ERROR_NOT_SUPPORTED with drivers before CUDA 12.0.
  [[nodiscard]] status encode(const tensor_map_request& request, void* map) noexcept override {
    return encode_tensor_map(*library_, context_, request, map);
  }

  /// Also true when the driver refuses to answer because another stream's capture forbids the legacy default
  /// stream.
  [[nodiscard]] bool capturing(stream on) const noexcept override {
    const context_guard guard{*library_, context_};
    int state = capture::none;
    const int code = library_->stream_is_capturing(handle(on), &state);
    if (code >= result::stream_capture_unsupported && code <= result::captured_event) return true;
    return code == result::success && state != capture::none;
  }

  [[nodiscard]] bool has_graphs() const noexcept override {
    return library_->stream_create != nullptr && library_->stream_destroy != nullptr &&
           library_->stream_begin_capture != nullptr && library_->stream_end_capture != nullptr &&
           library_->graph_instantiate != nullptr && library_->graph_destroy != nullptr &&
           library_->graph_exec_destroy != nullptr && library_->graph_launch != nullptr;
  }
  [[nodiscard]] stream create_stream() override {
    const context_guard guard{*library_, context_};
    require(guard.status(), "cannot make the context current");
    CUstream_st* out = nullptr;
    require(library_->stream_create(&out, non_blocking_stream), "cannot create a stream");
    return out;
  }
  void destroy_stream(stream on) noexcept override {
    if (is_default(on)) return;
    const context_guard guard{*library_, context_};
    if (guard.status() == result::success) library_->stream_destroy(handle(on));
  }
  [[nodiscard]] status begin_graph(stream on) noexcept override {
    if (!has_graphs()) return result::not_supported;
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->stream_begin_capture(handle(on), capture::thread_local_mode);
  }
  [[nodiscard]] status end_graph(stream on, graph_handle& graph) noexcept override {
    graph = nullptr;
    if (!has_graphs()) return result::not_supported;
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    CUgraph_st* recorded = nullptr;
    if (const int code = library_->stream_end_capture(handle(on), &recorded); code != result::success)
      return code;
    CUgraphExec_st* executable = nullptr;
    const int code = library_->graph_instantiate(&executable, recorded, 0);
    library_->graph_destroy(recorded);
    if (code == result::success) graph = executable;
    return code;
  }
  [[nodiscard]] status launch_graph(graph_handle graph, stream on) noexcept override {
    const context_guard guard{*library_, context_};
    if (guard.status() != result::success) return guard.status();
    return library_->graph_launch(static_cast<CUgraphExec_st*>(graph), handle(on));
  }
  void destroy_graph(graph_handle graph) noexcept override {
    if (graph == nullptr) return;
    const context_guard guard{*library_, context_};
    if (guard.status() == result::success) library_->graph_exec_destroy(static_cast<CUgraphExec_st*>(graph));
  }

  [[nodiscard]] bool owns(stream on) const noexcept override {
    CUctx_st* context = nullptr;
    return is_default(on) || detail::context_of(*library_, on, &context) != result::success ||
           context == context_;
  }

  [[nodiscard]] std::string describe(status code) const override { return cuda::describe(*library_, code); }

 private:
  [[nodiscard]] static CUfunc_st* handle(function_handle function) noexcept {
    return static_cast<CUfunc_st*>(function);
  }
  [[nodiscard]] static CUstream_st* handle(stream on) noexcept { return static_cast<CUstream_st*>(on); }

  [[nodiscard]] status start(CUfunc_st* function, const launch_geometry& geometry, void** parameters,
                             CUstream_st* on) const noexcept {
    if (geometry.is_plain()) [[likely]] {
      return library_->launch_kernel(function, geometry.grid.x, geometry.grid.y, geometry.grid.z,
                                     geometry.block.x, geometry.block.y, geometry.block.z,
                                     geometry.shared_bytes, on, parameters, nullptr);
    }
    return start_with_attributes(function, geometry, parameters, on);
  }

  // Apart from start, so that other launches need no stack space for attributes. A member: passed as
  // parameters, what it reads would be loaded before each launch.
  [[nodiscard, gnu::noinline]] status start_with_attributes(CUfunc_st* function,
                                                            const launch_geometry& geometry,
                                                            void** parameters,
                                                            CUstream_st* on) const noexcept {
    std::array<launch_attribute, 3> attributes;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
    unsigned count = 0;
    if (!(geometry.cluster == dim3{})) {
      attributes[count].id = launch_attribute_id::cluster_dimension;
      attributes[count++].value.cluster = {geometry.cluster.x, geometry.cluster.y, geometry.cluster.z};
    }
    if (geometry.cooperative) {
      attributes[count].id = launch_attribute_id::cooperative;
      attributes[count++].value.flag = 1;
    }
    // It only permits an overlap: a device without this feature runs the kernel correctly.
    if (geometry.programmatic_dependent_launch && facts_.programmatic) {
      attributes[count].id = launch_attribute_id::programmatic_stream_serialization;
      attributes[count++].value.flag = 1;
    }
    const launch_config config{geometry.grid.x,       geometry.grid.y,
                               geometry.grid.z,       geometry.block.x,
                               geometry.block.y,      geometry.block.z,
                               geometry.shared_bytes, on,
                               attributes.data(),     count};
    return library_->launch_kernel_ex(&config, function, parameters, nullptr);
  }

  void require(int code, std::string_view problem) const {
    cuda::require(*library_, code, facts_.properties.name, problem);
  }

  std::shared_ptr<const api> library_;
  int ordinal_ = 0;
  CUctx_st* context_ = nullptr;
  bool primary_ = false;
  device_facts facts_;
  switchyard::mutex configure_mutex_;
};

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
