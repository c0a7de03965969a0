// SPDX-License-Identifier: MIT
// HIP's functions over libcuda: a library for tests, so that the hip backend runs on an NVIDIA card.
//
// What it hands out are CUDA's own handles: a hipStream_t is a CUstream, a module is loaded from a cubin. The
// architecture it reports is CUDA's name for it ("sm_90a"): a name is data. As AMD's devices do, it gives
// every kernel all of a block's shared memory without being asked. HIP_OVER_CUDA_DRIVER names another
// libcuda.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/hip/api.hpp>

namespace {

namespace cuda = switchyard::cuda;
namespace hip = switchyard::hip;

struct state {
  std::shared_ptr<const cuda::api> driver;
  std::vector<CUctx_st*> contexts;  ///< primary ones, by device
  int failure = hip::result::success;
};

state& all() {
  static state instance = [] {
    state made;
    try {
      cuda::options how;
      if (const char* const name = std::getenv("HIP_OVER_CUDA_DRIVER"); name != nullptr) how.library = name;
      made.driver = cuda::open_library(how);
      int devices = 0;
      made.failure = made.driver->device_get_count(&devices);
      for (int i = 0; i < devices && made.failure == 0; ++i) {
        made.failure = made.driver->primary_ctx_retain(&made.contexts.emplace_back(), i);
      }
    } catch (const switchyard::error& error) {
      made.failure = error.code() == switchyard::error_code::no_device ? hip::result::no_device
                                                                       : hip::result::insufficient_driver;
    } catch (const std::exception&) {
      made.failure = hip::result::out_of_memory;
    }
    return made;
  }();
  return instance;
}

thread_local int current_device = 0;
thread_local int last_error = hip::result::success;

int remember(int code) {
  if (code != hip::result::success) last_error = code;
  return code;
}

bool exists(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < all().contexts.size();
}

/// Runs `work(driver)` with the current device's context current, as every HIP function does.
template <class Work>
int with_device(Work&& work) {
  const auto& [driver, contexts, failure] = all();
  if (failure != hip::result::success) return remember(failure);
  CUctx_st* const wanted = contexts[static_cast<std::size_t>(current_device)];
  CUctx_st* current = nullptr;
  if (driver->ctx_get_current(&current) == cuda::result::success && current == wanted)
    return remember(work(*driver));
  if (const int code = driver->ctx_push_current(wanted); code != cuda::result::success) return remember(code);
  const int code = work(*driver);
  driver->ctx_pop_current(&current);
  return remember(code);
}

CUstream_st* stream_of(ihipStream_t* stream) {
  return reinterpret_cast<CUstream_st*>(stream);
}
CUevent_st* event_of(ihipEvent_t* event) {
  return reinterpret_cast<CUevent_st*>(event);
}
CUmod_st* module_of(ihipModule_t* module) {
  return reinterpret_cast<CUmod_st*>(module);
}
CUfunc_st* function_of(ihipModuleSymbol_t* function) {
  return reinterpret_cast<CUfunc_st*>(function);
}

int cuda_query_of(int attribute) {
  namespace theirs = hip::device_query;
  namespace ours = cuda::device_query;
  switch (attribute) {
    case theirs::clock_khz:
      return ours::clock_khz;
    case theirs::cooperative_launch:
      return ours::cooperative_launch;
    case theirs::l2_bytes:
      return ours::l2_bytes;
    case theirs::max_threads_per_block:
      return ours::max_threads_per_block;
    case theirs::max_threads_per_multiprocessor:
      return ours::max_threads_per_multiprocessor;
    case theirs::memory_bus_bits:
      return ours::memory_bus_bits;
    case theirs::memory_clock_khz:
      return ours::memory_clock_khz;
    case theirs::multiprocessors:
      return ours::multiprocessors;
    case theirs::max_shared_bytes_per_block:
      return ours::max_shared_bytes_per_block_optin;
    case theirs::warp_size:
      return ours::warp_size;
    case theirs::max_shared_bytes_per_multiprocessor:
      return ours::max_shared_bytes_per_multiprocessor;
    default:
      return 0;
  }
}

int query(int attribute, int device) {
  int value = 0;
  return all().driver->device_get_attribute(&value, attribute, device) == cuda::result::success ? value : 0;
}

}  // namespace

extern "C" {

int hipInit(unsigned /*flags*/) {
  return remember(all().failure);
}

int hipRuntimeGetVersion(int* version) {
  const char* const claimed = std::getenv("HIP_OVER_CUDA_VERSION");
  // The interface offered is that of ROCm 6.0.
  *version = claimed == nullptr ? 60000000 : std::atoi(claimed);
  return hip::result::success;
}
int hipDriverGetVersion(int* version) {
  return hipRuntimeGetVersion(version);
}

const char* hipGetErrorName(int code) {
  const char* text = "hipErrorUnknown";
  if (all().driver != nullptr) all().driver->get_error_name(code, &text);
  return code == hip::result::no_device ? "hipErrorNoDevice" : text;
}
const char* hipGetErrorString(int code) {
  const char* text = "unknown error";
  if (all().driver != nullptr) all().driver->get_error_string(code, &text);
  return text;
}
int hipGetLastError() {
  const int code = last_error;
  last_error = hip::result::success;
  return code;
}

int hipGetDeviceCount(int* count) {
  *count = static_cast<int>(all().contexts.size());
  return remember(all().failure);
}
int hipGetDevice(int* device) {
  *device = current_device;
  return remember(all().failure);
}
int hipSetDevice(int device) {
  if (!exists(device)) return remember(hip::result::invalid_device);
  current_device = device;
  return hip::result::success;
}
int hipDeviceGetName(char* name, int bytes, int device) {
  if (!exists(device)) return remember(hip::result::invalid_device);
  return remember(all().driver->device_get_name(name, bytes, device));
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  const int asked = cuda_query_of(attribute);
  if (!exists(device)) return remember(hip::result::invalid_device);
  if (asked == 0) return remember(hip::result::invalid_value);
  return remember(all().driver->device_get_attribute(value, asked, device));
}
int hipDeviceTotalMem(std::size_t* bytes, int device) {
  if (!exists(device)) return remember(hip::result::invalid_device);
  return remember(all().driver->device_total_mem(bytes, device));
}
int hipGetDevicePropertiesR0600(void* properties, int device) {
  constexpr std::size_t structure_bytes = 1472;
  if (!exists(device)) return remember(hip::result::invalid_device);
  std::memset(properties, 0, structure_bytes);
  const int compute_capability = 10 * query(cuda::device_query::compute_capability_major, device) +
                                 query(cuda::device_query::compute_capability_minor, device);
  // From 9.0 on every device has instructions of its own, and 'a' names them all.
  std::string name = cuda::architecture_name(compute_capability) + (compute_capability >= 90 ? "a" : "");
  if (const char* const claimed = std::getenv("HIP_OVER_CUDA_ARCH"); claimed != nullptr) name = claimed;
  std::memcpy(static_cast<std::byte*>(properties) + hip::property_layout::architecture_since_6, name.c_str(),
              name.size());
  return all().driver->device_get_name(static_cast<char*>(properties), 255, device);
}

int hipStreamGetDevice(ihipStream_t* stream, int* device) {
  return with_device([&](const cuda::api& driver) {
    CUctx_st* context = nullptr;
    if (const int code = driver.stream_get_ctx(stream_of(stream), &context); code != 0) return code;
    if (const int code = driver.ctx_push_current(context); code != 0) return code;
    const int code = driver.ctx_get_device(device);
    driver.ctx_pop_current(&context);
    return code;
  });
}
int hipStreamIsCapturing(ihipStream_t* stream, int* capturing) {
  return with_device(
      [&](const cuda::api& driver) { return driver.stream_is_capturing(stream_of(stream), capturing); });
}
int hipThreadExchangeStreamCaptureMode(int* mode) {
  return with_device(
      [&](const cuda::api& driver) { return driver.thread_exchange_stream_capture_mode(mode); });
}

int hipModuleLoadData(ihipModule_t** module, const void* image) {
  return with_device([&](const cuda::api& driver) {
    return driver.module_load_data_ex(reinterpret_cast<CUmod_st**>(module), image, 0, nullptr, nullptr);
  });
}
int hipModuleUnload(ihipModule_t* module) {
  return with_device([&](const cuda::api& driver) { return driver.module_unload(module_of(module)); });
}
int hipModuleGetFunction(ihipModuleSymbol_t** function, ihipModule_t* module, const char* name) {
  return with_device([&](const cuda::api& driver) {
    CUfunc_st* found = nullptr;
    if (const int code = driver.module_get_function(&found, module_of(module), name); code != 0) return code;
    int fixed = 0;
    if (const int code = driver.func_get_attribute(&fixed, cuda::function_attribute::shared_bytes, found);
        code != 0)
      return code;
    *function = reinterpret_cast<ihipModuleSymbol_t*>(found);
    const int most = query(cuda::device_query::max_shared_bytes_per_block_optin, current_device);
    return driver.func_set_attribute(found, cuda::function_attribute::max_dynamic_shared_bytes, most - fixed);
  });
}

int hipModuleLaunchKernel(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          ihipStream_t* stream, void** parameters, void** extra) {
  return with_device([&](const cuda::api& driver) {
    return driver.launch_kernel(function_of(function), grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                shared_bytes, stream_of(stream), parameters, extra);
  });
}
int hipModuleLaunchCooperativeKernel(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                     unsigned shared_bytes, ihipStream_t* stream, void** parameters) {
  return with_device([&](const cuda::api& driver) {
    cuda::launch_attribute cooperative;
    cooperative.id = cuda::launch_attribute_id::cooperative;
    cooperative.value.flag = 1;
    const cuda::launch_config config{
        grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream_of(stream), &cooperative, 1};
    return driver.launch_kernel_ex(&config, function_of(function), parameters, nullptr);
  });
}

int hipStreamSynchronize(ihipStream_t* stream) {
  return with_device([&](const cuda::api& driver) { return driver.stream_synchronize(stream_of(stream)); });
}
int hipEventCreate(ihipEvent_t** event) {
  return with_device([&](const cuda::api& driver) {
    CUevent_st* made = nullptr;
    const int code = driver.event_create(&made, 0);
    *event = reinterpret_cast<ihipEvent_t*>(made);
    return code;
  });
}
int hipEventDestroy(ihipEvent_t* event) {
  return with_device([&](const cuda::api& driver) { return driver.event_destroy(event_of(event)); });
}
int hipEventRecord(ihipEvent_t* event, ihipStream_t* stream) {
  return with_device(
      [&](const cuda::api& driver) { return driver.event_record(event_of(event), stream_of(stream)); });
}
int hipEventQuery(ihipEvent_t* event) {
  return with_device([&](const cuda::api& driver) { return driver.event_query(event_of(event)); });
}
int hipEventSynchronize(ihipEvent_t* event) {
  return with_device([&](const cuda::api& driver) { return driver.event_synchronize(event_of(event)); });
}
int hipEventElapsedTime(float* milliseconds, ihipEvent_t* from, ihipEvent_t* to) {
  return with_device([&](const cuda::api& driver) {
    return driver.event_elapsed_time(milliseconds, event_of(from), event_of(to));
  });
}

int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, ihipStream_t* stream) {
  return with_device([&](const cuda::api& driver) {
    if (kind != hip::copy_by_address) return hip::result::not_supported;
    return driver.memcpy_async(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from),
                               bytes, stream_of(stream));
  });
}
int hipMemsetAsync(void* address, int byte, std::size_t bytes, ihipStream_t* stream) {
  return with_device([&](const cuda::api& driver) {
    return driver.memset_d8_async(reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned char>(byte),
                                  bytes, stream_of(stream));
  });
}
int hipMallocAsync(void** address, std::size_t bytes, ihipStream_t* stream) {
  return with_device([&](const cuda::api& driver) {
    unsigned long long allocated = 0;
    const int code = driver.mem_alloc_async(&allocated, bytes, stream_of(stream));
    *address = reinterpret_cast<void*>(allocated);
    return code;
  });
}
int hipFreeAsync(void* address, ihipStream_t* stream) {
  return with_device([&](const cuda::api& driver) {
    return driver.mem_free_async(reinterpret_cast<std::uintptr_t>(address), stream_of(stream));
  });
}

}  // extern "C"
