// SPDX-License-Identifier: MIT
#include "split.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <pcre2.h>
#include <stdexcept>
#include <string>

#include "utf8.hpp"

namespace llm {
namespace {

struct named_rule {
  std::string_view name;
  split_rule rule;
};

constexpr std::array named_rules{
    named_rule{"gpt-2", split_rule::gpt2},       named_rule{"smollm", split_rule::smollm},
    named_rule{"llama-bpe", split_rule::llama3}, named_rule{"llama3", split_rule::llama3},
    named_rule{"llama-v3", split_rule::llama3},  named_rule{"qwen2", split_rule::qwen2},
};

// The patterns are data of the models' tokenizer.json files. They write \s for Unicode's White_Space
// property, to which PCRE2's \s adds U+180E; WS spells the property out.
// NOLINTBEGIN(cppcoreguidelines-macro-usage): parts of string literals
#define WS R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define SPACES_AT_END "[" WS "]+(?![^" WS "])|[" WS "]+"
#define WORDS_OF_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" WS R"(\p{L}\p{N}]+|)" SPACES_AT_END
#define WORDS_OF_LLAMA3(numbers)                                                                           \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" numbers "| ?[^" WS R"(\p{L}\p{N}]+[\r\n]*|)" \
  "[" WS R"(]*[\r\n]+|)" SPACES_AT_END
// NOLINTEND(cppcoreguidelines-macro-usage)

[[nodiscard]] std::string_view words_of(split_rule rule) {
  switch (rule) {
    case split_rule::llama3:
      return WORDS_OF_LLAMA3(R"(\p{N}{1,3})");
    case split_rule::qwen2:
      return WORDS_OF_LLAMA3(R"(\p{N})");
    default:
      return WORDS_OF_GPT2;
  }
}

#undef WORDS_OF_LLAMA3
#undef WORDS_OF_GPT2
#undef SPACES_AT_END
#undef WS

[[nodiscard]] std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// The state of a match besides the pattern, for one thread.
class match_state {
 public:
  match_state() : data_{pcre2_match_data_create(1, nullptr)}, context_{pcre2_match_context_create(nullptr)} {
    if (data_ == nullptr || context_ == nullptr) {
      pcre2_match_data_free(data_);
      pcre2_match_context_free(context_);
      throw std::bad_alloc{};
    }
    // The patterns backtrack over a run of spaces at most once; the default limit would end a match in a long
    // one.
    pcre2_set_match_limit(context_, std::numeric_limits<std::uint32_t>::max());
    pcre2_set_depth_limit(context_, std::numeric_limits<std::uint32_t>::max());
    pcre2_set_heap_limit(context_, std::numeric_limits<std::uint32_t>::max());
  }
  match_state(const match_state&) = delete;
  match_state& operator=(const match_state&) = delete;
  ~match_state() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
  }

  /// Calls use(begin, end) for each match and each part between two, in order.
  template <class Use>
  void for_each(const pcre2_code* code, std::string_view text, const Use& use) {
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t at = 0;
    while (at < text.size()) {
      constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK;
      int found = pcre2_match(code, subject, text.size(), at, options, data_, context_);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(code, subject, text.size(), at, options | PCRE2_NO_JIT, data_, context_);
      }
      if (found == PCRE2_ERROR_NOMEMORY || found == PCRE2_ERROR_HEAPLIMIT) throw std::bad_alloc{};
      if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        throw std::runtime_error{"the text could not be split into words: " + message_of(found)};
      }
      const PCRE2_SIZE* const match = pcre2_get_ovector_pointer(data_);
      const std::size_t begin = found < 0 ? text.size() : match[0];
      const std::size_t end = found < 0 ? text.size() : match[1];
      if (begin > at) use(at, begin);
      if (end > begin) use(begin, end);
      at = end > at ? end : text.size();
    }
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
};

}  // namespace

std::optional<split_rule> find_split_rule(std::string_view name) noexcept {
  for (const named_rule& rule : named_rules) {
    if (rule.name == name) return rule.rule;
  }
  return std::nullopt;
}

std::string_view split_rule_names() noexcept {
  return "gpt-2, smollm, llama-bpe, llama3, llama-v3, qwen2";
}

void splitter::free_code::operator()(pcre2_real_code_8* code) const noexcept {
  pcre2_code_free(code);
}

splitter::code_ptr splitter::compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_ptr out{pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr)};
  if (out == nullptr) {
    throw std::runtime_error{"PCRE2 cannot compile a tokenizer's pattern (at character " +
                             std::to_string(offset) + "): " + message_of(error) +
                             ". A PCRE2 with Unicode support is required"};
  }
  // Without JIT, which PCRE2 lacks on some processors, matching is slower but gives the same result.
  static_cast<void>(pcre2_jit_compile(out.get(), PCRE2_JIT_COMPLETE));
  return out;
}

splitter::splitter(split_rule rule)
    : numbers_{rule == split_rule::smollm ? compile(R"(\p{N}|\P{N}+)") : nullptr},
      words_{compile(words_of(rule))} {}

void splitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  match_state state;
  match_state inner;
  const auto split_valid = [&](std::string_view part) {
    const auto split_words = [&](std::string_view from, match_state& with) {
      with.for_each(words_.get(), from, [&](std::size_t begin, std::size_t end) {
        pieces.push_back(from.substr(begin, end - begin));
      });
    };
    if (numbers_ == nullptr) return split_words(part, state);
    // A pattern that looks ahead must not see beyond the part.
    state.for_each(numbers_.get(), part, [&](std::size_t begin, std::size_t end) {
      split_words(part.substr(begin, end - begin), inner);
    });
  };

  std::size_t begin = 0;  // of the run of valid or of invalid bytes that `at` is in
  bool valid = true;
  const auto end_run = [&](std::size_t end) {
    const std::string_view run = text.substr(begin, end - begin);
    begin = end;
    if (run.empty()) return;
    if (valid) {
      split_valid(run);
    } else {
      pieces.push_back(run);
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = next_character(text.substr(at));
    if (step.valid != valid) {
      end_run(at);
      valid = step.valid;
    }
    at += step.bytes;
  }
  end_run(text.size());
}

}  // namespace llm
