// SPDX-License-Identifier: MIT
// The fake driver's own functions, for the programs that are given its path in FAKE_CUDA_LIBRARY.
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <string>

#include <switchyard/devices/cuda/open.hpp>

#include "../environment.hpp"
#include "fake_driver.hpp"

namespace fake_cuda {

namespace sy = switchyard;

inline const std::string& fake_library() {
  static const std::string path = sy::test::required_variable("FAKE_CUDA_LIBRARY");
  return path;
}

template <class Result, class... Arguments>
Result fake(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen(fake_library().c_str(), RTLD_NOW);
  return reinterpret_cast<Result (*)(Arguments...)>(::dlsym(library, name))(arguments...);
}

inline record& notes() {
  return *fake<record*>("fake_cuda_notes");
}
inline CUctx_st* primary(int device) {
  return fake<CUctx_st*>("fake_cuda_primary", device);
}
inline CUctx_st* current() {
  return fake<CUctx_st*>("fake_cuda_current");
}
inline void set_current(CUctx_st* context) {
  fake<void>("fake_cuda_set_current", context);
}

class fake_context {
 public:
  fake_context(int device, unsigned long long id)
      : context_{fake<CUctx_st*>("fake_cuda_make_context", device, id)} {}
  fake_context(const fake_context&) = delete;
  fake_context& operator=(const fake_context&) = delete;
  ~fake_context() { fake<void>("fake_cuda_drop_context", context_); }
  [[nodiscard]] CUctx_st* get() const noexcept { return context_; }

 private:
  CUctx_st* context_;
};

class fake_stream {
 public:
  explicit fake_stream(CUctx_st* context, int capturing = 0)
      : stream_{fake<CUstream_st*>("fake_cuda_make_stream", context, capturing)} {}
  fake_stream(const fake_stream&) = delete;
  fake_stream& operator=(const fake_stream&) = delete;
  ~fake_stream() { fake<void>("fake_cuda_drop_stream", stream_); }
  [[nodiscard]] sy::stream get() const noexcept { return stream_; }

  /// As if it were destroyed and another made at the same address.
  void replace(CUctx_st* context) { fake<void>("fake_cuda_replace_stream", stream_, context); }

 private:
  CUstream_st* stream_;
};

/// Has the fake misbehave for a scope.
class misbehaviour {
 public:
  explicit misbehaviour(const char* how) {
    ::setenv("FAKE_CUDA", how, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  misbehaviour(const misbehaviour&) = delete;
  misbehaviour& operator=(const misbehaviour&) = delete;
  ~misbehaviour() { ::unsetenv("FAKE_CUDA"); }  // NOLINT(concurrency-mt-unsafe)
};

/// Another name of the same library, so that it is opened anew: an opened driver is remembered by its name.
inline sy::cuda::options renamed() {
  static int count = 0;
  const std::string slashes(static_cast<std::size_t>(++count), '/');
  const auto slash = fake_library().rfind('/');
  return {.library = fake_library().substr(0, slash) + slashes + fake_library().substr(slash)};
}

inline sy::cuda::options fake_options() {
  return {.library = fake_library()};
}

}  // namespace fake_cuda
