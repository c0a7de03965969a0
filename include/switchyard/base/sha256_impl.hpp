// SPDX-License-Identifier: MIT
// The bodies of sha256.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/sha256.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace switchyard {
inline namespace v0 {
namespace detail {

inline constexpr std::array<std::uint32_t, 64> sha256_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

SWITCHYARD_FUNCTION void sha256_blocks_portable(sha256_state& state, const std::byte* data,
                                                std::size_t blocks) noexcept {
  for (; blocks > 0; --blocks, data += 64) {
    std::array<std::uint32_t, 64> w;  // NOLINT(cppcoreguidelines-pro-type-member-init): written below
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = std::to_integer<std::uint32_t>(data[4 * i]) << 24U |
             std::to_integer<std::uint32_t>(data[4 * i + 1]) << 16U |
             std::to_integer<std::uint32_t>(data[4 * i + 2]) << 8U |
             std::to_integer<std::uint32_t>(data[4 * i + 3]);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + sha256_constants[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const sha256_state add{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)

SWITCHYARD_FUNCTION bool has_sha_instructions() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!__builtin_cpu_supports("sse4.1")) return false;
  // A virtual machine traps cpuid, which then takes microseconds. Where there is AVX2, leaf 7 exists.
  if (__builtin_cpu_supports("avx2")) {
    __cpuid_count(7, 0, a, b, c, d);
  } else if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
    return false;
  }
  return (b & (1U << 29U)) != 0;
}

/// Sums modulo 2^32; the builtins' signed lanes may not overflow.
[[nodiscard]] inline v4si add_words(v4si a, v4si b) noexcept {
  return reinterpret_cast<v4si>(reinterpret_cast<v4su>(a) + reinterpret_cast<v4su>(b));
}

SWITCHYARD_FUNCTION __attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_x86(
    sha256_state& state, const std::byte* data, std::size_t blocks) noexcept {
  // The instructions want the state as (f e b a) and (h g d c), lowest lane first.
  const auto word = [&state](std::size_t i) { return static_cast<int>(state[i]); };
  v4si abef{word(5), word(4), word(1), word(0)};
  v4si cdgh{word(7), word(6), word(3), word(2)};
  constexpr v16qi big_endian{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12};
  for (; blocks > 0; --blocks, data += 64) {
    const v4si abef_before = abef;
    const v4si cdgh_before = cdgh;
    std::array<v4si, 4> w;  // NOLINT(cppcoreguidelines-pro-type-member-init): written below
    for (std::size_t i = 0; i < 4; ++i) {
      v16qi raw;
      std::memcpy(&raw, data + 16 * i, 16);
      w[i] = reinterpret_cast<v4si>(__builtin_ia32_pshufb128(raw, big_endian));
    }
    for (std::size_t i = 0; i < 16; ++i) {
      v4si constants;
      std::memcpy(&constants, &sha256_constants[4 * i], 16);
      const v4si& now = w[i % 4];
      v4si sum = add_words(now, constants);
      cdgh = __builtin_ia32_sha256rnds2(cdgh, abef, sum);
      sum = v4si{sum[2], sum[3], 0, 0};
      abef = __builtin_ia32_sha256rnds2(abef, cdgh, sum);
      if (i >= 3 && i < 15) {
        // w[t] for the next four: message schedule of FIPS 180-4, 6.2.2
        v4si& next = w[(i + 1) % 4];
        const v4si middle = {w[(i + 3) % 4][1], w[(i + 3) % 4][2], w[(i + 3) % 4][3], now[0]};
        next = __builtin_ia32_sha256msg2(add_words(__builtin_ia32_sha256msg1(next, w[(i + 2) % 4]), middle),
                                         now);
      }
    }
    abef = add_words(abef, abef_before);
    cdgh = add_words(cdgh, cdgh_before);
  }
  const auto put = [&state](std::size_t i, int value) { state[i] = static_cast<std::uint32_t>(value); };
  put(0, abef[3]);
  put(1, abef[2]);
  put(4, abef[1]);
  put(5, abef[0]);
  put(2, cdgh[3]);
  put(3, cdgh[2]);
  put(6, cdgh[1]);
  put(7, cdgh[0]);
}

#endif

inline void sha256_blocks(sha256_state& state, const std::byte* data, std::size_t blocks) noexcept {
#if defined(__x86_64__)
  static const bool hardware = has_sha_instructions();
  if (hardware) return sha256_blocks_x86(state, data, blocks);
#endif
  sha256_blocks_portable(state, data, blocks);
}

}  // namespace detail

SWITCHYARD_FUNCTION std::string sha256(std::span<const std::byte> data) {
  detail::sha256_state state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::size_t whole = data.size() / 64;
  detail::sha256_blocks(state, data.data(), whole);
  std::array<std::byte, 128> tail{};
  const std::size_t rest = data.size() - whole * 64;
  if (rest > 0) std::memcpy(tail.data(), data.data() + whole * 64, rest);
  tail[rest] = std::byte{0x80};
  const std::size_t tail_bytes = rest < 56 ? 64 : 128;
  const std::uint64_t bits = static_cast<std::uint64_t>(data.size()) * 8;
  for (std::size_t i = 0; i < 8; ++i) {
    tail[tail_bytes - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  }
  detail::sha256_blocks(state, tail.data(), tail_bytes / 64);
  std::string out;
  out.reserve(64);
  for (const std::uint32_t word : state) {
    for (unsigned shift = 32; shift > 0;) {
      shift -= 4;
      out += "0123456789abcdef"[(word >> shift) & 15U];
    }
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
