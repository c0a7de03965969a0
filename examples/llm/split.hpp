// SPDX-License-Identifier: MIT
// Cuts text into the pieces within which a byte-level BPE tokenizer merges.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace llm {

/// The rules of a family of models.
enum class split_rule { gpt2, smollm, llama3, qwen2 };

/// The rule that the key `tokenizer.ggml.pre` names; empty for a name that is not known.
[[nodiscard]] std::optional<split_rule> find_split_rule(std::string_view name) noexcept;

/// The names that find_split_rule() knows, separated by commas: for messages.
[[nodiscard]] std::string_view split_rule_names() noexcept;

/// A compiled rule. Any number of threads may split at the same time.
class splitter {
 public:
  /// Throws std::runtime_error where PCRE2 cannot compile the rule, for example without Unicode support.
  explicit splitter(split_rule rule);

  /// Appends the pieces of a text, which together are the text, in order. Bytes that are not UTF-8 form
  /// pieces of their own. Takes time linear in the text's length. Throws std::bad_alloc.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct free_code {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  using code_ptr = std::unique_ptr<pcre2_real_code_8, free_code>;
  [[nodiscard]] static code_ptr compile(std::string_view pattern);

  code_ptr numbers_;  ///< cuts digits off first; null where the rule does not
  code_ptr words_;
};

}  // namespace llm
