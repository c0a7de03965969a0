// SPDX-License-Identifier: MIT
// Reads as much of a 64-bit little-endian ELF file as blobs need: whether it is whole, its architecture
// flags, and its notes. Every access is bounds-checked: any bytes may be given.
//
// Drivers take an image by pointer alone and read past its end where it is cut short, so a blob is checked
// here before one sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

namespace elf {

inline constexpr std::uint16_t machine_cuda = 190;
inline constexpr std::uint16_t machine_amdgpu = 224;

/// The file header's fields that are looked at.
struct header {
  std::uint8_t version = 0;
  std::uint8_t system = 0;  ///< EI_OSABI
  std::uint16_t type = 0;
  std::uint16_t machine = 0;
  std::uint8_t abi_version = 0;
  std::uint32_t flags = 0;
  std::uint64_t program_offset = 0;
  std::uint64_t section_offset = 0;
  std::uint16_t program_bytes = 0;
  std::uint16_t programs = 0;
  std::uint16_t section_bytes = 0;
  std::uint64_t sections = 0;
};

/// Part of an image, or nothing when it does not lie in it.
[[nodiscard]] std::optional<std::span<const std::byte>> part(std::span<const std::byte> image,
                                                             std::uint64_t offset,
                                                             std::uint64_t bytes) noexcept;

/// A little-endian integer, which need not be aligned; nothing when it does not lie in the image.
template <class Integer>
[[nodiscard]] std::optional<Integer> integer(std::span<const std::byte> image,
                                             std::uint64_t offset) noexcept {
  const auto bytes = part(image, offset, sizeof(Integer));
  if (!bytes) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = sizeof(Integer); i-- > 0;) {
    value = value << 8U | std::to_integer<std::uint64_t>((*bytes)[i]);
  }
  return static_cast<Integer>(value);
}

/// Whether the image begins as an ELF file does.
[[nodiscard]] bool is_elf(std::span<const std::byte> image) noexcept;

/// The header of a 64-bit little-endian ELF file; nothing for other bytes.
[[nodiscard]] std::optional<header> read_header(std::span<const std::byte> image) noexcept;

/// Whether every table, section and segment that the headers name lies in the image.
[[nodiscard]] bool is_whole(std::span<const std::byte> image) noexcept;

/// Calls `visit(name, type, description)` for every note; stops when it returns true, and says whether it
/// did.
template <class Visitor>
bool find_note(std::span<const std::byte> image, Visitor&& visit) {
  constexpr std::uint32_t program_note = 4;
  constexpr std::uint32_t section_note = 7;
  const auto walk = [&visit](std::span<const std::byte> notes, std::uint64_t alignment) {
    if (alignment != 8) alignment = 4;
    const auto aligned = [alignment](std::uint64_t value) {
      return (value + alignment - 1) / alignment * alignment;
    };
    std::uint64_t at = 0;
    while (const auto head = part(notes, at, 12)) {
      const auto name_bytes = *integer<std::uint32_t>(*head, 0);
      const auto description_bytes = *integer<std::uint32_t>(*head, 4);
      const auto type = *integer<std::uint32_t>(*head, 8);
      const auto name = part(notes, at + 12, name_bytes);
      const std::uint64_t description_at = at + 12 + aligned(name_bytes);
      const auto description = part(notes, description_at, description_bytes);
      if (!name || !description) return false;
      std::string_view text{reinterpret_cast<const char*>(name->data()), name->size()};
      if (const auto end = text.find('\0'); end != std::string_view::npos) text = text.substr(0, end);
      if (visit(text, type, *description)) return true;
      at = description_at + aligned(description_bytes);
    }
    return false;
  };

  const auto file = read_header(image);
  if (!file || !is_whole(image)) return false;
  for (std::uint64_t i = 0; i < file->programs; ++i) {
    const std::uint64_t at = file->program_offset + i * file->program_bytes;
    if (*integer<std::uint32_t>(image, at) != program_note) continue;
    const auto notes =
        part(image, *integer<std::uint64_t>(image, at + 8), *integer<std::uint64_t>(image, at + 32));
    if (notes && walk(*notes, *integer<std::uint64_t>(image, at + 48))) return true;
  }
  for (std::uint64_t i = 0; i < file->sections; ++i) {
    const std::uint64_t at = file->section_offset + i * file->section_bytes;
    if (*integer<std::uint32_t>(image, at + 4) != section_note) continue;
    const auto notes =
        part(image, *integer<std::uint64_t>(image, at + 24), *integer<std::uint64_t>(image, at + 32));
    if (notes && walk(*notes, *integer<std::uint64_t>(image, at + 48))) return true;
  }
  return false;
}

}  // namespace elf

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/object_files/elf_impl.hpp>
#endif
