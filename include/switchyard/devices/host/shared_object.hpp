// SPDX-License-Identifier: MIT
// Checks those parts of a shared object that the system's loader trusts, without loading it: a table that
// points outside the file would crash the process inside the loader.
//
// Sources: System V ABI, chapters 4 and 5 (program headers, dynamic section, hash table); the layout of
// DT_GNU_HASH as in GNU binutils.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {
namespace host {

/// The program headers and the dynamic section of a shared object. It refers to the image; every access is
/// bounds-checked, so any bytes may be given.
class shared_object {
 public:
  explicit shared_object(std::span<const std::byte> image) : image_{image} {
    problem_ = read_segments();
    if (problem_.empty()) problem_ = read_dynamic();
    if (problem_.empty()) problem_ = check_tables();
  }

  /// Why it cannot be loaded, as "is cut off"; empty where nothing is wrong.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  /// The libraries that it needs, in the order in which they are searched; none where something is wrong.
  [[nodiscard]] std::vector<std::string> libraries() const {
    std::vector<std::string> out;
    if (!problem_.empty()) return out;
    for (const entry& pair : dynamic_) {
      if (pair.tag != tag::needed) continue;
      std::string name{*name_at(pair.value)};
      out.push_back(std::move(name));
    }
    return out;
  }

 private:
  /// One program header.
  struct segment {
    std::uint32_t type = 0;
    std::uint32_t access = 0;
    std::uint64_t offset = 0;
    std::uint64_t address = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 0;
  };

  /// One entry of the dynamic section.
  struct entry {
    std::uint64_t tag = 0;
    std::uint64_t value = 0;
  };

  /// Tags of the dynamic section.
  struct tag {
    static constexpr std::uint64_t needed = 1;
    static constexpr std::uint64_t plt_bytes = 2;
    static constexpr std::uint64_t hash = 4;
    static constexpr std::uint64_t strings = 5;
    static constexpr std::uint64_t symbols = 6;
    static constexpr std::uint64_t relocations = 7;
    static constexpr std::uint64_t relocations_bytes = 8;
    static constexpr std::uint64_t relocation_bytes = 9;
    static constexpr std::uint64_t strings_bytes = 10;
    static constexpr std::uint64_t symbol_bytes = 11;
    static constexpr std::uint64_t init = 12;
    static constexpr std::uint64_t fini = 13;
    static constexpr std::uint64_t own_name = 14;
    static constexpr std::uint64_t text_relocations = 22;
    static constexpr std::uint64_t plt = 23;
    static constexpr std::uint64_t init_array = 25;
    static constexpr std::uint64_t fini_array = 26;
    static constexpr std::uint64_t init_array_bytes = 27;
    static constexpr std::uint64_t fini_array_bytes = 28;
    static constexpr std::uint64_t flags = 30;
    static constexpr std::uint64_t relative_bytes = 35;
    static constexpr std::uint64_t relative = 36;
    static constexpr std::uint64_t gnu_hash = 0x6ffffef5;
    static constexpr std::uint64_t versions = 0x6ffffff0;
    static constexpr std::uint64_t relative_count = 0x6ffffff9;
    static constexpr std::uint64_t flags_1 = 0x6ffffffb;
    static constexpr std::uint64_t versions_defined = 0x6ffffffc;
    static constexpr std::uint64_t versions_needed = 0x6ffffffe;
  };

  static constexpr std::uint32_t is_loaded = 1;
  static constexpr std::uint32_t is_dynamic = 2;
  static constexpr std::uint32_t is_thread_local = 7;
  static constexpr std::uint32_t executable = 1;
  static constexpr std::uint32_t writable = 2;
  static constexpr std::uint64_t symbol_size = 24;
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30U;  // as of a blob's file

  [[nodiscard]] std::string read_segments() {
    constexpr std::uint16_t shared = 3;
    constexpr std::uint16_t program_header_bytes = 56;
    constexpr unsigned gnu = 3;
    if (image_.size() < 64) return "is shorter than an ELF header";
    if (!elf::is_elf(image_)) return "is not an ELF file";
    const auto file = elf::read_header(image_);
    if (!file) return "is no 64-bit little-endian ELF file";
    machine_ = file->machine;
    if (file->version != 1 || *elf::integer<std::uint32_t>(image_, 20) != 1)
      return "is of another version of ELF than 1";
    if (file->system != 0 && file->system != gnu)
      return "is for another system: its ABI is " + std::to_string(file->system);
    if (file->type != shared) {
      return "is an ELF file of type " + std::to_string(file->type) + ", no shared object (" +
             std::to_string(shared) + "): link it with -shared";
    }
    if (file->programs == 0 || file->program_bytes != program_header_bytes)
      return "has no program headers that the loader reads";
    for (std::uint64_t i = 0; i < file->programs; ++i) {
      const auto table = elf::part(image_, file->program_offset, program_header_bytes * (i + 1));
      if (!table) return "is cut off";
      const auto head = table->last(program_header_bytes);
      segments_.push_back({*elf::integer<std::uint32_t>(head, 0), *elf::integer<std::uint32_t>(head, 4),
                           *elf::integer<std::uint64_t>(head, 8), *elf::integer<std::uint64_t>(head, 16),
                           *elf::integer<std::uint64_t>(head, 32), *elf::integer<std::uint64_t>(head, 40),
                           *elf::integer<std::uint64_t>(head, 48)});
      if (!elf::part(image_, segments_.back().offset, segments_.back().file_bytes)) return "is cut off";
    }
    return check_segments();
  }

  [[nodiscard]] std::string check_segments() const {
    constexpr std::uint64_t page = 4096;
    bool any = false;
    std::uint64_t end = 0;
    for (const segment& loaded : segments_) {
      if (loaded.type != is_loaded && loaded.type != is_thread_local) continue;
      if (loaded.file_bytes > loaded.bytes) return "has a segment with more bytes in the file than in memory";
      if (loaded.bytes > max_bytes || loaded.address > max_bytes) {
        return "takes a segment of " + std::to_string(loaded.bytes) + " bytes at address " +
               std::to_string(loaded.address) + "; at most " + std::to_string(max_bytes) + " are read";
      }
      if ((loaded.alignment & (loaded.alignment - 1)) != 0 || loaded.alignment > max_bytes)
        return "has a segment whose alignment is no power of two";
      if (loaded.type != is_loaded) continue;
      if (loaded.alignment == 0 || loaded.alignment % page != 0)
        return "has a segment that is not aligned to pages";
      if ((loaded.address - loaded.offset) % loaded.alignment != 0)
        return "has a segment whose address and place in the file differ in alignment";
      if (any && loaded.address < end) return "has segments that overlap or are not in ascending order";
      end = loaded.address + loaded.bytes;
      any = true;
    }
    return any ? std::string{} : "has no segment to load";
  }

  [[nodiscard]] std::string read_dynamic() {
    for (const segment& mapped : segments_) {
      if (mapped.type != is_dynamic) continue;
      const auto bytes = at_address(mapped.address, mapped.file_bytes);
      if (!bytes || !is_inside(mapped.address, mapped.file_bytes, writable))
        return "has its dynamic section outside of its writable segments";
      for (std::uint64_t at = 0;; at += 16) {
        if (at + 16 > mapped.file_bytes) return "has a dynamic section without an end";
        const entry found{*elf::integer<std::uint64_t>(*bytes, at),
                          *elf::integer<std::uint64_t>(*bytes, at + 8)};
        if (found.tag == 0) break;
        dynamic_.push_back(found);
      }
      break;
    }
    return dynamic_.empty() ? "has no dynamic section" : std::string{};
  }

  [[nodiscard]] std::string check_tables() const {
    constexpr std::uint64_t not_to_open = 0x40;
    constexpr std::uint64_t is_program = 0x08000000;
    const std::uint64_t flags = find(tag::flags_1).value_or(0);
    if ((flags & is_program) != 0) return "is a program, no shared object: link it with -shared";
    if ((flags & not_to_open) != 0) return "was linked so that it may not be loaded by dlopen (-z nodlopen)";
    const auto strings = find(tag::strings);
    const auto symbols = find(tag::symbols);
    if (!strings || !symbols || (!find(tag::hash) && !find(tag::gnu_hash)))
      return "has no table of dynamic symbols";
    if (!at_address(*strings, find(tag::strings_bytes).value_or(1)) || !symbol_name(0))
      return "has its dynamic symbols outside of its segments";
    if (find(tag::symbol_bytes).value_or(symbol_size) != symbol_size ||
        find(tag::relocation_bytes).value_or(24) != 24)
      return "has dynamic symbols or relocations of a wrong size";
    for (const entry& pair : dynamic_) {
      if ((pair.tag == tag::needed || pair.tag == tag::own_name) && !name_at(pair.value))
        return "has a name outside of its table of names";
    }
    if (!are_hashes_whole()) return "has a hash table that leads outside of its symbols";
    if (!are_relocations_whole())
      return "has relocations that lead outside of its segments or symbols, or of another type than it says";
    return check_addresses();
  }

  /// What the loader calls, or reads without a size.
  [[nodiscard]] std::string check_addresses() const {
    for (const entry& pair : dynamic_) {
      const bool is_called = pair.tag == tag::init || pair.tag == tag::fini;
      const bool is_read =
          pair.tag == tag::versions || pair.tag == tag::versions_defined || pair.tag == tag::versions_needed;
      if ((is_called && !is_inside(pair.value, 1, executable)) || (is_read && !at_address(pair.value, 1)))
        return "has an entry of its dynamic section (" + std::to_string(pair.tag) +
               ") that leads outside of its segments";
    }
    for (const auto& [array, bytes] :
         {entry{tag::init_array, tag::init_array_bytes}, entry{tag::fini_array, tag::fini_array_bytes}}) {
      const auto address = find(array);
      if (address && !at_address(*address, find(bytes).value_or(0)))
        return "has constructors or destructors outside of its segments";
    }
    return {};
  }

  [[nodiscard]] bool are_relocations_whole() const {
    constexpr std::uint64_t text_relocations = 4;  // of the flags
    const bool anywhere =
        find(tag::text_relocations) || (find(tag::flags).value_or(0) & text_relocations) != 0;
    for (const auto& [table, bytes] :
         {entry{tag::relocations, tag::relocations_bytes}, entry{tag::plt, tag::plt_bytes}}) {
      const auto address = find(table);
      if (!address) continue;
      const auto all = at_address(*address, find(bytes).value_or(0));
      if (!all) return false;
      for (std::uint64_t at = 0; at + 24 <= find(bytes).value_or(0); at += 24) {
        const auto where = *elf::integer<std::uint64_t>(*all, at);
        const auto symbol = *elf::integer<std::uint32_t>(*all, at + 12);
        if (*elf::integer<std::uint32_t>(*all, at + 8) == 0) continue;  // none
        if (!is_inside(where, 8, anywhere ? 0 : writable) || !symbol_name(symbol)) return false;
      }
    }
    if (!are_first_relative()) return false;
    const auto relative = find(tag::relative);
    return !relative || at_address(*relative, find(tag::relative_bytes).value_or(0)).has_value();
  }

  /// Whether as many relocations as the dynamic section says are relative: the loader takes their type as
  /// given.
  [[nodiscard]] bool are_first_relative() const {
    constexpr std::uint16_t aarch64 = 183;
    const std::uint32_t relative = machine_ == aarch64 ? 1027 : 8;
    const std::uint64_t count = find(tag::relative_count).value_or(0);
    if (count == 0) return true;
    const auto table = find(tag::relocations);
    if (!table || count > find(tag::relocations_bytes).value_or(0) / 24) return false;
    const auto all = at_address(*table, count * 24);
    for (std::uint64_t i = 0; all && i < count; ++i) {
      if (*elf::integer<std::uint32_t>(*all, i * 24 + 8) != relative) return false;
    }
    return all.has_value();
  }

  [[nodiscard]] bool are_hashes_whole() const {
    if (const auto address = find(tag::hash)) {
      const auto table = at_address(*address, 8);
      if (!table) return false;
      const std::uint64_t buckets = *elf::integer<std::uint32_t>(*table, 0);
      const std::uint64_t symbols = *elf::integer<std::uint32_t>(*table, 4);
      if (buckets == 0 || !at_address(*address, 8 + 4 * (buckets + symbols))) return false;
      for (std::uint64_t i = 0; i < buckets + symbols; ++i) {
        if (*elf::integer<std::uint32_t>(*table, 8 + 4 * i) >= symbols) return false;
      }
      if (symbols > 0 && !symbol_name(symbols - 1)) return false;
    }
    const auto address = find(tag::gnu_hash);
    if (!address) return true;
    const auto table = at_address(*address, 16);
    if (!table) return false;
    const std::uint64_t buckets = *elf::integer<std::uint32_t>(*table, 0);
    const std::uint64_t first = *elf::integer<std::uint32_t>(*table, 4);
    const std::uint64_t words = *elf::integer<std::uint32_t>(*table, 8);
    if (buckets == 0 || words == 0 || (words & (words - 1)) != 0) return false;
    const std::uint64_t chains = 16 + 8 * words + 4 * buckets;
    if (!at_address(*address, chains)) return false;
    for (std::uint64_t i = 0; i < buckets; ++i) {
      std::uint64_t symbol = *elf::integer<std::uint32_t>(*table, 16 + 8 * words + 4 * i);
      if (symbol == 0) continue;
      if (symbol < first) return false;
      for (bool is_last = false; !is_last; ++symbol) {
        const auto hash = elf::integer<std::uint32_t>(*table, chains + 4 * (symbol - first));
        if (!hash || !symbol_name(symbol)) return false;
        is_last = (*hash & 1U) != 0;
      }
    }
    return true;
  }

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t wanted) const noexcept {
    for (const entry& pair : dynamic_) {
      if (pair.tag == wanted) return pair.value;
    }
    return std::nullopt;
  }

  /// From an address on, what the file holds of its segment; nothing where that is less than `bytes`.
  [[nodiscard]] std::optional<std::span<const std::byte>> at_address(std::uint64_t address,
                                                                     std::uint64_t bytes) const noexcept {
    for (const segment& mapped : segments_) {
      if (mapped.type != is_loaded || address < mapped.address ||
          address - mapped.address > mapped.file_bytes)
        continue;
      const std::uint64_t skipped = address - mapped.address;
      if (bytes > mapped.file_bytes - skipped) continue;
      return elf::part(image_, mapped.offset + skipped, mapped.file_bytes - skipped);
    }
    return std::nullopt;
  }

  /// Whether memory of a segment that has `access` holds these bytes.
  [[nodiscard]] bool is_inside(std::uint64_t address, std::uint64_t bytes,
                               std::uint32_t access) const noexcept {
    for (const segment& mapped : segments_) {
      if (mapped.type != is_loaded || (mapped.access & access) != access || address < mapped.address)
        continue;
      const std::uint64_t skipped = address - mapped.address;
      if (skipped <= mapped.bytes && bytes <= mapped.bytes - skipped) return true;
    }
    return false;
  }

  /// The name at an offset of the table of names; nothing where it does not end in it.
  [[nodiscard]] std::optional<std::string_view> name_at(std::uint64_t offset) const noexcept {
    const auto all = at_address(*find(tag::strings), 1);
    if (!all || offset >= all->size()) return std::nullopt;
    const std::string_view names{reinterpret_cast<const char*>(all->data()), all->size()};
    const std::size_t end = names.find('\0', static_cast<std::size_t>(offset));
    if (end == std::string_view::npos) return std::nullopt;
    return names.substr(static_cast<std::size_t>(offset), end - static_cast<std::size_t>(offset));
  }

  /// The name of a dynamic symbol; nothing where the symbol or the name lies outside of its table.
  [[nodiscard]] std::optional<std::string_view> symbol_name(std::uint64_t number) const noexcept {
    const auto table = at_address(*find(tag::symbols), symbol_size);
    if (!table) return std::nullopt;
    const auto offset = elf::integer<std::uint32_t>(*table, number * symbol_size);
    if (!offset || !elf::part(*table, number * symbol_size, symbol_size)) return std::nullopt;
    return name_at(*offset);
  }

  std::span<const std::byte> image_;
  std::uint16_t machine_ = 0;
  std::vector<segment> segments_;
  std::vector<entry> dynamic_;
  std::string problem_;
};

}  // namespace host
}  // namespace v0
}  // namespace switchyard
