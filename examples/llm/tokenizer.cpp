// SPDX-License-Identifier: MIT
#include "tokenizer.hpp"

#include <algorithm>
#include <stdexcept>

#include "bpe.hpp"
#include "quote.hpp"
#include "utf8.hpp"

namespace llm {
namespace {

[[nodiscard]] split_rule read_split_rule(const gguf_file& file) {
  if (const std::string_view model = file.string("tokenizer.ggml.model"); model != "gpt2") {
    throw file.error("tokenizer.ggml.model is " + quote(model) +
                     "; expected 'gpt2', which is byte-level BPE. Use a model with such a tokenizer");
  }
  const std::string_view name = file.string("tokenizer.ggml.pre");
  const auto rule = find_split_rule(name);
  if (!rule) {
    throw file.error("tokenizer.ggml.pre is " + quote(name) + "; expected one of " +
                     std::string{split_rule_names()} + ". Use a model of one of these families");
  }
  return *rule;
}

/// The value of an optional key that names a token.
[[nodiscard]] std::optional<token_id> read_id(const gguf_file& file, std::string_view key,
                                              std::size_t tokens) {
  const auto id = file.find_integer<std::int64_t>(key);
  if (!id) return std::nullopt;
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens) {
    throw file.error(std::string{key} + " is " + std::to_string(*id) + "; expected 0 to " +
                     std::to_string(tokens - 1) + ", the tokens of the vocabulary. Convert the model again");
  }
  return static_cast<token_id>(*id);
}

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

tokenizer::tokenizer(const gguf_file& file)
    : rule_{read_split_rule(file)},
      whole_words_first_{rule_ == split_rule::llama3},
      tokens_{std::make_unique<const vocabulary>(file)},
      special_{*tokens_},
      splitter_{rule_} {
  read_ids(file);
}

void tokenizer::read_ids(const gguf_file& file) {
  bos_ = read_id(file, "tokenizer.ggml.bos_token_id", size());
  eos_ = read_id(file, "tokenizer.ggml.eos_token_id", size());
  eot_ = read_id(file, "tokenizer.ggml.eot_token_id", size());
  if (!eot_) {
    for (const std::string_view name : {"<|eot_id|>", "<|im_end|>"}) {
      if (!eot_) eot_ = find_special(name);
    }
  }
  // Files of Llama 3 that lack the key were made before it existed.
  add_bos_ = file.find_boolean("tokenizer.ggml.add_bos_token").value_or(rule_ == split_rule::llama3) && bos_;
  const auto add = [this](std::optional<token_id> token) {
    if (token) end_of_generation_.push_back(*token);
  };
  add(eos_);
  add(eot_);
  for (const std::string_view name :
       {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"}) {
    add(find_special(name));
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  end_of_generation_.erase(std::unique(end_of_generation_.begin(), end_of_generation_.end()),
                           end_of_generation_.end());
}

std::vector<token_id> tokenizer::encode(std::string_view text, encode_options options) const {
  std::vector<token_id> out;
  if (options.add_bos && bos_) out.push_back(*bos_);
  bpe merger{*tokens_};
  std::vector<std::string_view> words;
  const auto encode_plain = [&](std::string_view part) {
    words.clear();
    splitter_.split(part, words);
    for (const std::string_view word : words) {
      const auto whole = whole_words_first_ ? tokens_->find(word) : std::nullopt;
      if (whole) {
        out.push_back(*whole);
      } else {
        merger.encode(word, out);
      }
    }
  };
  while (options.parse_special) {
    const auto found = special_.find_first(text);
    if (!found) break;
    encode_plain(text.substr(0, found->begin));
    out.push_back(found->token);
    text.remove_prefix(found->begin + found->bytes);
  }
  encode_plain(text);
  return out;
}

void tokenizer::check(token_id token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) {
    throw std::out_of_range{"token " + std::to_string(token) + " is not in the vocabulary; expected 0 to " +
                            std::to_string(size() - 1)};
  }
}

std::string_view tokenizer::decode(token_id token) const {
  check(token);
  return tokens_->bytes(token);
}

std::string tokenizer::decode(std::span<const token_id> tokens) const {
  std::string out;
  for (const token_id token : tokens) {
    if (type(token) != token_type::control) out += decode(token);
  }
  return out;
}

token_type tokenizer::type(token_id token) const {
  check(token);
  return tokens_->type(token);
}

bool tokenizer::is_end_of_generation(token_id token) const noexcept {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

std::string decoder::push(token_id token) {
  const std::string_view bytes = from_->decode(token);
  if (show_control_ || from_->type(token) != token_type::control) held_back_ += bytes;
  std::string out;
  std::string_view rest = held_back_;
  while (!rest.empty()) {
    const utf8_step step = next_character(rest);
    if (step.incomplete) break;
    out += step.valid ? rest.substr(0, step.bytes) : replacement;
    rest.remove_prefix(step.bytes);
  }
  held_back_.erase(0, held_back_.size() - rest.size());
  return out;
}

std::string decoder::finish() {
  const bool any = !held_back_.empty();
  held_back_.clear();
  return any ? std::string{replacement} : std::string{};
}

}  // namespace llm
