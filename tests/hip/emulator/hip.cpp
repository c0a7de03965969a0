// SPDX-License-Identifier: MIT
// HIP's functions over the emulator: those that the hip backend calls. HIP_EMULATOR_ARCH says which of the
// library's devices there is, HIP_EMULATOR_DEVICES how many of it, HIP_EMULATOR_MULTIPROCESSORS what each
// has. Work is done when it is asked for, so streams are in order; what a stream captures is done when the
// graph is launched.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/hip/api.hpp>

#include "orders.hpp"

namespace {

namespace hip = switchyard::hip;
namespace result = switchyard::hip::result;
constexpr int launch_failure = 719;
constexpr int too_many_for_cooperation = 720;
constexpr int no_binary = 209;
constexpr int invalid_handle = 400;
constexpr int capture_active = 1;

const char* setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

const std::string& architecture() {
  static const std::string name =
      setting("HIP_EMULATOR_ARCH", emulator::emulated == emulator::family::cdna    ? "gfx942"
                                   : emulator::emulated == emulator::family::rdna3 ? "gfx1100"
                                                                                   : "gfx1201");
  return name;
}
int device_count() {
  static const int count = std::atoi(setting("HIP_EMULATOR_DEVICES", "1"));
  return count;
}

thread_local int current_device = 0;
thread_local int last_error = result::success;

int remember(int code) {
  if (code != result::success) last_error = code;
  return code;
}
bool exists(int device) {
  return device >= 0 && device < device_count();
}
std::string last_text;  // NOLINT: for tests, which ask behind a call

/// The text of what went wrong goes to standard error: HIP has a number only.
int report(const std::exception& problem, int code) {
  last_text = problem.what();
  std::fprintf(stderr, "HIP emulator: %s\n", problem.what());
  return remember(code);
}

/// A kernel that failed leaves its device unusable, as a fault does.
std::atomic<bool> lost{false};

int shared_bytes() {
  return architecture() == "gfx950" ? 163840 : 65536;
}
int multiprocessors() {
  return std::atoi(setting("HIP_EMULATOR_MULTIPROCESSORS", "8"));
}
constexpr std::uint32_t threads_of_multiprocessor = 2048;
constexpr std::size_t memory_bytes = std::size_t{4} << 30U;

enum class kind_of_launch : std::uint8_t { usual, cooperative };

int launch_on(ihipModuleSymbol_t* function, const emulator::grid& where, void** parameters,
              kind_of_launch as) {
  const auto& kernel = *reinterpret_cast<const emulator::kernel*>(function);
  if (lost) return remember(launch_failure);
  const std::uint64_t threads = std::uint64_t{where.threads[0]} * where.threads[1] * where.threads[2];
  if (threads == 0 || threads > kernel.max_threads || where.blocks[0] == 0 || where.blocks[1] == 0 ||
      where.blocks[2] == 0 || where.blocks[1] > 65535 || where.blocks[2] > 65535 ||
      std::uint64_t{where.blocks[0]} * where.threads[0] > 0xffffffffU ||
      kernel.code->shared_bytes + where.shared_bytes > static_cast<std::uint32_t>(shared_bytes()))
    return remember(result::invalid_value);
  const bool cooperates = as == kind_of_launch::cooperative;
  const std::uint64_t blocks = std::uint64_t{where.blocks[0]} * where.blocks[1] * where.blocks[2];
  if (cooperates) {
    const std::uint64_t shared = std::max(1U, kernel.code->shared_bytes + where.shared_bytes);
    const std::uint64_t at_once =
        std::min(threads_of_multiprocessor / threads, static_cast<std::uint64_t>(shared_bytes()) / shared);
    if (blocks > at_once * static_cast<std::uint64_t>(multiprocessors()))
      return remember(too_many_for_cooperation);
  }
  try {
    emulator::launch(kernel, where, parameters, cooperates);
  } catch (const std::exception& problem) {
    lost = true;
    return report(problem, launch_failure);
  }
  return result::success;
}

}  // namespace

struct ihipEvent_t {
  std::chrono::steady_clock::time_point time;
};
using work_list = std::vector<std::function<int()>>;
struct captured_work {
  work_list work;
  std::vector<std::shared_ptr<void>> memory;  ///< allocated in the capture: the graph's
};
struct ihipStream_t {
  int device = 0;
  bool captures = false;
  captured_work captured;
};
struct ihipGraph {
  captured_work captured;
};

namespace {

/// Null for the default streams, which are null, 1 and 2.
ihipStream_t* own(ihipStream_t* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) > 2 ? stream : nullptr;
}
bool captures(ihipStream_t* stream) {
  return own(stream) != nullptr && stream->captures;
}
/// Does work, or notes it.
int submit(ihipStream_t* stream, std::function<int()> work) {
  if (own(stream) != nullptr && stream->device != current_device) return remember(invalid_handle);
  if (!captures(stream)) return work();
  stream->captured.work.push_back(std::move(work));
  return result::success;
}

int launch_or_note(ihipModuleSymbol_t* function, const emulator::grid& where, ihipStream_t* stream,
                   void** parameters, kind_of_launch as) {
  const auto& kernel = *reinterpret_cast<const emulator::kernel*>(function);
  if (kernel.device != current_device) return remember(invalid_handle);
  if (!captures(stream)) return submit(stream, [&] { return launch_on(function, where, parameters, as); });
  std::vector<std::vector<std::byte>> values;  // as they are now
  for (const emulator::argument& one : kernel.arguments) {
    if (!one.hidden.empty()) continue;
    const auto* const from = static_cast<const std::byte*>(parameters[values.size()]);
    values.emplace_back(from, from + one.bytes);
  }
  return submit(stream, [function, where, values, as]() mutable {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    return launch_on(function, where, pointers.data(), as);
  });
}

}  // namespace

extern "C" {

/// What the last call that failed found. Not HIP's: for tests of the emulator.
const char* hipEmulatorProblem() {
  return last_text.c_str();
}
/// Makes the device usable again.
void hipEmulatorRecover() {
  lost = false;
}

int hipInit(unsigned /*flags*/) {
  return device_count() > 0 ? result::success : remember(result::no_device);
}
int hipRuntimeGetVersion(int* version) {
  *version = 60000000;  // the interface of ROCm 6.0
  return result::success;
}
int hipDriverGetVersion(int* version) {
  return hipRuntimeGetVersion(version);
}
const char* hipGetErrorName(int code) {
  switch (code) {
    case result::success:
      return "hipSuccess";
    case result::invalid_value:
      return "hipErrorInvalidValue";
    case result::out_of_memory:
      return "hipErrorOutOfMemory";
    case result::no_device:
      return "hipErrorNoDevice";
    case result::invalid_device:
      return "hipErrorInvalidDevice";
    case result::not_found:
      return "hipErrorNotFound";
    case result::not_supported:
      return "hipErrorNotSupported";
    case no_binary:
      return "hipErrorNoBinaryForGpu";
    case invalid_handle:
      return "hipErrorInvalidHandle";
    case result::stream_capture_unsupported:
      return "hipErrorStreamCaptureUnsupported";
    case launch_failure:
      return "hipErrorLaunchFailure";
    case too_many_for_cooperation:
      return "hipErrorCooperativeLaunchTooLarge";
    default:
      return "hipErrorUnknown";
  }
}
const char* hipGetErrorString(int code) {
  return code == launch_failure ? "a kernel failed on the emulator; standard error says how"
                                : hipGetErrorName(code);
}
int hipGetLastError() {
  const int code = last_error;
  last_error = result::success;
  return code;
}

int hipGetDeviceCount(int* count) {
  *count = device_count();
  return result::success;
}
int hipGetDevice(int* device) {
  *device = current_device;
  return result::success;
}
int hipSetDevice(int device) {
  if (!exists(device)) return remember(result::invalid_device);
  current_device = device;
  return result::success;
}
int hipDeviceGetName(char* name, int bytes, int device) {
  if (!exists(device)) return remember(result::invalid_device);
  std::snprintf(name, static_cast<std::size_t>(bytes), "emulated %s", architecture().c_str());
  return result::success;
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  namespace query = hip::device_query;
  if (!exists(device)) return remember(result::invalid_device);
  switch (attribute) {
    case query::clock_khz:
    case query::memory_clock_khz:
      *value = 1'000'000;
      return result::success;
    case query::cooperative_launch:
      *value = 1;
      return result::success;
    case query::l2_bytes:
      *value = 4 << 20;
      return result::success;
    case query::max_threads_per_block:
      *value = 1024;
      return result::success;
    case query::max_threads_per_multiprocessor:
      *value = static_cast<int>(threads_of_multiprocessor);
      return result::success;
    case query::memory_bus_bits:
      *value = 1024;
      return result::success;
    case query::multiprocessors:
      *value = multiprocessors();
      return result::success;
    case query::max_shared_bytes_per_block:
    case query::max_shared_bytes_per_multiprocessor:
      *value = shared_bytes();
      return result::success;
    case query::warp_size:
      *value = static_cast<int>(emulator::lanes);
      return result::success;
    default:
      return remember(result::invalid_value);
  }
}
int hipDeviceTotalMem(std::size_t* bytes, int device) {
  if (!exists(device)) return remember(result::invalid_device);
  *bytes = memory_bytes;
  return result::success;
}
int hipMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = memory_bytes;
  *available = memory_bytes - std::min(memory_bytes, emulator::allocated_bytes(current_device));
  return result::success;
}
int hipGetDevicePropertiesR0600(void* properties, int device) {
  constexpr std::size_t structure_bytes = 1472;
  if (!exists(device)) return remember(result::invalid_device);
  std::memset(properties, 0, structure_bytes);
  std::memcpy(static_cast<std::byte*>(properties) + hip::property_layout::architecture_since_6,
              architecture().c_str(), architecture().size());
  return hipDeviceGetName(static_cast<char*>(properties), 255, device);
}

int hipStreamCreate(ihipStream_t** stream) {
  *stream = new ihipStream_t{.device = current_device, .captured = {}};
  return result::success;
}
int hipStreamCreateWithFlags(ihipStream_t** stream, unsigned /*flags*/) {
  return hipStreamCreate(stream);
}
int hipStreamDestroy(ihipStream_t* stream) {
  delete own(stream);
  return result::success;
}
int hipStreamGetDevice(ihipStream_t* stream, int* device) {
  *device = own(stream) != nullptr ? stream->device : current_device;
  return result::success;
}
int hipStreamIsCapturing(ihipStream_t* stream, int* capturing) {
  *capturing = captures(stream) ? capture_active : hip::capture::none;
  return result::success;
}
int hipStreamBeginCapture(ihipStream_t* stream, int /*mode*/) {
  if (own(stream) == nullptr || stream->captures) return remember(result::stream_capture_unsupported);
  stream->captures = true;
  return result::success;
}
int hipStreamEndCapture(ihipStream_t* stream, ihipGraph** graph) {
  if (!captures(stream)) return remember(result::invalid_value);
  stream->captures = false;
  *graph = new ihipGraph{std::exchange(stream->captured, {})};
  return result::success;
}
int hipGraphInstantiate(ihipGraph** executable, ihipGraph* graph, void** /*node*/, char* /*log*/,
                        std::size_t /*bytes*/) {
  *executable = new ihipGraph{*graph};
  return result::success;
}
int hipGraphLaunch(ihipGraph* executable, ihipStream_t* stream) {
  return submit(stream, [executable] {
    for (const auto& work : executable->captured.work) {
      if (const int code = work(); code != result::success) return code;
    }
    return static_cast<int>(result::success);
  });
}
int hipGraphDestroy(ihipGraph* graph) {
  delete graph;
  return result::success;
}
int hipGraphExecDestroy(ihipGraph* executable) {
  delete executable;
  return result::success;
}
int hipThreadExchangeStreamCaptureMode(int* /*mode*/) {
  return result::success;
}
int hipStreamSynchronize(ihipStream_t* stream) {
  if (captures(stream)) return remember(result::stream_capture_unsupported);
  return lost ? remember(launch_failure) : result::success;
}

int hipModuleLoadData(ihipModule_t** out, const void* image) {
  try {
    *out = reinterpret_cast<ihipModule_t*>(
        new emulator::module{static_cast<const std::byte*>(image), architecture(), current_device});
  } catch (const std::exception& problem) {
    return report(problem, no_binary);
  }
  return result::success;
}
int hipModuleUnload(ihipModule_t* loaded) {
  delete reinterpret_cast<emulator::module*>(loaded);
  return result::success;
}
int hipModuleGetFunction(ihipModuleSymbol_t** function, ihipModule_t* loaded, const char* name) {
  try {
    const emulator::kernel* const found = reinterpret_cast<emulator::module*>(loaded)->find(name);
    if (found == nullptr) return remember(result::not_found);
    *function = reinterpret_cast<ihipModuleSymbol_t*>(const_cast<emulator::kernel*>(found));
  } catch (const std::exception& problem) {
    return report(problem, no_binary);
  }
  return result::success;
}
int hipModuleLaunchKernel(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned bytes,
                          ihipStream_t* stream, void** parameters, void** extra) {
  if (extra != nullptr) return remember(result::not_supported);
  return launch_or_note(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, bytes}, stream,
                        parameters, kind_of_launch::usual);
}
int hipModuleLaunchCooperativeKernel(ihipModuleSymbol_t* function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                     unsigned bytes, ihipStream_t* stream, void** parameters) {
  return launch_or_note(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, bytes}, stream,
                        parameters, kind_of_launch::cooperative);
}
/// Attributes are numbered as hipFunction_attribute is.
int hipFuncGetAttribute(int* value, int attribute, ihipModuleSymbol_t* function) {
  const auto& kernel = *reinterpret_cast<const emulator::kernel*>(function);
  switch (attribute) {
    case 0:
      *value = static_cast<int>(kernel.max_threads);
      return result::success;
    case 1:
      *value = static_cast<int>(kernel.code->shared_bytes);
      return result::success;
    case 3:
      *value = static_cast<int>(kernel.code->private_bytes);
      return result::success;
    case 4:
      *value = static_cast<int>(kernel.code->vector_registers);
      return result::success;
    default:
      return remember(result::invalid_value);
  }
}

int hipEventCreate(ihipEvent_t** event) {
  *event = new ihipEvent_t{};
  return result::success;
}
int hipEventDestroy(ihipEvent_t* event) {
  delete event;
  return result::success;
}
int hipEventRecord(ihipEvent_t* event, ihipStream_t* stream) {
  return submit(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    return static_cast<int>(result::success);
  });
}
int hipEventQuery(ihipEvent_t* /*event*/) {
  return lost ? remember(launch_failure) : result::success;
}
int hipEventSynchronize(ihipEvent_t* /*event*/) {
  return lost ? remember(launch_failure) : result::success;
}
int hipEventElapsedTime(float* milliseconds, ihipEvent_t* from, ihipEvent_t* to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return result::success;
}

int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int /*kind*/, ihipStream_t* stream) {
  return submit(stream, [=] {
    const std::shared_lock lock{emulator::users_of_memory()};
    if (bytes != 0) std::memmove(to, from, bytes);
    return lost ? remember(launch_failure) : static_cast<int>(result::success);
  });
}
int hipMemsetAsync(void* address, int byte, std::size_t bytes, ihipStream_t* stream) {
  return submit(stream, [=] {
    const std::shared_lock lock{emulator::users_of_memory()};
    if (bytes != 0) std::memset(address, byte, bytes);
    return static_cast<int>(result::success);
  });
}
int hipMallocAsync(void** address, std::size_t bytes, ihipStream_t* stream) {
  *address = emulator::allocate(bytes, current_device);
  if (*address == nullptr) return remember(result::out_of_memory);
  if (captures(stream)) stream->captured.memory.emplace_back(*address, emulator::release);
  return result::success;
}
int hipFreeAsync(void* address, ihipStream_t* stream) {
  if (captures(stream)) return result::success;  // with the graph
  return emulator::release(address) ? result::success : remember(result::invalid_value);
}
int hipMalloc(void** address, std::size_t bytes) {
  return hipMallocAsync(address, bytes, nullptr);
}
int hipFree(void* address) {
  return address == nullptr || emulator::release(address) ? result::success : remember(result::invalid_value);
}
int hipMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  return hipMemcpyAsync(to, from, bytes, kind, nullptr);
}
int hipDeviceSynchronize() {
  return hipStreamSynchronize(nullptr);
}

}  // extern "C"
