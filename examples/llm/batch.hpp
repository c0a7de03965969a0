// SPDX-License-Identifier: MIT
// The tokens of one step of a model: consecutive tokens of several sequences, one sequence after the other.
#pragma once

#include <cstdint>
#include <vector>

namespace llm {

struct batch {
  std::vector<std::int32_t> ids;        ///< [tokens]
  std::vector<std::int64_t> positions;  ///< [tokens]
  std::vector<std::int64_t> slots;      ///< [tokens] where keys and values go: page * page_size + place
  std::vector<std::int32_t> starts{0};  ///< [sequences + 1] first token of each, and their end
  std::vector<std::int32_t> used;       ///< [sequences] keys of each after this step
  std::vector<std::int32_t> pages;      ///< [sequences, pages_stride]
  std::int64_t pages_stride = 0;
  std::vector<std::int32_t> wanted;  ///< tokens, by their place in the batch, whose logits are wanted

  [[nodiscard]] std::int64_t tokens() const noexcept { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t sequences() const noexcept { return static_cast<std::int64_t>(used.size()); }
};

}  // namespace llm
