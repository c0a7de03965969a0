// SPDX-License-Identifier: MIT
// Copies a file's bytes to a GPU: threads read a piece into pinned memory while the previous one is copied.
// From the mapped file, the driver would read and copy alternately on one thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>

#include "device_memory.hpp"
#include "device_stream.hpp"

namespace llm {

class staged_upload {
 public:
  staged_upload(const switchyard::device& device, const std::shared_ptr<const device_api>& api);

  /// `from` has been read when it returns.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  /// Waits for all copies.
  void wait();

 private:
  static constexpr std::size_t piece = 32U << 20U;

  struct lane {
    device_stream stream;
    host_memory memory;
  };
  std::array<lane, 2> lanes_;
  std::size_t next_ = 0;
};

}  // namespace llm
