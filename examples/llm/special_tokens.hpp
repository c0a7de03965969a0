// SPDX-License-Identifier: MIT
// Finds the names of control and user-defined tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vocabulary.hpp"

namespace llm {

/// The control and user-defined tokens of a vocabulary, by name.
class special_tokens {
 public:
  /// `tokens` must outlive the object.
  explicit special_tokens(const vocabulary& tokens);

  struct match {
    std::size_t begin = 0;
    std::size_t bytes = 0;
    token_id token = -1;
  };
  /// The first name in the text; the longest of those that begin there.
  [[nodiscard]] std::optional<match> find_first(std::string_view text) const;
  /// The token of exactly this name.
  [[nodiscard]] std::optional<token_id> find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, token_id> tokens_;
  std::array<std::vector<std::size_t>, 256> lengths_;  ///< of the names, by their first byte, longest first
};

}  // namespace llm
