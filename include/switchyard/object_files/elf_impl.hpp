// SPDX-License-Identifier: MIT
// The bodies of elf.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {
namespace elf {

SWITCHYARD_COLD std::optional<std::span<const std::byte>> part(std::span<const std::byte> image,
                                                               std::uint64_t offset,
                                                               std::uint64_t bytes) noexcept {
  if (offset > image.size() || bytes > image.size() - offset) return std::nullopt;
  return image.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

SWITCHYARD_COLD bool is_elf(std::span<const std::byte> image) noexcept {
  return image.size() >= 4 && std::memcmp(image.data(),
                                          "\x7f"
                                          "ELF",
                                          4) == 0;
}

SWITCHYARD_COLD std::optional<header> read_header(std::span<const std::byte> image) noexcept {
  constexpr std::size_t header_bytes = 64;
  if (!is_elf(image) || image.size() < header_bytes) return std::nullopt;
  if (std::to_integer<int>(image[4]) != 2 || std::to_integer<int>(image[5]) != 1) return std::nullopt;
  header result;
  result.version = std::to_integer<std::uint8_t>(image[6]);
  result.system = std::to_integer<std::uint8_t>(image[7]);
  result.type = *integer<std::uint16_t>(image, 16);
  result.abi_version = std::to_integer<std::uint8_t>(image[8]);
  result.machine = *integer<std::uint16_t>(image, 18);
  result.program_offset = *integer<std::uint64_t>(image, 32);
  result.section_offset = *integer<std::uint64_t>(image, 40);
  result.flags = *integer<std::uint32_t>(image, 48);
  result.program_bytes = *integer<std::uint16_t>(image, 54);
  result.programs = *integer<std::uint16_t>(image, 56);
  result.section_bytes = *integer<std::uint16_t>(image, 58);
  result.sections = *integer<std::uint16_t>(image, 60);
  if (result.sections == 0 && result.section_offset != 0) {
    // A count that does not fit is the size of section 0.
    const auto count = integer<std::uint64_t>(image, result.section_offset + 32);
    if (!count) return std::nullopt;
    result.sections = *count;
  }
  return result;
}

SWITCHYARD_COLD bool is_whole(std::span<const std::byte> image) noexcept {
  constexpr std::uint32_t section_without_bytes = 8;
  constexpr std::uint16_t program_header_bytes = 56;
  constexpr std::uint16_t section_header_bytes = 64;
  const auto file = read_header(image);
  if (!file) return false;
  if (file->programs != 0) {
    if (file->program_bytes < program_header_bytes) return false;
    if (!part(image, file->program_offset, std::uint64_t{file->program_bytes} * file->programs)) return false;
    for (std::uint64_t i = 0; i < file->programs; ++i) {
      const std::uint64_t at = file->program_offset + i * file->program_bytes;
      if (!part(image, *integer<std::uint64_t>(image, at + 8), *integer<std::uint64_t>(image, at + 32)))
        return false;
    }
  }
  if (file->sections != 0) {
    if (file->section_bytes < section_header_bytes) return false;
    if (file->sections > image.size() / file->section_bytes) return false;
    if (!part(image, file->section_offset, file->section_bytes * file->sections)) return false;
    for (std::uint64_t i = 0; i < file->sections; ++i) {
      const std::uint64_t at = file->section_offset + i * file->section_bytes;
      const auto type = *integer<std::uint32_t>(image, at + 4);
      if (type == 0 || type == section_without_bytes) continue;
      if (!part(image, *integer<std::uint64_t>(image, at + 24), *integer<std::uint64_t>(image, at + 32)))
        return false;
    }
  }
  return true;
}

}  // namespace elf
}  // namespace v0
}  // namespace switchyard
