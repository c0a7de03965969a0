// SPDX-License-Identifier: MIT
// The engine on small models with random weights: logits against double precision, batching, caches, and
// tables that are replaced while it generates.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "loaded_model.hpp"
#include "measure.hpp"
#include "message.hpp"
#include "run_model.hpp"
#include "tests/catch.hpp"
#include "tests/environment.hpp"
#include "tiny_model.hpp"

namespace sy = switchyard;
using switchyard::operators::weight_format;
using switchyard::test::answers;
using switchyard::test::difference;
using switchyard::test::logits_of;
using switchyard::test::message_of;
using switchyard::test::model_on_disk;
using switchyard::test::prompt_of;
using switchyard::test::scratch_folder;
using switchyard::test::small_options;
using switchyard::test::tiny_model;
using switchyard::test::tiny_shape;

TEST_CASE("logits of each architecture are those of double precision", "[engine]") {
  sy::catalog catalog;
  std::vector<tiny_shape> shapes(6);
  shapes[1].architecture = "qwen2";
  shapes[1].format = weight_format::q4_k;
  shapes[1].value_format = weight_format::q6_k;  // as files of mixed formats have it: three products for qkv
  shapes[2].architecture = "qwen3";
  shapes[2].format = shapes[2].value_format = weight_format::q4_1;
  shapes[2].is_tied = false;
  shapes[3].format = shapes[3].value_format = weight_format::q4_0;
  shapes[3].heads = shapes[3].heads_kv = 3;
  shapes[4].format = weight_format::q5_k;
  shapes[4].value_format = weight_format::mxfp4;
  shapes[5].format = weight_format::q5_0;
  shapes[5].value_format = weight_format::iq4_nl;
  for (const tiny_shape& shape : shapes) {
    const model_on_disk files{shape};
    llm::loaded_model model{catalog, sy::device::host(), files.path, small_options()};
    const auto prompt = prompt_of(70, 1);  // more than a page
    const std::vector<double> wanted = files.made.logits(prompt);
    for (const std::int64_t chunk : {32, 16, 1}) {
      INFO(shape.architecture << ", chunks of " << chunk);
      // Keys, values and queries are kept in f16: a unit of 2^-11, which two layers enlarge.
      CHECK(difference(logits_of(model, prompt, chunk), wanted) < 0.02);
    }
  }
}

TEST_CASE("8-bit activations and an 8-bit cache stay close", "[engine]") {
  sy::catalog catalog;
  const model_on_disk files{{}};
  const auto prompt = prompt_of(40, 2);
  const std::vector<double> wanted = files.made.logits(prompt);
  llm::load_options options = small_options();
  options.int8_activations = true;
  llm::loaded_model rounded{catalog, sy::device::host(), files.path, options};
  CHECK(difference(logits_of(rounded, prompt, 32), wanted) < 0.2);
  options.int8_activations = false;
  options.kv_dtype = sy::dtype::f8_e4m3;
  llm::loaded_model narrow{catalog, sy::device::host(), files.path, options};
  for (const std::int64_t chunk : {16, 32}) CHECK(difference(logits_of(narrow, prompt, chunk), wanted) < 0.5);
}

TEST_CASE("prompts together get the answers that they get alone", "[engine]") {
  sy::catalog catalog;
  const model_on_disk files{{}};
  for (const auto kv : {sy::dtype::f16, sy::dtype::f8_e4m3}) {
    llm::load_options options = small_options();
    options.kv_dtype = kv;
    llm::loaded_model model{catalog, sy::device::host(), files.path, options};
    // Seven prompts in four places, some longer than a step: they wait, start late and end at different
    // times.
    std::vector<std::vector<llm::token_id>> prompts;
    for (int i = 0; i < 7; ++i) prompts.push_back(prompt_of(static_cast<std::size_t>(3 + 19 * i), i));
    const auto together = answers(model, prompts, 12);
    std::size_t same = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      REQUIRE(together[i].size() <= 12);
      const auto alone = answers(model, {prompts[i]}, 12);
      same += together[i] == alone[0] ? 1U : 0U;
    }
    // Sums in another order may turn a tie.
    CHECK(same + 1 >= prompts.size());
    CHECK(model.cache().free_pages() == model.cache().pages());
  }
}

TEST_CASE("a table that is replaced during a generation changes the variant, not the answer", "[engine]") {
  const model_on_disk files{{}};
  const std::string table = files.folder.file("overlay.json");
  const auto deny = [&table](const std::string& variants) {
    const std::string text =
        R"({"schema": "switchyard.table/1", "operator": "matmul_quantized", "device": {"backend": "host"},)"
        R"( "axes": ["rows"], "groups": [], "deny": [)" +
        variants + "]}";
    std::ofstream{table + ".new"} << text;
    std::filesystem::rename(table + ".new", table);
  };
  deny("");
  sy::catalog_options options;
  options.tables = {table};
  sy::catalog catalog{options};
  llm::loaded_model model{catalog, sy::device::host(), files.path, small_options()};
  const auto prompt = prompt_of(9, 3);
  const auto before = answers(model, {prompt}, 20);
  sy::dispatcher<sy::operators::matmul_quantized> products{catalog, sy::device::host()};
  std::vector<float> x(256);
  std::vector<float> out(256);
  const auto& part = model.weights().layers()[0].qkv.parts[0];
  out.resize(static_cast<std::size_t>(part.weights.rows));
  const auto call =
      sy::operators::matmul_quantized::call({x.data(), sy::dtype::f32, {1, 256}}, part.weights,
                                            {out.data(), sy::dtype::f32, {1, part.weights.rows}});
  const std::string first = std::string{products.explain(call).variant};

  std::vector<llm::token_id> during;
  llm::engine run = model.make_engine();
  llm::generation_request request;
  request.prompt = prompt;
  request.max_tokens = 20;
  std::uint64_t generation = catalog.generation();
  request.on_token = [&](llm::token_id token) {
    during.push_back(token);
    if (during.size() != 7) return;
    deny(R"({"variant": ")" + first + R"(", "reason": "a test"})");
    catalog.reload();
  };
  run.add(std::move(request));
  while (run.step()) {
  }
  CHECK(catalog.generation() != generation);
  CHECK(std::string{products.explain(call).variant} != first);
  CHECK(during == before[0]);
}

TEST_CASE("models that cannot be run are refused with a reason", "[engine]") {
  sy::catalog catalog;
  const auto refusal = [&](const auto& change) {
    const scratch_folder folder;
    tiny_model made{{}, 1};
    change(made.file());
    made.write(folder.file("bad.gguf"));
    return message_of<std::exception>([&] {
      const llm::loaded_model model{catalog, sy::device::host(), folder.file("bad.gguf"), small_options()};
    });
  };
  using sy::test::gguf_writer;
  CHECK(refusal([](gguf_writer& file) {
          file.set("llama.expert_count", std::uint32_t{8});
        }).find("mixture of experts") != std::string::npos);
  CHECK(refusal([](gguf_writer& file) { file.set("llama.rope.scaling.type", "yarn"); }).find("'yarn'") !=
        std::string::npos);
  CHECK(refusal([](gguf_writer& file) {
          file.set("llama.attention.value_length", std::uint32_t{32});
        }).find("different head dimensions") != std::string::npos);
  CHECK(refusal([](gguf_writer& file) {
          const std::vector<float> factors(5, 1.0F);
          file.add_tensor("rope_freqs.weight", llm::tensor_type::f32, {5}, std::span<const float>{factors});
        }).find("rope_freqs.weight has 5 elements") != std::string::npos);
  CHECK(refusal([](gguf_writer& file) {
          const std::vector<float> bias(5, 1.0F);
          file.add_tensor("blk.0.attn_q.bias", llm::tensor_type::f32, {5}, std::span<const float>{bias});
        }).find("'blk.0.attn_q.bias' is [5, 1]") != std::string::npos);
}

TEST_CASE("requests that can never fit are refused", "[engine]") {
  sy::catalog catalog;
  const model_on_disk files{{}};
  llm::loaded_model model{catalog, sy::device::host(), files.path, small_options()};
  llm::engine run = model.make_engine();
  const auto refusal = [&](std::size_t length) {
    llm::generation_request request;
    request.prompt = prompt_of(length, 0);
    return message_of<std::invalid_argument>([&] { run.add(std::move(request)); });
  };
  CHECK(refusal(0) == "the prompt has no tokens");
  CHECK(refusal(160).find("the prompt has 160 tokens, but the context holds 160") == 0);
  llm::load_options options = small_options();
  options.kv_dtype = sy::dtype::f32;
  CHECK(message_of<std::invalid_argument>([&] {
          const llm::loaded_model other{catalog, sy::device::host(), files.path, options};
        }).find("f16, bf16 or f8_e4m3, not in f32") != std::string::npos);
  CHECK(message_of<std::invalid_argument>([&] {
          static_cast<void>(llm::measure_decode(model, 1, 150, 20, 1));
        }).find("larger context") != std::string::npos);
  CHECK(message_of<std::invalid_argument>([&] {
          static_cast<void>(logits_of(model, prompt_of(60, 0), 60));
        }).find("a step has 60 tokens; this model was made for 32") == 0);
}
