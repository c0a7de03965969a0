// What the system's loader requires of a shared object, read from its program headers and its dynamic
// section as the loader reads them: nothing is loaded and nothing runs. Every access is bounds-checked.
//
// What depends on the machine, such as the libraries that it needs, is only listed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/elf.hpp>
#include <switchyard/base/elf_sections.hpp>
#include <switchyard/tool/blob_facts.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

/// One program header.
struct segment {
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 0;
};

class loading_checker {
 public:
  explicit loading_checker(std::span<const std::byte> image) : image_{image} {}

  /// Why the loader refuses the object; empty where it does not.
  [[nodiscard]] std::string check() {
    constexpr std::uint16_t shared_object = 3;
    constexpr std::uint16_t program_header_bytes = 56;
    const auto file = elf::read_header(image_);
    if (!file) return "is no 64-bit little-endian ELF file";
    const auto type = *elf::integer<std::uint16_t>(image_, 16);
    const auto system = std::to_integer<unsigned>(image_[7]);
    constexpr unsigned gnu = 3;
    if (std::to_integer<unsigned>(image_[6]) != 1 || *elf::integer<std::uint32_t>(image_, 20) != 1)
      return "is of another version of ELF than 1";
    if (system != 0 && system != gnu) return "is for another system: its ABI is " + std::to_string(system);
    if (type != shared_object) {
      return "is an ELF file of type " + std::to_string(type) + ", no shared object (" +
             std::to_string(shared_object) + "): link it with -shared";
    }
    if (file->programs == 0 || file->program_bytes != program_header_bytes)
      return "has no program headers that the loader reads";
    for (std::uint64_t i = 0; i < file->programs; ++i) {
      const auto head =
          elf::part(image_, file->program_offset + i * program_header_bytes, program_header_bytes);
      if (!head) return "is cut off in its program headers";
      segments_.push_back({*elf::integer<std::uint32_t>(*head, 0), *elf::integer<std::uint64_t>(*head, 8),
                           *elf::integer<std::uint64_t>(*head, 16), *elf::integer<std::uint64_t>(*head, 32),
                           *elf::integer<std::uint64_t>(*head, 40), *elf::integer<std::uint64_t>(*head, 48)});
    }
    if (std::string wrong = check_segments(); !wrong.empty()) return wrong;
    return check_dynamic();
  }

  /// The same object's needs, after a check that found nothing.
  [[nodiscard]] loading_needs needs() const {
    loading_needs out;
    for (const entry& each : dynamic_) {
      if (each.tag == needed) out.libraries.emplace_back(text_at(each.value));
    }
    elf::find_symbol(image_, elf::section_dynamic_symbols, [&](const elf::symbol& each) {
      constexpr std::uint8_t global = 1;
      if (each.section == 0 && each.binding == global && !each.name.empty())
        out.symbols.emplace_back(each.name);
      return false;
    });
    return out;
  }

 private:
  struct entry {
    std::uint64_t tag = 0;
    std::uint64_t value = 0;
  };

  static constexpr std::uint32_t is_loaded = 1;
  static constexpr std::uint32_t is_dynamic = 2;
  static constexpr std::uint64_t needed = 1;
  static constexpr std::uint64_t strings = 5;
  static constexpr std::uint64_t symbols = 6;

  [[nodiscard]] std::string check_segments() const {
    constexpr std::uint64_t page = 4096;
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30U;  // as of a blob's file
    bool any = false;
    std::uint64_t end = 0;
    for (const segment& each : segments_) {
      if (each.type != is_loaded) continue;
      if (each.alignment == 0 || each.alignment % page != 0 || (each.alignment & (each.alignment - 1)) != 0)
        return "has a segment that is not aligned to pages";
      if ((each.address - each.offset) % each.alignment != 0)
        return "has a segment whose address and place in the file differ in alignment";
      if (each.file_bytes > each.bytes) return "has a segment with more bytes in the file than in memory";
      if (each.bytes > most_bytes || each.address > most_bytes) {
        return "takes a segment of " + std::to_string(each.bytes) + " bytes at address " +
               std::to_string(each.address) + "; at most " + std::to_string(most_bytes) + " are read";
      }
      if (any && each.address < end) return "has segments that overlap or are not in ascending order";
      end = each.address + each.bytes;
      any = true;
    }
    return any ? std::string{} : "has no segment to load";
  }

  [[nodiscard]] std::string check_dynamic() {
    constexpr std::uint64_t hash = 4;
    constexpr std::uint64_t gnu_hash = 0x6ffffef5;
    constexpr std::uint64_t symbol_bytes = 11;
    constexpr std::uint64_t relocation_bytes = 9;
    constexpr std::uint64_t flags = 0x6ffffffb;
    constexpr std::uint64_t not_to_open = 0x40;
    constexpr std::uint64_t is_program = 0x08000000;
    for (const segment& each : segments_) {
      if (each.type != is_dynamic) continue;
      if (!at_address(each.address, each.file_bytes))
        return "has its dynamic section outside of its segments";
      const auto bytes = elf::part(image_, each.offset, each.file_bytes);
      for (std::uint64_t at = 0; bytes && at + 16 <= bytes->size(); at += 16) {
        const entry found{*elf::integer<std::uint64_t>(*bytes, at),
                          *elf::integer<std::uint64_t>(*bytes, at + 8)};
        if (found.tag == 0) break;
        dynamic_.push_back(found);
      }
    }
    if (dynamic_.empty()) return "has no dynamic section";
    const auto table_of_strings = find(strings);
    const auto table_of_symbols = find(symbols);
    if (!table_of_strings || !table_of_symbols || (!find(hash) && !find(gnu_hash)))
      return "has no table of dynamic symbols";
    if (!at_address(*table_of_strings, 1) || !at_address(*table_of_symbols, 24))
      return "has its dynamic symbols outside of its segments";
    if (find(symbol_bytes).value_or(24) != 24 || find(relocation_bytes).value_or(24) != 24)
      return "has dynamic symbols or relocations of a wrong size";
    const std::uint64_t found = find(flags).value_or(0);
    if ((found & is_program) != 0) return "is a program, no shared object: link it with -shared";
    if ((found & not_to_open) != 0) return "was linked so that it may not be loaded by dlopen (-z nodlopen)";
    return {};
  }

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t tag) const {
    for (const entry& each : dynamic_) {
      if (each.tag == tag) return each.value;
    }
    return std::nullopt;
  }

  /// The bytes from an address on, as far as the file holds them.
  [[nodiscard]] std::optional<std::span<const std::byte>> at_address(std::uint64_t address,
                                                                     std::uint64_t bytes) const {
    for (const segment& each : segments_) {
      if (each.type != is_loaded || address < each.address || address - each.address > each.file_bytes)
        continue;
      const std::uint64_t skipped = address - each.address;
      if (bytes > each.file_bytes - skipped) continue;
      return elf::part(image_, each.offset + skipped, each.file_bytes - skipped);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string_view text_at(std::uint64_t offset) const {
    const auto all = at_address(*find(strings), 1);
    return all ? elf::text_at(*all, offset) : std::string_view{};
  }

  std::span<const std::byte> image_;
  std::vector<segment> segments_;
  std::vector<entry> dynamic_;
};

}  // namespace detail

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
