// SPDX-License-Identifier: MIT
// Instructions that compute in all lanes at once, also those of matrices.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "matrix.hpp"
#include "wave.hpp"

namespace emulator {

namespace {

/// Of eight bytes that are 0 or 1, one product makes a byte of eight bits.
std::uint64_t pack_bits(const row& bits) {
  std::array<std::uint8_t, lanes> bytes;
  for (unsigned lane = 0; lane < lanes; ++lane) bytes[lane] = static_cast<std::uint8_t>(bits[lane] & 1U);
  std::uint64_t mask = 0;
  for (unsigned i = 0; i < lanes / 8; ++i) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data() + std::size_t{8} * i, sizeof eight);
    mask |= (eight * 0x0102040810204080U >> 56U) << 8 * i;
  }
  return mask;
}

/// In halves of 32 bits, which compilers make vector instructions of.
void spread_bits(std::uint64_t mask, row& bits, std::uint32_t one) {
  for (unsigned first = 0; first < lanes; first += 32) {
    const auto half = static_cast<std::uint32_t>(mask >> first);
    for (unsigned lane = 0; lane < 32; ++lane) bits[first + lane] = (0U - (half >> lane & 1U)) & one;
  }
}

}  // namespace

void wave::refresh_mask() {
  if (mask_known_ && mask_is_of_ == exec()) return;
  mask_is_of_ = exec();
  mask_known_ = true;
  spread_bits(mask_is_of_, mask_, ~0U);
}

void wave::execute_vector(const instruction& what, row* forced_result) {
  const kind& kind_of = *what.what;
  refresh_mask();
  const row* written = &mask_;
  vector_call call{};
  for (unsigned i = 0; i < 3; ++i) call.source[i] = source(what, i);
  if (what.dpp >= 0) written = &lanes_written_;
  if (kind_of.reads_carry) spread_bits(lane_mask(what.mask_source), carry_in_, 1);
  call.mask = written->lane;
  call.carry_in = carry_in_.lane;
  call.carry_out = carry_out_.lane;
  call.literal = what.literal;
  call.opsel = what.opsel;
  call.opsel_hi = what.opsel_hi;
  call.neg = what.neg;
  call.ieee = kernel_->ieee;
  const unsigned rows = kind_of.result_bits == 0 ? 0 : kind_of.result_bits > 32 ? 2 : 1;
  const bool direct = rows != 0 && forced_result == nullptr && what.plain_result;
  row* const computed = forced_result == nullptr ? result_.data() : forced_result;
  if (direct) {
    call.result = vector(what.result, rows)->lane;
  } else if (rows != 0) {
    std::copy_n(vector(what.result, rows), rows, computed);
    if ((what.opsel & 8U) != 0 || what.high_result) {
      for (std::uint32_t& lane : computed->lane) lane >>= 16U;
    }
    call.result = computed->lane;
  }
  kind_of.vector(call);
  if (rows != 0 && !direct && forced_result == nullptr) finish_result(what, computed);
  if (kind_of.writes_carry || kind_of.writes_exec) {
    const std::uint64_t mask = pack_bits(carry_out_) & exec();
    if (kind_of.writes_carry) set_lane_mask(what.mask_result, mask);
    if (kind_of.writes_exec) set_exec(mask);
  }
}

void wave::finish_result(const instruction& what, const row* computed) {
  const kind& kind_of = *what.what;
  const unsigned rows = kind_of.result_bits > 32 ? 2 : 1;
  row* const to = vector(what.result, rows);
  const row& written = what.dpp >= 0 ? lanes_written_ : mask_;
  if ((what.omod != 0 || what.clamp) && kind_of.result_type != number::f32 && kind_of.result_bits != 0) {
    if (!(what.clamp && what.omod == 0 && kind_of.result_type == number::integer))
      throw fault{"clamps or scales what is no f32, which is not known"};
  }
  for (unsigned i = 0; i < rows; ++i) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (written[lane] == 0) continue;
      std::uint32_t value = computed[i][lane];
      if (kind_of.result_type == number::f32 && (what.omod != 0 || what.clamp)) {
        auto real = std::bit_cast<float>(value);
        if (what.omod != 0) real *= what.omod == 1 ? 2.0F : what.omod == 2 ? 4.0F : 0.5F;
        if (what.clamp) real = real > 0 ? std::min(real, 1.0F) : 0.0F;
        value = bits_of(real);
      }
      std::uint32_t& old = to[i][lane];
      if ((what.opsel & 8U) != 0 || what.high_result) {
        value = (old & 0xffffU) | value << 16U;
      } else if (what.result_select != 6) {
        const unsigned select = what.result_select;
        const unsigned shift = select < 4 ? 8 * select : 16 * (select - 4);
        const std::uint32_t field = (select < 4 ? 0xffU : 0xffffU) << shift;
        const std::uint32_t placed = value << shift & field;
        std::uint32_t rest = what.result_unused == 2 ? old & ~field : 0;
        if (what.result_unused == 1 && (placed & (field ^ field >> 1U) & field) != 0)
          rest = ~(field | (field - 1));
        value = placed | rest;
      }
      old = value;
    }
  }
}

/// Of the scalar operands' value, whatever EXEC says.
void wave::execute_one_lane(const instruction& what) {
  static constexpr row all = [] {
    row ones{};
    for (std::uint32_t& lane : ones.lane) lane = ~0U;
    return ones;
  }();
  if (!what.plain_result) throw fault{"changes its result, which is not known"};
  row result{};
  vector_call call{};
  for (unsigned i = 0; i < 3; ++i) call.source[i] = source(what, i);
  call.mask = all.lane;
  call.result = result.lane;
  call.opsel = what.opsel;
  call.neg = what.neg;
  what.what->vector(call);
  set_scalar(what.result, result[0]);
}

/// Both halves read before either writes.
void wave::execute_dual(const instruction& what) {
  execute_vector(what, first_of_two_.data());
  execute_vector(*what.second);
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) to[lane] = first_of_two_[0][lane];
  }
}

/// Of all lanes, whatever EXEC says.
void wave::execute_matrix(const instruction& what) {
  const matrix_kind& kind_of = *what.matrix;
  const unsigned factors = kind_of.factor_registers();
  const unsigned sums = kind_of.sum_registers();
  const bool is_constant = what.source[2] < 256;
  const float constant = is_constant ? std::bit_cast<float>(static_cast<std::uint32_t>(
                                           scalar(what.source[2], 32, number::f32, what.literal)))
                                     : 0;
  multiply(kind_of, vector(what.source[0], factors), vector(what.source[1], factors),
           is_constant ? nullptr : vector(what.source[2], sums), constant, vector(what.result, sums));
}

}  // namespace emulator
