// SPDX-License-Identifier: MIT
// The part of the CUDA driver API that the cuda backend calls, declared here so that no SDK is needed to
// compile. tests/cuda/declarations.cpp compares every line with the real cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

// The API's own opaque types, so that its handles are ours: CUcontext is CUctx_st*, CUstream is CUstream_st*.
struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgreenCtx_st;
struct CUmod_st;
struct CUstream_st;

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// CUresult values that are acted upon.
namespace result {
inline constexpr int success = 0;
inline constexpr int invalid_value = 1;
inline constexpr int out_of_memory = 2;
inline constexpr int stub_library = 34;
inline constexpr int no_device = 100;
inline constexpr int invalid_device = 101;
inline constexpr int invalid_context = 201;
inline constexpr int invalid_handle = 400;
inline constexpr int not_found = 500;
inline constexpr int not_ready = 600;
inline constexpr int not_supported = 801;
inline constexpr int system_driver_mismatch = 803;
inline constexpr int stream_capture_unsupported = 900;
inline constexpr int captured_event = 907;
}  // namespace result

/// CUdevice_attribute values that are asked for.
namespace device_query {
inline constexpr int max_threads_per_block = 1;
inline constexpr int max_shared_bytes_per_block = 8;
inline constexpr int warp_size = 10;
inline constexpr int clock_khz = 13;
inline constexpr int multiprocessors = 16;
inline constexpr int memory_clock_khz = 36;
inline constexpr int memory_bus_bits = 37;
inline constexpr int l2_bytes = 38;
inline constexpr int max_threads_per_multiprocessor = 39;
inline constexpr int compute_capability_major = 75;
inline constexpr int compute_capability_minor = 76;
inline constexpr int max_shared_bytes_per_multiprocessor = 81;
inline constexpr int max_registers_per_multiprocessor = 82;
inline constexpr int cooperative_launch = 95;
inline constexpr int max_shared_bytes_per_block_optin = 97;
inline constexpr int cluster_launch = 120;
inline constexpr int tensor_maps = 127;
}  // namespace device_query

/// CUfunction_attribute values.
namespace function_attribute {
inline constexpr int max_threads_per_block = 0;
inline constexpr int shared_bytes = 1;
inline constexpr int max_dynamic_shared_bytes = 8;
inline constexpr int non_portable_cluster_size_allowed = 14;
}  // namespace function_attribute

/// CUjit_option values.
namespace load_option {
inline constexpr int info_log = 3;
inline constexpr int info_log_bytes = 4;
inline constexpr int error_log = 5;
inline constexpr int error_log_bytes = 6;
}  // namespace load_option

/// CUstreamCaptureStatus and CUstreamCaptureMode values.
namespace capture {
inline constexpr int none = 0;
inline constexpr int thread_local_mode = 1;
inline constexpr int relaxed = 2;
}  // namespace capture

/// CUdevResource of type multiprocessors, as CUDA 12.4 has it, with room for what later versions may add.
struct multiprocessor_resource {
  int type = 0;
  std::byte padding[92];  // NOLINT(modernize-avoid-c-arrays): the API's layout
  unsigned count = 0;
  std::byte more[412];  // NOLINT(modernize-avoid-c-arrays)
};
inline constexpr int multiprocessor_resource_type = 1;

/// CUexecAffinityParam of a number of multiprocessors.
struct multiprocessor_affinity {
  int type = 0;
  unsigned count = 0;
};

/// CUstream_flags: it does not wait for the legacy default stream.
inline constexpr unsigned non_blocking_stream = 1;

/// CUlaunchAttributeID values.
namespace launch_attribute_id {
inline constexpr unsigned cooperative = 2;
inline constexpr unsigned cluster_dimension = 4;
inline constexpr unsigned programmatic_stream_serialization = 6;
}  // namespace launch_attribute_id

/// CUlaunchAttribute. Nothing is set, because launches make them: the driver reads what the id says.
struct launch_attribute {
  struct extent {
    unsigned x;
    unsigned y;
    unsigned z;
  };
  union alignas(8) value_type {
    std::byte all[64];  // NOLINT(modernize-avoid-c-arrays): the API's layout
    int flag;
    extent cluster;
  };
  unsigned id;
  value_type value;
};

/// CUlaunchConfig.
struct launch_config {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned shared_bytes = 0;
  CUstream_st* stream = nullptr;
  launch_attribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// CU_GET_PROC_ADDRESS_LEGACY_STREAM: a null stream is the legacy default stream.
inline constexpr std::uint64_t legacy_stream = 1;

using get_proc_address_function = int (*)(const char* symbol, void** address, int version,
                                          std::uint64_t flags, int* found);
/// As CUDA 11.3 to 11.8 export it.
using get_proc_address_11_3_function = int (*)(const char* symbol, void** address, int version,
                                               std::uint64_t flags);

/// The entry points. Those that drivers from `oldest_driver` on may lack are null where they are lacking.
struct api {
  int (*init)(unsigned flags) = nullptr;
  int (*driver_get_version)(int* version) = nullptr;
  int (*get_error_name)(int code, const char** text) = nullptr;
  int (*get_error_string)(int code, const char** text) = nullptr;

  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get_name)(char* name, int bytes, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_total_mem)(std::size_t* bytes, int device) = nullptr;

  int (*primary_ctx_retain)(CUctx_st** context, int device) = nullptr;
  int (*primary_ctx_release)(int device) = nullptr;
  int (*primary_ctx_get_state)(int device, unsigned* flags, int* active) = nullptr;
  int (*ctx_get_current)(CUctx_st** context) = nullptr;
  int (*ctx_get_device)(int* device) = nullptr;
  int (*ctx_push_current)(CUctx_st* context) = nullptr;
  int (*ctx_pop_current)(CUctx_st** context) = nullptr;
  int (*ctx_get_id)(CUctx_st* context, unsigned long long* id) = nullptr;
  int (*ctx_get_dev_resource)(CUctx_st* context, multiprocessor_resource* resource, int type) = nullptr;
  int (*ctx_get_exec_affinity)(multiprocessor_affinity* affinity, int type) = nullptr;

  int (*stream_get_ctx)(CUstream_st* stream, CUctx_st** context) = nullptr;
  int (*stream_get_ctx_v2)(CUstream_st* stream, CUctx_st** context, CUgreenCtx_st** green) = nullptr;
  int (*stream_is_capturing)(CUstream_st* stream, int* capturing) = nullptr;
  int (*stream_synchronize)(CUstream_st* stream) = nullptr;
  int (*stream_create)(CUstream_st** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(CUstream_st* stream) = nullptr;
  int (*stream_begin_capture)(CUstream_st* stream, int mode) = nullptr;
  int (*stream_end_capture)(CUstream_st* stream, CUgraph_st** graph) = nullptr;
  int (*graph_instantiate)(CUgraphExec_st** executable, CUgraph_st* graph,
                           unsigned long long flags) = nullptr;
  int (*graph_destroy)(CUgraph_st* graph) = nullptr;
  int (*graph_exec_destroy)(CUgraphExec_st* executable) = nullptr;
  int (*graph_launch)(CUgraphExec_st* executable, CUstream_st* stream) = nullptr;
  int (*thread_exchange_stream_capture_mode)(int* mode) = nullptr;

  int (*module_load_data_ex)(CUmod_st** module, const void* image, unsigned option_count, int* options,
                             void** values) = nullptr;
  int (*module_unload)(CUmod_st* module) = nullptr;
  int (*module_get_function)(CUfunc_st** function, CUmod_st* module, const char* name) = nullptr;

  int (*func_get_attribute)(int* value, int attribute, CUfunc_st* function) = nullptr;
  int (*func_set_attribute)(CUfunc_st* function, int attribute, int value) = nullptr;
  int (*func_get_name)(const char** name, CUfunc_st* function) = nullptr;
  int (*func_get_param_info)(CUfunc_st* function, std::size_t index, std::size_t* offset,
                             std::size_t* bytes) = nullptr;
  int (*func_load)(CUfunc_st* function) = nullptr;

  int (*launch_kernel)(CUfunc_st* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream_st* stream, void** parameters, void** extra) = nullptr;
  int (*launch_kernel_ex)(const launch_config* config, CUfunc_st* function, void** parameters,
                          void** extra) = nullptr;

  int (*event_create)(CUevent_st** event, unsigned flags) = nullptr;
  int (*event_destroy)(CUevent_st* event) = nullptr;
  int (*event_record)(CUevent_st* event, CUstream_st* stream) = nullptr;
  int (*event_query)(CUevent_st* event) = nullptr;
  int (*event_synchronize)(CUevent_st* event) = nullptr;
  int (*event_elapsed_time)(float* milliseconds, CUevent_st* from, CUevent_st* to) = nullptr;

  int (*memcpy_async)(unsigned long long to, unsigned long long from, std::size_t bytes,
                      CUstream_st* stream) = nullptr;
  int (*memset_d8_async)(unsigned long long address, unsigned char byte, std::size_t bytes,
                         CUstream_st* stream) = nullptr;
  int (*mem_alloc_async)(unsigned long long* address, std::size_t bytes, CUstream_st* stream) = nullptr;
  int (*mem_free_async)(unsigned long long address, CUstream_st* stream) = nullptr;

  int (*tensor_map_encode_tiled)(void* map, int type, std::uint32_t rank, void* address,
                                 const std::uint64_t* extents, const std::uint64_t* strides,
                                 const std::uint32_t* box, const std::uint32_t* element_strides,
                                 int interleave, int swizzle, int l2_promotion, int fill) = nullptr;
};

/// The oldest driver served, as cuDriverGetVersion counts: the first that knows compute capability 9.0.
inline constexpr int oldest_driver = 11080;

enum class presence { required, optional };

/// Calls `visit(pointer, name, version, presence)` for each entry point: its name and the version of its
/// signature, as cuGetProcAddress takes them.
template <class Api, class Visitor>
void for_each_entry(Api& table, Visitor&& visit) {
  using enum presence;
  visit(table.init, "cuInit", 2000, required);
  visit(table.driver_get_version, "cuDriverGetVersion", 2020, required);
  visit(table.get_error_name, "cuGetErrorName", 6000, required);
  visit(table.get_error_string, "cuGetErrorString", 6000, required);
  visit(table.device_get, "cuDeviceGet", 2000, required);
  visit(table.device_get_count, "cuDeviceGetCount", 2000, required);
  visit(table.device_get_name, "cuDeviceGetName", 2000, required);
  visit(table.device_get_attribute, "cuDeviceGetAttribute", 2000, required);
  visit(table.device_total_mem, "cuDeviceTotalMem", 3020, required);
  visit(table.primary_ctx_retain, "cuDevicePrimaryCtxRetain", 7000, required);
  visit(table.primary_ctx_release, "cuDevicePrimaryCtxRelease", 11000, required);
  visit(table.primary_ctx_get_state, "cuDevicePrimaryCtxGetState", 7000, required);
  visit(table.ctx_get_current, "cuCtxGetCurrent", 4000, required);
  visit(table.ctx_get_device, "cuCtxGetDevice", 2000, required);
  visit(table.ctx_push_current, "cuCtxPushCurrent", 4000, required);
  visit(table.ctx_pop_current, "cuCtxPopCurrent", 4000, required);
  visit(table.ctx_get_id, "cuCtxGetId", 12000, optional);
  visit(table.ctx_get_dev_resource, "cuCtxGetDevResource", 12040, optional);
  visit(table.ctx_get_exec_affinity, "cuCtxGetExecAffinity", 11040, optional);
  visit(table.stream_get_ctx, "cuStreamGetCtx", 9020, required);
  visit(table.stream_get_ctx_v2, "cuStreamGetCtx", 12050, optional);
  visit(table.stream_is_capturing, "cuStreamIsCapturing", 10000, required);
  visit(table.stream_synchronize, "cuStreamSynchronize", 2000, required);
  visit(table.stream_create, "cuStreamCreate", 2000, optional);
  visit(table.stream_destroy, "cuStreamDestroy", 4000, optional);
  visit(table.stream_begin_capture, "cuStreamBeginCapture", 10010, optional);
  visit(table.stream_end_capture, "cuStreamEndCapture", 10000, optional);
  visit(table.graph_instantiate, "cuGraphInstantiateWithFlags", 11040, optional);
  visit(table.graph_destroy, "cuGraphDestroy", 10000, optional);
  visit(table.graph_exec_destroy, "cuGraphExecDestroy", 10000, optional);
  visit(table.graph_launch, "cuGraphLaunch", 10000, optional);
  visit(table.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, required);
  visit(table.module_load_data_ex, "cuModuleLoadDataEx", 2010, required);
  visit(table.module_unload, "cuModuleUnload", 2000, required);
  visit(table.module_get_function, "cuModuleGetFunction", 2000, required);
  visit(table.func_get_attribute, "cuFuncGetAttribute", 2020, required);
  visit(table.func_set_attribute, "cuFuncSetAttribute", 9000, required);
  visit(table.func_get_name, "cuFuncGetName", 12030, optional);
  visit(table.func_get_param_info, "cuFuncGetParamInfo", 12040, optional);
  visit(table.func_load, "cuFuncLoad", 12040, optional);
  visit(table.launch_kernel, "cuLaunchKernel", 4000, required);
  visit(table.launch_kernel_ex, "cuLaunchKernelEx", 11060, required);
  visit(table.event_create, "cuEventCreate", 2000, required);
  visit(table.event_destroy, "cuEventDestroy", 4000, required);
  visit(table.event_record, "cuEventRecord", 2000, required);
  visit(table.event_query, "cuEventQuery", 2000, required);
  visit(table.event_synchronize, "cuEventSynchronize", 2000, required);
  visit(table.event_elapsed_time, "cuEventElapsedTime", 2000, required);
  visit(table.memcpy_async, "cuMemcpyAsync", 4000, required);
  visit(table.memset_d8_async, "cuMemsetD8Async", 3020, required);
  visit(table.mem_alloc_async, "cuMemAllocAsync", 11020, required);
  visit(table.mem_free_async, "cuMemFreeAsync", 11020, required);
  visit(table.tensor_map_encode_tiled, "cuTensorMapEncodeTiled", 12000, optional);
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
