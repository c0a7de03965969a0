// SPDX-License-Identifier: MIT
#include "graph_replays.hpp"

#include <algorithm>
#include <utility>

#include "ggml-impl.h"

namespace switchyard_ggml {

namespace sy = switchyard;

graph_replays::graph_replays(std::shared_ptr<sy::device_driver> driver, sy::stream on, bool is_enabled)
    : driver_{std::move(driver)}, on_{on}, is_enabled_{is_enabled && driver_->has_graphs()} {}

void graph_replays::destroy(known& of) {
  if (of.graph == nullptr) return;
  static_cast<void>(driver_->synchronize(on_));  // it may be running
  driver_->destroy_graph(of.graph);
  of.graph = nullptr;
}

void graph_replays::clear() {
  for (known& graph : known_) destroy(graph);
  known_.clear();
}

/// The entry of a graph, first in the list; its end where the graph is new to this generation: it has an
/// entry from then on.
std::list<graph_replays::known>::iterator graph_replays::find(const ggml_cgraph* of,
                                                              std::uint64_t generation) {
  auto found = known_.end();
  if (of->uid != 0)
    found =
        std::find_if(known_.begin(), known_.end(), [of](const known& graph) { return graph.id == of->uid; });
  if (found == known_.end()) {
    graph_facts facts{of};
    found = std::find_if(known_.begin(), known_.end(),
                         [&facts](const known& graph) { return graph.facts == facts; });
    if (found == known_.end()) {
      known_.push_front({of->uid, std::move(facts), generation});
      if (known_.size() > max_graphs) {
        destroy(known_.back());
        known_.pop_back();
      }
      return known_.end();
    }
    found->id = of->uid;
  }
  known_.splice(known_.begin(), known_, found);
  if (found->generation == generation) return found;
  destroy(*found);
  found->generation = generation;
  found->is_refused = false;
  return known_.end();
}

graph_replays::outcome graph_replays::run_plainly(const work& launches) {
  ++totals_.plain;
  return launches(false);
}

void graph_replays::capture(known& of, const work& launches) {
  of.is_refused = true;
  if (driver_->begin_graph(on_) != 0) return;
  const outcome recorded = launches(true);
  const bool is_ended = driver_->end_graph(on_, of.graph) == 0;
  if (recorded == outcome::done && is_ended) {
    ++totals_.captures;
    of.is_refused = false;
    return;
  }
  destroy(of);
  of.is_refused = recorded != outcome::unloaded;
}

graph_replays::outcome graph_replays::run(const ggml_cgraph* of, std::uint64_t generation,
                                          const work& launches) {
  if (!is_enabled_) return run_plainly(launches);
  const auto found = find(of, generation);
  if (found == known_.end() || found->is_refused) return run_plainly(launches);
  if (found->graph == nullptr) capture(*found, launches);
  if (found->graph == nullptr) return run_plainly(launches);
  ++totals_.replays;
  if (driver_->launch_graph(found->graph, on_) == 0) return outcome::done;
  destroy(*found);
  found->is_refused = true;
  return run_plainly(launches);
}

}  // namespace switchyard_ggml
