// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "gguf_writer.hpp"
#include "message.hpp"
#include "unit/temporary.hpp"

namespace {

using namespace switchyard::test;
using llm::gguf_file;
using llm::tensor_type;

constexpr std::array<float, 8> eight{1, 2, 3, 4, 5, 6, 7, 8};

[[nodiscard]] gguf_writer small_file() {
  gguf_writer out;
  out.set("general.architecture", "llama");
  out.set("count", std::uint32_t{7});
  out.set("names", std::vector<std::string>{"a", "", "bc"});
  out.add_tensor("first", tensor_type::f32, {4, 2}, eight);
  out.add_tensor("second", tensor_type::f32, {3}, std::span{eight}.first(3));
  return out;
}

/// The file that has these bytes in place of those at a position.
template <class Number>
[[nodiscard]] std::string with(std::string bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
  return bytes;
}

[[nodiscard]] std::string refusal_of_tensor(tensor_type type, const std::vector<std::uint64_t>& extents,
                                            std::uint64_t offset = 0) {
  gguf_writer file;
  file.add_entry("t", type, extents, offset);
  return refusal(file.bytes());
}

}  // namespace

TEST_CASE("metadata comes back with its type") {
  gguf_writer writer;
  writer.set("u8", std::uint8_t{255});
  writer.set("i8", std::int8_t{-128});
  writer.set("u16", std::uint16_t{65535});
  writer.set("i64", std::numeric_limits<std::int64_t>::min());
  writer.set("u64", std::numeric_limits<std::uint64_t>::max());
  writer.set("f32", 0.5F);
  writer.set("f64", -0.25);
  writer.set("yes", true);
  writer.set("no", false);
  writer.set("text", "with \0 inside");
  writer.set("strings", std::vector<std::string>{"a", "", "b\nc"});
  writer.set("i16s", std::vector<std::int16_t>{-1, 2, -3});
  writer.set("f32s", std::vector<float>{1.5F, -2.5F});
  writer.set("none", std::vector<std::uint32_t>{});
  const std::string bytes = writer.bytes();
  const gguf_file file = open_bytes(bytes);

  CHECK(file.version() == 3);
  CHECK(file.keys().size() == 14);
  CHECK(file.keys()[1] == "i8");
  CHECK(file.contains("yes"));
  CHECK_FALSE(file.contains("absent"));
  CHECK(file.integer<int>("u8") == 255);
  CHECK(file.integer<std::int8_t>("i8") == -128);
  CHECK(file.integer<std::uint16_t>("u16") == 65535);
  CHECK(file.integer<std::int64_t>("i64") == std::numeric_limits<std::int64_t>::min());
  CHECK(file.integer<std::uint64_t>("u64") == std::numeric_limits<std::uint64_t>::max());
  CHECK(file.real("f32") == 0.5);
  CHECK(file.real("f64") == -0.25);
  CHECK(file.boolean("yes"));
  CHECK_FALSE(file.boolean("no"));
  CHECK(file.string("text") == "with ");
  CHECK(file.strings("strings") == std::vector<std::string_view>{"a", "", "b\nc"});
  const auto integers = file.integers("i16s");
  REQUIRE(integers.size() == 3);
  CHECK((integers[0] == -1 && integers[1] == 2 && integers[2] == -3));
  const auto reals = file.reals("f32s");
  REQUIRE(reals.size() == 2);
  CHECK((reals[0] == 1.5 && reals[1] == -2.5));
  CHECK(file.integers("none").size() == 0);

  CHECK(file.find_integer<int>("absent") == std::nullopt);
  CHECK(file.find_real("absent") == std::nullopt);
  CHECK(file.find_boolean("absent") == std::nullopt);
  CHECK(file.find_string("absent") == std::nullopt);
  CHECK_FALSE(file.find_strings("absent").has_value());
  CHECK_FALSE(file.find_integers("absent").has_value());
  CHECK_FALSE(file.find_reals("absent").has_value());
}

TEST_CASE("metadata of another kind than asked for") {
  gguf_writer writer;
  writer.set("text", "x");
  writer.set("number", std::uint32_t{300});
  writer.set("negative", std::int32_t{-5});
  writer.set("large", std::vector<std::uint64_t>{1, std::numeric_limits<std::uint64_t>::max()});
  writer.set("huge", std::numeric_limits<std::uint64_t>::max());
  writer.set("real", 1.0F);
  const std::string bytes = writer.bytes();
  const gguf_file file = open_bytes(bytes);
  const auto said = [](const auto& call) { return message_of<llm::gguf_error>(call); };

  CHECK_THAT(said([&] { return file.integer<int>("absent"); }),
             has_text("test.gguf: the key 'absent' is missing; expected an integer"));
  CHECK_THAT(said([&] { return file.integer<int>("text"); }),
             has_text("test.gguf: the key 'text' has string; expected an integer"));
  CHECK_THAT(said([&] { return file.integer<int>("large"); }),
             has_text("has an array of 2 values of type u64; expected an integer"));
  CHECK_THAT(said([&] { return file.integer<int>("real"); }), has_text("has f32; expected an integer"));
  CHECK_THAT(said([&] { return file.integer<std::uint8_t>("number"); }),
             has_text("the key 'number' has the value 300; expected one from 0 to 255"));
  CHECK_THAT(said([&] { return file.integer<std::uint64_t>("negative"); }),
             has_text("has the value -5; expected one from 0 to"));
  CHECK_THAT(
      said([&] { return file.integer<std::int8_t>("negative") == -5 ? throw llm::gguf_error{"fits"} : 0; }),
      has_text("fits"));
  CHECK_THAT(said([&] { return file.integer<std::int64_t>("huge"); }),
             has_text("has the value 18446744073709551615"));
  CHECK_THAT(said([&] { return file.real("number"); }),
             has_text("has u32; expected a number of type f32 or f64"));
  CHECK_THAT(said([&] { return file.boolean("number"); }), has_text("has u32; expected a boolean"));
  CHECK_THAT(said([&] { return file.string("number"); }), has_text("has u32; expected a string"));
  CHECK_THAT(said([&] { return file.strings("text"); }),
             has_text("has string; expected an array of strings"));
  CHECK_THAT(said([&] { return file.integers("number"); }),
             has_text("has u32; expected an array of integers"));
  CHECK_THAT(said([&] { return file.integers("large"); }),
             has_text("element 1 of the key 'large' is 18446744073709551615"));
  CHECK_THAT(said([&] { return file.reals("large"); }),
             has_text("expected an array of numbers of type f32 or f64"));
}

TEST_CASE("tensors come back with their data") {
  const std::string bytes = small_file().bytes();
  gguf_file opened = open_bytes(bytes);
  const gguf_file file = std::move(opened);  // views stay valid
  REQUIRE(file.tensors().size() == 2);
  const llm::gguf_tensor& first = file.at("first");
  CHECK(first.rank == 2);
  CHECK(first.extents == std::array<std::int64_t, 4>{4, 2, 1, 1});
  CHECK(first.elements() == 8);
  CHECK(first.type == tensor_type::f32);
  REQUIRE(first.data.size() == 32);
  CHECK(std::ranges::equal(first.data, std::as_bytes(std::span{eight})));
  const llm::gguf_tensor* const second = file.find("second");
  REQUIRE(second != nullptr);
  CHECK(second->data.data() - first.data.data() == 32);
  CHECK(file.find("third") == nullptr);
  CHECK_THAT(message_of<llm::gguf_error>([&] { return file.at("third").rank; }),
             has_text("test.gguf: tensor 'third' is missing among the 2 of the file"));
}

TEST_CASE("block formats and names of types") {
  using llm::block_of;
  const auto is = [](tensor_type type, std::int64_t elements, std::int64_t bytes) {
    return block_of(type).elements == elements && block_of(type).bytes == bytes;
  };
  CHECK(is(tensor_type::f32, 1, 4));
  CHECK(is(tensor_type::f16, 1, 2));
  CHECK(is(tensor_type::bf16, 1, 2));
  CHECK(is(tensor_type::q4_0, 32, 18));
  CHECK(is(tensor_type::q4_1, 32, 20));
  CHECK(is(tensor_type::q8_0, 32, 34));
  CHECK(is(tensor_type::q4_k, 256, 144));
  CHECK(is(tensor_type::q6_k, 256, 210));
  CHECK(is(tensor_type::q5_0, 32, 22));
  CHECK(is(tensor_type::q5_1, 32, 24));
  CHECK(is(tensor_type::q5_k, 256, 176));
  CHECK(is(tensor_type::iq4_nl, 32, 18));
  CHECK(is(tensor_type::mxfp4, 32, 17));
  CHECK_FALSE(block_of(tensor_type::q3_k));
  CHECK_FALSE(block_of(tensor_type{77}));
  CHECK(to_string(tensor_type::q4_k) == "Q4_K");
  CHECK(to_string(tensor_type{77}) == "type 77");
}

TEST_CASE("a tensor of a type that is not read fails when it is asked for") {
  gguf_writer writer = small_file();
  writer.add_entry("coarse", tensor_type::q2_k, {256, 2}, 32);
  writer.add_entry("strange", tensor_type{77}, {5}, 32);
  const std::string bytes = writer.bytes();
  const gguf_file file = open_bytes(bytes);
  CHECK(file.tensors().size() == 4);
  CHECK(file.string("general.architecture") == "llama");
  CHECK(file.at("first").data.size() == 32);
  const std::string said = message_of<llm::gguf_error>([&] { return file.at("coarse").rank; });
  CHECK_THAT(said,
             has_text("test.gguf: tensor 'coarse' has the type Q2_K; expected one of F32, F16, BF16, Q4_0"));
  CHECK_THAT(message_of<llm::gguf_error>([&] { return file.find("strange"); }),
             has_text("has the type type 77"));
}

TEST_CASE("a real path, and paths that cannot be read") {
  const temporary_folder folder;
  const std::string path = folder / "a.gguf";
  small_file().write(path);
  CHECK(gguf_file{path}.at("second").data.size() == 12);

  const auto said = [](const std::string& at) {
    return message_of<llm::gguf_error>([&at] { static_cast<void>(gguf_file{at}); });
  };
  CHECK_THAT(said(path + ".absent"), has_text(path + ".absent: cannot be opened: No such file or directory"));
  CHECK_THAT(said(folder.path()), has_text("is a folder"));
  CHECK_THAT(said(folder.write("empty", "")), has_text("is empty. Copy or download it again"));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (::geteuid() != 0) CHECK_THAT(said(path), has_text("Permission denied"));
  CHECK_THAT(said("/dev/null"), has_text("is not a regular file"));
}

TEST_CASE("files of other formats are named") {
  CHECK_THAT(refusal(""), has_text("is empty"));
  CHECK_THAT(refusal("abcdefgh"),
             has_text("is not a GGUF file: starts with 'abcd' instead of 'GGUF'. Check the path"));
  CHECK_THAT(refusal("GG"), has_text("starts with 'GG'"));
  CHECK_THAT(refusal(std::string{"\x01\x00\xff\x7f", 4}), has_text("'\\x01\\x00\\xff\\x7f'"));
  CHECK_THAT(refusal("lmgg\1\0\0\0"), has_text("an old GGML or GGJT file"));
  CHECK_THAT(refusal("tjgg\3\0\0\0"), has_text("an old GGML or GGJT file"));
  CHECK_THAT(refusal("ggjt\3\0\0\0"), has_text("an old GGML or GGJT file"));
  CHECK_THAT(refusal("FUGG\3\0\0\0"), has_text("bytes reversed"));
  CHECK_THAT(refusal(std::string{"\x40\0\0\0\0\0\0\0{\"a\":1}", 15}), has_text("a safetensors file"));
  CHECK_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), has_text("a Git LFS pointer"));
  CHECK_THAT(refusal("<!DOCTYPE html><html>"), has_text("an HTML page"));
  CHECK_THAT(refusal("\n <html>"), has_text("an HTML page"));
  CHECK_THAT(refusal("{\"error\": 404}"), has_text("a JSON file"));
  CHECK_THAT(refusal("PK\x03\x04...."), has_text("a ZIP archive"));
}

TEST_CASE("versions") {
  gguf_writer writer = small_file();
  writer.version = 2;
  const std::string bytes = writer.bytes();
  CHECK(open_bytes(bytes).version() == 2);
  CHECK_THAT(refusal(with(bytes, 4, std::uint32_t{1})),
             has_text("has GGUF version 1; expected 2 or 3. Convert"));
  CHECK_THAT(refusal(with(bytes, 4, std::uint32_t{4})),
             has_text("has GGUF version 4; expected 2 or 3. A newer reader"));
  CHECK_THAT(refusal(with(bytes, 4, std::uint32_t{0x03000000})), has_text("is a big-endian GGUF file"));
}

TEST_CASE("every truncation is refused and says where") {
  const std::string whole = small_file().bytes();
  std::size_t count = 0;
  for (std::size_t length = 1; length < whole.size(); ++length, ++count) {
    const std::string said = refusal(std::string_view{whole}.substr(0, length));
    INFO(length << ": " << said);
    REQUIRE((length < 4 || said.find("truncated") != std::string::npos));
  }
  std::printf("%zu truncations\n", count);
  CHECK_THAT(refusal(whole.substr(0, 10)),
             has_text("truncated or damaged in the header: 8 bytes expected from byte 8 on"));
  CHECK_THAT(
      refusal(whole.substr(0, whole.size() - 1)),
      has_text(
          "is truncated in the tensor data: tensor 'second' (F32, 3) takes 12 bytes at offset 32 of the data "
          "section, which has 43"));
}

TEST_CASE("every damaged byte is refused or read") {
  const std::string whole = small_file().bytes();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      const std::string said = refusal(damaged);
      REQUIRE(said.size() < 500);
      if (said != "(nothing was thrown)") ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("counts and lengths beyond the file") {
  const std::string bytes = small_file().bytes();
  constexpr auto huge = std::uint64_t{1} << 62U;
  CHECK_THAT(refusal(with(bytes, 8, huge)),
             has_text("the header announces 4611686018427387904 tensors, but the file has room for at most"));
  CHECK_THAT(refusal(with(bytes, 16, huge)),
             has_text("the header announces 4611686018427387904 metadata keys"));
  CHECK_THAT(
      refusal(with(bytes, 24, huge)),
      has_text("truncated or damaged in the metadata: 4611686018427387904 bytes expected from byte 32 on"));

  gguf_writer text;
  text.set_raw("k", 8, std::string(8, '\x7f'));
  CHECK_THAT(refusal(text.bytes()), has_text("truncated or damaged in the metadata key 'k'"));

  const auto array = [](std::uint32_t type, std::uint64_t count) {
    std::string value(12, '\0');
    std::memcpy(value.data(), &type, 4);
    std::memcpy(value.data() + 4, &count, 8);
    gguf_writer file;
    file.set_raw("k", 9, value);
    return refusal(file.bytes());
  };
  CHECK_THAT(array(4, huge),
             has_text("the metadata key 'k' is an array of 4611686018427387904 values of type u32"));
  CHECK_THAT(array(8, huge), has_text("is an array of 4611686018427387904 values of type string"));
  CHECK_THAT(array(12, ~std::uint64_t{0}), has_text("18446744073709551615 values of type f64"));
  CHECK_THAT(array(9, 1), has_text("the metadata key 'k' is an array of arrays"));
  CHECK_THAT(array(13, 1), has_text("the metadata key 'k' has the unknown value type 13; expected 0 to 12"));
}

TEST_CASE("metadata that contradicts itself") {
  gguf_writer twice;
  twice.set("k", true);
  twice.set("k", true);
  CHECK_THAT(refusal(twice.bytes()), has_text("the metadata key 'k' appears twice"));
  gguf_writer type;
  type.set_raw("k", 99, "abcd");
  CHECK_THAT(refusal(type.bytes()), has_text("the metadata key 'k' has the unknown value type 99"));
}

TEST_CASE("alignment") {
  gguf_writer writer;
  writer.alignment = 8;
  writer.set("general.alignment", std::uint32_t{8});
  writer.add_tensor("a", tensor_type::f32, {1}, std::span{eight}.first(1));
  writer.add_tensor("b", tensor_type::f32, {1}, std::span{eight}.first(1));
  const std::string bytes = writer.bytes();
  const gguf_file file = open_bytes(bytes);
  CHECK(file.alignment() == 8);
  CHECK(file.at("b").data.data() - file.at("a").data.data() == 8);
  for (const std::uint32_t bad : {0U, 1U, 4U, 24U, 48U}) {
    gguf_writer other;
    other.set("general.alignment", bad);
    CHECK_THAT(refusal(other.bytes()), has_text("general.alignment is " + std::to_string(bad) +
                                                "; expected a power of two of at least 8"));
  }
  gguf_writer text;
  text.set("general.alignment", "32");
  CHECK_THAT(refusal(text.bytes()), has_text("the key 'general.alignment' has string; expected an integer"));
  gguf_writer largest;  // the data section would start far beyond the end
  largest.set("general.alignment", std::uint32_t{1} << 31U);
  CHECK(refusal(largest.bytes()) == "(nothing was thrown)");
}

TEST_CASE("tensors that cannot be") {
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {}), has_text("tensor 't' has rank 0; expected 1 to 4"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {1, 1, 1, 1, 1}),
             has_text("tensor 't' has rank 5; expected 1 to 4"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {4, 0}), has_text("tensor 't' has the extent 0"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {std::uint64_t{1} << 63U}),
             has_text("has the extent 9223372036854775808"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {1U << 31U, 1U << 31U, 2}),
             has_text("tensor 't' has too many elements"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {std::uint64_t{1} << 62U}),
             has_text("has a size in bytes that exceeds 64 bits"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {1}, 4),
             has_text("tensor 't' has the offset 4; expected a multiple of 32"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {1}, 1U << 30U),
             has_text("takes 4 bytes at offset 1073741824 of the data section, which has 0"));
  CHECK_THAT(refusal_of_tensor(tensor_type::f32, {1}, ~std::uint64_t{31}),
             has_text("truncated in the tensor data"));
  CHECK_THAT(
      refusal_of_tensor(tensor_type::q4_k, {128, 2}),
      has_text(
          "tensor 't' (128 x 2) has rows of 128 elements; expected a multiple of 256, the block of Q4_K"));
  gguf_writer twice = small_file();
  twice.add_entry("first", tensor_type::f32, {1}, 0);
  CHECK_THAT(refusal(twice.bytes()), has_text("tensor 'first' appears twice"));
  gguf_writer name;
  name.add_entry(std::string(300, '\n'), tensor_type::f32, {0}, 0);
  CHECK(refusal(name.bytes()).size() < 400);
}
