// SPDX-License-Identifier: MIT
#include "step_graphs.hpp"

#include <algorithm>
#include <bit>

#include <switchyard/error.hpp>

namespace llm {

void step_graphs::run(const shape& of, switchyard::stream on, const std::function<void()>& work) {
  if (api_ == nullptr) return work();
  const std::uint64_t generation = catalog_.generation();
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&of](const known& step) { return step.of == of; });
  if (found == known_.end() || found->generation != generation) {
    if (found != known_.end()) known_.erase(found);
    work();
    known_.push_front({of, generation, {}});
    if (known_.size() > max_graphs) known_.pop_back();
    return;
  }
  known_.splice(known_.begin(), known_, found);
  if (!found->graph) {
    try {
      found->graph = device_graph{api_, on, work};
    } catch (const switchyard::driver_error& problem) {
      // Files were replaced since the step ran plainly, so that it needs what is not loaded.
      if (problem.code() != switchyard::error_code::load_during_capture) throw;
      return work();
    }
    ++totals_.captures;
  }
  ++totals_.replays;
  found->graph.launch(on);
}

std::int64_t captured_pages(std::int64_t pages) noexcept {
  if (pages <= 8) return pages;
  const auto octave = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(pages)));
  const std::int64_t step = std::max<std::int64_t>(octave / 4, 1);
  return (pages + step - 1) / step * step;
}

}  // namespace llm
