// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), which pins blobs to their manifests. Uses the x86 SHA instructions where they exist.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

using sha256_state = std::array<std::uint32_t, 8>;

void sha256_blocks_portable(sha256_state& state, const std::byte* data, std::size_t blocks) noexcept;

#if defined(__x86_64__)

[[nodiscard]] bool has_sha_instructions() noexcept;

// Compiler builtins rather than <immintrin.h>, which alone would double what this header costs to compile.
using v4si = int __attribute__((vector_size(16)));
using v4su = unsigned __attribute__((vector_size(16)));
using v16qi = char __attribute__((vector_size(16)));

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_x86(sha256_state& state, const std::byte* data,
                                                                   std::size_t blocks) noexcept;

#endif

}  // namespace detail

/// Digest of bytes as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::span<const std::byte> data);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/base/sha256_impl.hpp>
#endif
