// SPDX-License-Identifier: MIT
// Calls operators on a step's stream with one workspace that all of them share.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/plans/workspace.hpp>

#include "device_memory.hpp"

namespace llm {

class step_workspace {
 public:
  step_workspace(switchyard::device device, switchyard::stream on)
      : device_{std::move(device)}, stream_{on}, is_host_{device_.driver()->properties().backend == "host"} {}

  template <class Operator>
  void launch(switchyard::dispatcher<Operator>& with, const typename Operator::arguments& call) {
    if (is_host_) return with(stream_, call);
    with(stream_, call, fit(with.workspace_bytes(stream_, call)));
  }

  [[nodiscard]] switchyard::stream stream() const noexcept { return stream_; }

 private:
  /// Throws driver_error load_during_capture where memory would have to be allocated in a capture.
  [[nodiscard]] switchyard::workspace fit(std::size_t bytes);

  switchyard::device device_;
  switchyard::stream stream_;
  bool is_host_;
  // The last one is the largest. Captured graphs use the others, which together are no larger than that.
  std::vector<device_memory> memory_;
};

}  // namespace llm
