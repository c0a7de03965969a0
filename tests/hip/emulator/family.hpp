// SPDX-License-Identifier: MIT
// Which instruction set this library executes: one library is built for each family.
#pragma once

#include <cstdint>

namespace emulator {

enum class family : std::uint8_t { cdna, rdna3, rdna4 };
constexpr family emulated = family::EMULATOR_FAMILY;
constexpr bool is_cdna = emulated == family::cdna;
/// Of a wave.
constexpr unsigned lanes = is_cdna ? 64 : 32;

}  // namespace emulator
