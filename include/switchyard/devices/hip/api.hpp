// SPDX-License-Identifier: MIT
// The part of the HIP API that the hip backend calls, declared here so that no ROCm is needed to compile.
// tests/hip/declarations.cpp compares every line with the real hip_runtime_api.h where there is one.
//
// Only what has kept its ABI since ROCm 5 is used. hipDeviceProp_t has not: it is read as bytes, of which
// only the place of the architecture's name matters.
#pragma once

#include <cstddef>
#include <cstdint>

// The API's own opaque types, so that its handles are ours: hipStream_t is ihipStream_t*.
struct ihipEvent_t;
struct ihipModule_t;
struct ihipModuleSymbol_t;
struct ihipStream_t;

namespace switchyard {
inline namespace v0 {

namespace hip {

/// hipError_t values that are acted upon.
namespace result {
inline constexpr int success = 0;
inline constexpr int invalid_value = 1;
inline constexpr int out_of_memory = 2;
inline constexpr int insufficient_driver = 35;
inline constexpr int no_device = 100;
inline constexpr int invalid_device = 101;
inline constexpr int not_found = 500;
inline constexpr int not_ready = 600;
inline constexpr int not_supported = 801;
inline constexpr int stream_capture_unsupported = 900;
inline constexpr int captured_event = 907;
}  // namespace result

/// hipDeviceAttribute_t values that are asked for; the same in ROCm 5 to 7.
namespace device_query {
inline constexpr int clock_khz = 5;
inline constexpr int cooperative_launch = 10;
inline constexpr int l2_bytes = 19;
inline constexpr int max_threads_per_block = 56;
inline constexpr int max_threads_per_multiprocessor = 57;
inline constexpr int memory_bus_bits = 59;
inline constexpr int memory_clock_khz = 60;
inline constexpr int multiprocessors = 63;
inline constexpr int max_shared_bytes_per_block = 74;
inline constexpr int warp_size = 87;
inline constexpr int max_shared_bytes_per_multiprocessor = 10002;
}  // namespace device_query

/// hipStreamCaptureStatus and hipStreamCaptureMode values.
namespace capture {
inline constexpr int none = 0;
inline constexpr int relaxed = 2;
}  // namespace capture

/// hipMemcpyDefault: the addresses say where from and where to.
inline constexpr int copy_by_address = 4;

/// Where gcnArchName lies in hipDeviceProp_t, and how long it is.
namespace property_layout {
inline constexpr std::size_t architecture_bytes = 256;
inline constexpr std::size_t architecture_since_6 = 1160;  ///< as hipGetDevicePropertiesR0600 fills it
inline constexpr std::size_t architecture_before_6 = 396;  ///< as hipGetDeviceProperties fills it
inline constexpr std::size_t max_bytes = 8192;             ///< more than any version's structure
}  // namespace property_layout

/// The entry points. Those that ROCm from 5.0 on may lack are null where they are lacking.
struct api {
  int (*init)(unsigned flags) = nullptr;
  int (*driver_get_version)(int* version) = nullptr;
  int (*runtime_get_version)(int* version) = nullptr;
  const char* (*get_error_name)(int code) = nullptr;
  const char* (*get_error_string)(int code) = nullptr;
  int (*get_last_error)() = nullptr;

  int (*get_device_count)(int* count) = nullptr;
  int (*get_device)(int* device) = nullptr;
  int (*set_device)(int device) = nullptr;
  int (*device_get_name)(char* name, int bytes, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_total_mem)(std::size_t* bytes, int device) = nullptr;
  int (*get_device_properties_r0600)(void* properties, int device) = nullptr;
  int (*get_device_properties)(void* properties, int device) = nullptr;

  int (*stream_get_device)(ihipStream_t* stream, int* device) = nullptr;
  int (*get_stream_device_id)(ihipStream_t* stream) = nullptr;
  int (*stream_is_capturing)(ihipStream_t* stream, int* capturing) = nullptr;
  int (*stream_synchronize)(ihipStream_t* stream) = nullptr;
  int (*thread_exchange_stream_capture_mode)(int* mode) = nullptr;

  int (*module_load_data)(ihipModule_t** module, const void* image) = nullptr;
  int (*module_unload)(ihipModule_t* module) = nullptr;
  int (*module_get_function)(ihipModuleSymbol_t** function, ihipModule_t* module, const char* name) = nullptr;

  int (*module_launch_kernel)(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                              ihipStream_t* stream, void** parameters, void** extra) = nullptr;
  int (*module_launch_cooperative_kernel)(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y,
                                          unsigned block_z, unsigned shared_bytes, ihipStream_t* stream,
                                          void** parameters) = nullptr;

  int (*event_create)(ihipEvent_t** event) = nullptr;
  int (*event_destroy)(ihipEvent_t* event) = nullptr;
  int (*event_record)(ihipEvent_t* event, ihipStream_t* stream) = nullptr;
  int (*event_query)(ihipEvent_t* event) = nullptr;
  int (*event_synchronize)(ihipEvent_t* event) = nullptr;
  int (*event_elapsed_time)(float* milliseconds, ihipEvent_t* from, ihipEvent_t* to) = nullptr;

  int (*memcpy_async)(void* to, const void* from, std::size_t bytes, int kind,
                      ihipStream_t* stream) = nullptr;
  int (*memset_async)(void* address, int byte, std::size_t bytes, ihipStream_t* stream) = nullptr;
  int (*malloc_async)(void** address, std::size_t bytes, ihipStream_t* stream) = nullptr;
  int (*free_async)(void* address, ihipStream_t* stream) = nullptr;
};

/// The oldest library served, as hipRuntimeGetVersion counts: ROCm 5.0.
inline constexpr int oldest_runtime = 50000000;

enum class presence { required, optional };

/// Calls `visit(pointer, name, presence)` for each entry point.
template <class Api, class Visitor>
void for_each_entry(Api& table, Visitor&& visit) {
  using enum presence;
  visit(table.init, "hipInit", required);
  visit(table.driver_get_version, "hipDriverGetVersion", required);
  visit(table.runtime_get_version, "hipRuntimeGetVersion", required);
  visit(table.get_error_name, "hipGetErrorName", required);
  visit(table.get_error_string, "hipGetErrorString", required);
  visit(table.get_last_error, "hipGetLastError", required);
  visit(table.get_device_count, "hipGetDeviceCount", required);
  visit(table.get_device, "hipGetDevice", required);
  visit(table.set_device, "hipSetDevice", required);
  visit(table.device_get_name, "hipDeviceGetName", required);
  visit(table.device_get_attribute, "hipDeviceGetAttribute", required);
  visit(table.device_total_mem, "hipDeviceTotalMem", required);
  visit(table.get_device_properties_r0600, "hipGetDevicePropertiesR0600", optional);
  visit(table.get_device_properties, "hipGetDeviceProperties", optional);
  visit(table.stream_get_device, "hipStreamGetDevice", optional);
  visit(table.get_stream_device_id, "hipGetStreamDeviceId", optional);
  visit(table.stream_is_capturing, "hipStreamIsCapturing", required);
  visit(table.stream_synchronize, "hipStreamSynchronize", required);
  visit(table.thread_exchange_stream_capture_mode, "hipThreadExchangeStreamCaptureMode", optional);
  visit(table.module_load_data, "hipModuleLoadData", required);
  visit(table.module_unload, "hipModuleUnload", required);
  visit(table.module_get_function, "hipModuleGetFunction", required);
  visit(table.module_launch_kernel, "hipModuleLaunchKernel", required);
  visit(table.module_launch_cooperative_kernel, "hipModuleLaunchCooperativeKernel", optional);
  visit(table.event_create, "hipEventCreate", required);
  visit(table.event_destroy, "hipEventDestroy", required);
  visit(table.event_record, "hipEventRecord", required);
  visit(table.event_query, "hipEventQuery", required);
  visit(table.event_synchronize, "hipEventSynchronize", required);
  visit(table.event_elapsed_time, "hipEventElapsedTime", required);
  visit(table.memcpy_async, "hipMemcpyAsync", required);
  visit(table.memset_async, "hipMemsetAsync", required);
  visit(table.malloc_async, "hipMallocAsync", optional);
  visit(table.free_async, "hipFreeAsync", optional);
}

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
