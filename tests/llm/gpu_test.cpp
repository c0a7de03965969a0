// SPDX-License-Identifier: MIT
// The engine on a CUDA device: logits against double precision, captured decode steps against plain ones, and
// tables that are replaced while captured steps run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/switchyard.hpp>

#include "device_memory.hpp"
#include "loaded_model.hpp"
#include "run_model.hpp"
#include "tests/catch.hpp"
#include "tiny_model.hpp"

namespace sy = switchyard;
using switchyard::operators::weight_format;
using switchyard::test::answers;
using switchyard::test::difference;
using switchyard::test::logits_of;
using switchyard::test::model_on_disk;
using switchyard::test::prompt_of;
using switchyard::test::small_options;
using switchyard::test::tiny_model;
using switchyard::test::tiny_shape;

namespace {

/// The shape whose kernels the small kernel set for GPUs should have.
[[nodiscard]] tiny_shape usual_shape() {
  tiny_shape out;
  out.head_dim = 128;
  return out;
}

/// Runs `work`. False, with a warning, where no kernel that is installed serves one of its calls.
template <class Work>
[[nodiscard]] bool is_served(const std::string& what, const Work& work) {
  try {
    work();
    return true;
  } catch (const sy::error& problem) {
    if (problem.code() != sy::error_code::no_variant) throw;
    WARN(what << " is left out: " << problem.what());
    return false;
  }
}

/// Ends the program as skipped where there is no CUDA device, or kernels for it are not installed.
[[nodiscard]] sy::device required_device(sy::catalog& catalog) {
  try {
    sy::device found{sy::cuda::current()};
    const model_on_disk files{usual_shape()};
    llm::loaded_model model{catalog, found, files.path, small_options()};
    static_cast<void>(answers(model, {prompt_of(40, 1)}, 3));
    return found;
  } catch (const sy::driver_error& problem) {
    switch (problem.code()) {
      case sy::error_code::driver_absent:
      case sy::error_code::driver_too_old:
      case sy::error_code::no_device:
        skip_program(problem.what());
      default:
        throw;
    }
  } catch (const sy::error& problem) {
    if (problem.code() == sy::error_code::no_variant) skip_program(problem.what());
    throw;
  }
}

/// What two layers make of units of 2^-11 (f16) and 2^-8 (bf16), as a share of the logits' deviation.
[[nodiscard]] double bound_of(sy::dtype kept) {
  return kept == sy::dtype::f16 ? 0.05 : 0.3;
}

/// Whether each token of a greedy answer is the best one of double precision, or as good within the bound.
[[nodiscard]] bool is_greedy(const tiny_model& made, std::vector<llm::token_id> prompt,
                             const std::vector<llm::token_id>& answer, double bound) {
  for (const llm::token_id token : answer) {
    const std::vector<double> logits = made.logits(prompt);
    double mean = 0;
    double squares = 0;
    for (const double logit : logits) mean += logit / static_cast<double>(logits.size());
    for (const double logit : logits) squares += (logit - mean) * (logit - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(logits.size()));
    const double best = *std::max_element(logits.begin(), logits.end());
    if (logits[static_cast<std::size_t>(token)] < best - 2 * bound * deviation) return false;
    prompt.push_back(token);
  }
  return true;
}

[[nodiscard]] std::vector<tiny_shape> shapes_of_all_formats() {
  std::vector<tiny_shape> out(7, usual_shape());
  out[1].architecture = "qwen2";
  out[1].format = weight_format::q4_k;
  out[1].value_format = weight_format::q6_k;
  out[2].architecture = "qwen3";
  out[2].format = out[2].value_format = weight_format::q4_1;
  out[2].is_tied = false;
  out[3].format = out[3].value_format = weight_format::q4_0;
  out[3].head_dim = 64;
  out[4].format = out[4].value_format = weight_format::bf16;
  out[5].format = weight_format::q5_k;
  out[5].value_format = weight_format::mxfp4;
  out[6].format = weight_format::q5_1;
  out[6].value_format = weight_format::iq4_nl;
  return out;
}

[[nodiscard]] std::string text_of(const tiny_shape& shape) {
  return shape.architecture + " in " +
         std::string{sy::enumerator_names<weight_format>[static_cast<std::size_t>(shape.format)]};
}

}  // namespace

TEST_CASE("logits of a CUDA device are those of double precision", "[gpu]") {
  sy::catalog catalog;
  const sy::device device = required_device(catalog);
  for (const tiny_shape& shape : shapes_of_all_formats()) {
    const model_on_disk files{shape};
    const auto prompt = prompt_of(100, 1);  // more than a page, and enough rows for cuBLASLt
    const std::vector<double> wanted = files.made.logits(prompt);
    for (const auto kept : {sy::dtype::bf16, sy::dtype::f16}) {
      for (const bool uses_cublaslt : {true, false}) {
        llm::load_options options = small_options();
        options.kv_dtype = kept;
        options.step_tokens = 128;
        options.gpu.cublaslt = uses_cublaslt;
        llm::loaded_model model{catalog, device, files.path, options};
        const std::string& why = model.model().why_no_cublaslt();
        for (const std::int64_t chunk : {100, 32, 1}) {
          const std::string what = text_of(shape) + ", keys in " + std::string{sy::name_of(kept)} +
                                   ", steps of " + std::to_string(chunk) +
                                   ", cuBLASLt: " + (why.empty() ? "yes" : why);
          std::vector<float> logits;
          if (!is_served(what, [&] { logits = logits_of(model, prompt, chunk); })) continue;
          const double found = difference(logits, wanted);
          INFO(what << ", off by " << found);
          CHECK(found < bound_of(kept));
        }
      }
    }
  }
}

TEST_CASE("captured steps give what plain ones give", "[gpu]") {
  sy::catalog catalog;
  const sy::device device = required_device(catalog);
  const model_on_disk files{usual_shape()};
  llm::load_options options = small_options();
  llm::loaded_model captured{catalog, device, files.path, options};
  options.gpu.graphs = false;
  llm::loaded_model plain{catalog, device, files.path, options};

  const auto prompt = prompt_of(9, 3);
  const auto answer = answers(captured, {prompt}, 100);
  CHECK(answer == answers(plain, {prompt}, 100));
  REQUIRE(answer[0].size() == 100);
  const std::vector<llm::token_id> first(answer[0].begin(), answer[0].begin() + 30);  // more take long
  CHECK(is_greedy(files.made, prompt, first, bound_of(sy::dtype::bf16)));
  CHECK(captured.model().graphs().captures == 2);  // one for each number of pages
  CHECK(captured.model().graphs().replays == 97);  // of 99 steps, the first of each ran plainly
  CHECK(plain.model().graphs().captures == 0);

  // Four at a time, which begin and end at different times.
  std::vector<std::vector<llm::token_id>> prompts;
  for (int i = 0; i < 7; ++i) prompts.push_back(prompt_of(static_cast<std::size_t>(3 + 19 * i), i));
  const auto together = answers(captured, prompts, 12);
  CHECK(together == answers(plain, prompts, 12));
  const auto captures = captured.model().graphs().captures;
  CHECK(answers(captured, prompts, 12) == together);
  CHECK(answers(captured, prompts, 12) == together);
  const auto replays = captured.model().graphs().replays;
  CHECK(captured.model().graphs().captures <= captures + 12);
  const auto settled = captured.model().graphs().captures;
  CHECK(answers(captured, prompts, 12) == together);
  CHECK(captured.model().graphs().captures == settled);  // every shape has its graph
  CHECK(captured.model().graphs().replays > replays);
}

TEST_CASE("the CPU and a CUDA device choose the same tokens", "[gpu]") {
  sy::catalog catalog;
  const sy::device device = required_device(catalog);
  for (const tiny_shape& shape : shapes_of_all_formats()) {
    const model_on_disk files{shape};
    const auto prompt = prompt_of(20, 4);
    for (const auto kept : {sy::dtype::bf16, sy::dtype::f16}) {
      llm::load_options options = small_options();
      options.kv_dtype = kept;
      llm::loaded_model gpu{catalog, device, files.path, options};
      llm::loaded_model cpu{catalog, sy::device::host(), files.path, options};
      std::vector<llm::token_id> found;
      if (!is_served(text_of(shape), [&] { found = answers(gpu, {prompt}, 12)[0]; })) continue;
      const auto wanted = answers(cpu, {prompt}, 12)[0];
      INFO(text_of(shape));
      // Where two tokens are as good as each other, the answers part.
      CHECK((found == wanted || is_greedy(files.made, prompt, found, bound_of(kept))));
    }
  }
}

TEST_CASE("a table that is replaced leads to new graphs, and to the same answer", "[gpu]") {
  const model_on_disk files{usual_shape()};
  const std::string table = files.folder.file("overlay.json");
  const auto deny = [&table](const std::string& variants) {
    const std::string text = R"({"schema": "switchyard.table/1", "operator": "rms_norm",)"
                             R"( "device": {"backend": "cuda"}, "groups": [], "deny": [)" +
                             variants + "]}";
    std::ofstream{table + ".new"} << text;
    std::filesystem::rename(table + ".new", table);
  };
  deny("");
  sy::catalog_options with;
  with.tables = {table};
  sy::catalog catalog{with};
  const sy::device device = required_device(catalog);
  llm::loaded_model model{catalog, device, files.path, small_options()};

  // The call of a decode step.
  sy::dispatcher<sy::operators::rms_norm> norm{catalog, device};
  const llm::device_memory memory{device, 4096};
  const sy::tensor row{memory.data(), sy::dtype::bf16, {1, 256}};
  const sy::tensor residual{memory.data() + 1024, sy::dtype::bf16, {1, 256}};
  const sy::tensor out{memory.data() + 2048, sy::dtype::bf16, {1, 256}};
  const auto call = sy::operators::rms_norm::call(row, out,
                                                  {.gamma = model.weights().output_norm(),
                                                   .residual = residual,
                                                   .residual_out = residual,
                                                   .rstd = {},
                                                   .epsilon = 1e-5F,
                                                   .gamma_offset = 0});
  const std::string first = std::string{norm.explain(call).variant};

  std::vector<llm::token_id> during;
  std::int64_t captures_before = 0;
  llm::engine run = model.make_engine();
  llm::generation_request request;
  request.prompt = prompt_of(9, 3);
  request.max_tokens = 24;
  request.on_token = [&](llm::token_id token) {
    during.push_back(token);
    if (during.size() != 8) return;
    captures_before = model.model().graphs().captures;
    deny(R"({"variant": ")" + first + R"(", "reason": "a test"})");
    CHECK(catalog.reload().refused.empty());
  };
  const std::uint64_t generation = catalog.generation();
  run.add(std::move(request));
  while (run.step()) {
  }
  REQUIRE(during.size() >= 11);
  CHECK(catalog.generation() != generation);
  CHECK(std::string{norm.explain(call).variant} != first);
  CHECK(captures_before == 1);
  CHECK(model.model().graphs().captures == 2);
  CHECK(is_greedy(files.made, prompt_of(9, 3), during, bound_of(sy::dtype::bf16)));
}
