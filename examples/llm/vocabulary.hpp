// SPDX-License-Identifier: MIT
// The tokens of a file and the pairs of them that merge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "gguf.hpp"

namespace llm {

/// A token's place in the vocabulary.
using token_id = std::int32_t;

/// What a token is, by GGUF's numbers.
enum class token_type : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,       ///< structure, such as the end of a message
  user_defined = 4,  ///< recognised as a whole, such as <think>
  unused = 5,
  byte = 6,
};

/// What two adjacent tokens merge into. Lower ranks merge first.
struct merge {
  std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();  ///< the largest: they do not merge
  token_id result = -1;
  [[nodiscard]] explicit operator bool() const noexcept {
    return rank != std::numeric_limits<std::uint32_t>::max();
  }
};

/// Tokens and merges of `tokenizer.ggml.tokens`, `token_type` and `merges`; copies of what the file has.
/// Const functions may be called from any number of threads.
class vocabulary {
 public:
  /// Throws gguf_error: an array is missing or of another length than it must be, a merge names no token, a
  /// type is unknown.
  explicit vocabulary(const gguf_file& file);

  [[nodiscard]] std::size_t size() const noexcept { return types_.size(); }
  /// The bytes that a token stands for; the name of a control or user-defined one. `token` is in the
  /// vocabulary.
  [[nodiscard]] std::string_view bytes(token_id token) const noexcept {
    const auto i = static_cast<std::size_t>(token);
    return {bytes_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }
  [[nodiscard]] token_type type(token_id token) const noexcept {
    return types_[static_cast<std::size_t>(token)];
  }

  /// The token that stands for exactly these bytes and is neither control nor user-defined.
  [[nodiscard]] std::optional<token_id> find(std::string_view bytes) const noexcept;
  /// The token of one byte, or -1: some vocabularies lack those that UTF-8 never has.
  [[nodiscard]] token_id of_byte(char byte) const noexcept {
    return of_byte_[static_cast<std::uint8_t>(byte)];
  }
  /// False where the two do not merge.
  [[nodiscard]] merge find_merge(token_id left, token_id right) const noexcept;

 private:
  struct token_slot {
    std::uint32_t hash = 0;  ///< half of it: most other tokens differ there, and their bytes need not be read
    token_id token = -1;
  };
  struct merge_slot {
    std::uint64_t pair = no_pair;
    merge found;
  };
  static constexpr std::uint64_t no_pair = std::numeric_limits<std::uint64_t>::max();
  [[nodiscard]] static std::uint64_t pair_of(token_id left, token_id right) noexcept {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t merge_slot_of(std::uint64_t pair) const noexcept;
  [[nodiscard]] std::size_t token_slot_of(std::string_view bytes, std::size_t hash) const noexcept;
  void read_tokens(const gguf_file& file);
  void read_merges(const gguf_file& file);

  std::vector<char> bytes_;  ///< of all tokens
  std::vector<std::size_t> begins_;
  std::vector<token_type> types_;
  std::array<token_id, 256> of_byte_{};
  // Hash tables with open addressing: loading a vocabulary is most of a short program's start.
  std::vector<token_slot> token_slots_;
  std::vector<merge_slot> merge_slots_;
};

}  // namespace llm
