// SPDX-License-Identifier: MIT
// Tensors for calls that are made and checked, and never run; and what a call that cannot be made says.
#pragma once

#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>

namespace switchyard::test {

alignas(64) inline std::array<std::byte, 4096> call_memory{};

/// A tensor somewhere in memory; each place gives another address.
template <std::size_t Rank>
[[nodiscard]] tensor at(std::size_t place, const std::int64_t (&extents)[Rank], dtype type = dtype::bf16) {
  return {call_memory.data() + 64 * place, type, extents};
}

/// Why a call cannot be made; empty when it can.
[[nodiscard]] std::string refusal(const auto& make) {
  try {
    (void)make();
  } catch (const call_error& problem) {
    CHECK(problem.code() == error_code::invalid_argument);
    return std::string{problem.message()};
  }
  return {};
}

}  // namespace switchyard::test
