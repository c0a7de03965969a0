// SPDX-License-Identifier: MIT
// The interface to the device APIs: what launching and measuring need of a device, and nothing more.
//
// A device_driver is one device of one backend, in one context if the API has contexts; cuda::driver,
// hip::driver and host::driver implement it. Functions that load or allocate throw driver_error. Those on the
// launch path return a status. Any thread may call any function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/dim3.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// A stream of any backend. Converts from and to CUstream, cudaStream_t and hipStream_t; the host backend
/// takes the null stream, and its launches are complete when they return.
class stream {
 public:
  constexpr stream() noexcept = default;
  constexpr stream(std::nullptr_t) noexcept {
  }  // NOLINT(google-explicit-constructor): stands for an API's handle
  template <class Handle>
  stream(Handle* handle) noexcept : handle_{handle} {}  // NOLINT(google-explicit-constructor)

  template <class Handle>
  explicit operator Handle*() const noexcept {
    return static_cast<Handle*>(handle_);
  }
  [[nodiscard]] void* handle() const noexcept { return handle_; }

 private:
  void* handle_ = nullptr;
};

/// How a kernel is launched.
struct launch_geometry {
  dim3 grid{};
  dim3 block{};
  dim3 cluster{};
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory of a block
  bool cooperative = false;
  bool programmatic_dependent_launch = false;

  /// Whether a launch needs no attributes: nothing but grid, block and shared memory.
  [[nodiscard]] bool is_plain() const noexcept {
    std::uint64_t xy = 0;  // in one comparison each
    std::uint16_t both = 0;
    __builtin_memcpy(&xy, &cluster, sizeof xy);
    __builtin_memcpy(&both, &cooperative, sizeof both);
    return xy == 0x100000001U && cluster.z == 1 && both == 0;
  }
};
static_assert(offsetof(launch_geometry, programmatic_dependent_launch) ==
              offsetof(launch_geometry, cooperative) + 1);

using module_handle = void*;
using function_handle = void*;
using event_handle = void*;

/// Where a parameter lies in a kernel's parameter list, as its driver reports it.
struct parameter_slot {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A device API's result; 0 is success in all of them.
using status = int;

/// A tensor map (CUtensorMap) to encode: a tiled view of a tensor in device memory, innermost dimension
/// first.
struct tensor_map_request {
  void* address = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t element_type = 0;         ///< as CUtensorMapDataType numbers them
  std::uint32_t swizzle = 0;              ///< as CUtensorMapSwizzle
  std::uint32_t interleave = 0;           ///< as CUtensorMapInterleave
  std::uint32_t l2_promotion = 0;         ///< as CUtensorMapL2promotion
  std::uint32_t out_of_bounds_fill = 0;   ///< as CUtensorMapFloatOOBfill
  std::uint64_t extents[5] = {};          // NOLINT(modernize-avoid-c-arrays): handed to a C API
  std::uint64_t stride_bytes[4] = {};     // NOLINT(modernize-avoid-c-arrays): of dimensions 1 and up
  std::uint32_t box[5] = {};              // NOLINT(modernize-avoid-c-arrays)
  std::uint32_t element_strides[5] = {};  // NOLINT(modernize-avoid-c-arrays)

  friend bool operator==(const tensor_map_request&, const tensor_map_request&) = default;
};

/// Bytes of an encoded tensor map.
inline constexpr std::size_t tensor_map_bytes = 128;

class device_driver {
 public:
  device_driver() = default;
  device_driver(const device_driver&) = delete;
  device_driver& operator=(const device_driver&) = delete;
  virtual ~device_driver() = default;

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

  /// Stream-ordered memory. Null when there is none left.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, stream on) noexcept = 0;
  virtual void release(void* address, stream on) noexcept = 0;

  /// Encodes a tensor map into `tensor_map_bytes` bytes, 64-byte aligned.
  [[nodiscard]] virtual status encode(const tensor_map_request& request, void* map) noexcept = 0;

  /// Whether the stream records a graph. Nothing may be loaded then.
  [[nodiscard]] virtual bool capturing(stream on) const noexcept = 0;

  /// Whether this device's kernels can be launched on the stream. Every device has default streams: the
  /// driver uses its own. Also true if the API cannot tell.
  [[nodiscard]] virtual bool owns(stream /*on*/) const noexcept { return true; }

  /// A status in words: its name and meaning.
  [[nodiscard]] virtual std::string describe(status code) const = 0;
};

/// One device of one backend, as a value. Copies share the driver.
class device {
 public:
  explicit device(std::shared_ptr<device_driver> driver) noexcept : driver_{std::move(driver)} {}

  /// The device of the calling thread: its CUDA context's, else the first CUDA, else the first HIP device,
  /// else the CPU. Defined in device.hpp.
  [[nodiscard]] static device current();

  /// Every CUDA and HIP device, then the CPU. Defined in device.hpp.
  [[nodiscard]] static std::vector<device> all();

  /// The CPU. Defined in device.hpp.
  [[nodiscard]] static device host();

  [[nodiscard]] const device_properties& properties() const noexcept { return driver_->properties(); }
  [[nodiscard]] const std::shared_ptr<device_driver>& driver() const noexcept { return driver_; }

 private:
  std::shared_ptr<device_driver> driver_;
};

/// Finds the device of a stream, for dispatchers that serve all devices. A default stream belongs to the
/// calling thread's current device. Any thread may call any function.
class stream_router {
 public:
  stream_router() = default;
  stream_router(const stream_router&) = delete;
  stream_router& operator=(const stream_router&) = delete;
  virtual ~stream_router() = default;

  /// The stream's device. Throws driver_error.
  [[nodiscard]] virtual device of(stream on) = 0;

  /// A number that identifies the stream's device as long as the device lives, found without locks. 0 if the
  /// API cannot tell.
  [[nodiscard]] virtual std::uintptr_t key(stream on) noexcept = 0;

  /// Whether the driver refuses to launch a kernel on a stream of another device. If so, the device of a
  /// known stream may be cached: if another stream has the handle by now, the launch fails.
  [[nodiscard]] virtual bool refuses_foreign_streams() const noexcept = 0;

  /// For what the machine has: CUDA, else HIP, else the CPU alone. Throws driver_error unsupported_device if
  /// there are devices of both, because a stream handle does not identify its backend. Defined in device.hpp.
  [[nodiscard]] static std::shared_ptr<stream_router> of_machine();
};

}  // namespace v0
}  // namespace switchyard
