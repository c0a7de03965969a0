// SPDX-License-Identifier: MIT
#include "device_graph.hpp"

#include <utility>

namespace llm {

device_graph::device_graph(std::shared_ptr<const device_api> api, switchyard::stream on,
                           const std::function<void()>& work)
    : api_{std::move(api)} {
  // The catalog's thread may load kernels meanwhile; this thread loads none.
  constexpr int thread_local_mode = 1;
  api_->require(api_->begin_capture(on.handle(), thread_local_mode), "beginning to capture a step");
  void* graph = nullptr;
  try {
    work();
  } catch (...) {
    if (api_->end_capture(on.handle(), &graph) == 0) api_->graph_destroy(graph);
    throw;
  }
  api_->require(api_->end_capture(on.handle(), &graph), "capturing a step");
  const int result = api_->graph_instantiate(&executable_, graph, 0);
  api_->graph_destroy(graph);
  api_->require(result, "instantiating a captured step");
}

device_graph::~device_graph() {
  if (executable_ == nullptr) return;
  const device_scope current{api_.get()};
  api_->executable_destroy(executable_);
}

void device_graph::launch(switchyard::stream on) const {
  api_->require(api_->graph_launch(executable_, on.handle()), "launching a captured step");
}

void device_graph::swap(device_graph& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(executable_, other.executable_);
}

}  // namespace llm
