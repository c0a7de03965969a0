// SPDX-License-Identifier: MIT
// A captured graph outlives everything that is replaced under it: tables whose winners all change, blobs that
// are replaced and deleted, a hundred reloads. Every operator that has a workload is in it. With
// SWITCHYARD_TEST_SMALL, calls are small and reloads are twelve: for the emulator.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/workloads/activation.hpp>
#include <switchyard/tune/workloads/attention_backward.hpp>
#include <switchyard/tune/workloads/attention_decode.hpp>
#include <switchyard/tune/workloads/attention_dropout_mask.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/embedding.hpp>
#include <switchyard/tune/workloads/matmul_quantized.hpp>
#include <switchyard/tune/workloads/norm.hpp>
#include <switchyard/tune/workloads/rotary.hpp>
#include <switchyard/tune/workloads/rotary_cache.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

#include "attention/tested_gpu.hpp"
#include "captured_graph.hpp"
#include "catch.hpp"
#include "environment.hpp"
#include "replaced_root.hpp"

namespace {

namespace sy = switchyard;
using test::captured_graph;
using test::free_memory;
using test::own_stream;
using test::replaced_root;
using test::synchronize_device;

/// One operator's call in the graph.
class part {
 public:
  part() = default;
  part(const part&) = delete;
  part& operator=(const part&) = delete;
  virtual ~part() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void prepare() = 0;
  virtual void launch(sy::stream on) = 0;
  [[nodiscard]] virtual std::string winner() = 0;
  virtual void poison() = 0;
  [[nodiscard]] virtual std::vector<std::byte> results() const = 0;
};

template <class Operator>
class part_of final : public part {
 public:
  part_of(sy::catalog& from, const sy::device& target, const sy::tune::request& want)
      : call_{sy::tune::workload<Operator>::make(target.driver(), want, 7)},
        dispatcher_{from, target},
        driver_{target.driver()} {}
  [[nodiscard]] std::string name() const override { return std::string{Operator::name}; }
  /// What was captured keeps its workspace: another variant may need a larger one.
  void prepare() override {
    dispatcher_.prepare(call_.arguments);
    const std::size_t bytes = dispatcher_.workspace_bytes(call_.arguments);
    if (bytes <= workspace_bytes_) return;
    workspaces_.push_back(std::make_unique<sy::tune::device_buffer>(driver_, bytes));
    workspace_bytes_ = bytes;
  }
  void launch(sy::stream on) override {
    sy::workspace given;
    if (!workspaces_.empty()) given = {workspaces_.back()->data(), workspace_bytes_};
    dispatcher_(on, call_.arguments, given);
  }
  [[nodiscard]] std::string winner() override { return dispatcher_.explain(call_.arguments).variant; }
  void poison() override {
    for (auto& tensor : call_.memory.all()) {
      if (tensor.is_result()) tensor.fill(0xff);
    }
  }
  [[nodiscard]] std::vector<std::byte> results() const override {
    std::vector<std::byte> out;
    for (const auto& tensor : call_.memory.all()) {
      if (!tensor.is_result()) continue;
      std::vector<std::byte> bytes(tensor.bytes);
      tensor.download(bytes.data(), bytes.size());
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  }

 private:
  sy::tune::prepared_call<Operator> call_;
  sy::dispatcher<Operator> dispatcher_;
  std::shared_ptr<sy::device_driver> driver_;
  std::vector<std::unique_ptr<sy::tune::device_buffer>> workspaces_;
  std::size_t workspace_bytes_ = 0;
};

/// Whether calls are to be small.
bool is_small() {
  static const bool answer = sy::test::variable("SWITCHYARD_TEST_SMALL") != nullptr;
  return answer;
}

void make_small(sy::tune::request& want) {
  const bool decodes = want.get("kv_dtype", -1) >= 0;
  for (const auto& [axis, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"heads", 2},
                                                                   {"heads_kv", 1},
                                                                   {"seqlen_q", decodes ? 1 : 72},
                                                                   {"seqlen_k", 72},
                                                                   {"seqlen", 9},
                                                                   {"rows", 5},
                                                                   {"columns", 512},
                                                                   {"in_features", 512},
                                                                   {"out_features", 48},
                                                                   {"tokens", 3}})
    want.set(axis, value);
}

std::vector<std::byte> replay(const captured_graph& captured, const own_stream& stream,
                              const std::vector<std::unique_ptr<part>>& parts) {
  for (const auto& part : parts) part->poison();
  synchronize_device();
  captured.launch(stream);
  synchronize_device();
  std::vector<std::byte> out;
  for (const auto& part : parts) {
    const std::vector<std::byte> bytes = part->results();
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace

TEST_CASE("a graph of every operator replays the same bits while everything is replaced under it") {
  const sy::device& target = tested_gpu();
  const char* const installed = std::getenv("SWITCHYARD_PATH");  // NOLINT(concurrency-mt-unsafe)
  if (installed == nullptr) skip_program("SWITCHYARD_PATH names no kernels");
  const replaced_root files{installed, tests_cuda() ? "cuda" : "hip"};
  sy::catalog_options options;
  options.roots = {files.path().string()};
  options.default_roots = false;
  sy::catalog catalog{options};

  std::vector<std::unique_ptr<part>> parts;
  std::vector<std::string> left_out;
  const auto add = [&]<class Operator>(Operator /*of*/, const std::vector<sy::tune::request>& wanted) {
    for (sy::tune::request want : wanted) {
      want.set("deterministic", 1);  // the same bits are compared
      if (is_small()) make_small(want);
      try {
        auto made = std::make_unique<part_of<Operator>>(catalog, target, want);
        made->prepare();
        parts.push_back(std::move(made));
        return;
      } catch (const sy::call_error&) {
        // Not in this set of kernels.
      }
    }
    left_out.push_back(std::string{Operator::name});
  };
  namespace ops = sy::operators;
  const auto attention = [](sy::dtype dtype, std::int64_t head_dim, bool causal) {
    return sy::tune::request{
        {{"dtype", static_cast<std::int64_t>(dtype)}, {"head_dim", head_dim}, {"causal", causal ? 1 : 0}}};
  };
  std::vector<sy::tune::request> attentions;
  for (const bool causal : {false, true}) {
    attentions.push_back(attention(sy::dtype::bf16, 128, causal));
    attentions.push_back(attention(sy::dtype::f16, 128, causal));
    attentions.push_back(attention(sy::dtype::f16, 64, causal));
  }
  add(ops::attention_forward{}, attentions);
  add(ops::attention_backward{}, attentions);
  sy::tune::request paged = attention(sy::dtype::bf16, 128, true);
  paged.set("kv_dtype", static_cast<std::int64_t>(sy::dtype::bf16));
  paged.set("kv", static_cast<std::int64_t>(ops::attention_kv::paged));
  attentions.push_back(paged);
  paged.set("dtype", static_cast<std::int64_t>(sy::dtype::f16));  // as the smallest set has it
  paged.set("head_dim", 64);
  paged.set("kv_dtype", static_cast<std::int64_t>(sy::dtype::f8_e4m3));
  attentions.push_back(paged);
  add(ops::attention_decode{}, attentions);
  add(ops::attention_dropout_mask{}, {{}});
  add(ops::rotary{}, {{}});
  const sy::tune::request of_bf16{{{"dtype", static_cast<std::int64_t>(sy::dtype::bf16)}}};
  add(ops::embedding{}, {of_bf16});
  add(ops::matmul_quantized{}, {of_bf16});
  add(ops::rotary_cache{}, {of_bf16});
  add(ops::gated_activation{}, {{}});
  add(ops::gated_activation_backward{}, {{}});
  add(ops::rms_norm{}, {{}});
  add(ops::rms_norm_backward{}, {{}});
  add(ops::layer_norm{}, {{}});
  add(ops::layer_norm_backward{}, {{}});
  add(ops::softmax{}, {{}});
  add(ops::softmax_backward{}, {{}});
  for (const std::string& name : left_out) WARN(name << " is not in the graph: no variant serves the call");
  if (parts.empty()) skip_program("no kernels for this device");

  const own_stream stream;
  std::vector<std::string> captured_winners;
  const captured_graph captured{stream, [&] {
                                  for (const auto& part : parts) {
                                    captured_winners.push_back(part->winner());
                                    part->launch(stream.get());
                                  }
                                }};
  const std::vector<std::byte> bits = replay(captured, stream, parts);
  REQUIRE(replay(captured, stream, parts) == bits);

  const std::uint64_t generation = catalog.generation();
  std::size_t settled = 0;
  std::size_t changed = 0;
  const int rounds = is_small() ? 12 : 100;
  for (int round = 1; round <= rounds; ++round) {
    if (round % 4 == 0) files.put_kernels(round / 4 % 2);
    for (std::size_t i = 0; i < parts.size(); ++i)
      files.put_table(parts[i]->name(), target.properties(), round % 2 == 1 ? captured_winners[i] : "");
    const sy::reload_report report = catalog.reload();
    REQUIRE(report.refused.empty());
    REQUIRE_FALSE(report.changed.empty());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string now = parts[i]->winner();
      if (round % 2 == 1 && now != captured_winners[i]) ++changed;
      if (!now.empty()) {
        parts[i]->prepare();
        parts[i]->launch(stream.get());
      }
    }
    if (round % 10 == 0 || round < 4) REQUIRE(replay(captured, stream, parts) == bits);
    if (round == rounds / 5) settled = free_memory();
  }
  CHECK(changed >= static_cast<std::size_t>(rounds) / 2 * parts.size() /
                       2);  // in most operators another variant serves the call
  CHECK(catalog.generation() != generation);
  const std::size_t now = free_memory();
  INFO("free memory " << settled << " bytes after " << rounds / 5 << " rounds, " << now << " after "
                      << rounds);
  CHECK(now + (std::size_t{4} << 20U) > settled);
  WARN(parts.size() << " operators in the graph, " << bits.size() << " bytes of results");
}
