// SPDX-License-Identifier: MIT
// What an engine around the library does with CUDA itself: contexts, streams, memory and graphs, straight
// from the driver. The library under test is not used for it.
#pragma once

#include <cstddef>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct CUctx_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUstream_st;

namespace raw {

/// Calls an entry point of libcuda by the name it exports it under.
template <class... Arguments>
int try_call(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* const address = library == nullptr ? nullptr : ::dlsym(library, name);
  if (address == nullptr) throw std::runtime_error{std::string{name} + " is not there"};
  return reinterpret_cast<int (*)(Arguments...)>(address)(arguments...);
}

template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  if (const int code = try_call(name, arguments...); code != 0)
    throw std::runtime_error{std::string{name} + " returned " + std::to_string(code)};
}

/// Whether there is a driver and a device.
inline bool available() {
  int devices = 0;
  try {
    return try_call("cuInit", 0U) == 0 && try_call("cuDeviceGetCount", &devices) == 0 && devices > 0;
  } catch (const std::runtime_error&) {
    return false;
  }
}

inline CUctx_st* primary_context(int device = 0) {
  static CUctx_st* retained[16]{};  // NOLINT(modernize-avoid-c-arrays)
  if (retained[device] == nullptr) call("cuDevicePrimaryCtxRetain", &retained[device], device);
  return retained[device];
}

inline void set_current(CUctx_st* context) {
  call("cuCtxSetCurrent", context);
}

inline CUctx_st* current_context() {
  CUctx_st* context = nullptr;
  call("cuCtxGetCurrent", &context);
  return context;
}

class own_stream {
 public:
  /// Flag 1 makes a stream that the legacy default stream does not wait for.
  explicit own_stream(unsigned flags = 1) { call("cuStreamCreate", &stream_, flags); }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  ~own_stream() { try_call("cuStreamDestroy_v2", stream_); }
  [[nodiscard]] CUstream_st* get() const noexcept { return stream_; }

 private:
  CUstream_st* stream_ = nullptr;
};

/// Device memory of the current context. What fills it is over when the constructor returns: streams that do
/// not wait for the legacy default stream would else run before it.
template <class Element>
class buffer {
 public:
  explicit buffer(std::size_t elements) : elements_{elements} {
    call("cuMemAlloc_v2", &address_, elements * sizeof(Element));
    call("cuMemsetD8_v2", address_, static_cast<unsigned char>(0), elements * sizeof(Element));
    call("cuCtxSynchronize");
  }
  explicit buffer(const std::vector<Element>& values) : buffer{values.size()} {
    call("cuMemcpyHtoD_v2", address_, static_cast<const void*>(values.data()),
         values.size() * sizeof(Element));
    call("cuCtxSynchronize");
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { try_call("cuMemFree_v2", address_); }

  [[nodiscard]] Element* get() const noexcept { return reinterpret_cast<Element*>(address_); }

  /// Waits for everything before.
  [[nodiscard]] std::vector<Element> read() const {
    call("cuCtxSynchronize");
    std::vector<Element> values(elements_);
    call("cuMemcpyDtoH_v2", static_cast<void*>(values.data()), address_, elements_ * sizeof(Element));
    return values;
  }

 private:
  std::size_t elements_;
  unsigned long long address_ = 0;
};

/// What cuMemCreate, cuMemMap and cuMemSetAccess take, as cuda.h declares it.
struct memory_location {
  int type = 1;  // a device
  int id = 0;
};
struct memory_properties {
  int type = 1;  // pinned
  int handle_types = 0;
  memory_location location;
  void* windows_data = nullptr;
  unsigned char flags[8]{};  // NOLINT(modernize-avoid-c-arrays)
};
struct memory_access {
  memory_location location;
  int flags = 3;  // read and write
};

/// Device memory that ends where its mapping ends: an access behind it fails with error 700 instead of
/// reading what happens to be there.
class guarded_memory {
 public:
  explicit guarded_memory(std::size_t bytes) {
    const memory_properties properties;
    std::size_t page = 0;
    call("cuMemGetAllocationGranularity", &page, &properties, 0);
    const std::size_t used = (bytes + alignment_of_end - 1) / alignment_of_end * alignment_of_end;
    mapped_ = (used + page - 1) / page * page;
    reserved_ = mapped_ + page;  // the last page stays unmapped
    unsigned long long handle = 0;
    call("cuMemAddressReserve", &base_, reserved_, std::size_t{0}, 0ULL, 0ULL);
    call("cuMemCreate", &handle, mapped_, &properties, 0ULL);
    call("cuMemMap", base_, mapped_, std::size_t{0}, handle, 0ULL);
    call("cuMemRelease", handle);
    const memory_access access;
    call("cuMemSetAccess", base_, mapped_, &access, std::size_t{1});
    address_ = base_ + mapped_ - used;
  }
  guarded_memory(const guarded_memory&) = delete;
  guarded_memory& operator=(const guarded_memory&) = delete;
  ~guarded_memory() {
    if (base_ == 0) return;
    try_call("cuMemUnmap", base_, mapped_);
    try_call("cuMemAddressFree", base_, reserved_);
  }
  [[nodiscard]] unsigned long long get() const noexcept { return address_; }

 private:
  static constexpr std::size_t alignment_of_end = 16;
  unsigned long long base_ = 0;
  unsigned long long address_ = 0;
  std::size_t mapped_ = 0;
  std::size_t reserved_ = 0;
};

/// A captured graph, ready to launch.
class graph {
 public:
  template <class Work>
  graph(CUstream_st* stream, int mode, Work&& work) {
    call("cuStreamBeginCapture_v2", stream, mode);
    std::forward<Work>(work)();
    call("cuStreamEndCapture", stream, &graph_);
    call("cuGraphInstantiateWithFlags", &executable_, graph_, 0ULL);
  }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  ~graph() {
    try_call("cuGraphExecDestroy", executable_);
    try_call("cuGraphDestroy", graph_);
  }
  void launch(CUstream_st* stream) const { call("cuGraphLaunch", executable_, stream); }

 private:
  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
};

}  // namespace raw
