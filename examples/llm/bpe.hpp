// SPDX-License-Identifier: MIT
// Merges the bytes of a word into tokens, by byte-pair encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "vocabulary.hpp"

namespace llm {

/// Applies merges in the order of their ranks, equal ones from the left. Keeps its working memory from word
/// to word: one object for each thread.
class bpe {
 public:
  /// `tokens` must outlive the object.
  explicit bpe(const vocabulary& tokens) : tokens_{&tokens} {}

  /// Appends the tokens of a word. Bytes without a token are left out, as in the models' own tokenizers.
  /// Takes time proportional to n log n for n bytes.
  void encode(std::string_view word, std::vector<token_id>& out);

 private:
  struct symbol {
    token_id token;
    merge with_next;  ///< of the short form
    std::size_t previous = 0;
    std::size_t next = 0;
  };
  /// A merge of two adjacent symbols as they were when it was found.
  struct candidate {
    std::uint32_t rank;
    std::size_t at;  ///< of the left symbol
    token_id left;
    token_id right;
    token_id result;
  };
  void merge_short();
  void merge_long();
  void push(std::size_t left, std::size_t right);

  const vocabulary* tokens_;
  std::vector<symbol> symbols_;
  std::vector<candidate> queue_;
};

}  // namespace llm
