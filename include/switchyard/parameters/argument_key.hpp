// SPDX-License-Identifier: MIT
// The bytes of a call's arguments that a cached value depends on: the key of the cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// The bytes of the arguments that something depends on: masks over parts of 32 bytes, as wide as the widest
/// vector registers that are used. Part 0 is the last 32 bytes, from `last`; the others follow each other
/// from `first`. Where part 0 overlaps the part before it, only one of the two masks covers a byte.
struct argument_key {
  using mask = std::array<std::uint64_t, 4>;

  std::vector<mask> masks;  ///< one a part; empty: what depends on the arguments is not kept
  std::size_t others = 0;   ///< how many parts follow part 0
  std::size_t first = 0;    ///< offset in the arguments
  std::size_t last = 0;     ///< offset in the arguments
  /// The hash reads four parts from this one on: those with most pointers. 0: it reads all parts.
  std::size_t hashed = 0;

  static constexpr std::size_t max_hashed = 4;

  [[nodiscard]] bool is_empty() const noexcept { return masks.empty(); }
};

namespace detail {

/// The key of arguments, by which of the operator's fields are read. Empty where none is, or where the
/// arguments have fewer bytes than one part.
[[nodiscard]] inline argument_key make_argument_key(const operator_description& op,
                                                    const std::vector<bool>& is_read) {
  constexpr std::size_t part = argument_key::mask{}.size();
  const std::size_t words = op.argument_bytes / 8;
  std::vector<std::uint64_t> masks(words);
  std::vector<std::size_t> pointers(words);
  std::size_t begin = words;
  std::size_t end = 0;
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    if (!is_read[i]) continue;
    const field_description& field = op.fields[i];
    const unsigned bits = size_of(field.kind) * 8;
    const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const std::size_t word = field.offset / 8;
    if (word >= words) return {};  // behind the last whole word
    pointers[word] = field.kind == value_kind::pointer ? 1 : 0;
    masks[word] |= all << field.offset % 8 * 8;
    begin = word < begin ? word : begin;
    end = word >= end ? word + 1 : end;
  }
  if (begin >= end || words < part) return {};
  argument_key out;
  const std::size_t parts = (end - begin + part - 1) / part;
  const std::size_t last = end < part ? 0 : end - part;
  out.masks.resize(parts);
  out.others = parts - 1;
  out.first = begin * 8;
  out.last = last * 8;
  std::size_t word = begin;
  for (std::size_t i = 1; i < parts; ++i) {
    for (std::uint64_t& mask : out.masks[i]) mask = masks[word++];
  }
  for (; word < end; ++word) out.masks[0][word - last] = masks[word];
  if (parts > argument_key::max_hashed) {
    std::size_t most = 0;
    for (std::size_t i = 1; i + argument_key::max_hashed <= parts; ++i) {
      const std::size_t from = begin + (i - 1) * part;
      std::size_t count = 0;
      for (std::size_t at = from; at < from + argument_key::max_hashed * part; ++at) count += pointers[at];
      if (out.hashed == 0 || count > most) {
        out.hashed = i;
        most = count;
      }
    }
  }
  return out;
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
