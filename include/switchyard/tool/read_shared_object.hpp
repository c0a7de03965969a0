// SPDX-License-Identifier: MIT
// Reads what a shared object says of its CPU kernels, without loading it: the descriptions of
// devices/host/kernel.hpp as the compiler wrote them, for x86_64 and aarch64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <switchyard/object_files/elf_sections.hpp>
#include <switchyard/tool/blob_facts.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

inline constexpr std::uint64_t host_kernel_bytes = 24;  // of host::kernel
inline constexpr std::uint64_t sizes_at = 8;            // its parameter_bytes
inline constexpr std::uint64_t run_at = 16;

/// What relocations write when the object is loaded: addresses by place.
using relocation_map = std::unordered_map<std::uint64_t, std::uint64_t>;

[[nodiscard]] inline relocation_map read_relocations(std::span<const std::byte> image) {
  std::vector<std::uint64_t> symbols;
  elf::find_symbol(image, elf::section_dynamic_symbols, [&symbols](const elf::symbol& symbol) {
    symbols.push_back(symbol.value);
    return false;
  });
  relocation_map out;
  elf::find_section(image, [&](const elf::section& section) {
    if (section.type != elf::section_relocations) return false;
    for (std::uint64_t at = 0; const auto entry = elf::part(section.bytes, at, 24); at += 24) {
      // The upper half is a symbol, whose value the addend is added to.
      const std::uint64_t symbol = *elf::integer<std::uint64_t>(*entry, 8) >> 32U;
      out.emplace(*elf::integer<std::uint64_t>(*entry, 0),
                  *elf::integer<std::uint64_t>(*entry, 16) + (symbol < symbols.size() ? symbols[symbol] : 0));
    }
    return false;
  });
  return out;
}

/// The address that a place holds once the object is loaded; nothing for none. Packed relocations leave it in
/// the place itself.
[[nodiscard]] inline std::optional<std::uint64_t> address_at(std::span<const std::byte> image,
                                                             const relocation_map& relocations,
                                                             std::uint64_t place) {
  if (const auto found = relocations.find(place); found != relocations.end()) return found->second;
  const auto bytes = elf::bytes_at_address(image, place, 8);
  const std::uint64_t stored = bytes ? *elf::integer<std::uint64_t>(*bytes, 0) : 0;
  return stored == 0 ? std::nullopt : std::optional{stored};
}

inline void read_host_kernel(std::span<const std::byte> image, const relocation_map& relocations,
                             std::uint64_t address, kernel_facts& kernel) {
  constexpr std::uint32_t max_host_parameters = 256;
  const auto description = elf::bytes_at_address(image, address, host_kernel_bytes);
  if (!description) return;
  kernel.abi = *elf::integer<std::uint32_t>(*description, 0);
  kernel.has_code = address_at(image, relocations, address + run_at).has_value();
  const std::uint32_t count = *elf::integer<std::uint32_t>(*description, 4);
  const auto sizes = address_at(image, relocations, address + sizes_at);
  if (!sizes || count > max_host_parameters) return;
  const auto bytes = elf::bytes_at_address(image, *sizes, std::uint64_t{count} * 4);
  if (!bytes) return;
  auto& slots = kernel.parameters.emplace();
  for (std::uint32_t i = 0; i < count; ++i) {
    slots.push_back({0, *elf::integer<std::uint32_t>(*bytes, std::uint64_t{i} * 4)});
  }
}

}  // namespace detail

/// Reads a shared object that is whole.
[[nodiscard]] inline blob_facts read_shared_object(std::span<const std::byte> image) {
  constexpr std::uint16_t machine_x86_64 = 62;
  constexpr std::uint16_t machine_aarch64 = 183;
  constexpr std::uint8_t object = 1;
  blob_facts out;
  out.backend = "host";
  if (const auto file = elf::read_header(image)) {
    out.arch = file->machine == machine_x86_64    ? "x86_64"
               : file->machine == machine_aarch64 ? "aarch64"
                                                  : "ELF machine " + std::to_string(file->machine);
  }
  const auto relocations = detail::read_relocations(image);
  elf::find_symbol(image, elf::section_dynamic_symbols, [&](const elf::symbol& symbol) {
    constexpr std::uint8_t global = 1;
    constexpr std::uint8_t weak = 2;
    if (symbol.section == 0 && symbol.binding == global && !symbol.name.empty())
      out.needs.symbols.emplace_back(symbol.name);
    const bool exported = (symbol.binding == global || symbol.binding == weak) && symbol.section != 0;
    if (!exported || symbol.type != object) return false;
    kernel_facts& kernel = out.kernels.emplace_back();
    kernel.name = symbol.name;
    if (symbol.size == detail::host_kernel_bytes)
      detail::read_host_kernel(image, relocations, symbol.value, kernel);
    return false;
  });
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
