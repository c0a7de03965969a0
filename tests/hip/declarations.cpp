// SPDX-License-Identifier: MIT
// Compiling is passing: what hip/api.hpp declares is what the real hip_runtime_api.h declares, where there is
// one.
#include <cstddef>
#include <type_traits>

#include <switchyard/devices/hip/api.hpp>

#if __has_include(<hip/hip_runtime_api.h>)
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop
#include <hip/hip_version.h>
#endif

#include "same_signature.hpp"

#ifdef HIP_VERSION

namespace switchyard::test {

template <>
struct counterpart<void*, hipDeviceProp_t*> : std::true_type {};

}  // namespace switchyard::test

namespace {

namespace hip = switchyard::hip;

using switchyard::test::same_signature;

static_assert(!same_signature<int (*)(ihipStream_t*), int (*)(ihipModule_t*)>::value);

// hipMalloc and its kin are overloaded: the C function among them is named by its type.
#define SWITCHYARD_SAME(ours, theirs, ...)                                     \
  static_assert(same_signature<decltype(hip::api::ours), __VA_ARGS__>::value); \
  [[maybe_unused]] const std::type_identity_t<__VA_ARGS__> check_##ours = &theirs

SWITCHYARD_SAME(init, hipInit, hipError_t (*)(unsigned));
SWITCHYARD_SAME(driver_get_version, hipDriverGetVersion, hipError_t (*)(int*));
SWITCHYARD_SAME(runtime_get_version, hipRuntimeGetVersion, hipError_t (*)(int*));
SWITCHYARD_SAME(get_error_name, hipGetErrorName, const char* (*)(hipError_t));
SWITCHYARD_SAME(get_error_string, hipGetErrorString, const char* (*)(hipError_t));
SWITCHYARD_SAME(get_last_error, hipGetLastError, hipError_t (*)());
SWITCHYARD_SAME(get_device_count, hipGetDeviceCount, hipError_t (*)(int*));
SWITCHYARD_SAME(get_device, hipGetDevice, hipError_t (*)(int*));
SWITCHYARD_SAME(set_device, hipSetDevice, hipError_t (*)(int));
SWITCHYARD_SAME(device_get_name, hipDeviceGetName, hipError_t (*)(char*, int, hipDevice_t));
SWITCHYARD_SAME(device_get_attribute, hipDeviceGetAttribute, hipError_t (*)(int*, hipDeviceAttribute_t, int));
SWITCHYARD_SAME(device_total_mem, hipDeviceTotalMem, hipError_t (*)(std::size_t*, hipDevice_t));
SWITCHYARD_SAME(get_device_properties, hipGetDeviceProperties, hipError_t (*)(hipDeviceProp_t*, int));
SWITCHYARD_SAME(get_stream_device_id, hipGetStreamDeviceId, int (*)(hipStream_t));
SWITCHYARD_SAME(stream_is_capturing, hipStreamIsCapturing,
                hipError_t (*)(hipStream_t, hipStreamCaptureStatus*));
SWITCHYARD_SAME(thread_exchange_stream_capture_mode, hipThreadExchangeStreamCaptureMode,
                hipError_t (*)(hipStreamCaptureMode*));
SWITCHYARD_SAME(module_load_data, hipModuleLoadData, hipError_t (*)(hipModule_t*, const void*));
SWITCHYARD_SAME(module_unload, hipModuleUnload, hipError_t (*)(hipModule_t));
SWITCHYARD_SAME(module_get_function, hipModuleGetFunction,
                hipError_t (*)(hipFunction_t*, hipModule_t, const char*));
SWITCHYARD_SAME(module_launch_kernel, hipModuleLaunchKernel,
                hipError_t (*)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, hipStream_t, void**, void**));
SWITCHYARD_SAME(stream_synchronize, hipStreamSynchronize, hipError_t (*)(hipStream_t));
SWITCHYARD_SAME(event_create, hipEventCreate, hipError_t (*)(hipEvent_t*));
SWITCHYARD_SAME(event_destroy, hipEventDestroy, hipError_t (*)(hipEvent_t));
SWITCHYARD_SAME(event_record, hipEventRecord, hipError_t (*)(hipEvent_t, hipStream_t));
SWITCHYARD_SAME(event_query, hipEventQuery, hipError_t (*)(hipEvent_t));
SWITCHYARD_SAME(event_synchronize, hipEventSynchronize, hipError_t (*)(hipEvent_t));
SWITCHYARD_SAME(event_elapsed_time, hipEventElapsedTime, hipError_t (*)(float*, hipEvent_t, hipEvent_t));
SWITCHYARD_SAME(memcpy_async, hipMemcpyAsync,
                hipError_t (*)(void*, const void*, std::size_t, hipMemcpyKind, hipStream_t));
SWITCHYARD_SAME(memset_async, hipMemsetAsync, hipError_t (*)(void*, int, std::size_t, hipStream_t));
SWITCHYARD_SAME(malloc_async, hipMallocAsync, hipError_t (*)(void**, std::size_t, hipStream_t));
SWITCHYARD_SAME(free_async, hipFreeAsync, hipError_t (*)(void*, hipStream_t));

static_assert(hip::result::success == hipSuccess);
static_assert(hip::result::invalid_value == hipErrorInvalidValue);
static_assert(hip::result::out_of_memory == hipErrorOutOfMemory);
static_assert(hip::result::insufficient_driver == hipErrorInsufficientDriver);
static_assert(hip::result::no_device == hipErrorNoDevice);
static_assert(hip::result::invalid_device == hipErrorInvalidDevice);
static_assert(hip::result::not_found == hipErrorNotFound);
static_assert(hip::result::not_ready == hipErrorNotReady);
static_assert(hip::result::not_supported == hipErrorNotSupported);
static_assert(hip::result::stream_capture_unsupported == hipErrorStreamCaptureUnsupported);
static_assert(hip::result::captured_event == hipErrorCapturedEvent);

namespace query = hip::device_query;
static_assert(query::clock_khz == hipDeviceAttributeClockRate);
static_assert(query::cooperative_launch == hipDeviceAttributeCooperativeLaunch);
static_assert(query::l2_bytes == hipDeviceAttributeL2CacheSize);
static_assert(query::max_threads_per_block == hipDeviceAttributeMaxThreadsPerBlock);
static_assert(query::max_threads_per_multiprocessor == hipDeviceAttributeMaxThreadsPerMultiProcessor);
static_assert(query::memory_bus_bits == hipDeviceAttributeMemoryBusWidth);
static_assert(query::memory_clock_khz == hipDeviceAttributeMemoryClockRate);
static_assert(query::multiprocessors == hipDeviceAttributeMultiprocessorCount);
static_assert(query::max_shared_bytes_per_block == hipDeviceAttributeMaxSharedMemoryPerBlock);
static_assert(query::warp_size == hipDeviceAttributeWarpSize);
static_assert(query::max_shared_bytes_per_multiprocessor ==
              hipDeviceAttributeMaxSharedMemoryPerMultiprocessor);

static_assert(hip::copy_by_address == hipMemcpyDefault);
static_assert(hip::capture::none == hipStreamCaptureStatusNone);
static_assert(hip::capture::relaxed == hipStreamCaptureModeRelaxed);

#if HIP_VERSION_MAJOR >= 6
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == hip::property_layout::architecture_since_6);
SWITCHYARD_SAME(stream_get_device, hipStreamGetDevice, hipError_t (*)(hipStream_t, hipDevice_t*));
SWITCHYARD_SAME(module_launch_cooperative_kernel, hipModuleLaunchCooperativeKernel,
                hipError_t (*)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, hipStream_t, void**));
#else
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == hip::property_layout::architecture_before_6);
#endif
static_assert(sizeof(hipDeviceProp_t::gcnArchName) == hip::property_layout::architecture_bytes);
static_assert(sizeof(hipDeviceProp_t) <= hip::property_layout::max_bytes);

}  // namespace

#endif
