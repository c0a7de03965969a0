// SPDX-License-Identifier: MIT
#include "vocabulary.hpp"

#include <bit>
#include <functional>
#include <string>

#include "byte_level.hpp"
#include "quote.hpp"

namespace llm {
namespace {

/// Slots of a hash table for so many entries: a power of two, at most three quarters full.
[[nodiscard]] std::size_t slots_for(std::size_t entries) {
  return std::bit_ceil(entries + entries / 3 + 1);
}

[[nodiscard]] std::size_t hash_of(std::string_view bytes) {
  return std::hash<std::string_view>{}(bytes);
}

[[nodiscard]] std::uint32_t upper_half(std::size_t hash) {
  return static_cast<std::uint32_t>(hash >> 32U);
}

[[nodiscard]] bool is_special(token_type type) {
  return type == token_type::control || type == token_type::user_defined;
}

}  // namespace

vocabulary::vocabulary(const gguf_file& file) {
  read_tokens(file);
  read_merges(file);
}

void vocabulary::read_tokens(const gguf_file& file) {
  const std::vector<std::string_view> names = file.strings("tokenizer.ggml.tokens");
  const gguf_integers types = file.integers("tokenizer.ggml.token_type");
  if (names.empty() || names.size() > static_cast<std::size_t>(std::numeric_limits<token_id>::max())) {
    throw file.error("tokenizer.ggml.tokens has " + std::to_string(names.size()) + " tokens; expected 1 to " +
                     std::to_string(std::numeric_limits<token_id>::max()));
  }
  if (types.size() != names.size()) {
    throw file.error("tokenizer.ggml.token_type has " + std::to_string(types.size()) +
                     " elements; expected one for each of the " + std::to_string(names.size()) +
                     " tokens. Convert the model again");
  }
  types_.reserve(names.size());
  begins_.reserve(names.size() + 1);
  begins_.push_back(0);
  of_byte_.fill(-1);
  token_slots_.resize(slots_for(names.size()));
  std::string bytes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (types[i] < 1 || types[i] > 6) {
      throw file.error("token " + std::to_string(i) + " (" + quote(names[i]) + ") has the type " +
                       std::to_string(types[i]) + "; expected 1 to 6. Convert the model again");
    }
    types_.push_back(token_type{static_cast<std::int32_t>(types[i])});
    bytes.clear();
    bool merges = !is_special(types_.back());
    // Characters outside the alphabet: the token stands for its name, and no merge produces it.
    if (merges && !append_bytes(names[i], bytes)) merges = false;
    if (!merges) bytes = names[i];
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    begins_.push_back(bytes_.size());
    if (!merges || bytes.empty()) continue;
    const std::size_t hash = hash_of(bytes);
    token_slot& slot = token_slots_[token_slot_of(bytes, hash)];
    if (slot.token >= 0) continue;  // of several with one name, the first is used
    slot = {upper_half(hash), static_cast<token_id>(i)};
    if (bytes.size() == 1) of_byte_[static_cast<std::uint8_t>(bytes[0])] = static_cast<token_id>(i);
  }
}

void vocabulary::read_merges(const gguf_file& file) {
  const std::vector<std::string_view> merges = file.strings("tokenizer.ggml.merges");
  if (merges.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw file.error("tokenizer.ggml.merges has " + std::to_string(merges.size()) +
                     " elements, which are too many");
  }
  merge_slots_.resize(slots_for(merges.size()));
  std::string bytes;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto fail = [&](const std::string& problem) {
      return file.error("merge " + std::to_string(i) + " (" + quote(merges[i]) + ") " + problem +
                        ". Convert the model again");
    };
    const std::size_t space = merges[i].find(' ');
    if (space == std::string_view::npos || merges[i].find(' ', space + 1) != std::string_view::npos) {
      throw fail("is not two tokens with a space between them");
    }
    const auto find_token = [&](std::string_view part) {
      const auto found = find(part);
      if (!found) throw fail("names " + quote(part) + " (as bytes), which is not in the vocabulary");
      return *found;
    };
    bytes.clear();
    const bool left_known = append_bytes(merges[i].substr(0, space), bytes);
    const std::size_t middle = bytes.size();
    if (!left_known || !append_bytes(merges[i].substr(space + 1), bytes)) {
      throw fail("has characters that stand for no byte");
    }
    const token_id left = find_token(std::string_view{bytes}.substr(0, middle));
    const token_id right = find_token(std::string_view{bytes}.substr(middle));
    merge_slot& slot = merge_slots_[merge_slot_of(pair_of(left, right))];
    if (slot.pair != no_pair) continue;  // the first rank counts
    slot = {pair_of(left, right), {static_cast<std::uint32_t>(i), find_token(bytes)}};
  }
}

std::size_t vocabulary::token_slot_of(std::string_view bytes, std::size_t hash) const noexcept {
  const std::size_t mask = token_slots_.size() - 1;
  const std::uint32_t half = upper_half(hash);
  std::size_t at = hash & mask;
  for (; token_slots_[at].token >= 0; at = (at + 1) & mask) {
    if (token_slots_[at].hash == half && this->bytes(token_slots_[at].token) == bytes) break;
  }
  return at;
}

std::size_t vocabulary::merge_slot_of(std::uint64_t pair) const noexcept {
  const std::size_t mask = merge_slots_.size() - 1;
  // Fibonacci hashing; the upper half of the product depends on all bits of the pair.
  std::size_t slot = static_cast<std::size_t>((pair * 0x9e3779b97f4a7c15U) >> 32U) & mask;
  while (merge_slots_[slot].pair != no_pair && merge_slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

std::optional<token_id> vocabulary::find(std::string_view bytes) const noexcept {
  const token_id found = token_slots_[token_slot_of(bytes, hash_of(bytes))].token;
  return found < 0 ? std::nullopt : std::optional{found};
}

merge vocabulary::find_merge(token_id left, token_id right) const noexcept {
  return merge_slots_[merge_slot_of(pair_of(left, right))].found;
}

}  // namespace llm
