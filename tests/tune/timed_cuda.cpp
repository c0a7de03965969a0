// SPDX-License-Identifier: MIT
// A libcuda for the tuner on machines without a GPU: the fake driver of tests/cuda, with memory, and with a
// clock that runs while work is given to it. Kernels compute nothing. Each takes as many microseconds as its
// launch has bytes of shared memory, and at least one; a fill takes one for each 4 MB. All devices have one
// name.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <switchyard/devices/cuda/api.hpp>

#include "environment.hpp"

namespace {

namespace cuda = switchyard::cuda;

template <class Function>
Function* require(void* from, const char* name) {
  return reinterpret_cast<Function*>(dlsym(from, name));
}

/// The fake driver, which the environment names.
void* driver() {
  static void* const opened = dlopen(switchyard::test::variable("FAKE_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return opened;
}

cuda::api fake;
std::atomic<std::int64_t> clock_us = 0;
std::mutex mutex;
std::map<void*, std::int64_t> noted;           ///< by event, when it passed; by graph, how long it takes
thread_local std::int64_t* capture = nullptr;  ///< the time of what the thread records

void take(unsigned microseconds) {
  if (capture != nullptr) {
    *capture += std::max(microseconds, 1U);
  } else {
    clock_us += std::max(microseconds, 1U);
  }
}

void note(void* of, std::int64_t value) {
  const std::scoped_lock lock{mutex};
  noted[of] = value;
}

std::int64_t noted_of(void* of) {
  const std::scoped_lock lock{mutex};
  return noted[of];
}

cuda::api made() {
  cuda::api out = fake;
  out.device_get_name = [](char* name, int bytes, int) {
    std::strncpy(name, "NVIDIA H200", static_cast<std::size_t>(bytes));
    return cuda::result::success;
  };
  out.device_get_attribute = [](int* value, int attribute, int) {
    const int code = fake.device_get_attribute(value, attribute, 0);
    if (attribute == cuda::device_query::multiprocessors) *value = 132;
    return code;
  };
  out.device_total_mem = [](std::size_t* bytes, int) {
    *bytes = std::size_t{1} << 30U;  // of which the tuner fills a share
    return cuda::result::success;
  };
  out.ctx_get_dev_resource = [](CUctx_st* context, cuda::multiprocessor_resource* resource, int type) {
    const int code = fake.ctx_get_dev_resource(context, resource, type);
    resource->count = 132;
    return code;
  };
  out.mem_alloc_async = [](unsigned long long* address, std::size_t bytes, CUstream_st*) {
    *address = reinterpret_cast<std::uintptr_t>(std::calloc(bytes, 1));
    return *address == 0 ? cuda::result::out_of_memory : cuda::result::success;
  };
  out.mem_free_async = [](unsigned long long address, CUstream_st*) {
    std::free(reinterpret_cast<void*>(address));
    return cuda::result::success;
  };
  out.memset_d8_async = [](unsigned long long address, unsigned char value, std::size_t bytes,
                           CUstream_st* stream) {
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    clock_us += static_cast<std::int64_t>(bytes >> 22U);
    return fake.memset_d8_async(address, value, bytes, stream);
  };
  out.launch_kernel = [](CUfunc_st* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared, CUstream_st* stream, void** parameters, void** extra) {
    take(shared);
    return fake.launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
  };
  out.launch_kernel_ex = [](const cuda::launch_config* config, CUfunc_st* function, void** parameters,
                            void** extra) {
    take(config->shared_bytes);
    return fake.launch_kernel_ex(config, function, parameters, extra);
  };
  out.stream_begin_capture = [](CUstream_st* stream, int mode) {
    static thread_local std::int64_t time;
    time = 0;
    capture = &time;
    return fake.stream_begin_capture(stream, mode);
  };
  out.stream_end_capture = [](CUstream_st* stream, CUgraph_st** graph) {
    const std::int64_t time = *std::exchange(capture, nullptr);
    const int code = fake.stream_end_capture(stream, graph);
    note(*graph, time);
    return code;
  };
  out.graph_instantiate = [](CUgraphExec_st** executable, CUgraph_st* graph, unsigned long long flags) {
    const int code = fake.graph_instantiate(executable, graph, flags);
    note(*executable, noted_of(graph));
    return code;
  };
  out.graph_launch = [](CUgraphExec_st* executable, CUstream_st* stream) {
    clock_us += noted_of(executable);
    return fake.graph_launch(executable, stream);
  };
  out.event_record = [](CUevent_st* event, CUstream_st* stream) {
    note(event, clock_us);
    return fake.event_record(event, stream);
  };
  out.event_elapsed_time = [](float* milliseconds, CUevent_st* from, CUevent_st* to) {
    const int code = fake.event_elapsed_time(milliseconds, from, to);
    *milliseconds = static_cast<float>(noted_of(to) - noted_of(from)) / 1000;
    return code;
  };
  return out;
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the driver's names
int cuInit(unsigned flags) {
  return driver() == nullptr ? cuda::result::no_device : require<int(unsigned)>(driver(), "cuInit")(flags);
}
int cuDriverGetVersion(int* version) {
  return require<int(int*)>(driver(), "cuDriverGetVersion")(version);
}
int cuGetErrorName(int code, const char** text) {
  return require<int(int, const char**)>(driver(), "cuGetErrorName")(code, text);
}
int cuGetErrorString(int code, const char** text) {
  return require<int(int, const char**)>(driver(), "cuGetErrorString")(code, text);
}
int cuGetProcAddress_v2(const char* symbol, void** address, int version, std::uint64_t flags, int* found) {
  using finder = int(const char*, void**, int, std::uint64_t, int*);
  auto* const find = require<finder>(driver(), "cuGetProcAddress_v2");
  const int code = find(symbol, address, version, flags, found);
  if (code != cuda::result::success || *address == nullptr) return code;
  cuda::for_each_entry(fake, [&](auto& pointer, const char* name, int, cuda::presence) {
    if (std::string_view{symbol} == name) std::memcpy(&pointer, address, sizeof pointer);
  });
  cuda::api mine = made();
  cuda::for_each_entry(mine, [&](auto& pointer, const char* name, int, cuda::presence) {
    if (std::string_view{symbol} == name) std::memcpy(address, &pointer, sizeof pointer);
  });
  return code;
}
// NOLINTEND(readability-identifier-naming)
}
