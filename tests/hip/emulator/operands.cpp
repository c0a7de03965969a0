// SPDX-License-Identifier: MIT
// Registers, and what an instruction does to its sources before it uses them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "wave.hpp"

namespace emulator {

namespace {

std::uint64_t inline_float(unsigned code, unsigned bits, number type) {
  constexpr double values[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4, 0.15915494309189532};
  const double value = values[code - 240];
  if (type == number::f16 || type == number::packed_f16 || bits == 16) return half{value}.bits;
  if (type == number::packed_f32 || bits <= 32) return bits_of(static_cast<float>(value));
  return bits_of(value);
}

}  // namespace

row* wave::vector(std::uint16_t code, unsigned rows) {
  const std::size_t first = code - 256U;
  if (code < 256 || first + rows > v.size()) {
    throw fault{"uses v" + std::to_string(first) + ", of which the kernel has " + std::to_string(v.size())};
  }
  return &v[first];
}

std::uint64_t wave::scalar(std::uint16_t code, unsigned bits, number type, std::uint32_t literal) const {
  if (!is_cdna && code == 124) return 0;
  if (code < 128)
    return bits <= 32 ? s[code] : s[code] | static_cast<std::uint64_t>(s[(code + 1U) % 128]) << 32U;
  if (code <= 192) return code - 128U;
  if (code <= 208) return static_cast<std::uint64_t>(192 - static_cast<std::int64_t>(code));
  if (code == 235) return bits <= 32 ? shared_base >> 32U : shared_base;
  if (code == 237) return bits <= 32 ? private_base >> 32U : private_base;
  if (code >= 240 && code <= 248) return inline_float(code, bits, type);
  if (code == 251) return lane_mask(106) == 0 ? 1 : 0;
  if (code == 252) return exec() == 0 ? 1 : 0;
  if (code == 253) return scc;
  if (code == 255) {
    if (type == number::f64) return static_cast<std::uint64_t>(literal) << 32U;
    return type == number::signed64
               ? static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(literal)})
               : literal;
  }
  throw fault{"reads source " + std::to_string(code) + ", which is not known"};
}

void wave::set_scalar(std::uint16_t code, std::uint32_t value) {
  if (!is_cdna && code == 124) return;
  if (code >= 128) throw fault{"writes scalar register " + std::to_string(code)};
  s[code] = value;
}

std::uint64_t wave::lane_mask(std::uint16_t code) const {
  return scalar(code, lanes, number::integer, 0);
}

void wave::set_lane_mask(std::uint16_t code, std::uint64_t mask) {
  set_scalar(code, static_cast<std::uint32_t>(mask));
  if (lanes == 64) set_scalar(static_cast<std::uint16_t>(code + 1), static_cast<std::uint32_t>(mask >> 32U));
}

/// The rows of a source, with what the instruction does to it before it is used.
const std::uint32_t* wave::source(const instruction& what, unsigned index) {
  const unsigned bits = what.what->bits[index];
  if (bits == 0) return nullptr;
  const unsigned rows = bits > 32 ? 2 : 1;
  const std::uint16_t code = what.source[index];
  if (code >= 256 && what.plain) return vector(code, rows)->lane;
  row* const value = sources_[index].data();
  if (code >= 256) {
    std::copy_n(vector(code, rows), rows, value);
  } else {
    const std::uint64_t all = scalar(code, bits, what.what->type[index], what.literal);
    for (unsigned i = 0; i < rows; ++i)
      std::fill_n(value[i].lane, lanes, static_cast<std::uint32_t>(all >> 32 * i));
  }
  if (!what.plain) apply_modifiers(what, index, value);
  return value->lane;
}

void wave::permute_lanes(const instruction& what, row& value) {
  const row before = value;
  const auto control = static_cast<unsigned>(what.dpp);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const unsigned in_row = lane % 16;
    const unsigned base = lane - in_row;
    int from = -1;
    if (control < 0x100)
      from = static_cast<int>((lane & ~3U) + (control >> 2 * (lane & 3U) & 3U));
    else if (control >= 0x101 && control <= 0x10f)
      from = in_row + (control & 15U) < 16 ? static_cast<int>(lane + (control & 15U)) : -1;
    else if (control >= 0x111 && control <= 0x11f)
      from = in_row >= (control & 15U) ? static_cast<int>(lane - (control & 15U)) : -1;
    else if (control >= 0x121 && control <= 0x12f)
      from = static_cast<int>(base + (in_row + 16 - (control & 15U)) % 16);
    else if (is_cdna && control == 0x130)
      from = lane + 1 < lanes ? static_cast<int>(lane + 1) : -1;
    else if (is_cdna && control == 0x134)
      from = static_cast<int>((lane + 1) % lanes);
    else if (is_cdna && control == 0x138)
      from = static_cast<int>(lane) - 1;
    else if (is_cdna && control == 0x13c)
      from = static_cast<int>((lane + lanes - 1) % lanes);
    else if (control == 0x140)
      from = static_cast<int>(base + 15 - in_row);
    else if (control == 0x141)
      from = static_cast<int>((lane & ~7U) + 7 - (lane & 7U));
    else if (is_cdna && control == 0x142)
      from = lane >= 16 ? static_cast<int>(base - 1) : -1;
    else if (is_cdna && control == 0x143)
      from = lane >= 32 ? 31 : -1;
    else if (control >= 0x150 && control <= 0x15f)
      from = static_cast<int>(base + (control & 15U));
    else if (!is_cdna && control >= 0x160 && control <= 0x16f)
      from = static_cast<int>(base + (in_row ^ (control & 15U)));
    else
      throw fault{"has the DPP control " + std::to_string(control) + ", which is not known"};
    const bool reads = from >= 0 && (what.fetch_inactive || mask_[static_cast<unsigned>(from)] != 0);
    value[lane] = reads ? before[static_cast<unsigned>(from)] : 0;
    const bool enabled =
        (what.row_mask >> (lane / 16) & 1U) != 0 && (what.bank_mask >> (in_row / 4) & 1U) != 0;
    lanes_written_[lane] = enabled && (reads || what.bound_control) ? mask_[lane] : 0;
  }
}

/// The halves that a packed instruction takes of a source, and their signs.
void wave::pack(const instruction& what, unsigned index, row* value) {
  const std::string_view name = what.what->name;
  const bool low_from_high = (what.opsel >> index & 1U) != 0;
  const bool high_from_high = (what.opsel_hi >> index & 1U) != 0;
  const bool neg = (what.neg >> index & 1U) != 0;
  const bool neg_hi = (what.neg_hi >> index & 1U) != 0;
  if (name.find("_MIX") != std::string_view::npos) {  // the pseudocode selects; neg_hi is the absolute value
    const std::uint32_t signs = high_from_high ? 0x80008000U : 0x80000000U;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (neg_hi) value[0][lane] &= ~signs;
      if (neg) value[0][lane] ^= signs;
    }
    return;
  }
  if (what.what->bits[index] == 64) {
    if (what.source[index] >= 128 && what.source[index] < 256 && (low_from_high || high_from_high))
      std::copy_n(value, 1, value + 1);  // a constant is in both halves
    const std::array<row, 2> before{value[0], value[1]};
    value[0] = before[low_from_high ? 1 : 0];
    value[1] = before[high_from_high ? 1 : 0];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (neg) value[0][lane] ^= 0x80000000U;
      if (neg_hi) value[1][lane] ^= 0x80000000U;
    }
    return;
  }
  const number type = what.what->type[index];
  if (type != number::packed_f16 && type != number::packed_integer) {
    if (neg) {
      for (std::uint32_t& lane : value->lane) lane ^= 0x80000000U;
    }
    return;
  }
  for (std::uint32_t& lane : value->lane) {
    std::uint32_t low = low_from_high ? lane >> 16U : lane & 0xffffU;
    std::uint32_t high = high_from_high ? lane >> 16U : lane & 0xffffU;
    if (neg) low ^= 0x8000U;
    if (neg_hi) high ^= 0x8000U;
    lane = low | high << 16U;
  }
}

void wave::apply_modifiers(const instruction& what, unsigned index, row* value) {
  if (what.shape == form::vop3p) {
    pack(what, index, value);
    return;
  }
  const unsigned bits = what.what->bits[index];
  if (what.dpp >= 0 && index == 0) {
    if (bits > 32) throw fault{"permutes the lanes of 64-bit values, which is not known"};
    permute_lanes(what, *value);
  }
  if (index < 2 && what.select[index] != 6) {
    const unsigned select = what.select[index];
    const unsigned shift = select < 4 ? 8 * select : 16 * (select - 4);
    const unsigned width = select < 4 ? 8 : 16;
    for (std::uint32_t& lane : value->lane) {
      lane = lane >> shift & ((1U << width) - 1);
      if (what.sign_extend[index])
        lane = static_cast<std::uint32_t>(static_cast<std::int32_t>(lane << (32 - width)) >> (32 - width));
    }
  }
  if ((what.high_sources >> index & 1U) != 0 || (bits == 16 && (what.opsel >> index & 1U) != 0)) {
    for (std::uint32_t& lane : value->lane) lane >>= 16U;
  }
  const std::uint32_t top = bits == 16 ? 0x8000U : 0x80000000U;
  row& signs = value[bits > 32 ? 1 : 0];
  if ((what.abs >> index & 1U) != 0) {
    for (std::uint32_t& lane : signs.lane) lane &= ~top;
  }
  if ((what.neg >> index & 1U) != 0) {
    for (std::uint32_t& lane : signs.lane) lane ^= top;
  }
}

}  // namespace emulator
