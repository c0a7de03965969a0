// SPDX-License-Identifier: MIT
// What the loader reads of a shared object, of images made here. Objects that a compiler made, whole and
// damaged: tests/dispatch/damaged_objects.cpp.
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>

#include <switchyard/devices/host/shared_object.hpp>

using namespace switchyard;

namespace shared_objects {

struct image {
  std::string bytes;

  template <class Integer>
  image& put(std::size_t at, Integer value) {
    if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return *this;
  }
  [[nodiscard]] std::string problem() const {
    return host::shared_object{std::as_bytes(std::span{bytes})}.problem();
  }
  void put_segment(std::size_t number, std::uint32_t type, std::uint32_t access, std::uint64_t offset,
                   std::uint64_t bytes_of_file) {
    const std::size_t at = 64 + 56 * number;
    put(at, type).put(at + 4, access).put(at + 8, offset).put(at + 16, offset).put(at + 32, bytes_of_file);
    put(at + 40, bytes_of_file).put(at + 48, std::uint64_t{type == 1 ? 4096U : 8U});
  }
};

constexpr std::size_t dynamic = 256;
constexpr std::size_t strings = 512;
constexpr std::size_t symbols = 528;
constexpr std::size_t hash = 600;
constexpr std::size_t end = 640;

/// One writable segment with two symbols, "a" being needed as a library.
image whole() {
  image out;
  out.bytes.assign(end, '\0');
  out.bytes.replace(0, 7,
                    "\x7f"
                    "ELF\x02\x01\x01");
  out.put(16, std::uint16_t{3}).put(18, std::uint16_t{62}).put(20, std::uint32_t{1});
  out.put(32, std::uint64_t{64}).put(54, std::uint16_t{56}).put(56, std::uint16_t{2});
  out.put_segment(0, 1, 6, 0, end);
  out.put_segment(1, 2, 6, dynamic, 96);
  std::size_t at = dynamic;
  for (const auto& [tag, value] : std::initializer_list<std::pair<std::uint64_t, std::uint64_t>>{
           {5, strings}, {10, 8}, {6, symbols}, {4, hash}, {1, 1}}) {
    out.put(at, tag).put(at + 8, value);
    at += 16;
  }
  out.bytes.replace(strings, 3, std::string{"\0a\0", 3});
  out.put(symbols + 24, std::uint32_t{1});
  out.put(hash, std::uint32_t{1}).put(hash + 4, std::uint32_t{2}).put(hash + 8, std::uint32_t{1});
  return out;
}

TEST_CASE("a shared object's needs are read") {
  const auto image = whole();
  const host::shared_object content{std::as_bytes(std::span{image.bytes})};
  CHECK(content.problem().empty());
  CHECK(content.libraries() == std::vector<std::string>{"a"});
}

TEST_CASE("each fault of a shared object has words") {
  CHECK(image{}.problem() == "is shorter than an ELF header");
  CHECK(image{std::string(64, '\0')}.problem() == "is not an ELF file");
  CHECK(whole().put(4, std::uint8_t{1}).problem() == "is no 64-bit little-endian ELF file");
  CHECK(whole().put(20, std::uint32_t{2}).problem() == "is of another version of ELF than 1");
  CHECK(whole().put(7, std::uint8_t{9}).problem() == "is for another system: its ABI is 9");
  CHECK(whole().put(16, std::uint16_t{2}).problem() ==
        "is an ELF file of type 2, no shared object (3): link it with -shared");
  CHECK(whole().put(54, std::uint16_t{57}).problem() == "has no program headers that the loader reads");
  CHECK(whole().put(56, std::uint16_t{0}).problem() == "has no program headers that the loader reads");
  const auto segment = [](std::size_t at, std::uint64_t value) {
    return whole().put(64 + at, value).problem();
  };
  CHECK(segment(40, 1) == "has a segment with more bytes in the file than in memory");
  CHECK_THAT(segment(40, std::uint64_t{1} << 40U), Catch::Matchers::Contains("at most 1073741824 are read"));
  CHECK(segment(48, 4097) == "has a segment whose alignment is no power of two");
  CHECK(segment(48, 16) == "has a segment that is not aligned to pages");
  CHECK(segment(16, 8) == "has a segment whose address and place in the file differ in alignment");
  CHECK(whole().put(64, std::uint32_t{4}).problem() == "has no segment to load");
  CHECK(whole().put(68, std::uint32_t{4}).problem() ==
        "has its dynamic section outside of its writable segments");
  CHECK(whole().put(120, std::uint32_t{4}).problem() == "has no dynamic section");
  CHECK(whole().put(120 + 32, std::uint64_t{80}).put(120 + 40, std::uint64_t{80}).problem() ==
        "has a dynamic section without an end");
  const auto entry = [](std::size_t number, std::uint64_t tag, std::uint64_t value) {
    return whole().put(dynamic + 16 * number, tag).put(dynamic + 16 * number + 8, value).problem();
  };
  CHECK(entry(0, 99, 0) == "has no table of dynamic symbols");
  CHECK(entry(0, 5, 1U << 20U) == "has its dynamic symbols outside of its segments");
  CHECK(entry(1, 10, 1U << 20U) == "has its dynamic symbols outside of its segments");
  CHECK(entry(1, 11, 25) == "has dynamic symbols or relocations of a wrong size");
  CHECK(entry(4, 1, 4096) == "has a name outside of its table of names");
  CHECK(entry(4, 12, 8) == "has an entry of its dynamic section (12) that leads outside of its segments");
  CHECK(entry(4, 25, 4096) == "has constructors or destructors outside of its segments");
  CHECK(entry(4, 7, 4096) ==
        "has relocations that lead outside of its segments or symbols, or of another type than it says");
  CHECK(entry(4, 0x6ffffff9, 1) ==
        "has relocations that lead outside of its segments or symbols, or of another type than it says");
  CHECK(entry(4, 0x6ffffffb, 0x40) == "was linked so that it may not be loaded by dlopen (-z nodlopen)");
  CHECK(entry(4, 0x6ffffffb, 0x08000000) == "is a program, no shared object: link it with -shared");
  CHECK(whole().put(hash, std::uint32_t{0}).problem() ==
        "has a hash table that leads outside of its symbols");
}

TEST_CASE("a shared object that is cut off anywhere is refused") {
  const auto all = whole();
  for (std::size_t bytes = 0; bytes < all.bytes.size(); ++bytes) {
    INFO(bytes << " bytes");
    const std::string expected = bytes < 64 ? "is shorter than an ELF header" : "is cut off";
    CHECK(image{all.bytes.substr(0, bytes)}.problem() == expected);
  }
}

}  // namespace shared_objects
