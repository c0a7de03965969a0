// SPDX-License-Identifier: MIT
// Graphs that were captured on a stream and are replayed with one launch: the steps of a model that generates
// have hundreds of short kernels, whose launches would take longer than they.
//
// A graph that is new runs plainly, which loads its kernels and makes its temporary memory. When it comes
// again, with the same shapes at the same addresses, it is captured, and from then on replayed. After the
// catalog's generation has changed, other kernels may serve, so it is captured again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>

#include "graph_facts.hpp"

namespace switchyard_ggml {

class graph_replays {
 public:
  /// The most graphs that are kept.
  static constexpr std::size_t max_graphs = 16;

  /// What became of the work.
  enum class outcome {
    done,      ///< ran, or was recorded
    failed,    ///< and was reported, unless it was being recorded
    unloaded,  ///< needs kernels that are not loaded: possible while it is recorded only
  };
  /// Puts a graph's kernels into the stream, which is recorded where `is_recorded`.
  using work = std::function<outcome(bool is_recorded)>;

  /// Where the driver has no graphs, or `is_enabled` is false, all work runs plainly.
  graph_replays(std::shared_ptr<switchyard::device_driver> driver, switchyard::stream on, bool is_enabled);
  graph_replays(const graph_replays&) = delete;
  graph_replays& operator=(const graph_replays&) = delete;
  ~graph_replays() { clear(); }

  /// Runs `launches`, or replays what was recorded of it. `generation` is the catalog's.
  [[nodiscard]] outcome run(const ggml_cgraph* of, std::uint64_t generation, const work& launches);

  /// Forgets all graphs, once they have ended.
  void clear();

  struct counts {
    std::int64_t plain = 0;
    std::int64_t captures = 0;
    std::int64_t replays = 0;  ///< launches of a graph, also the first one
  };
  [[nodiscard]] const counts& totals() const noexcept { return totals_; }

 private:
  struct known {
    std::uint64_t id;  ///< ggml's; 0: none
    graph_facts facts;
    std::uint64_t generation;
    switchyard::graph_handle graph = nullptr;
    bool is_refused = false;  ///< cannot be captured
  };

  [[nodiscard]] std::list<known>::iterator find(const ggml_cgraph* of, std::uint64_t generation);
  [[nodiscard]] outcome run_plainly(const work& launches);
  /// Sets the graph, unless it cannot be recorded.
  void capture(known& of, const work& launches);
  void destroy(known& of);

  std::shared_ptr<switchyard::device_driver> driver_;
  switchyard::stream on_;
  bool is_enabled_;
  std::list<known> known_;  ///< the one used last first
  counts totals_;
};

}  // namespace switchyard_ggml
