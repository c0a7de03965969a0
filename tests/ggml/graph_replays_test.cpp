// SPDX-License-Identifier: MIT
// When a graph runs plainly, is captured, and is replayed: over a driver that only keeps count.
#include "examples/ggml/graph_replays.hpp"

#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>

#include "ggml-impl.h"
#include "ggml.h"
#include "ggml_objects.hpp"
#include "tests/catch.hpp"

namespace sy = switchyard;
using switchyard::test::context_pointer;
using switchyard::test::make_context;
using switchyard_ggml::graph_replays;

namespace {

/// Graphs are numbers.
class counting_driver final : public sy::tune::forwarding_driver {
 public:
  using forwarding_driver::forwarding_driver;

  [[nodiscard]] bool has_graphs() const noexcept override { return true; }
  [[nodiscard]] sy::status begin_graph(sy::stream /*on*/) noexcept override {
    is_capturing = !is_refusing;
    return is_refusing ? 1 : 0;
  }
  [[nodiscard]] sy::status end_graph(sy::stream /*on*/, sy::graph_handle& graph) noexcept override {
    is_capturing = false;
    graph = reinterpret_cast<void*>(++made);
    return 0;
  }
  [[nodiscard]] sy::status launch_graph(sy::graph_handle graph, sy::stream /*on*/) noexcept override {
    launched.push_back(reinterpret_cast<std::uintptr_t>(graph));
    return is_failing ? 1 : 0;
  }
  void destroy_graph(sy::graph_handle /*graph*/) noexcept override { ++destroyed; }
  [[nodiscard]] sy::status synchronize(sy::stream /*on*/) noexcept override { return 0; }

  bool is_capturing = false;
  bool is_refusing = false;
  bool is_failing = false;
  std::uintptr_t made = 0;
  std::uintptr_t destroyed = 0;
  std::vector<std::uintptr_t> launched;
};

/// scale(x), with addresses of its own.
struct small_graph {
  explicit small_graph(float factor = 2) {
    ggml_tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 8);
    ggml_tensor* const out = ggml_scale(context.get(), x, factor);
    x->data = &memory[0];
    out->data = &memory[8];
    of = ggml_new_graph(context.get());
    ggml_build_forward_expand(of, out);
  }
  context_pointer context = make_context();
  ggml_cgraph* of = nullptr;
  std::vector<float> memory = std::vector<float>(32);
};

/// Counts the runs of its work.
struct runner {
  explicit runner(bool is_enabled = true)
      : driver{std::make_shared<counting_driver>(sy::device::host().driver())},
        replays{driver, {}, is_enabled} {}

  graph_replays::outcome run(const small_graph& graph, std::uint64_t generation = 1) {
    return replays.run(graph.of, generation, [this](bool is_recorded) {
      CHECK(is_recorded == driver->is_capturing);
      ++(is_recorded ? recorded : plain);
      return is_recorded ? recording : running;
    });
  }

  std::shared_ptr<counting_driver> driver;
  graph_replays replays;
  graph_replays::outcome running = graph_replays::outcome::done;
  graph_replays::outcome recording = graph_replays::outcome::done;
  int plain = 0;
  int recorded = 0;
};

using counts = std::vector<std::uintptr_t>;

}  // namespace

TEST_CASE("a graph runs plainly, is captured, and is replayed", "[graphs]") {
  runner on;
  const small_graph graph;
  for (int i = 0; i < 4; ++i) CHECK(on.run(graph) == graph_replays::outcome::done);
  CHECK(on.plain == 1);
  CHECK(on.recorded == 1);
  CHECK(on.driver->launched == counts{1, 1, 1});
  CHECK(on.replays.totals().captures == 1);
  CHECK(on.replays.totals().replays == 3);
  on.replays.clear();
  CHECK(on.driver->destroyed == 1);
}

TEST_CASE("what a graph computes with is compared", "[graphs]") {
  runner on;
  small_graph graph;
  for (int i = 0; i < 2; ++i) on.run(graph);
  ggml_tensor* const out = ggml_graph_node(graph.of, 0);
  SECTION("an address") {
    out->data = &graph.memory[16];
  }
  SECTION("a source's address") {
    out->src[0]->data = &graph.memory[16];
  }
  SECTION("a parameter") {
    out->op_params[0] ^= 1;
  }
  SECTION("a shape") {
    out->ne[0] = 4;
  }
  SECTION("a source's stride") {
    out->src[0]->nb[1] *= 2;
  }
  SECTION("a type") {
    out->type = GGML_TYPE_F16;
  }
  SECTION("whether it is computed") {
    out->flags ^= GGML_TENSOR_FLAG_COMPUTE;
  }
  on.run(graph);
  CHECK(on.plain == 2);
  CHECK(on.driver->launched == counts{1});
  on.run(graph);
  CHECK(on.recorded == 2);
  CHECK(on.driver->launched == counts{1, 2});
}

TEST_CASE("a graph that ggml knows by number is not compared", "[graphs]") {
  runner on;
  small_graph graph;
  graph.of->uid = 7;
  for (int i = 0; i < 2; ++i) on.run(graph);
  graph.of->uid = 8;  // made anew, the same
  on.run(graph);
  CHECK(on.driver->launched == counts{1, 1});
}

TEST_CASE("other kernels lead to a new capture", "[graphs]") {
  runner on;
  const small_graph graph;
  for (int i = 0; i < 3; ++i) on.run(graph, 1);
  on.run(graph, 2);
  CHECK(on.plain == 2);
  CHECK(on.driver->destroyed == 1);
  on.run(graph, 2);
  CHECK(on.driver->launched == counts{1, 1, 2});
}

TEST_CASE("a graph that cannot be captured runs plainly", "[graphs]") {
  runner on;
  const small_graph graph;
  on.run(graph);
  SECTION("the driver refuses") {
    on.driver->is_refusing = true;
    for (int i = 0; i < 2; ++i) CHECK(on.run(graph) == graph_replays::outcome::done);
    CHECK(on.plain == 3);
    on.driver->is_refusing = false;
    on.run(graph);
    CHECK(on.plain == 4);  // not asked again
    CHECK(on.run(graph, 2) == graph_replays::outcome::done);
    on.run(graph, 2);
    CHECK(on.driver->launched.size() == 1);
  }
  SECTION("a kernel is not loaded") {
    on.recording = graph_replays::outcome::unloaded;
    on.run(graph);
    CHECK(on.plain == 2);
    CHECK(on.driver->destroyed == on.driver->made);
    on.recording = graph_replays::outcome::done;
    on.run(graph);
    CHECK(on.plain == 2);
    CHECK(on.driver->launched.size() == 1);
  }
  SECTION("it fails while it is recorded") {
    on.recording = graph_replays::outcome::failed;
    for (int i = 0; i < 2; ++i) CHECK(on.run(graph) == graph_replays::outcome::done);
    CHECK(on.plain == 3);
    CHECK(on.recorded == 1);
  }
  SECTION("it cannot be launched") {
    on.driver->is_failing = true;
    CHECK(on.run(graph) == graph_replays::outcome::done);
    CHECK(on.plain == 2);
    CHECK(on.driver->destroyed == 1);
  }
}

TEST_CASE("the result of plain work is passed on", "[graphs]") {
  runner on{false};
  const small_graph graph;
  on.running = graph_replays::outcome::failed;
  for (int i = 0; i < 3; ++i) CHECK(on.run(graph) == graph_replays::outcome::failed);
  CHECK(on.recorded == 0);
}

TEST_CASE("the graphs that were used least are given up", "[graphs]") {
  runner on;
  std::vector<small_graph> graphs(graph_replays::max_graphs + 1);
  for (const small_graph& graph : graphs) {
    for (int i = 0; i < 2; ++i) on.run(graph);
  }
  CHECK(on.driver->destroyed == 1);
  on.run(graphs.back());
  CHECK(on.recorded == static_cast<int>(graphs.size()));
  on.run(graphs.front());
  CHECK(on.plain == static_cast<int>(graphs.size()) + 1);
}
