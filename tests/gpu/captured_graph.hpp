// SPDX-License-Identifier: MIT
// Streams and graphs of the GPU that is tested, made by its own API.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <switchyard/devices/driver.hpp>

#include "attention/tested_gpu.hpp"
#include "cuda/raw.hpp"
#include "hip/raw.hpp"

namespace test {

class own_stream {
 public:
  own_stream() {
    if (tests_cuda())
      cuda_ = std::make_unique<raw::own_stream>();
    else
      hip_ = std::make_unique<hip_raw::own_stream>();
  }
  [[nodiscard]] CUstream_st* cuda() const { return cuda_->get(); }
  [[nodiscard]] ihipStream_t* hip() const { return hip_->get(); }
  [[nodiscard]] switchyard::stream get() const {
    return cuda_ != nullptr ? switchyard::stream{cuda()} : switchyard::stream{hip()};
  }

 private:
  std::unique_ptr<raw::own_stream> cuda_;
  std::unique_ptr<hip_raw::own_stream> hip_;
};

class captured_graph {
 public:
  template <class Work>
  captured_graph(const own_stream& stream, Work&& work) {
    if (tests_cuda())
      cuda_ = std::make_unique<raw::graph>(stream.cuda(), 0, std::forward<Work>(work));
    else
      hip_ = std::make_unique<hip_raw::graph>(stream.hip(), 0, std::forward<Work>(work));
  }
  void launch(const own_stream& on) const {
    if (cuda_ != nullptr)
      cuda_->launch(on.cuda());
    else
      hip_->launch(on.hip());
  }

 private:
  std::unique_ptr<raw::graph> cuda_;
  std::unique_ptr<hip_raw::graph> hip_;
};

/// Waits for the whole device.
inline void synchronize_device() {
  if (tests_cuda())
    raw::call("cuCtxSynchronize");
  else
    hip_raw::call("hipDeviceSynchronize");
}

inline std::size_t free_memory() {
  std::size_t available = 0;
  std::size_t total = 0;
  synchronize_device();
  if (tests_cuda())
    raw::call("cuMemGetInfo_v2", &available, &total);
  else
    hip_raw::call("hipMemGetInfo", &available, &total);
  return available;
}

}  // namespace test
