// SPDX-License-Identifier: MIT
#include "examples/llm/tokenizer.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "examples/llm/bpe.hpp"
#include "examples/llm/utf8.hpp"
#include "message.hpp"
#include "tiny_tokenizer.hpp"

namespace {

using namespace switchyard::test;
using llm::token_id;
using ids = std::vector<token_id>;

[[nodiscard]] llm::tokenizer make(const tiny_tokenizer& from) {
  const std::string bytes = from.bytes();
  return llm::tokenizer{open_bytes(bytes)};
}

template <class Change>
[[nodiscard]] std::string refusal_of(const Change& change) {
  tiny_tokenizer from;
  change(from);
  return message_of<llm::gguf_error>([&from] { static_cast<void>(make(from)); });
}

/// A tokenizer with the id that a key gives.
[[nodiscard]] std::string refusal_of_id(std::string_view key, std::int32_t id) {
  gguf_writer file;
  tiny_tokenizer{}.write_to(file);
  file.set(key, id);
  const std::string bytes = file.bytes();
  return message_of<llm::gguf_error>([&bytes] { static_cast<void>(llm::tokenizer{open_bytes(bytes)}); });
}

[[nodiscard]] std::string random_bytes(std::mt19937_64& generator, std::size_t size, unsigned values) {
  std::string out(size, '\0');
  for (char& character : out) character = static_cast<char>(generator() % values);
  return out;
}

/// Merges the pair of the lowest rank, the leftmost first, until none is left.
[[nodiscard]] ids merge_slowly(const llm::vocabulary& tokens, std::string_view word) {
  ids out;
  for (const char byte : word) out.push_back(tokens.of_byte(byte));
  while (true) {
    llm::merge best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      const llm::merge found = tokens.find_merge(out[i], out[i + 1]);
      if (found.rank >= best.rank) continue;
      best = found;
      at = i;
    }
    if (!best) return out;
    out[at] = best.result;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST_CASE("splits as the models' own tokenizers do") {
  std::ifstream in{SWITCHYARD_GOLDEN "/splits.json"};
  const auto golden = nlohmann::json::parse(in);
  std::size_t count = 0;
  for (const std::string rule : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const llm::splitter splitter{llm::find_split_rule(rule).value()};
    REQUIRE(golden[rule].size() == golden["texts"].size());
    for (std::size_t i = 0; i < golden["texts"].size(); ++i, ++count) {
      const auto text = golden["texts"][i].get<std::string>();
      std::vector<std::string_view> pieces;
      splitter.split(text, pieces);
      std::vector<std::size_t> lengths;
      for (const std::string_view piece : pieces) lengths.push_back(piece.size());
      INFO(rule << ": " << golden["texts"][i]);
      CHECK(lengths == golden[rule][i].get<std::vector<std::size_t>>());
    }
  }
  std::printf("%zu texts split\n", count);
  CHECK(count > 1000);
}

TEST_CASE("names of split rules") {
  CHECK(llm::find_split_rule("llama3") == llm::split_rule::llama3);
  CHECK(llm::find_split_rule("llama-v3") == llm::split_rule::llama3);
  CHECK_FALSE(llm::find_split_rule("").has_value());
  CHECK_FALSE(llm::find_split_rule("default").has_value());
  for (const std::string_view name : {"gpt-2", "smollm", "llama-bpe", "llama3", "llama-v3", "qwen2"}) {
    CHECK(llm::find_split_rule(name).has_value());
    CHECK_THAT(std::string{llm::split_rule_names()}, has_text(std::string{name}));
  }
}

TEST_CASE("pieces are the text, whatever its bytes") {
  std::mt19937_64 generator{fresh_seed()};
  std::size_t count = 0;
  for (const llm::split_rule rule :
       {llm::split_rule::gpt2, llm::split_rule::smollm, llm::split_rule::llama3, llm::split_rule::qwen2}) {
    const llm::splitter splitter{rule};
    for (int i = 0; i < 200; ++i, ++count) {
      const std::string text = random_bytes(generator, generator() % 200, i % 2 == 0 ? 256 : 60);
      std::vector<std::string_view> pieces;
      splitter.split(text, pieces);
      std::string joined;
      for (const std::string_view piece : pieces) {
        REQUIRE_FALSE(piece.empty());
        joined += piece;
      }
      REQUIRE(joined == text);
    }
  }
  std::printf("%zu texts\n", count);
}

TEST_CASE("bytes that are not UTF-8 are cut where the Unicode standard says") {
  using llm::next_character;
  const auto is = [](std::string_view text, std::size_t bytes, bool valid, bool incomplete) {
    const llm::utf8_step step = next_character(text);
    return step.bytes == bytes && step.valid == valid && step.incomplete == incomplete;
  };
  CHECK(is("a", 1, true, false));
  CHECK(is("\xc3\xa9x", 2, true, false));
  CHECK(is("\xe4\xb8\xad", 3, true, false));
  CHECK(is("\xf0\x9f\x98\x80", 4, true, false));
  CHECK(is("\xf4\x8f\xbf\xbf", 4, true, false));
  CHECK(is("\x80", 1, false, false));
  CHECK(is("\xc0\x80", 1, false, false));
  CHECK(is("\xe0\x80\x80", 1, false, false));  // longer than needed
  CHECK(is("\xed\xa0\x80", 1, false, false));  // a surrogate
  CHECK(is("\xf0\x80\x80\x80", 1, false, false));
  CHECK(is("\xf4\x90\x80\x80", 1, false, false));  // beyond U+10FFFF
  CHECK(is("\xf5", 1, false, false));
  CHECK(is("\xc3", 1, false, true));
  CHECK(is("\xe4\xb8", 2, false, true));
  CHECK(is("\xf0\x9f\x98", 3, false, true));
  CHECK(is("\xf0\x9f\x98x", 3, false, false));
}

TEST_CASE("merges in the order of ranks") {
  tiny_tokenizer from;
  const token_id ab = from.add_merge("a", "b");
  const token_id bc = from.add_merge("b", "c");
  const token_id abab = from.add_merge("ab", "ab");
  const token_id space_a = from.add_merge("Ġ", "a");
  const llm::tokenizer with = make(from);
  CHECK(with.encode("").empty());
  CHECK(with.encode("x") == ids{'x'});
  CHECK(with.encode("ab") == ids{ab});
  CHECK(with.encode("abc") == ids{ab, 'c'});
  CHECK(with.encode("xbc") == ids{'x', bc});
  CHECK(with.encode("abababa") == ids{abab, ab, 'a'});
  CHECK(with.encode("x a") == ids{'x', space_a});
  CHECK(with.encode("x ab") == ids{'x', ' ', ab});
  CHECK(with.encode("\xff\xc3") == ids{0xff, 0xc3});
}

TEST_CASE("long words are merged like short ones, and quickly") {
  tiny_tokenizer from;
  std::mt19937_64 generator{seed_or(7)};
  std::vector<std::string> parts{"a", "b", "c"};
  for (int i = 0; i < 60; ++i) {
    const std::string left = parts[generator() % parts.size()];
    const std::string right = parts[generator() % parts.size()];
    if (left.size() + right.size() > 12) continue;
    static_cast<void>(from.add_merge(left, right));
    parts.push_back(left + right);
  }
  const std::string bytes = from.bytes();
  const llm::vocabulary tokens{open_bytes(bytes)};
  llm::bpe merger{tokens};
  for (int i = 0; i < 300; ++i) {
    std::string word = random_bytes(generator, generator() % 150, 3);
    for (char& letter : word) letter = static_cast<char>(letter + 'a');
    ids found;
    merger.encode(word, found);
    REQUIRE(found == merge_slowly(tokens, word));
  }
  // A merge at a time over the whole word would take minutes.
  const llm::tokenizer with{open_bytes(bytes)};
  std::string word(1'000'000, 'a');
  for (std::size_t i = 0; i < word.size(); ++i) word[i] = static_cast<char>('a' + i * i % 7 % 3);
  const auto start = std::chrono::steady_clock::now();
  const ids found = with.encode(word);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{60});
  CHECK(with.decode(found) == word);
}

TEST_CASE("long runs of spaces are split quickly") {
  for (const std::string_view pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    tiny_tokenizer from;
    from.pre = pre;
    const llm::tokenizer with = make(from);
    for (const std::string& text :
         {std::string(1'000'000, ' ') + "x", std::string(300'000, '\n'), std::string(300'000, '\xff')}) {
      const auto start = std::chrono::steady_clock::now();
      CHECK(with.decode(with.encode(text)) == text);
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{60});
    }
  }
}

TEST_CASE("any bytes come back") {
  tiny_tokenizer from;
  static_cast<void>(from.add_merge("a", "b"));
  const llm::tokenizer with = make(from);
  std::mt19937_64 generator{fresh_seed()};
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_bytes(generator, generator() % 300, 256);
    REQUIRE(with.decode(with.encode(text, {.parse_special = true})) == text);
  }
}

TEST_CASE("special tokens are found only when asked for") {
  tiny_tokenizer from;
  const token_id end = from.add("<|end|>", 3);
  const token_id longer = from.add("<|end|>>", 3);
  const token_id think = from.add("<think>", 4);
  from.add("<unused>", 5);
  from.add("", 3);
  const llm::tokenizer with = make(from);
  const llm::encode_options parse{.parse_special = true};
  CHECK(with.encode("a<|end|>b", parse) == ids{'a', end, 'b'});
  CHECK(with.encode("<|end|>>", parse) == ids{longer});
  CHECK(with.encode("<think><|end|>", parse) == ids{think, end});
  CHECK(with.encode("<<think>", parse) == ids{'<', think});
  CHECK(with.encode("<unused>", parse).size() == 8);
  CHECK(with.encode("a<|end|>").size() == 8);
  CHECK(with.encode("<think>").size() == 7);
  CHECK(with.find_special("<think>") == think);
  CHECK_FALSE(with.find_special("a").has_value());
  CHECK(with.type(end) == llm::token_type::control);
  CHECK(with.type(think) == llm::token_type::user_defined);
  CHECK(with.decode(end) == "<|end|>");
  CHECK(with.decode(ids{'a', end, think}) == "a<think>");
}

TEST_CASE("llama-bpe takes words that are tokens whole, but never special tokens") {
  tiny_tokenizer from;
  const token_id word = from.add("word");
  from.add("end", 3);
  CHECK(make(from).encode("word").size() == 4);
  from.pre = "llama-bpe";
  CHECK(make(from).encode("word") == ids{word});
  CHECK(make(from).encode("end").size() == 3);
}

TEST_CASE("the ids that a file states") {
  gguf_writer file;
  tiny_tokenizer from;
  const token_id end = from.add("<|im_end|>", 3);
  const token_id text = from.add("<|endoftext|>", 3);
  from.write_to(file);
  file.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  file.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  file.set("tokenizer.ggml.add_bos_token", true);
  const std::string bytes = file.bytes();
  const llm::tokenizer with{open_bytes(bytes)};
  CHECK(with.size() == 258);
  CHECK(with.bos() == 1);
  CHECK(with.eos() == 2);
  CHECK(with.eot() == end);
  CHECK(with.add_bos());
  CHECK(with.encode("a", {.add_bos = true}) == ids{1, 'a'});
  CHECK(ids{with.end_of_generation().begin(), with.end_of_generation().end()} == ids{2, end, text});
  CHECK(with.is_end_of_generation(text));
  CHECK_FALSE(with.is_end_of_generation(1));

  const llm::tokenizer without = make(tiny_tokenizer{});
  CHECK_FALSE(without.bos().has_value());
  CHECK_FALSE(without.eot().has_value());
  CHECK_FALSE(without.add_bos());
  CHECK(without.encode("a", {.add_bos = true}) == ids{'a'});
  CHECK(without.end_of_generation().empty());
}

TEST_CASE("tokens that are none") {
  const llm::tokenizer with = make(tiny_tokenizer{});
  for (const token_id bad : {-1, 256}) {
    const std::string said = message_of<std::out_of_range>([&] { static_cast<void>(with.decode(bad)); });
    CHECK_THAT(said,
               has_text("token " + std::to_string(bad) + " is not in the vocabulary; expected 0 to 255"));
    CHECK_THROWS_AS(with.type(bad), std::out_of_range);
    CHECK_THROWS_AS(llm::decoder{with}.push(bad), std::out_of_range);
    CHECK_FALSE(with.is_end_of_generation(bad));
  }
}

TEST_CASE("bytes without a token are left out") {
  tiny_tokenizer from;
  from.tokens[0xff] = "nothing";
  CHECK(make(from).encode("a\xff"
                          "b") == ids{'a', 'b'});
}

TEST_CASE("a stream holds back characters that are not complete") {
  tiny_tokenizer from;
  const token_id end = from.add("<|end|>", 3);
  const llm::tokenizer with = make(from);
  llm::decoder stream{with};
  CHECK(stream.push('a') == "a");
  CHECK(stream.push(0xf0).empty());
  CHECK(stream.push(0x9f).empty());
  CHECK(stream.push(end).empty());
  CHECK(stream.push(0x98).empty());
  CHECK(stream.push(0x80) == "\xf0\x9f\x98\x80");
  CHECK(stream.finish().empty());
  CHECK(stream.push(0xe4).empty());
  CHECK(stream.push('x') == "\xef\xbf\xbdx");
  CHECK(stream.push(0xff) == "\xef\xbf\xbd");
  CHECK(stream.push(0xc3).empty());
  CHECK(stream.finish() == "\xef\xbf\xbd");
  CHECK(stream.push('b') == "b");
  CHECK(llm::decoder{with, true}.push(end) == "<|end|>");
}

TEST_CASE("files whose tokenizer cannot be used") {
  CHECK_THAT(
      refusal_of([](auto& t) { t.model = "llama"; }),
      has_text("test.gguf: tokenizer.ggml.model is 'llama'; expected 'gpt2', which is byte-level BPE"));
  CHECK_THAT(refusal_of([](auto& t) { t.pre = "deepseek"; }),
             has_text("tokenizer.ggml.pre is 'deepseek'; expected one of gpt-2, smollm, llama-bpe"));
  CHECK_THAT(refusal_of([](auto& t) { t.tokens.clear(); }), has_text("tokenizer.ggml.tokens has 0 tokens"));
  CHECK_THAT(refusal_of([](auto& t) { t.types.pop_back(); }),
             has_text("tokenizer.ggml.token_type has 255 elements; expected one for each of the 256 tokens"));
  CHECK_THAT(refusal_of([](auto& t) { t.types[65] = 9; }),
             has_text("token 65 ('A') has the type 9; expected 1 to 6"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {"ab"}; }),
             has_text("merge 0 ('ab') is not two tokens with a space"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {"a b c"}; }), has_text("is not two tokens with a space"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {"a b"}; }),
             has_text("merge 0 ('a b') names 'ab' (as bytes), which is not in"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {"a bc"}; }), has_text("names 'bc' (as bytes)"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {" a"}; }), has_text("names '' (as bytes)"));
  CHECK_THAT(refusal_of([](auto& t) { t.merges = {"a 中"}; }),
             has_text("has characters that stand for no byte"));
  CHECK_THAT(refusal_of([](auto& t) {
               t.merges = {"a b"};
               t.add("ab", 3);
             }),
             has_text("names 'ab' (as bytes)"));
  CHECK_THAT(refusal_of_id("tokenizer.ggml.eos_token_id", 256),
             has_text("tokenizer.ggml.eos_token_id is 256; expected 0 to 255"));
  CHECK_THAT(refusal_of_id("tokenizer.ggml.bos_token_id", -1), has_text("tokenizer.ggml.bos_token_id is -1"));
  CHECK_THAT(refusal_of_id("tokenizer.ggml.eot_token_id", 1 << 30),
             has_text("tokenizer.ggml.eot_token_id is 1073741824"));
}

TEST_CASE("files that lack a part of their tokenizer") {
  const auto said = [](const gguf_writer& file) {
    const std::string bytes = file.bytes();
    return message_of<llm::gguf_error>([&bytes] { static_cast<void>(llm::tokenizer{open_bytes(bytes)}); });
  };
  gguf_writer file;
  CHECK_THAT(said(file), has_text("the key 'tokenizer.ggml.model' is missing; expected a string"));
  file.set("tokenizer.ggml.model", "gpt2");
  CHECK_THAT(said(file), has_text("the key 'tokenizer.ggml.pre' is missing"));
  file.set("tokenizer.ggml.pre", "smollm");
  CHECK_THAT(said(file),
             has_text("the key 'tokenizer.ggml.tokens' is missing; expected an array of strings"));
  file.set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  CHECK_THAT(said(file),
             has_text("the key 'tokenizer.ggml.token_type' is missing; expected an array of integers"));
  file.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1});
  CHECK_THAT(said(file), has_text("the key 'tokenizer.ggml.merges' is missing"));
}
