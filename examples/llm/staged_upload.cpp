// SPDX-License-Identifier: MIT
#include "staged_upload.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace llm {

namespace {

/// A first reading spends most of its time in page faults, which threads handle in parallel.
void copy_in_parallel(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t least = 1U << 20U;
  const std::size_t most = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  const std::size_t threads = std::clamp<std::size_t>(bytes / least, 1, most);
  const std::size_t share = (bytes + threads - 1) / threads;
  const auto run = [&](std::size_t index) {
    const std::size_t first = std::min(index * share, bytes);
    std::memcpy(to + first, from + first, std::min(share, bytes - first));
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
}

}  // namespace

staged_upload::staged_upload(const switchyard::device& device, const std::shared_ptr<const device_api>& api)
    : lanes_{{{device_stream{device, api}, host_memory{api, piece}},
              {device_stream{device, api}, host_memory{api, piece}}}} {}

void staged_upload::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t count = std::min(piece, bytes - at);
    const lane& free = lanes_[next_];
    next_ = 1 - next_;
    free.stream.wait();
    copy_in_parallel(free.memory.data(), from + at, count);
    free.stream.copy(to + at, free.memory.data(), count);
  }
}

void staged_upload::wait() {
  for (const lane& lane_of : lanes_) lane_of.stream.wait();
}

}  // namespace llm
