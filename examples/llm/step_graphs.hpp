// SPDX-License-Identifier: MIT
// Decode steps as captured graphs: one launch in place of hundreds, which would take longer than the kernels.
//
// Everything but the shape of a step lies in buffers at fixed addresses. A step whose shape is new runs
// plainly, which loads its kernels and sizes the workspace; when the shape comes again it is captured, and
// from then on replayed. After the catalog's generation has changed, other kernels may serve, so the step is
// captured again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include <switchyard/catalog.hpp>
#include <switchyard/devices/stream.hpp>

#include "device_graph.hpp"

namespace llm {

class step_graphs {
 public:
  /// The most graphs that are kept. A conversation of 128 Ki tokens has 40.
  static constexpr std::size_t max_graphs = 64;

  /// The values that the arguments of a step's calls depend on.
  struct shape {
    std::int64_t sequences = 0;
    std::int64_t wanted = 0;
    std::int64_t longest = 0;
    std::int64_t pages_stride = 0;

    friend bool operator==(const shape&, const shape&) = default;
  };

  /// Without an api, every step runs plainly.
  step_graphs(const switchyard::catalog& catalog, std::shared_ptr<const device_api> api)
      : catalog_{catalog}, api_{std::move(api)} {}

  /// Runs `work`, which launches on the stream, or replays its graph. The device must be current.
  void run(const shape& of, switchyard::stream on, const std::function<void()>& work);

  struct counts {
    std::int64_t captures = 0;
    std::int64_t replays = 0;  ///< launches of a graph, also the first one
  };
  [[nodiscard]] const counts& totals() const noexcept { return totals_; }

 private:
  struct known {
    shape of;
    std::uint64_t generation;  ///< of the catalog, when it last ran plainly
    device_graph graph;
  };

  const switchyard::catalog& catalog_;
  std::shared_ptr<const device_api> api_;
  std::list<known> known_;  ///< the one used last first
  counts totals_;
};

/// The number of pages that a step is captured for: exact up to 8, then rounded up to one of four sizes for
/// each power of two. This bounds the number of captures, and the waste for pages that no sequence has to a
/// quarter.
[[nodiscard]] std::int64_t captured_pages(std::int64_t pages) noexcept;

}  // namespace llm
