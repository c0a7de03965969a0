// SPDX-License-Identifier: MIT
// Reads MessagePack, the format of the notes in AMD's code objects.
//
// Any bytes may be given. Reading is bounded by their number, never recurses and refers to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

namespace detail {

/// Steps through a message, one value at a time.
class message_reader {
 public:
  enum class kind { nothing, boolean, integer, real, text, binary, array, map, extension };

  /// A value; of an array or a map only the beginning, whose elements follow.
  struct item {
    kind type = kind::nothing;
    std::uint64_t number = 0;  ///< of an integer that is not negative; elements of an array; pairs of a map
    bool negative = false;
    std::string_view text;
  };

  explicit message_reader(std::span<const std::byte> message) noexcept : message_{message} {}

  /// The next value; nothing at the end or if the message is malformed.
  [[nodiscard]] std::optional<item> next() noexcept {
    const auto lead = take(1);
    if (!lead) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(*lead);
    if (byte <= 0x7f) return item{kind::integer, byte, false, {}};
    if (byte <= 0x8f) return container(kind::map, byte & 0x0fU);
    if (byte <= 0x9f) return container(kind::array, byte & 0x0fU);
    if (byte <= 0xbf) return text(kind::text, byte & 0x1fU, 0);
    if (byte >= 0xe0) return item{kind::integer, 0, true, {}};
    switch (byte) {
      case 0xc0:
        return item{};
      case 0xc2:
      case 0xc3:
        return item{kind::boolean, byte & 1U, false, {}};
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return sized_text(kind::binary, 1U << (byte - 0xc4U), 0);
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return sized_text(kind::extension, 1U << (byte - 0xc7U), 1);
      case 0xca:
      case 0xcb:
        return take(byte == 0xca ? 4 : 8) ? std::optional{item{kind::real, 0, false, {}}} : std::nullopt;
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf: {
        const auto value = take(1U << (byte - 0xccU));
        return value ? std::optional{item{kind::integer, *value, false, {}}} : std::nullopt;
      }
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3: {
        const std::size_t bytes = std::size_t{1} << (byte - 0xd0U);
        const auto value = take(bytes);
        if (!value) return std::nullopt;
        const bool negative = (*value >> (8 * bytes - 1) & 1U) != 0;
        return item{kind::integer, negative ? 0 : *value, negative, {}};
      }
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return text(kind::extension, 1U << (byte - 0xd4U), 1);
      case 0xd9:
      case 0xda:
      case 0xdb:
        return sized_text(kind::text, 1U << (byte - 0xd9U), 0);
      case 0xdc:
      case 0xdd:
      case 0xde:
      case 0xdf: {
        const auto count = take((byte & 1U) == 0 ? 2 : 4);
        return count ? container(byte < 0xde ? kind::array : kind::map, *count) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  /// Skips the elements of a value that `next` returned.
  [[nodiscard]] bool skip_rest(const item& begun) noexcept {
    std::uint64_t pending = elements(begun);
    while (pending > 0) {
      // Every element takes at least a byte: a count that the message cannot hold ends here, not in a long
      // loop.
      if (pending > message_.size() - at_) return false;
      const auto element = next();
      if (!element) return false;
      pending += elements(*element);
      --pending;
    }
    return true;
  }

 private:
  [[nodiscard]] static std::uint64_t elements(const item& begun) noexcept {
    if (begun.type == kind::array) return begun.number;
    return begun.type == kind::map ? 2 * begun.number : 0;
  }

  /// A big-endian number of up to 8 bytes.
  [[nodiscard]] std::optional<std::uint64_t> take(std::size_t bytes) noexcept {
    const auto bytes_read = elf::part(message_, at_, bytes);
    if (!bytes_read) return std::nullopt;
    at_ += bytes;
    std::uint64_t value = 0;
    for (const std::byte byte : *bytes_read) value = value << 8U | std::to_integer<std::uint64_t>(byte);
    return value;
  }
  [[nodiscard]] std::optional<item> container(kind type, std::uint64_t count) const noexcept {
    if (count > message_.size() - at_) return std::nullopt;
    return item{type, count, false, {}};
  }
  [[nodiscard]] std::optional<item> text(kind type, std::uint64_t bytes, std::uint64_t type_bytes) noexcept {
    const auto place = elf::part(message_, at_, type_bytes + bytes);
    if (!place) return std::nullopt;
    at_ += place->size();
    return item{type, 0, false, {reinterpret_cast<const char*>(place->data()), place->size()}};
  }
  [[nodiscard]] std::optional<item> sized_text(kind type, std::size_t size_bytes,
                                               std::uint64_t type_bytes) noexcept {
    const auto bytes = take(size_bytes);
    return bytes ? text(type, *bytes, type_bytes) : std::nullopt;
  }

  std::span<const std::byte> message_;
  std::size_t at_ = 0;
};

/// Reads a map with text keys: calls `field(key, value)`, which consumes the value and says whether it could.
template <class Field>
[[nodiscard]] bool read_map(message_reader& message, const message_reader::item& begun, Field&& field) {
  if (begun.type != message_reader::kind::map) return false;
  for (std::uint64_t i = 0; i < begun.number; ++i) {
    const auto key = message.next();
    if (!key || key->type != message_reader::kind::text) return false;
    const auto value = message.next();
    if (!value || !field(key->text, *value)) return false;
  }
  return true;
}

[[nodiscard]] inline bool to_uint32(const message_reader::item& value, std::uint32_t& result) noexcept {
  if (value.type != message_reader::kind::integer || value.negative ||
      value.number > std::numeric_limits<std::uint32_t>::max())
    return false;
  result = static_cast<std::uint32_t>(value.number);
  return true;
}

}  // namespace detail

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
