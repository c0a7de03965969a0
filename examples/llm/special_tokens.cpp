// SPDX-License-Identifier: MIT
#include "special_tokens.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace llm {

special_tokens::special_tokens(const vocabulary& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<token_id>(i);
    const token_type type = tokens.type(token);
    const std::string_view name = tokens.bytes(token);
    if ((type != token_type::control && type != token_type::user_defined) || name.empty()) continue;
    tokens_.try_emplace(name, token);
    lengths_[static_cast<std::uint8_t>(name[0])].push_back(name.size());
  }
  for (std::vector<std::size_t>& lengths : lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>{});
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

std::optional<special_tokens::match> special_tokens::find_first(std::string_view text) const {
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (const std::size_t bytes : lengths_[static_cast<std::uint8_t>(text[begin])]) {
      if (bytes > text.size() - begin) continue;
      const auto found = tokens_.find(text.substr(begin, bytes));
      if (found != tokens_.end()) return match{begin, bytes, found->second};
    }
  }
  return std::nullopt;
}

std::optional<token_id> special_tokens::find(std::string_view name) const {
  const auto found = tokens_.find(name);
  return found == tokens_.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace llm
