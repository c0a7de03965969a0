// SPDX-License-Identifier: MIT
// The vectors of a batch in device memory: packed and copied in one piece. Their addresses depend only on the
// sizes of the step, so that captured calls find them again.
#pragma once

#include <memory>

#include <switchyard/tensor.hpp>

#include "batch.hpp"
#include "device_memory.hpp"
#include "device_stream.hpp"
#include "step_limits.hpp"

namespace llm {

class step_inputs {
 public:
  /// `api` is null for the CPU, which reads the packed vectors in place.
  step_inputs(const switchyard::device& device, const std::shared_ptr<const device_api>& api,
              const step_limits& limits);

  /// The last step's copy must be complete. Batches within the limits only.
  void upload(const batch& step, const device_stream& on);

  // Of the last batch, as batch.hpp has them; their addresses are multiples of 16.
  switchyard::const_tensor ids, positions, slots, starts, used, wanted, pages;

 private:
  host_memory packed_;
  device_memory copied_;
};

}  // namespace llm
