// SPDX-License-Identifier: MIT
// The interface to the device APIs: what launching and measuring need of a device, and nothing more.
//
// A device_driver is one device of one backend, in one context if the API has contexts; cuda::driver,
// hip::driver and host::driver implement it. Functions that load or allocate throw driver_error. Those on the
// launch path return a status. Any thread may call any function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

using module_handle = void*;
using function_handle = void*;
using event_handle = void*;
using graph_handle = void*;

/// Where a parameter lies in a kernel's parameter list, as its driver reports it.
struct parameter_slot {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A device API's result; 0 is success in all of them.
using status = int;

class device_driver : public memory_source {
 public:
  [[nodiscard]] virtual const device_properties& properties() const noexcept = 0;

  /// Loads an image, whose bytes must outlive the module. `name` is for messages.
  [[nodiscard]] virtual module_handle load(std::span<const std::byte> image, const std::string& name) = 0;
  virtual void unload(module_handle module) noexcept = 0;

  /// Finds a kernel. Throws driver_error when the module has none of that name.
  [[nodiscard]] virtual function_handle find(module_handle module, const std::string& kernel) = 0;

  /// The parameters of a kernel. False if the driver cannot tell.
  [[nodiscard]] virtual bool parameters(function_handle function, std::vector<parameter_slot>& out) = 0;

  /// Prepares a kernel for launches with up to this shared memory, and with this block and cluster. Throws
  /// driver_error launch_failed for launches that could never succeed on the device.
  virtual void configure(function_handle function, const launch_geometry& geometry) = 0;

  /// Whether a grid, of which no dimension is 0, is one that the device can start.
  [[nodiscard]] virtual bool accepts_grid(const launch_geometry& /*geometry*/) const noexcept { return true; }

  /// Launches a kernel. `parameters[i]` points to the value of parameter i.
  [[nodiscard]] virtual status launch(function_handle function, const launch_geometry& geometry,
                                      void** parameters, stream on) noexcept = 0;

  /// Like launch(), but may refuse what launch_again() can launch: warm calls then need not keep what only
  /// another attempt reads.
  // Without a default: GCC would compare every call's function with it.
  [[nodiscard]] virtual status try_launch(function_handle function, const launch_geometry& geometry,
                                          void** parameters, stream on) noexcept = 0;
  /// Launches what try_launch() refused with this status, where another attempt can help; else returns it.
  [[nodiscard]] virtual status launch_again(status refused, function_handle /*function*/,
                                            const launch_geometry& /*geometry*/, void** /*parameters*/,
                                            stream /*on*/) noexcept {
    return refused;
  }

  /// Fills device memory with a byte, in stream order.
  [[nodiscard]] virtual status fill(void* address, std::uint8_t byte, std::size_t bytes,
                                    stream on) noexcept = 0;

  /// Copies between host and device memory or within either, in stream order. Bytes of pageable host memory
  /// have been read when the call returns.
  [[nodiscard]] virtual status copy(void* to, const void* from, std::size_t bytes, stream on) noexcept = 0;

  /// Waits for everything on the stream.
  [[nodiscard]] virtual status synchronize(stream on) noexcept = 0;

  /// Events in a stream, for measuring. create_event throws driver_error.
  [[nodiscard]] virtual event_handle create_event() = 0;
  virtual void destroy_event(event_handle event) noexcept = 0;
  [[nodiscard]] virtual status record(event_handle event, stream on) noexcept = 0;
  /// Time between two recorded events; waits for the later one.
  [[nodiscard]] virtual status elapsed(event_handle from, event_handle to, double& microseconds) noexcept = 0;
  /// The same without waiting: `is_over` says whether the device has passed `to`; the time is set only then.
  /// Allowed while any stream is captured.
  [[nodiscard]] virtual status elapsed_if_over(event_handle from, event_handle to, bool& is_over,
                                               double& microseconds) noexcept = 0;

  /// As memory_source has it, without an exception.
  [[nodiscard]] void* allocate(std::size_t bytes, stream on) noexcept override = 0;
  [[nodiscard]] const device_driver& driver_of_memory() const noexcept final { return *this; }

  /// Encodes a tensor map into `tensor_map_bytes` bytes, 64-byte aligned.
  [[nodiscard]] virtual status encode(const tensor_map_request& request, void* map) noexcept = 0;

  /// Whether the stream records a graph. Nothing may be loaded then.
  [[nodiscard]] virtual bool capturing(stream on) const noexcept = 0;

  /// Graphs, for measuring what engines launch in graphs. A driver without them keeps these functions.
  [[nodiscard]] virtual bool has_graphs() const noexcept { return false; }
  /// A stream that can be recorded: default streams cannot. Throws driver_error.
  [[nodiscard]] virtual stream create_stream() { return {}; }
  virtual void destroy_stream(stream /*on*/) noexcept {}
  /// From here on, what is put into the stream is recorded and does not run.
  [[nodiscard]] virtual status begin_graph(stream /*on*/) noexcept { return no_graphs; }
  /// Ends the recording. `graph` is ready to be launched, and null if this fails.
  [[nodiscard]] virtual status end_graph(stream /*on*/, graph_handle& graph) noexcept {
    graph = nullptr;
    return no_graphs;
  }
  [[nodiscard]] virtual status launch_graph(graph_handle /*graph*/, stream /*on*/) noexcept {
    return no_graphs;
  }
  virtual void destroy_graph(graph_handle /*graph*/) noexcept {}

  /// Whether this device's kernels can be launched on the stream. Every device has default streams: the
  /// driver uses its own. Also true if the API cannot tell.
  [[nodiscard]] virtual bool owns(stream /*on*/) const noexcept { return true; }

  /// A status in words: its name and meaning.
  [[nodiscard]] virtual std::string describe(status code) const = 0;

 protected:
  static constexpr status no_graphs = -1;  ///< of a driver that has none: no API has this number
};

}  // namespace v0
}  // namespace switchyard
