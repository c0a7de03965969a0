// SPDX-License-Identifier: MIT
// Reads what a cubin says of its kernels. The layout of its .nv.info sections is that which cuobjdump prints
// (EIATTR_...); CUDA 11 to 13 write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/object_files/elf_sections.hpp>
#include <switchyard/tool/blob_facts.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

/// Calls `visit(attribute, payload)` for each entry of an .nv.info section.
template <class Visitor>
void for_each_cubin_attribute(std::span<const std::byte> info, const Visitor& visit) {
  constexpr std::uint8_t sized_payload = 4;
  std::uint64_t at = 0;
  while (const auto head = elf::part(info, at, 4)) {
    const auto format = *elf::integer<std::uint8_t>(*head, 0);
    const auto attribute = *elf::integer<std::uint8_t>(*head, 1);
    at += 4;
    if (format != sized_payload) continue;  // two bytes of value, which are in the head
    const auto payload = elf::part(info, at, *elf::integer<std::uint16_t>(*head, 2));
    if (!payload) return;
    visit(attribute, *payload);
    at += payload->size();
  }
}

[[nodiscard]] inline std::uint32_t threads_of(std::span<const std::byte> extents) {
  std::uint32_t out = 1;
  for (const std::uint64_t at : {0U, 4U, 8U}) {
    const auto extent = elf::integer<std::uint32_t>(extents, at);
    if (!extent || *extent > 1024) return 0;
    out *= *extent;
  }
  return out;
}

inline void read_cubin_info(std::span<const std::byte> info, kernel_facts& kernel) {
  constexpr std::uint8_t max_threads = 5;
  constexpr std::uint8_t required_threads = 16;
  constexpr std::uint8_t parameter_info = 23;
  std::map<std::uint16_t, parameter_slot> slots;  // they are listed last first
  for_each_cubin_attribute(info, [&](std::uint8_t attribute, std::span<const std::byte> payload) {
    if (attribute == max_threads || attribute == required_threads) kernel.max_threads = threads_of(payload);
    if (attribute != parameter_info || payload.size() < 12) return;
    constexpr std::uint32_t size_shift = 18;
    slots[*elf::integer<std::uint16_t>(payload, 4)] = {
        *elf::integer<std::uint16_t>(payload, 6), *elf::integer<std::uint32_t>(payload, 8) >> size_shift};
  });
  auto& all = kernel.parameters.emplace();
  for (const auto& [ordinal, slot] : slots) all.push_back(slot);
}

}  // namespace detail

/// Reads a cubin that is whole.
[[nodiscard]] inline blob_facts read_cubin(std::span<const std::byte> image) {
  constexpr std::uint8_t function = 2;
  constexpr std::uint8_t entry_point = 0x10;
  blob_facts out;
  out.backend = "cuda";
  if (const auto capability = cuda::compute_capability_of(image)) {
    out.arch = cuda::architecture_name(*capability);
  }
  elf::find_symbol(image, elf::section_symbols, [&](const elf::symbol& symbol) {
    if (symbol.type == function && (symbol.other & entry_point) != 0) {
      out.kernels.emplace_back().name = symbol.name;
    }
    return false;
  });
  elf::find_section(image, [&](const elf::section& section) {
    for (kernel_facts& kernel : out.kernels) {
      if (section.name == ".nv.info." + kernel.name) detail::read_cubin_info(section.bytes, kernel);
      if (section.name == ".nv.shared." + kernel.name) kernel.static_shared = section.size;
    }
    return false;
  });
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
