// SPDX-License-Identifier: MIT
// Reading AMD code objects: one made by clang (whose path is given in HSACO, when there is one), ones made
// here byte by byte, and damaged ones.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/hip/code_object.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

namespace sy = switchyard;
namespace hip = switchyard::hip;

/// Writes MessagePack.
class message {
 public:
  message& map(std::uint8_t pairs) { return byte(0x80U | pairs); }
  message& array(std::uint8_t elements) { return byte(0x90U | elements); }
  message& text(const std::string& value) {
    byte(0xd9).byte(static_cast<std::uint8_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  message& number(std::uint32_t value) {
    byte(0xce);
    for (const int shift : {24, 16, 8, 0}) byte(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  message& byte(unsigned value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

template <class Integer>
void put(std::string& file, std::size_t at, Integer value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

/// An ELF file for AMD GPUs with one segment: a note with `metadata`.
std::string code_object_file(const std::string& metadata, const std::string& owner = "AMDGPU",
                             std::uint32_t type = 32) {
  std::string name = owner + '\0';
  const auto name_bytes = name.size();
  while (name.size() % 4 != 0) name += '\0';
  std::string note(12, '\0');
  put(note, 0, static_cast<std::uint32_t>(name_bytes));
  put(note, 4, static_cast<std::uint32_t>(metadata.size()));
  put(note, 8, type);
  note += name + metadata;
  while (note.size() % 4 != 0) note += '\0';

  std::string file(64 + 56, '\0');
  std::memcpy(file.data(),
              "\x7f"
              "ELF\x02\x01\x01\x40\x03",
              9);
  put(file, 16, std::uint16_t{3});
  put(file, 18, std::uint16_t{224});
  put(file, 32, std::uint64_t{64});
  put(file, 54, std::uint16_t{56});
  put(file, 56, std::uint16_t{1});
  put(file, 58, std::uint16_t{64});
  put(file, 64, std::uint32_t{4});
  put(file, 64 + 8, std::uint64_t{120});
  put(file, 64 + 32, std::uint64_t{note.size()});
  put(file, 64 + 48, std::uint64_t{4});
  return file + note;
}

/// A kernel with two parameters and a hidden one.
std::string metadata(const std::string& target = "amdgcn-amd-amdhsa--gfx942:sramecc+") {
  message out;
  out.map(3).text("amdhsa.kernels").array(1).map(7);
  out.text(".name").text("scale");
  out.text(".args").array(3);
  out.map(3).text(".offset").number(0).text(".size").number(8).text(".value_kind").text("global_buffer");
  out.map(4).text(".offset").number(8).text(".size").number(4).text(".value_kind").text("by_value");
  out.text(".nested").array(2).map(1).text("a").array(0).byte(0xc0);
  out.map(3).text(".offset").number(16).text(".size").number(8).text(".value_kind").text("hidden_none");
  out.text(".kernarg_segment_size").number(24);
  out.text(".group_segment_fixed_size").number(4096);
  out.text(".vgpr_spill_count").number(3);
  out.text(".sgpr_spill_count").number(2);
  out.text(".wavefront_size").byte(64);
  out.text("amdhsa.target").text(target);
  out.text("amdhsa.version").array(2).byte(1).byte(2);
  return out.bytes();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string bundle_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string head = "__CLANG_OFFLOAD_BUNDLE__";
  const auto number = [](std::uint64_t value) {
    std::string out(8, '\0');
    put(out, 0, value);
    return out;
  };
  std::size_t head_bytes = head.size() + 8;
  for (const auto& [id, image] : entries) head_bytes += 24 + id.size();
  head += number(entries.size());
  std::string body;
  for (const auto& [id, image] : entries) {
    head += number(head_bytes + body.size()) + number(image.size()) + number(id.size()) + id;
    body += image;
  }
  return head + body;
}

sy::device_properties device(const std::string& arch) {
  sy::device_properties out;
  out.backend = "hip";
  out.arch = arch;
  return out;
}

}  // namespace

TEST_CASE("a code object of our own is read") {
  const std::string file = code_object_file(metadata());
  CHECK(hip::kind_of(bytes_of(file)) == hip::image_kind::code_object);
  const auto object = hip::read_code_object(bytes_of(file));
  REQUIRE(object);
  CHECK(object->target == "gfx942:sramecc+");
  REQUIRE(object->kernels.size() == 1);
  const auto& kernel = object->kernels.front();
  CHECK(kernel.name == "scale");
  REQUIRE(kernel.parameters.size() == 2);
  CHECK(kernel.parameters[0].offset == 0);
  CHECK(kernel.parameters[0].bytes == 8);
  CHECK(kernel.parameters[1].offset == 8);
  CHECK(kernel.parameters[1].bytes == 4);
  CHECK(kernel.parameter_bytes == 24);
  CHECK(kernel.shared_bytes == 4096);
  CHECK(kernel.spilled_registers == 5);
  CHECK(kernel.warp_size == 64);
}

TEST_CASE("what clang writes is read") {
  const char* const path = switchyard::test::variable("HSACO");
  if (path == nullptr) {
    WARN("skipped: HSACO is not set");
    return;
  }
  std::ifstream stream{path, std::ios::binary};
  const std::string file{std::istreambuf_iterator<char>{stream}, {}};
  REQUIRE(!file.empty());
  const auto object = hip::read_code_object(bytes_of(file));
  REQUIRE(object);
  CHECK(object->target == "gfx942");
  REQUIRE(object->kernels.size() == 3);
  const auto find = [&](const std::string& name) -> const hip::kernel_description& {
    for (const auto& kernel : object->kernels) {
      if (kernel.name == name) return kernel;
    }
    throw std::runtime_error{name + " is not there"};
  };
  const auto slots = [&](const std::string& name) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
    for (const auto& slot : find(name).parameters) out.emplace_back(slot.offset, slot.bytes);
    return out;
  };
  using expected = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  CHECK(slots("scale") == expected{{0, 8}, {8, 8}, {16, 4}, {20, 4}});
  CHECK(slots("mixed") == expected{{0, 1}, {8, 24}, {32, 8}, {40, 8}});
  CHECK(slots("shared_sum") == expected{{0, 8}});
  CHECK(find("scale").parameter_bytes > 24);
  CHECK(find("shared_sum").shared_bytes == 4096);
  CHECK(find("shared_sum").max_threads_per_block == 128);
  CHECK(find("shared_sum").warp_size == 64);
  CHECK(find("mixed").spilled_registers == 0);
}

TEST_CASE("what is not such a note is passed over") {
  CHECK(!hip::read_code_object({}));
  CHECK(
      !hip::read_code_object(bytes_of("\x7f"
                                      "ELF")));
  CHECK(!hip::read_code_object(bytes_of(code_object_file(metadata(), "GNU"))));
  CHECK(!hip::read_code_object(bytes_of(code_object_file(metadata(), "AMDGPU", 10))));
  std::string other = code_object_file(metadata());
  put(other, 18, std::uint16_t{62});  // another machine
  CHECK(!hip::read_code_object(bytes_of(other)));

  const auto refused = [](const message& text) {
    return !hip::read_code_object(bytes_of(code_object_file(text.bytes())));
  };
  CHECK(refused(message{}));
  CHECK(refused(message{}.array(1).map(0)));
  CHECK(refused(message{}.map(1).text("amdhsa.kernels").number(1)));
  CHECK(refused(message{}.map(1).text("amdhsa.kernels").byte(0xdd).number(0xffffffff)));
  CHECK(refused(message{}.map(1).number(1).number(1)));
  CHECK(refused(
      message{}.map(1).text("amdhsa.kernels").array(1).map(1).text(".kernarg_segment_size").byte(0xff)));
  CHECK(refused(message{}
                    .map(1)
                    .text("amdhsa.kernels")
                    .array(1)
                    .map(1)
                    .text(".wavefront_size")
                    .byte(0xcf)
                    .number(1)
                    .number(0)));
  CHECK(refused(message{}.map(1).text("x").byte(0xc1)));
  message deep;
  deep.map(1).text("x");
  for (int i = 0; i < 200'000; ++i) deep.array(1);
  CHECK(refused(deep));
  deep.byte(0xc0);
  CHECK(!refused(deep));  // depth costs nothing
}

TEST_CASE("every kind of value is stepped over") {
  // The first byte of a value, and how many follow.
  const std::vector<std::pair<unsigned, int>> values{
      {0x00, 0}, {0x7f, 0}, {0xe0, 0}, {0xff, 0}, {0xc0, 0},  {0xc2, 0}, {0xc3, 0}, {0xcc, 1},
      {0xcd, 2}, {0xce, 4}, {0xcf, 8}, {0xd0, 1}, {0xd1, 2},  {0xd2, 4}, {0xd3, 8}, {0xca, 4},
      {0xcb, 8}, {0xa2, 2}, {0xd9, 1}, {0xda, 2}, {0xdb, 4},  {0xc4, 1}, {0xc5, 2}, {0xc6, 4},
      {0xd4, 2}, {0xd5, 3}, {0xd6, 5}, {0xd7, 9}, {0xd8, 17}, {0xc7, 2}, {0xc8, 3}, {0xc9, 5},
      {0x80, 0}, {0x90, 0}, {0xdc, 2}, {0xdd, 4}, {0xde, 2},  {0xdf, 4}};
  const auto read = [&](int left_out) {
    message out;
    out.map(2).text("x").byte(0xdc).byte(0).byte(static_cast<unsigned>(values.size()));
    for (const auto& [first, following] : values) {
      out.byte(first);
      for (int i = 0; i < following - (first == 0xd8 ? left_out : 0); ++i) out.byte(0);
    }
    out.text("amdhsa.target").text("amdgcn-amd-amdhsa--gfx90a");
    return hip::read_code_object(bytes_of(code_object_file(out.bytes())));
  };
  const auto object = read(0);
  REQUIRE(object);
  CHECK(object->target == "gfx90a");
  CHECK(!read(1));  // a value that is a byte short takes one of the next
}

TEST_CASE("bundles give the entry that fits") {
  const std::string plain = code_object_file(metadata("amdgcn-amd-amdhsa--gfx942"));
  const std::string exact = code_object_file(metadata("amdgcn-amd-amdhsa--gfx942:xnack-"));
  const std::string other = code_object_file(metadata("amdgcn-amd-amdhsa--gfx90a"));
  const std::string bundle = bundle_of({{"host-x86_64-unknown-linux-gnu-", ""},
                                        {"hipv4-amdgcn-amd-amdhsa--gfx90a", other},
                                        {"hipv4-amdgcn-amd-amdhsa--gfx942", plain},
                                        {"hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", exact}});
  CHECK(hip::kind_of(bytes_of(bundle)) == hip::image_kind::bundle);
  const auto target = [&](const std::string& arch) -> std::string {
    const auto image = hip::code_object_for(bytes_of(bundle), device(arch));
    if (!image) return "none";
    const auto object = hip::read_code_object(*image);
    return object ? object->target : "unreadable";
  };
  CHECK(target("gfx942:sramecc+:xnack-") == "gfx942:xnack-");
  CHECK(target("gfx942:sramecc+:xnack+") == "gfx942");
  CHECK(target("gfx90a:sramecc+:xnack-") == "gfx90a");
  CHECK(target("gfx1100") == "none");
  CHECK(hip::code_object_for(bytes_of(plain), device("gfx1100")));  // not a bundle: the library's to judge
  for (std::size_t bytes = 0; bytes < bundle.size(); ++bytes) {
    const std::string cut = bundle.substr(0, bytes);
    REQUIRE(hip::kind_of(bytes_of(cut)) == hip::image_kind::broken);
  }
}

TEST_CASE(
    "a bundle is whole where all of its entries are, and a compressed one where it has more than a header") {
  const std::string sound = code_object_file(metadata());
  const std::string cut = sound.substr(0, sound.size() - 8);
  const auto kind_of_both = [](const std::string& first, const std::string& second) {
    const std::string bundle =
        bundle_of({{"hipv4-amdgcn-amd-amdhsa--gfx90a", first}, {"hipv4-amdgcn-amd-amdhsa--gfx942", second}});
    return hip::kind_of(bytes_of(bundle));
  };
  CHECK(kind_of_both(sound, sound) == hip::image_kind::bundle);
  CHECK(kind_of_both(cut, sound) == hip::image_kind::broken);
  CHECK(kind_of_both(sound, cut) == hip::image_kind::broken);
  CHECK(hip::kind_of(bytes_of("CCOB" + std::string(20, 'x'))) == hip::image_kind::broken);
  const std::string compressed = "CCOB" + std::string(21, 'x');
  CHECK(hip::kind_of(bytes_of(compressed)) == hip::image_kind::compressed_bundle);
  CHECK_FALSE(hip::code_object_for(bytes_of(compressed), device("gfx942")));
}

TEST_CASE("numbers of every size are read, and negative ones refused") {
  const auto warp_size = [](const std::vector<unsigned>& number) -> std::int64_t {
    message out;
    out.map(1).text("amdhsa.kernels").array(1).map(1).text(".wavefront_size");
    for (const unsigned byte : number) out.byte(byte);
    const auto object = hip::read_code_object(bytes_of(code_object_file(out.bytes())));
    return object ? std::int64_t{object->kernels.at(0).warp_size} : -1;
  };
  CHECK(warp_size({0x40}) == 64);
  CHECK(warp_size({0xcc, 0xff}) == 255);
  CHECK(warp_size({0xcd, 0x12, 0x34}) == 0x1234);
  CHECK(warp_size({0xce, 0xff, 0xff, 0xff, 0xff}) == 0xffffffff);
  CHECK(warp_size({0xcf, 0, 0, 0, 0, 0, 0, 0, 7}) == 7);
  CHECK(warp_size({0xcf, 0, 0, 0, 1, 0, 0, 0, 0}) == -1);
  CHECK(warp_size({0xd0, 0x7f}) == 127);
  CHECK(warp_size({0xd0, 0x80}) == -1);
  CHECK(warp_size({0xd1, 0x40, 0x80}) == 0x4080);
  CHECK(warp_size({0xd1, 0x80, 0}) == -1);
  CHECK(warp_size({0xd2, 0x40, 0x80, 0x80, 0x80}) == 0x40808080);
  CHECK(warp_size({0xd2, 0xff, 0xff, 0xff, 0xff}) == -1);
  CHECK(warp_size({0xd3, 0, 0, 0, 0, 0x80, 0, 0, 0}) == 0x80000000);
  CHECK(warp_size({0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) == -1);
  CHECK(warp_size({0xff}) == -1);
}

TEST_CASE("of entries that fit equally well the first one is taken, and a better one wherever it stands") {
  const auto image_of = [](const std::string& name) {
    return code_object_file(metadata("amdgcn-amd-amdhsa--" + name));
  };
  const auto chosen = [&](const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const std::string& name : names)
      entries.emplace_back("hipv4-amdgcn-amd-amdhsa--" + name.substr(0, name.find('/')), image_of(name));
    const std::string bundle = bundle_of(entries);
    const auto image = hip::code_object_for(bytes_of(bundle), device("gfx942:sramecc+:xnack-"));
    return image ? hip::read_code_object(*image)->target : std::string{"none"};
  };
  CHECK(chosen({"gfx942/first", "gfx942/second"}) == "gfx942/first");
  CHECK(chosen({"gfx942:xnack-", "gfx942:sramecc+"}) == "gfx942:xnack-");
  CHECK(chosen({"gfx942:xnack-", "gfx942"}) == "gfx942:xnack-");
  CHECK(chosen({"gfx942", "gfx942:xnack-"}) == "gfx942:xnack-");
  CHECK(chosen({"gfx942:xnack+", "gfx90a"}) == "none");
}

TEST_CASE("a file that is cut short is broken") {
  const std::string file = code_object_file(metadata());
  for (std::size_t bytes = 0; bytes + 4 < file.size(); ++bytes) {
    const std::string cut = file.substr(0, bytes);
    REQUIRE(hip::kind_of(bytes_of(cut)) == hip::image_kind::broken);
    REQUIRE(!hip::read_code_object(bytes_of(cut)));
  }
}

TEST_CASE("damaged files are read without harm") {
  std::vector<std::string> files{
      code_object_file(metadata()),
      bundle_of({{"hipv4-amdgcn-amd-amdhsa--gfx942", code_object_file(metadata())}})};
  if (const char* const path = switchyard::test::variable("HSACO"); path != nullptr) {
    std::ifstream stream{path, std::ios::binary};
    files.emplace_back(std::istreambuf_iterator<char>{stream}, std::istreambuf_iterator<char>{});
  }
  std::mt19937 random{sy::test::seed_or(12345)};
  int read = 0;
  int refused = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string file = files[random() % files.size()];
    for (std::uint32_t changes = 1 + random() % 8; changes > 0; --changes) {
      const std::size_t near = random() % 3 == 0 ? std::size_t{200} : file.size();
      file[random() % near % file.size()] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    if (random() % 4 == 0) file.resize(random() % file.size());
    // An exact copy on the heap, so that a sanitizer sees one byte too far.
    const std::vector<std::byte> image{bytes_of(file).begin(), bytes_of(file).end()};
    const auto object = hip::code_object_for(image, device("gfx942"));
    (object && hip::read_code_object(*object) ? read : refused)++;
    (void)hip::read_code_object(image);
  }
  CHECK(read > 1000);
  CHECK(refused > 1000);
}
