// SPDX-License-Identifier: MIT
// Text to tokens and back, by the byte-level BPE tokenizer of a GGUF file.
//
// Gives the tokens that the model's own tokenizer.json gives, with these differences: text is not normalised,
// so for Qwen models, which are trained on NFC, bring text into that form first; spaces beside a special
// token are kept; bytes that are not UTF-8 are encoded one by one, where a Python string cannot have them. A
// byte that the vocabulary has no token for is left out, as there. Const functions may be called from any
// number of threads.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.hpp"
#include "special_tokens.hpp"
#include "split.hpp"
#include "vocabulary.hpp"

namespace llm {

struct encode_options {
  bool parse_special = false;  ///< names of control and user-defined tokens in the text become these tokens
  bool add_bos =
      false;  ///< bos() comes first, where there is one; tokenizer::add_bos() is what the model expects
};

/// The tokenizer of a file whose tokenizer model is "gpt2". The file may be closed afterwards.
class tokenizer {
 public:
  /// Throws gguf_error: another kind of tokenizer, a missing or contradictory array, an id out of range.
  explicit tokenizer(const gguf_file& file);

  /// Takes any bytes. Throws std::bad_alloc only.
  [[nodiscard]] std::vector<token_id> encode(std::string_view text, encode_options options = {}) const;
  /// The bytes of a token, which may be part of a character, or the name of a control or user-defined token.
  /// Valid as long as the tokenizer. Throws std::out_of_range for an invalid token.
  [[nodiscard]] std::string_view decode(token_id token) const;
  /// The bytes of all tokens except control tokens.
  [[nodiscard]] std::string decode(std::span<const token_id> tokens) const;

  /// Number of tokens.
  [[nodiscard]] std::size_t size() const noexcept { return tokens_->size(); }
  /// Throws std::out_of_range for an invalid token.
  [[nodiscard]] token_type type(token_id token) const;
  /// The control or user-defined token of this name, such as "<|im_end|>".
  [[nodiscard]] std::optional<token_id> find_special(std::string_view name) const {
    return special_.find(name);
  }

  [[nodiscard]] std::optional<token_id> bos() const noexcept { return bos_; }  ///< beginning of a text
  [[nodiscard]] std::optional<token_id> eos() const noexcept {
    return eos_;
  }  ///< end of a text, or of an answer
  [[nodiscard]] std::optional<token_id> eot() const noexcept { return eot_; }  ///< end of a message
  /// Whether the model expects bos() before a text.
  [[nodiscard]] bool add_bos() const noexcept { return add_bos_; }
  /// Ascending: eos(), eot() and the tokens with which the known families end an answer.
  [[nodiscard]] std::span<const token_id> end_of_generation() const noexcept { return end_of_generation_; }
  [[nodiscard]] bool is_end_of_generation(token_id token) const noexcept;

 private:
  void read_ids(const gguf_file& file);
  void check(token_id token) const;

  split_rule rule_;
  bool whole_words_first_;                    ///< a word that is a token is not merged from its bytes
  std::unique_ptr<const vocabulary> tokens_;  ///< stays in place when the tokenizer moves
  special_tokens special_;
  splitter splitter_;
  bool add_bos_ = false;
  std::optional<token_id> bos_;
  std::optional<token_id> eos_;
  std::optional<token_id> eot_;
  std::vector<token_id> end_of_generation_;
};

/// Turns tokens that arrive one by one into valid UTF-8. Bytes of an incomplete character are held back;
/// invalid bytes become U+FFFD.
class decoder {
 public:
  /// `from` must outlive the object. `show_control`: control tokens give their names, otherwise nothing.
  explicit decoder(const tokenizer& from, bool show_control = false)
      : from_{&from}, show_control_{show_control} {}

  /// The text that is complete after this token. Throws std::out_of_range for an invalid token.
  [[nodiscard]] std::string push(token_id token);
  /// U+FFFD if bytes are still held back, otherwise nothing. The next push() begins another text.
  [[nodiscard]] std::string finish();

 private:
  const tokenizer* from_;
  bool show_control_;
  std::string held_back_;
};

}  // namespace llm
