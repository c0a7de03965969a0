// SPDX-License-Identifier: MIT
// A captured graph outlives everything that is replaced under it: tables whose winners all change, blobs that
// are replaced and deleted, a hundred reloads. Every operator that has a workload is in it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
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

#include "catch.hpp"
#include "cuda/raw.hpp"
#include "environment.hpp"
#include "replaced_root.hpp"

namespace {

namespace sy = switchyard;
using test::replaced_root;

/// One operator's call in the graph.
class part {
 public:
  part() = default;
  part(const part&) = delete;
  part& operator=(const part&) = delete;
  virtual ~part() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void prepare() = 0;
  virtual void launch(CUstream_st* stream) = 0;
  [[nodiscard]] virtual std::string winner() = 0;
  virtual void poison() = 0;
  [[nodiscard]] virtual std::vector<std::byte> results() const = 0;
};

template <class Operator>
class part_of final : public part {
 public:
  part_of(sy::catalog& from, const sy::device& target, const sy::tune::request& want)
      : call_{sy::tune::workload<Operator>::make(target.driver(), want, 7)}, dispatcher_{from, target} {
    const std::size_t bytes = dispatcher_.workspace_bytes(call_.arguments);
    if (bytes > 0) workspace_ = std::make_unique<sy::tune::device_buffer>(target.driver(), bytes);
    workspace_bytes_ = bytes;
  }
  [[nodiscard]] std::string name() const override { return std::string{Operator::name}; }
  void prepare() override { dispatcher_.prepare(call_.arguments); }
  void launch(CUstream_st* stream) override {
    sy::workspace given;
    if (workspace_ != nullptr) given = {workspace_->data(), workspace_bytes_};
    dispatcher_(stream, call_.arguments, given);
  }
  [[nodiscard]] std::string winner() override { return dispatcher_.explain(call_.arguments).variant; }
  void poison() override {
    for (auto& each : call_.memory.all()) {
      if (each.is_result()) each.fill(0xff);
    }
  }
  [[nodiscard]] std::vector<std::byte> results() const override {
    std::vector<std::byte> out;
    for (const auto& each : call_.memory.all()) {
      if (!each.is_result()) continue;
      std::vector<std::byte> bytes(each.bytes);
      each.download(bytes.data(), bytes.size());
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  }

 private:
  sy::tune::prepared_call<Operator> call_;
  sy::dispatcher<Operator> dispatcher_;
  std::unique_ptr<sy::tune::device_buffer> workspace_;
  std::size_t workspace_bytes_ = 0;
};

std::size_t free_memory() {
  std::size_t available = 0;
  std::size_t total = 0;
  raw::call("cuCtxSynchronize");
  raw::call("cuMemGetInfo_v2", &available, &total);
  return available;
}

std::vector<std::byte> replay(const raw::graph& captured, const raw::own_stream& stream,
                              const std::vector<std::unique_ptr<part>>& parts) {
  for (const auto& each : parts) each->poison();
  raw::call("cuCtxSynchronize");
  captured.launch(stream.get());
  raw::call("cuCtxSynchronize");
  std::vector<std::byte> out;
  for (const auto& each : parts) {
    const std::vector<std::byte> bytes = each->results();
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace

TEST_CASE("a graph of every operator replays the same bits while everything is replaced under it") {
  if (!raw::available()) skip_program("no CUDA device");
  const char* const installed = std::getenv("SWITCHYARD_PATH");  // NOLINT(concurrency-mt-unsafe)
  if (installed == nullptr) skip_program("SWITCHYARD_PATH names no kernels");
  raw::set_current(raw::primary_context());
  const replaced_root files{installed};
  sy::catalog_options options;
  options.roots = {files.path().string()};
  options.default_roots = false;
  sy::catalog catalog{options};
  const sy::device target{sy::cuda::current()};

  std::vector<std::unique_ptr<part>> parts;
  std::vector<std::string> left_out;
  const auto add = [&]<class Operator>(Operator /*of*/, const std::vector<sy::tune::request>& wanted) {
    for (sy::tune::request want : wanted) {
      want.set("deterministic", 1);  // the same bits are compared
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
  for (const std::string& each : left_out) WARN(each << " is not in the graph: no variant serves the call");
  if (parts.empty()) skip_program("no kernels for this device");

  const raw::own_stream stream;
  std::vector<std::string> captured_winners;
  const raw::graph captured{stream.get(), 0, [&] {
                              for (const auto& each : parts) {
                                captured_winners.push_back(each->winner());
                                each->launch(stream.get());
                              }
                            }};
  const std::vector<std::byte> bits = replay(captured, stream, parts);
  REQUIRE(replay(captured, stream, parts) == bits);

  const std::uint64_t generation = catalog.generation();
  std::size_t settled = 0;
  std::size_t changed = 0;
  for (int round = 1; round <= 100; ++round) {
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
    if (round == 20) settled = free_memory();
  }
  CHECK(changed >= 50 * parts.size() / 2);  // in most operators another variant serves the call
  CHECK(catalog.generation() != generation);
  const std::size_t now = free_memory();
  INFO("free memory " << settled << " bytes after 20 rounds, " << now << " after 100");
  CHECK(now + (std::size_t{4} << 20U) > settled);
  WARN(parts.size() << " operators in the graph, " << bits.size() << " bytes of results");
}
