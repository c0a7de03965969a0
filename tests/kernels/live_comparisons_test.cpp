// SPDX-License-Identifier: MIT
// compare_live() of every operator that has a workload: each variant of the installed kernels against the one
// that serves. All are right, so none may be found to differ, and the call's results stay as they were. On
// the device that SWITCHYARD_TEST_DEVICE names: host or gpu.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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

#include "catch.hpp"
#include "environment.hpp"

namespace {

namespace sy = switchyard;
namespace ops = sy::operators;

[[nodiscard]] const sy::device& live_device() {
  static const sy::device chosen = [] {
    if (sy::test::required_variable("SWITCHYARD_TEST_DEVICE") == "host") return sy::device::host();
    const sy::device found = sy::device::current();
    if (found.properties().backend == "host") skip_program("no GPU");
    return found;
  }();
  return chosen;
}

struct tally {
  int compared = 0;
  int operators = 0;
  std::vector<std::string> not_compared;
};

[[nodiscard]] std::vector<std::byte> results_of(sy::tune::tensors& memory) {
  std::vector<std::byte> out;
  for (const auto& tensor : memory.all()) {
    const std::size_t at = out.size();
    out.resize(at + tensor.bytes);
    if (tensor.bytes > 0) tensor.download(out.data() + at, tensor.bytes);
  }
  return out;
}

template <class Operator>
void compare_all(sy::catalog& catalog, const std::vector<sy::tune::request>& requests, tally& to) {
  sy::dispatcher<Operator> run{catalog, live_device()};
  bool any = false;
  for (const sy::tune::request& want : requests) {
    auto made = sy::tune::workload<Operator>::make(live_device().driver(), want, 11);
    try {
      run.prepare(made.arguments);
    } catch (const sy::call_error&) {
      continue;  // not in this set of kernels
    }
    const auto before = results_of(made.memory);
    for (std::uint32_t runner_up = 1; runner_up <= 64; ++runner_up) {
      const sy::live_comparison found =
          compare_live(run, {}, made.arguments, {.runner_up = runner_up, .turns = 1});
      INFO(found.text);
      if (found.outcome == sy::comparison_outcome::no_rival) break;
      if (found.outcome == sy::comparison_outcome::not_possible) {
        to.not_compared.push_back(found.text);
        break;
      }
      CHECK(found.outcome == sy::comparison_outcome::compared);
      CHECK(found.denied.empty());
      ++to.compared;
      any = true;
    }
    CHECK(results_of(made.memory) == before);
  }
  to.operators += any ? 1 : 0;
}

[[nodiscard]] sy::tune::request request_of(sy::dtype type,
                                           std::map<std::string, std::int64_t, std::less<>> others = {}) {
  others["dtype"] = static_cast<std::int64_t>(type);
  return sy::tune::request{std::move(others)};
}

}  // namespace

TEST_CASE("variants that are right are never found to differ, and calls' results are never written") {
  if (live_device().driver() == nullptr) return;
  sy::catalog catalog;
  tally all;
  using enum sy::dtype;
  std::vector<sy::tune::request> rows;
  std::vector<sy::tune::request> attention;
  std::vector<sy::tune::request> decode;
  for (const sy::dtype type : {bf16, f16, f32}) {
    rows.push_back(request_of(type, {{"rows", 33}, {"columns", 1024}}));
    rows.push_back(request_of(type, {{"rows", 257}, {"columns", 4096}}));
    for (const std::int64_t causal : {0, 1}) {
      attention.push_back(request_of(type, {{"head_dim", 64},
                                            {"causal", causal},
                                            {"batch", 1},
                                            {"heads", 2},
                                            {"heads_kv", 2},
                                            {"seqlen_q", 150},
                                            {"seqlen_k", 150}}));
    }
    decode.push_back(request_of(type, {{"head_dim", 128},
                                       {"batch", 2},
                                       {"heads", 4},
                                       {"heads_kv", 2},
                                       {"seqlen_q", 1},
                                       {"seqlen_k", 500}}));
  }
  const std::vector<std::string> installed = catalog.operators();
  const auto add = [&]<class Operator>(Operator /*of*/, const std::vector<sy::tune::request>& requests) {
    for (const std::string& name : installed) {
      if (name == Operator::name) compare_all<Operator>(catalog, requests, all);
    }
  };
  add(ops::softmax{}, rows);
  add(ops::softmax_backward{}, rows);
  add(ops::rms_norm{}, rows);
  add(ops::rms_norm_backward{}, rows);
  add(ops::layer_norm{}, rows);
  add(ops::layer_norm_backward{}, rows);
  add(ops::gated_activation{}, rows);
  add(ops::gated_activation_backward{}, rows);
  add(ops::attention_forward{}, attention);
  add(ops::attention_backward{}, attention);
  add(ops::attention_decode{}, decode);
  add(ops::attention_dropout_mask{}, {{}});
  add(ops::rotary{}, {request_of(bf16, {{"batch", 2}, {"seqlen", 65}}), request_of(f32, {{"seqlen", 3}})});
  add(ops::embedding{}, {request_of(bf16), request_of(f32)});
  std::vector<sy::tune::request> products;
  for (const std::int64_t int8 : {0, 1}) {
    for (const std::int64_t count : {1, 40}) {
      products.push_back(request_of(
          f32, {{"rows", count}, {"in_features", 1024}, {"out_features", 256}, {"int8_activations", int8}}));
    }
  }
  add(ops::matmul_quantized{}, products);
  add(ops::rotary_cache{}, {request_of(bf16)});
  WARN(all.compared << " comparisons of " << all.operators << " operators");
  for (const std::string& name : all.not_compared) UNSCOPED_INFO(name);
  CHECK(all.compared > 0);
}
