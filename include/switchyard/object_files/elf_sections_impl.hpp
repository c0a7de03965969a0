// SPDX-License-Identifier: MIT
// The bodies of elf_sections.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/object_files/elf.hpp>
#include <switchyard/object_files/elf_sections.hpp>

namespace switchyard {
inline namespace v0 {
namespace elf {

inline constexpr std::uint32_t section_without_bytes = 8;

SWITCHYARD_COLD std::string_view text_at(std::span<const std::byte> strings, std::uint64_t offset) noexcept {
  if (offset >= strings.size()) return {};
  const std::string_view all{reinterpret_cast<const char*>(strings.data()), strings.size()};
  const std::string_view rest = all.substr(static_cast<std::size_t>(offset));
  return rest.substr(0, rest.find('\0'));
}

SWITCHYARD_COLD std::optional<section> section_at(std::span<const std::byte> image, const header& file,
                                                  std::uint64_t index) noexcept {
  if (index >= file.sections || file.section_bytes < 64) return std::nullopt;
  const auto head = part(image, file.section_offset + index * file.section_bytes, 64);
  if (!head) return std::nullopt;
  section out;
  out.type = *integer<std::uint32_t>(*head, 4);
  out.flags = *integer<std::uint64_t>(*head, 8);
  out.address = *integer<std::uint64_t>(*head, 16);
  out.size = *integer<std::uint64_t>(*head, 32);
  out.link = *integer<std::uint32_t>(*head, 40);
  if (out.type != section_without_bytes && out.type != 0) {
    const auto bytes = part(image, *integer<std::uint64_t>(*head, 24), out.size);
    if (!bytes) return std::nullopt;
    out.bytes = *bytes;
  }
  return out;
}

SWITCHYARD_COLD std::optional<std::span<const std::byte>> bytes_at_address(std::span<const std::byte> image,
                                                                           std::uint64_t address,
                                                                           std::uint64_t bytes) {
  constexpr std::uint64_t is_loaded = 2;
  std::optional<std::span<const std::byte>> out;
  find_section(image, [&](const section& loaded) {
    if ((loaded.flags & is_loaded) == 0 || address < loaded.address) return false;
    out = part(loaded.bytes, address - loaded.address, bytes);
    return out.has_value();
  });
  return out;
}

}  // namespace elf
}  // namespace v0
}  // namespace switchyard
