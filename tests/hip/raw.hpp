// SPDX-License-Identifier: MIT
// What an engine around the library does with HIP itself: streams, memory and graphs, straight from the
// run-time library. The library under test is not used for it.
#pragma once

#include <cstddef>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct ihipGraph;
struct hipGraphExec;
struct ihipStream_t;

namespace hip_raw {

/// Calls a function of libamdhip64 by its name.
template <class... Arguments>
int try_call(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen("libamdhip64.so", RTLD_NOW);
  void* const address = library == nullptr ? nullptr : ::dlsym(library, name);
  if (address == nullptr) throw std::runtime_error{std::string{name} + " is not there"};
  return reinterpret_cast<int (*)(Arguments...)>(address)(arguments...);
}

template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  if (const int code = try_call(name, arguments...); code != 0)
    throw std::runtime_error{std::string{name} + " returned " + std::to_string(code)};
}

/// How many devices there are; 0 where there is no library.
inline int devices() {
  int count = 0;
  try {
    return try_call("hipInit", 0U) == 0 && try_call("hipGetDeviceCount", &count) == 0 ? count : 0;
  } catch (const std::runtime_error&) {
    return 0;
  }
}

class own_stream {
 public:
  /// Flag 1 makes a stream that the default stream does not wait for.
  explicit own_stream(unsigned flags = 1) { call("hipStreamCreateWithFlags", &stream_, flags); }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  ~own_stream() { try_call("hipStreamDestroy", stream_); }
  [[nodiscard]] ihipStream_t* get() const noexcept { return stream_; }

 private:
  ihipStream_t* stream_ = nullptr;
};

/// Memory of the current device.
template <class Element>
class buffer {
 public:
  explicit buffer(const std::vector<Element>& values) : elements_{values.size()} {
    call("hipMalloc", &address_, bytes());
    call("hipMemcpy", address_, static_cast<const void*>(values.data()), bytes(), to_device);
    call("hipDeviceSynchronize");
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { try_call("hipFree", address_); }

  [[nodiscard]] Element* get() const noexcept { return static_cast<Element*>(address_); }

  /// Waits for everything before.
  [[nodiscard]] std::vector<Element> read() const {
    call("hipDeviceSynchronize");
    std::vector<Element> values(elements_);
    call("hipMemcpy", static_cast<void*>(values.data()), static_cast<const void*>(address_), bytes(),
         to_host);
    return values;
  }

 private:
  static constexpr int to_device = 1;
  static constexpr int to_host = 2;
  [[nodiscard]] std::size_t bytes() const noexcept { return elements_ * sizeof(Element); }

  std::size_t elements_;
  void* address_ = nullptr;
};

/// A captured graph, ready to launch.
class graph {
 public:
  template <class Work>
  graph(ihipStream_t* stream, int mode, Work&& work) {
    call("hipStreamBeginCapture", stream, mode);
    std::forward<Work>(work)();
    call("hipStreamEndCapture", stream, &graph_);
    call("hipGraphInstantiate", &executable_, graph_, static_cast<void*>(nullptr),
         static_cast<char*>(nullptr), std::size_t{0});
  }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  ~graph() {
    try_call("hipGraphExecDestroy", executable_);
    try_call("hipGraphDestroy", graph_);
  }
  void launch(ihipStream_t* stream) const { call("hipGraphLaunch", executable_, stream); }

 private:
  ihipGraph* graph_ = nullptr;
  hipGraphExec* executable_ = nullptr;
};

}  // namespace hip_raw
