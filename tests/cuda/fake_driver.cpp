// SPDX-License-Identifier: MIT
// A libcuda without a device: two invented ones, contexts, streams, and notes of what was asked of it, so
// that what the cuda backend does with contexts and failures is tested on any machine.
//
// FAKE_CUDA says how it misbehaves: "no_device", "stub", "mismatch", "old" (CUDA 11.4), "eleven" (CUDA 11.8
// with that version's cuGetProcAddress and nothing newer), "lacks=<function>", "featureless" (no compute
// capability), "strict" (a stream's context must be current), "full" (no memory), "no_maps" (no tensor map
// can be encoded), "no_instances" (no graph can be made ready),
// "mps" (a context has 6 multiprocessors).
#include "fake_driver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/api.hpp>

#include "../environment.hpp"

struct CUctx_st {
  int device = 0;
  unsigned long long id = 0;
  std::atomic<int> launches{0};
  unsigned multiprocessors = 0;  ///< its share of the device's; 0: all
};
struct CUstream_st {
  CUctx_st* context = nullptr;
  int capturing = 0;
  CUgraph_st* graph = nullptr;  ///< that it records
};
struct CUevent_st {
  std::atomic<int> recorded = 0;
  std::atomic<bool> waited_for = false;
};
struct CUgraph_st {
  std::vector<CUfunc_st*> kernels;
};
struct CUgraphExec_st {
  std::vector<CUfunc_st*> kernels;
};
struct CUmod_st {
  CUctx_st* context = nullptr;
};
struct CUfunc_st {
  CUctx_st* context = nullptr;
  std::vector<std::size_t> parameter_bytes;
  std::map<int, int> attributes;
};

namespace {

namespace cuda = switchyard::cuda;

fake_cuda::record notes;
std::array<CUctx_st, 2> primary{{{0, 1, {}, 0}, {1, 2, {}, 0}}};
thread_local std::vector<CUctx_st*> stack;
thread_local int capture_mode = 0;

// What is loaded stays reachable: a module goes with its context where nobody unloads it.
std::mutex& modules_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}
std::set<CUmod_st*>& loaded_modules() {
  static auto& all = *new std::set<CUmod_st*>;
  return all;
}

bool misbehaves(std::string_view how) {
  const char* const value = switchyard::test::variable("FAKE_CUDA");
  return value != nullptr && how == value;
}

bool lacks(std::string_view function) {
  const char* const value = switchyard::test::variable("FAKE_CUDA");
  return value != nullptr && std::string_view{value}.starts_with("lacks=") &&
         std::string_view{value}.substr(6) == function;
}

CUctx_st* current() {
  return stack.empty() ? nullptr : stack.back();
}

/// The context that a stream's work belongs to, or the result when it cannot be told.
int context_of(CUstream_st* stream, CUctx_st** context) {
  if (reinterpret_cast<std::uintptr_t>(stream) > 2) {
    *context = stream->context;
    if (misbehaves("strict") && current() != stream->context) return cuda::result::invalid_context;
    return cuda::result::success;
  }
  *context = current();
  return *context == nullptr ? cuda::result::invalid_context : cuda::result::success;
}

int start(CUfunc_st* function, CUstream_st* stream, unsigned attributes, void** parameters) {
  if (notes.launch_answers[0] != 0)
    return std::exchange(notes.launch_answers[0], std::exchange(notes.launch_answers[1], 0));
  CUctx_st* context = nullptr;
  if (const int code = context_of(stream, &context); code != 0) return code;
  if (context != function->context) {
    ++notes.refused;
    return cuda::result::invalid_handle;
  }
  if (reinterpret_cast<std::uintptr_t>(stream) > 2 && stream->graph != nullptr) {
    stream->graph->kernels.push_back(function);
    return cuda::result::success;
  }
  // Counted one a context, so that a benchmark's threads and instructions are hardly disturbed.
  context->launches.fetch_add(1, std::memory_order_relaxed);
  notes.launch_attributes.store(attributes, std::memory_order_relaxed);
  if (notes.on_launch != nullptr) notes.on_launch(parameters);
  return cuda::result::success;
}

/// The parameters of a kernel about which the driver says nothing.
const std::vector<std::size_t> untold{0};

/// The sizes of a kernel's parameters: those in its name ("take_8_4_128"), else 8 and 4. "untold" is a kernel
/// that does not tell them.
std::vector<std::size_t> parameters_of(std::string_view name) {
  if (name == "untold") return untold;
  if (!name.starts_with("take")) return {8, 4};
  std::vector<std::size_t> out;
  for (std::size_t at = 4; at < name.size();) {
    const std::size_t end = std::min(name.find('_', at + 1), name.size());
    out.push_back(std::stoul(std::string{name.substr(at + 1, end - at - 1)}));
    at = end;
  }
  return out;
}

int attribute_of(int attribute, int device) {
  namespace query = cuda::device_query;
  switch (attribute) {
    case query::compute_capability_major:
      return misbehaves("featureless") ? 0 : device == 0 ? 9 : 8;
    case query::compute_capability_minor:
      return 0;
    case query::multiprocessors:
      return 10 + device;
    case query::max_shared_bytes_per_block:
      return 48 * 1024;
    case query::max_shared_bytes_per_block_optin:
      return 100 * 1024;
    case query::memory_clock_khz:
      return 1'000'000;
    case query::memory_bus_bits:
      return 1024;
    case query::cooperative_launch:
      return 1;
    case query::cluster_launch:
      return device == 0 ? 1 : 0;
    case query::warp_size:
      return 32;
    default:
      return 1;
  }
}

const cuda::api functions = [] {
  cuda::api table;
  table.init = [](unsigned) {
    if (misbehaves("no_device")) return cuda::result::no_device;
    if (misbehaves("stub")) return cuda::result::stub_library;
    if (misbehaves("mismatch")) return cuda::result::system_driver_mismatch;
    return cuda::result::success;
  };
  table.driver_get_version = [](int* version) {
    *version = misbehaves("old") ? 11040 : misbehaves("eleven") ? 11080 : 13000;
    return cuda::result::success;
  };
  table.get_error_name = [](int code, const char** text) {
    *text = code == cuda::result::no_device ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_SOME_KIND";
    return cuda::result::success;
  };
  table.get_error_string = [](int, const char** text) {
    *text = "as the fake has it";
    return cuda::result::success;
  };
  table.device_get = [](int* device, int ordinal) {
    *device = ordinal;
    return cuda::result::success;
  };
  table.device_get_count = [](int* count) {
    *count = 2;
    return cuda::result::success;
  };
  table.device_get_name = [](char* name, int bytes, int device) {
    std::strncpy(name, device == 0 ? "Fake A" : "Fake B", static_cast<std::size_t>(bytes));
    return cuda::result::success;
  };
  table.device_get_attribute = [](int* value, int attribute, int device) {
    *value = attribute_of(attribute, device);
    return cuda::result::success;
  };
  table.device_total_mem = [](std::size_t* bytes, int) {
    *bytes = std::size_t{8} << 30U;
    return cuda::result::success;
  };
  table.primary_ctx_retain = [](CUctx_st** context, int device) {
    ++notes.retained[static_cast<std::size_t>(device)];
    *context = &primary[static_cast<std::size_t>(device)];
    return cuda::result::success;
  };
  table.primary_ctx_release = [](int device) {
    --notes.retained[static_cast<std::size_t>(device)];
    return cuda::result::success;
  };
  table.primary_ctx_get_state = [](int device, unsigned* flags, int* active) {
    *flags = 0;
    *active = notes.retained[static_cast<std::size_t>(device)] > 0 ? 1 : 0;
    return cuda::result::success;
  };
  table.ctx_get_current = [](CUctx_st** context) {
    *context = current();
    return cuda::result::success;
  };
  table.ctx_get_device = [](int* device) {
    if (current() == nullptr) return cuda::result::invalid_context;
    *device = current()->device;
    return cuda::result::success;
  };
  table.ctx_push_current = [](CUctx_st* context) {
    ++notes.pushes;
    stack.push_back(context);
    return cuda::result::success;
  };
  table.ctx_pop_current = [](CUctx_st** context) {
    if (stack.empty()) return cuda::result::invalid_context;
    *context = stack.back();
    stack.pop_back();
    return cuda::result::success;
  };
  table.ctx_get_dev_resource = [](CUctx_st* context, cuda::multiprocessor_resource* resource, int type) {
    if (type != cuda::multiprocessor_resource_type) return cuda::result::invalid_value;
    resource->count = context->multiprocessors > 0 ? context->multiprocessors
                                                   : 10U + static_cast<unsigned>(context->device);
    return cuda::result::success;
  };
  table.ctx_get_exec_affinity = [](cuda::multiprocessor_affinity* affinity, int) {
    if (current() == nullptr) return cuda::result::invalid_context;
    if (!misbehaves("mps")) return cuda::result::not_supported;
    affinity->count = 6;
    return cuda::result::success;
  };
  table.ctx_get_id = [](CUctx_st* context, unsigned long long* id) {
    *id = context->id;
    return cuda::result::success;
  };
  table.stream_get_ctx = [](CUstream_st* stream, CUctx_st** context) { return context_of(stream, context); };
  table.stream_get_ctx_v2 = [](CUstream_st* stream, CUctx_st** context, CUgreenCtx_st** green) {
    *green = nullptr;
    return context_of(stream, context);
  };
  table.stream_is_capturing = [](CUstream_st* stream, int* capturing) {
    *capturing = cuda::capture::none;
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return notes.legacy_capture_error;
    *capturing = stream->capturing;
    return cuda::result::success;
  };
  table.thread_exchange_stream_capture_mode = [](int* mode) {
    std::swap(*mode, capture_mode);
    return cuda::result::success;
  };
  table.module_load_data_ex = [](CUmod_st** module, const void* image, unsigned, int*, void**) {
    if (current() == nullptr) return cuda::result::invalid_context;
    if (misbehaves("full")) return cuda::result::out_of_memory;
    notes.load_mode = capture_mode;
    notes.image_text = static_cast<const char*>(image);
    ++notes.modules;
    *module = new CUmod_st{current()};
    const std::scoped_lock lock{modules_mutex()};
    loaded_modules().insert(*module);
    return cuda::result::success;
  };
  table.module_unload = [](CUmod_st* module) {
    --notes.modules;
    {
      const std::scoped_lock lock{modules_mutex()};
      loaded_modules().erase(module);
    }
    delete module;
    return cuda::result::success;
  };
  table.module_get_function = [](CUfunc_st** function, CUmod_st* module, const char* name) {
    if (std::string_view{name} == "absent") return cuda::result::not_found;
    namespace attribute = cuda::function_attribute;
    // Few enough to be left for the program's end, and reachable until then.
    static std::mutex mutex;
    static std::map<std::pair<CUctx_st*, std::string>, CUfunc_st> all;
    const std::scoped_lock lock{mutex};
    CUfunc_st& found = all[{module->context, name}];
    found.context = module->context;
    found.parameter_bytes = parameters_of(name);
    found.attributes = {{attribute::max_threads_per_block, 256},
                        {attribute::shared_bytes, 1024},
                        {attribute::max_dynamic_shared_bytes, 48 * 1024 - 1024}};
    *function = &found;
    return cuda::result::success;
  };
  table.func_get_attribute = [](int* value, int attribute, CUfunc_st* function) {
    *value = function->attributes[attribute];
    return cuda::result::success;
  };
  table.func_set_attribute = [](CUfunc_st* function, int attribute, int value) {
    ++notes.attributes_set;
    function->attributes[attribute] = value;
    return cuda::result::success;
  };
  table.func_get_name = [](const char** name, CUfunc_st*) {
    *name = "fake_kernel";
    return cuda::result::success;
  };
  table.func_get_param_info = [](CUfunc_st* function, std::size_t index, std::size_t* offset,
                                 std::size_t* bytes) {
    if (function->parameter_bytes == untold) return cuda::result::not_supported;
    if (index >= function->parameter_bytes.size()) return cuda::result::invalid_value;
    *offset = 0;
    for (std::size_t i = 0; i <= index; ++i) {
      *bytes = function->parameter_bytes[i];
      *offset = (*offset + *bytes - 1) / *bytes * *bytes + (i < index ? *bytes : 0);
    }
    return cuda::result::success;
  };
  table.func_load = [](CUfunc_st*) {
    ++notes.functions_loaded;
    return cuda::result::success;
  };
  table.launch_kernel = [](CUfunc_st* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, CUstream_st* stream, void** parameters,
                           void**) { return start(function, stream, 0, parameters); };
  table.launch_kernel_ex = [](const cuda::launch_config* config, CUfunc_st* function, void** parameters,
                              void**) {
    unsigned seen = 0;
    for (unsigned i = 0; i < config->attribute_count; ++i) {
      const cuda::launch_attribute& attribute = config->attributes[i];
      const bool is_cluster = attribute.id == cuda::launch_attribute_id::cluster_dimension;
      if (is_cluster || attribute.value.flag == 1) seen |= 1U << attribute.id;
      if (is_cluster)
        notes.cluster = {attribute.value.cluster.x, attribute.value.cluster.y, attribute.value.cluster.z};
    }
    return start(function, config->stream, seen, parameters);
  };
  table.stream_synchronize = [](CUstream_st* stream) {
    CUctx_st* context = nullptr;
    return context_of(stream, &context);
  };
  table.stream_create = [](CUstream_st** stream, unsigned) {
    if (current() == nullptr) return cuda::result::invalid_context;
    ++notes.streams;
    *stream = new CUstream_st{current()};
    return cuda::result::success;
  };
  table.stream_destroy = [](CUstream_st* stream) {
    --notes.streams;
    delete stream;
    return cuda::result::success;
  };
  table.stream_begin_capture = [](CUstream_st* stream, int) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return cuda::result::stream_capture_unsupported;
    ++notes.graphs;
    stream->capturing = 1;
    stream->graph = new CUgraph_st{};
    return cuda::result::success;
  };
  table.stream_end_capture = [](CUstream_st* stream, CUgraph_st** graph) {
    stream->capturing = cuda::capture::none;
    *graph = std::exchange(stream->graph, nullptr);
    return cuda::result::success;
  };
  table.graph_instantiate = [](CUgraphExec_st** executable, CUgraph_st* graph, unsigned long long) {
    if (misbehaves("no_instances")) return cuda::result::invalid_value;
    ++notes.graphs;
    *executable = new CUgraphExec_st{graph->kernels};
    return cuda::result::success;
  };
  table.graph_destroy = [](CUgraph_st* graph) {
    --notes.graphs;
    delete graph;
    return cuda::result::success;
  };
  table.graph_exec_destroy = [](CUgraphExec_st* executable) {
    --notes.graphs;
    delete executable;
    return cuda::result::success;
  };
  table.graph_launch = [](CUgraphExec_st* executable, CUstream_st* stream) {
    ++notes.graph_launches;
    for (CUfunc_st* const kernel : executable->kernels) {
      if (const int code = start(kernel, stream, 0, nullptr); code != 0) return code;
    }
    return cuda::result::success;
  };
  table.event_create = [](CUevent_st** event, unsigned) {
    if (current() == nullptr) return cuda::result::invalid_context;
    if (notes.event_create_answer != 0) return notes.event_create_answer.load();
    ++notes.events;
    *event = new CUevent_st{};
    return cuda::result::success;
  };
  table.event_destroy = [](CUevent_st* event) {
    --notes.events;
    delete event;
    return cuda::result::success;
  };
  table.event_record = [](CUevent_st* event, CUstream_st*) {
    static std::atomic<int> clock = 0;
    if (notes.event_record_answer != 0) return notes.event_record_answer.load();
    ++notes.event_records;
    event->recorded = ++clock;
    event->waited_for = false;
    return cuda::result::success;
  };
  table.event_query = [](CUevent_st* event) {
    notes.query_mode = capture_mode;
    if (notes.event_query_answer != 0) return notes.event_query_answer.load();
    event->waited_for = true;
    return cuda::result::success;
  };
  table.event_synchronize = [](CUevent_st* event) {
    ++notes.event_waits;
    event->waited_for = true;
    return cuda::result::success;
  };
  table.event_elapsed_time = [](float* milliseconds, CUevent_st* from, CUevent_st* to) {
    if (!to->waited_for) return cuda::result::not_ready;
    *milliseconds = static_cast<float>(to->recorded - from->recorded) * notes.event_milliseconds;
    return cuda::result::success;
  };
  table.memcpy_async = [](unsigned long long to, unsigned long long from, std::size_t bytes,
                          CUstream_st* stream) {
    CUctx_st* context = nullptr;
    const int code = context_of(stream, &context);
    if (code == 0) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return code;
  };
  table.memset_d8_async = [](unsigned long long, unsigned char, std::size_t bytes, CUstream_st* stream) {
    notes.filled_bytes += bytes;
    CUctx_st* context = nullptr;
    return context_of(stream, &context);
  };
  table.mem_alloc_async = [](unsigned long long* address, std::size_t bytes, CUstream_st*) {
    *address = 0x1000;
    return bytes > 1'000'000'000 ? cuda::result::out_of_memory : cuda::result::success;
  };
  table.mem_free_async = [](unsigned long long, CUstream_st*) { return cuda::result::success; };
  // An invented encoding: everything that was asked for, in its order.
  table.tensor_map_encode_tiled = [](void* map, int type, std::uint32_t rank, void* address,
                                     const std::uint64_t* extents, const std::uint64_t* strides,
                                     const std::uint32_t* box, const std::uint32_t* element_strides,
                                     int interleave, int swizzle, int l2_promotion, int fill) {
    if (misbehaves("no_maps")) return cuda::result::invalid_value;
    if (misbehaves("strict") && current() == nullptr) return cuda::result::invalid_context;
    notes.encoded.fetch_add(1, std::memory_order_relaxed);
    std::array<std::uint32_t, 32> words{};
    std::size_t used = 0;
    const auto put = [&](std::uint64_t value) { words[used++] = static_cast<std::uint32_t>(value); };
    put(reinterpret_cast<std::uintptr_t>(address));
    put(reinterpret_cast<std::uintptr_t>(address) >> 32U);
    for (const int setting : {type, interleave, swizzle, l2_promotion, fill})
      put(static_cast<std::uint64_t>(setting));
    put(rank);
    for (std::uint32_t i = 0; i < rank; ++i) {
      put(extents[i]);
      put(box[i]);
      put(element_strides[i]);
      if (i + 1 < rank) put(strides[i]);
    }
    std::memcpy(map, words.data(), sizeof words);
    return cuda::result::success;
  };
  return table;
}();

/// The versions of the functions' signatures, as cudaTypedefs.h has them.
constexpr std::pair<std::string_view, int> versions[]{
    // NOLINT(modernize-avoid-c-arrays): a table
    {"cuInit", 2000},
    {"cuDriverGetVersion", 2020},
    {"cuGetErrorName", 6000},
    {"cuGetErrorString", 6000},
    {"cuDeviceGet", 2000},
    {"cuDeviceGetCount", 2000},
    {"cuDeviceGetName", 2000},
    {"cuDeviceGetAttribute", 2000},
    {"cuDeviceTotalMem", 3020},
    {"cuDevicePrimaryCtxRetain", 7000},
    {"cuDevicePrimaryCtxRelease", 11000},
    {"cuDevicePrimaryCtxGetState", 7000},
    {"cuCtxGetCurrent", 4000},
    {"cuCtxGetDevice", 2000},
    {"cuCtxPushCurrent", 4000},
    {"cuCtxPopCurrent", 4000},
    {"cuCtxGetId", 12000},
    {"cuCtxGetDevResource", 12040},
    {"cuCtxGetExecAffinity", 11040},
    {"cuStreamGetCtx", 9020},
    {"cuStreamGetCtx", 12050},
    {"cuStreamIsCapturing", 10000},
    {"cuStreamSynchronize", 2000},
    {"cuStreamCreate", 2000},
    {"cuStreamDestroy", 4000},
    {"cuStreamBeginCapture", 10010},
    {"cuStreamEndCapture", 10000},
    {"cuGraphInstantiateWithFlags", 11040},
    {"cuGraphDestroy", 10000},
    {"cuGraphExecDestroy", 10000},
    {"cuGraphLaunch", 10000},
    {"cuThreadExchangeStreamCaptureMode", 10010},
    {"cuModuleLoadDataEx", 2010},
    {"cuModuleUnload", 2000},
    {"cuModuleGetFunction", 2000},
    {"cuFuncGetAttribute", 2020},
    {"cuFuncSetAttribute", 9000},
    {"cuFuncGetName", 12030},
    {"cuFuncGetParamInfo", 12040},
    {"cuFuncLoad", 12040},
    {"cuLaunchKernel", 4000},
    {"cuLaunchKernelEx", 11060},
    {"cuEventCreate", 2000},
    {"cuEventDestroy", 4000},
    {"cuEventRecord", 2000},
    {"cuEventQuery", 2000},
    {"cuEventSynchronize", 2000},
    {"cuEventElapsedTime", 2000},
    {"cuMemcpyAsync", 4000},
    {"cuMemsetD8Async", 3020},
    {"cuMemAllocAsync", 11020},
    {"cuMemFreeAsync", 11020},
    {"cuTensorMapEncodeTiled", 12000},
};

int find(const char* symbol, void** address, int version, int* found) {
  *address = nullptr;
  const bool eleven = misbehaves("eleven");
  const bool is_known = std::any_of(std::begin(versions), std::end(versions), [&](const auto& known) {
    return known.first == symbol && known.second == version;
  });
  auto table = functions;
  cuda::for_each_entry(table, [&](auto& pointer, const char* name, int since, cuda::presence) {
    if (is_known && std::string_view{name} == symbol && since == version && !lacks(name) &&
        (!eleven || since <= 11080))
      *address = reinterpret_cast<void*>(pointer);
  });
  if (found != nullptr) *found = *address == nullptr ? 1 : 0;
  return *address == nullptr ? cuda::result::not_found : cuda::result::success;
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the driver's names
int cuInit(unsigned flags) {
  return functions.init(flags);
}
int cuDriverGetVersion(int* version) {
  return functions.driver_get_version(version);
}
int cuGetErrorName(int code, const char** text) {
  return functions.get_error_name(code, text);
}
int cuGetErrorString(int code, const char** text) {
  return functions.get_error_string(code, text);
}
int cuGetProcAddress_v2(const char* symbol, void** address, int version, std::uint64_t, int* found) {
  return find(symbol, address, version, found);
}
// NOLINTEND(readability-identifier-naming)

fake_cuda::record* fake_cuda_notes() {
  return &notes;
}
CUctx_st* fake_cuda_make_context(int device, unsigned long long id) {
  return new CUctx_st{device, id, {}, 0};
}
void fake_cuda_share(CUctx_st* context, unsigned multiprocessors) {
  context->multiprocessors = multiprocessors;
}
void fake_cuda_drop_context(CUctx_st* context) {
  delete context;
}
CUctx_st* fake_cuda_primary(int device) {
  return &primary[static_cast<std::size_t>(device)];
}
CUctx_st* fake_cuda_current() {
  return current();
}
void fake_cuda_set_current(CUctx_st* context) {
  stack.clear();
  if (context != nullptr) stack.push_back(context);
}
CUstream_st* fake_cuda_make_stream(CUctx_st* context, int capturing) {
  return new CUstream_st{context, capturing};
}
void fake_cuda_replace_stream(CUstream_st* stream, CUctx_st* context) {
  stream->context = context;
}
void* fake_cuda_launch_kernel() {
  return reinterpret_cast<void*>(functions.launch_kernel);
}
void* fake_cuda_launch_kernel_ex() {
  return reinterpret_cast<void*>(functions.launch_kernel_ex);
}
void* fake_cuda_memset() {
  return reinterpret_cast<void*>(functions.memset_d8_async);
}
int fake_cuda_launches(CUctx_st* context) {
  return context->launches;
}
void fake_cuda_drop_stream(CUstream_st* stream) {
  delete stream;
}
}
