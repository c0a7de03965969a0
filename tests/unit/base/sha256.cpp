// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/sha256.hpp>

using namespace switchyard;

namespace {

std::string digest(std::string_view text) {
  return sha256(std::as_bytes(std::span{text.data(), text.size()}));
}

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random{static_cast<unsigned>(count)};
  std::vector<std::byte> out(count);
  for (auto& byte : out) byte = static_cast<std::byte>(random() & 255U);
  return out;
}

// The padding of FIPS 180-4, 5.1.1 done in full, and the compression without special instructions.
std::string padded_and_portable(std::vector<std::byte> bytes) {
  const std::uint64_t bits = bytes.size() * 8;
  bytes.push_back(std::byte{0x80});
  while (bytes.size() % 64 != 56) bytes.push_back(std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::byte>(bits >> shift));
  detail::sha256_state state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  detail::sha256_blocks_portable(state, bytes.data(), bytes.size() / 64);
  std::string out;
  for (const std::uint32_t word : state) {
    for (unsigned shift = 32; shift > 0;) out += "0123456789abcdef"[(word >> (shift -= 4)) & 15U];
  }
  return out;
}

}  // namespace

TEST_CASE("digests are those of the FIPS 180-4 examples") {
  CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest(
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
            "mnopqrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(digest(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("every length from 0 to 300 is padded right") {
  for (std::size_t length = 0; length <= 300; ++length) {
    const auto bytes = random_bytes(length);
    INFO("length " << length);
    REQUIRE(sha256(bytes) == padded_and_portable(bytes));
  }
}

#if defined(__x86_64__)
TEST_CASE("the SHA instructions and the portable code agree") {
  if (!detail::has_sha_instructions()) return;  // nothing to compare on this processor
  for (std::size_t blocks = 0; blocks < 20; ++blocks) {
    const auto bytes = random_bytes(64 * blocks + 1);
    detail::sha256_state hardware{1, 2, 3, 4, 5, 6, 7, 0xffffffff};
    detail::sha256_state portable = hardware;
    detail::sha256_blocks_x86(hardware, bytes.data() + 1, blocks);  // unaligned
    detail::sha256_blocks_portable(portable, bytes.data() + 1, blocks);
    INFO("blocks " << blocks);
    REQUIRE(hardware == portable);
  }
}
#endif
