// SPDX-License-Identifier: MIT
// Compiling is passing: what cuda/api.hpp declares is what the real cuda.h declares, where there is one.
#include <cstddef>
#include <type_traits>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>
#endif

#include "same_signature.hpp"

#ifdef CUDA_VERSION
namespace switchyard::test {

template <>
struct counterpart<cuda::launch_config, CUlaunchConfig> : std::true_type {};
template <>
struct counterpart<void, CUtensorMap> : std::true_type {};
#if CUDA_VERSION >= 12040
template <>
struct counterpart<cuda::multiprocessor_resource, CUdevResource> : std::true_type {};
#endif
template <>
struct counterpart<cuda::multiprocessor_affinity, CUexecAffinityParam> : std::true_type {};

}  // namespace switchyard::test
#endif

namespace {

namespace cuda = switchyard::cuda;

using switchyard::test::same_signature;

static_assert(!same_signature<int (*)(CUctx_st*), int (*)(CUfunc_st*)>::value);
static_assert(same_signature<int (*)(int, CUctx_st**), int (*)(int, CUctx_st**)>::value);

#ifdef CUDA_VERSION

#if CUDA_VERSION >= 12040
static_assert(offsetof(cuda::multiprocessor_resource, count) == offsetof(CUdevResource, sm.smCount));
static_assert(sizeof(cuda::multiprocessor_resource) >= sizeof(CUdevResource));
static_assert(cuda::multiprocessor_resource_type == CU_DEV_RESOURCE_TYPE_SM);
#endif
static_assert(sizeof(cuda::multiprocessor_affinity) == sizeof(CUexecAffinityParam));
static_assert(CU_EXEC_AFFINITY_TYPE_SM_COUNT == 0);

#define SWITCHYARD_SAME(ours, theirs) \
  static_assert(same_signature<decltype(cuda::api::ours), theirs>::value, #theirs)

SWITCHYARD_SAME(init, PFN_cuInit_v2000);
SWITCHYARD_SAME(driver_get_version, PFN_cuDriverGetVersion_v2020);
SWITCHYARD_SAME(get_error_name, PFN_cuGetErrorName_v6000);
SWITCHYARD_SAME(get_error_string, PFN_cuGetErrorString_v6000);
SWITCHYARD_SAME(device_get, PFN_cuDeviceGet_v2000);
SWITCHYARD_SAME(device_get_count, PFN_cuDeviceGetCount_v2000);
SWITCHYARD_SAME(device_get_name, PFN_cuDeviceGetName_v2000);
SWITCHYARD_SAME(device_get_attribute, PFN_cuDeviceGetAttribute_v2000);
SWITCHYARD_SAME(device_total_mem, PFN_cuDeviceTotalMem_v3020);
SWITCHYARD_SAME(primary_ctx_retain, PFN_cuDevicePrimaryCtxRetain_v7000);
SWITCHYARD_SAME(primary_ctx_release, PFN_cuDevicePrimaryCtxRelease_v11000);
SWITCHYARD_SAME(primary_ctx_get_state, PFN_cuDevicePrimaryCtxGetState_v7000);
SWITCHYARD_SAME(ctx_get_current, PFN_cuCtxGetCurrent_v4000);
SWITCHYARD_SAME(ctx_get_device, PFN_cuCtxGetDevice_v2000);
SWITCHYARD_SAME(ctx_push_current, PFN_cuCtxPushCurrent_v4000);
SWITCHYARD_SAME(ctx_pop_current, PFN_cuCtxPopCurrent_v4000);
SWITCHYARD_SAME(stream_get_ctx, PFN_cuStreamGetCtx_v9020);
SWITCHYARD_SAME(stream_is_capturing, PFN_cuStreamIsCapturing_v10000);
SWITCHYARD_SAME(thread_exchange_stream_capture_mode, PFN_cuThreadExchangeStreamCaptureMode_v10010);
SWITCHYARD_SAME(module_load_data_ex, PFN_cuModuleLoadDataEx_v2010);
SWITCHYARD_SAME(module_unload, PFN_cuModuleUnload_v2000);
SWITCHYARD_SAME(module_get_function, PFN_cuModuleGetFunction_v2000);
SWITCHYARD_SAME(func_get_attribute, PFN_cuFuncGetAttribute_v2020);
SWITCHYARD_SAME(func_set_attribute, PFN_cuFuncSetAttribute_v9000);
SWITCHYARD_SAME(launch_kernel, PFN_cuLaunchKernel_v4000);
SWITCHYARD_SAME(stream_synchronize, PFN_cuStreamSynchronize_v2000);
#if CUDA_VERSION >= 12040
SWITCHYARD_SAME(ctx_get_dev_resource, PFN_cuCtxGetDevResource_v12040);
#endif
SWITCHYARD_SAME(ctx_get_exec_affinity, PFN_cuCtxGetExecAffinity_v11040);
SWITCHYARD_SAME(stream_create, PFN_cuStreamCreate_v2000);
SWITCHYARD_SAME(stream_destroy, PFN_cuStreamDestroy_v4000);
SWITCHYARD_SAME(stream_begin_capture, PFN_cuStreamBeginCapture_v10010);
SWITCHYARD_SAME(stream_end_capture, PFN_cuStreamEndCapture_v10000);
SWITCHYARD_SAME(graph_instantiate, PFN_cuGraphInstantiateWithFlags_v11040);
SWITCHYARD_SAME(graph_destroy, PFN_cuGraphDestroy_v10000);
SWITCHYARD_SAME(graph_exec_destroy, PFN_cuGraphExecDestroy_v10000);
SWITCHYARD_SAME(graph_launch, PFN_cuGraphLaunch_v10000);
SWITCHYARD_SAME(event_create, PFN_cuEventCreate_v2000);
SWITCHYARD_SAME(event_destroy, PFN_cuEventDestroy_v4000);
SWITCHYARD_SAME(event_record, PFN_cuEventRecord_v2000);
SWITCHYARD_SAME(event_query, PFN_cuEventQuery_v2000);
SWITCHYARD_SAME(event_synchronize, PFN_cuEventSynchronize_v2000);
SWITCHYARD_SAME(event_elapsed_time, PFN_cuEventElapsedTime_v2000);
SWITCHYARD_SAME(memcpy_async, PFN_cuMemcpyAsync_v4000);
SWITCHYARD_SAME(memset_d8_async, PFN_cuMemsetD8Async_v3020);
SWITCHYARD_SAME(mem_alloc_async, PFN_cuMemAllocAsync_v11020);
SWITCHYARD_SAME(mem_free_async, PFN_cuMemFreeAsync_v11020);

static_assert(cuda::result::success == CUDA_SUCCESS);
static_assert(cuda::result::invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(cuda::result::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cuda::result::stub_library == CUDA_ERROR_STUB_LIBRARY);
static_assert(cuda::result::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(cuda::result::invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(cuda::result::invalid_context == CUDA_ERROR_INVALID_CONTEXT);
static_assert(cuda::result::invalid_handle == CUDA_ERROR_INVALID_HANDLE);
static_assert(cuda::result::not_found == CUDA_ERROR_NOT_FOUND);
static_assert(cuda::result::not_ready == CUDA_ERROR_NOT_READY);
static_assert(cuda::result::not_supported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(cuda::result::system_driver_mismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(cuda::result::stream_capture_unsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(cuda::result::captured_event == CUDA_ERROR_CAPTURED_EVENT);

namespace query = cuda::device_query;
static_assert(query::max_threads_per_block == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(query::max_shared_bytes_per_block == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
static_assert(query::warp_size == CU_DEVICE_ATTRIBUTE_WARP_SIZE);
static_assert(query::clock_khz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(query::multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(query::memory_clock_khz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(query::memory_bus_bits == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(query::l2_bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(query::max_threads_per_multiprocessor == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(query::compute_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(query::compute_capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(query::max_shared_bytes_per_multiprocessor ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
static_assert(query::max_registers_per_multiprocessor ==
              CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
static_assert(query::cooperative_launch == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
static_assert(query::max_shared_bytes_per_block_optin ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

static_assert(cuda::function_attribute::max_threads_per_block == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(cuda::function_attribute::shared_bytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(cuda::function_attribute::max_dynamic_shared_bytes ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(cuda::load_option::info_log == CU_JIT_INFO_LOG_BUFFER);
static_assert(cuda::load_option::info_log_bytes == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
static_assert(cuda::load_option::error_log == CU_JIT_ERROR_LOG_BUFFER);
static_assert(cuda::load_option::error_log_bytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(cuda::capture::none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(cuda::capture::relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(cuda::legacy_stream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
static_assert(same_signature<cuda::get_proc_address_11_3_function, PFN_cuGetProcAddress_v11030>::value);

#if CUDA_VERSION >= 11080
SWITCHYARD_SAME(launch_kernel_ex, PFN_cuLaunchKernelEx_v11060);
static_assert(query::cluster_launch == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
static_assert(cuda::function_attribute::non_portable_cluster_size_allowed ==
              CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(cuda::launch_attribute_id::cooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(cuda::launch_attribute_id::cluster_dimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(cuda::launch_attribute_id::programmatic_stream_serialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

static_assert(sizeof(cuda::launch_attribute) == sizeof(CUlaunchAttribute));
static_assert(alignof(cuda::launch_attribute) == alignof(CUlaunchAttribute));
static_assert(offsetof(cuda::launch_attribute, id) == offsetof(CUlaunchAttribute, id));
static_assert(offsetof(cuda::launch_attribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(cuda::launch_attribute::value_type) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(cuda::launch_attribute::extent) == sizeof(CUlaunchAttributeValue::clusterDim));
static_assert(sizeof(cuda::launch_attribute::value_type::flag) ==
              sizeof(CUlaunchAttributeValue::cooperative));

static_assert(sizeof(cuda::launch_config) == sizeof(CUlaunchConfig));
static_assert(offsetof(cuda::launch_config, grid_x) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(cuda::launch_config, grid_y) == offsetof(CUlaunchConfig, gridDimY));
static_assert(offsetof(cuda::launch_config, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(cuda::launch_config, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(cuda::launch_config, block_y) == offsetof(CUlaunchConfig, blockDimY));
static_assert(offsetof(cuda::launch_config, block_z) == offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(cuda::launch_config, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cuda::launch_config, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cuda::launch_config, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(cuda::launch_config, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
#endif

#if CUDA_VERSION >= 12000
SWITCHYARD_SAME(ctx_get_id, PFN_cuCtxGetId_v12000);
SWITCHYARD_SAME(tensor_map_encode_tiled, PFN_cuTensorMapEncodeTiled_v12000);
static_assert(same_signature<cuda::get_proc_address_function, PFN_cuGetProcAddress_v12000>::value);
static_assert(query::tensor_maps == CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED);
static_assert(sizeof(CUtensorMap) == switchyard::tensor_map_bytes);
static_assert(alignof(CUtensorMap) == (CUDA_VERSION >= 13000 ? 128 : 64));  // the driver asks for 64
#endif
#if CUDA_VERSION >= 12030
SWITCHYARD_SAME(func_get_name, PFN_cuFuncGetName_v12030);
#endif
#if CUDA_VERSION >= 12040
SWITCHYARD_SAME(func_get_param_info, PFN_cuFuncGetParamInfo_v12040);
SWITCHYARD_SAME(func_load, PFN_cuFuncLoad_v12040);
#endif
#if CUDA_VERSION >= 12050
SWITCHYARD_SAME(stream_get_ctx_v2, PFN_cuStreamGetCtx_v12050);
#endif

#endif

}  // namespace
