// Reads what a shared object says of its CPU kernels, without loading it: the descriptions of
// devices/host/kernel.hpp as the compiler wrote them, for x86_64 and aarch64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/elf_sections.hpp>
#include <switchyard/tool/blob_facts.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

inline constexpr std::uint64_t host_kernel_bytes = 24;  // of host::kernel
inline constexpr std::uint64_t sizes_at = 8;            // its parameter_bytes

/// The address that a relocation writes to `place`; nothing when none does.
[[nodiscard]] inline std::optional<std::uint64_t> relocated(std::span<const std::byte> image,
                                                            std::uint64_t place) {
  std::optional<std::uint64_t> out;
  elf::find_section(image, [&](const elf::section& each) {
    if (each.type != elf::section_relocations) return false;
    for (std::uint64_t at = 0; const auto entry = elf::part(each.bytes, at, 24); at += 24) {
      if (*elf::integer<std::uint64_t>(*entry, 0) != place) continue;
      std::uint64_t address = *elf::integer<std::uint64_t>(*entry, 16);
      // The upper half is a symbol, whose value the addend is added to.
      std::uint64_t symbol = *elf::integer<std::uint64_t>(*entry, 8) >> 32U;
      if (symbol != 0) {
        elf::find_symbol(image, elf::section_dynamic_symbols, [&](const elf::symbol& named) {
          if (symbol-- != 0) return false;
          address += named.value;
          return true;
        });
      }
      out = address;
      return true;
    }
    return false;
  });
  return out;
}

inline void read_host_kernel(std::span<const std::byte> image, std::uint64_t address, kernel_facts& kernel) {
  constexpr std::uint32_t most_parameters = 256;
  const auto description = elf::bytes_at_address(image, address, host_kernel_bytes);
  if (!description) return;
  kernel.abi = *elf::integer<std::uint32_t>(*description, 0);
  const std::uint32_t count = *elf::integer<std::uint32_t>(*description, 4);
  const auto sizes = relocated(image, address + sizes_at);
  if (!sizes || count > most_parameters) return;
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
    if (file->machine == machine_x86_64) out.arch = "x86_64";
    if (file->machine == machine_aarch64) out.arch = "aarch64";
  }
  elf::find_symbol(image, elf::section_dynamic_symbols, [&](const elf::symbol& each) {
    const bool exported = (each.binding == 1 || each.binding == 2) && each.section != 0;
    if (!exported || each.type != object) return false;
    kernel_facts& kernel = out.kernels.emplace_back();
    kernel.name = each.name;
    if (each.size == detail::host_kernel_bytes) detail::read_host_kernel(image, each.value, kernel);
    return false;
  });
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
