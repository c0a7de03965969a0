// SPDX-License-Identifier: MIT
// Walks the sections and symbols of a 64-bit little-endian ELF file. Every access is bounds-checked: any
// bytes may be given, and what does not lie in them is passed over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {

namespace elf {

inline constexpr std::uint32_t section_symbols = 2;
inline constexpr std::uint32_t section_relocations = 4;  ///< with addends
inline constexpr std::uint32_t section_dynamic_symbols = 11;

/// One section. It refers to the image.
struct section {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;  ///< also of sections that have no bytes in the file
  std::uint32_t link = 0;
  std::span<const std::byte> bytes;
};

/// One symbol. It refers to the image.
struct symbol {
  std::string_view name;
  std::uint8_t binding = 0;
  std::uint8_t type = 0;
  std::uint8_t other = 0;
  std::uint16_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

/// The null-terminated text at an offset; empty where there is none.
[[nodiscard]] std::string_view text_at(std::span<const std::byte> strings, std::uint64_t offset) noexcept;

/// A section by its index; nothing when the image does not hold all of it.
[[nodiscard]] std::optional<section> section_at(std::span<const std::byte> image, const header& file,
                                                std::uint64_t index) noexcept;

/// Calls `visit(section)` for every section; stops when it returns true, and says whether it did.
template <class Visitor>
bool find_section(std::span<const std::byte> image, Visitor&& visit) {
  const auto file = read_header(image);
  const auto names_index = integer<std::uint16_t>(image, 62);
  if (!file || !names_index) return false;
  const auto names = section_at(image, *file, *names_index);
  const std::uint64_t most =
      std::min<std::uint64_t>(file->sections, image.size() / 64);  // a count is only a claim
  for (std::uint64_t i = 0; i < most; ++i) {
    auto found = section_at(image, *file, i);
    if (!found) continue;
    const auto name = integer<std::uint32_t>(image, file->section_offset + i * file->section_bytes);
    if (names && name) found->name = text_at(names->bytes, *name);
    if (visit(*found)) return true;
  }
  return false;
}

/// Calls `visit(symbol)` for every symbol of the tables of a type; stops when it returns true, and says
/// whether it did.
template <class Visitor>
bool find_symbol(std::span<const std::byte> image, std::uint32_t table_type, Visitor&& visit) {
  const auto file = read_header(image);
  if (!file) return false;
  return find_section(image, [&](const section& table) {
    if (table.type != table_type) return false;
    const auto strings = section_at(image, *file, table.link);
    if (!strings) return false;
    constexpr std::uint64_t symbol_bytes = 24;
    for (std::uint64_t at = 0; const auto entry = part(table.bytes, at, symbol_bytes); at += symbol_bytes) {
      symbol found;
      found.name = text_at(strings->bytes, *integer<std::uint32_t>(*entry, 0));
      const auto info = *integer<std::uint8_t>(*entry, 4);
      found.binding = static_cast<std::uint8_t>(info >> 4U);
      found.type = static_cast<std::uint8_t>(info & 15U);
      found.other = *integer<std::uint8_t>(*entry, 5);
      found.section = *integer<std::uint16_t>(*entry, 6);
      found.value = *integer<std::uint64_t>(*entry, 8);
      found.size = *integer<std::uint64_t>(*entry, 16);
      if (visit(found)) return true;
    }
    return false;
  });
}

/// The bytes that lie at an address when the file is loaded; nothing when the file does not hold them.
[[nodiscard]] std::optional<std::span<const std::byte>> bytes_at_address(std::span<const std::byte> image,
                                                                         std::uint64_t address,
                                                                         std::uint64_t bytes);

}  // namespace elf

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/object_files/elf_sections_impl.hpp>
#endif
