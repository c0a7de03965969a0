// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>

#include "matrix.hpp"
#include "wave.hpp"

namespace emulator {

namespace {

std::mutex atomics;  // NOLINT: read-modify-write of workgroups that run on other threads

std::uint64_t inline_float(unsigned code, unsigned bits, number type) {
  constexpr double values[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4, 0.15915494309189532};
  const double value = values[code - 240];
  if (type == number::f16 || type == number::packed_f16 || bits == 16) return half{value}.bits;
  if (type == number::packed_f32 || bits <= 32) return bits_of(static_cast<float>(value));
  return bits_of(value);
}

std::uint64_t pack_bits(const row& bits) {
  std::uint64_t mask = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) mask |= static_cast<std::uint64_t>(bits[lane] & 1U) << lane;
  return mask;
}

void spread_bits(std::uint64_t mask, row& bits, std::uint32_t one) {
  for (unsigned lane = 0; lane < lanes; ++lane) bits[lane] = (mask >> lane & 1U) != 0 ? one : 0;
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

void wave::refresh_mask() {
  if (mask_known_ && mask_is_of_ == exec()) return;
  mask_is_of_ = exec();
  mask_known_ = true;
  spread_bits(mask_is_of_, mask_, ~0U);
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

/// Both halves read before either writes.
void wave::execute_dual(const instruction& what) {
  execute_vector(what, first_of_two_.data());
  execute_vector(*what.second);
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) to[lane] = first_of_two_[0][lane];
  }
}

void wave::execute_scalar(const instruction& what) {
  const kind& kind_of = *what.what;
  scalar_call call{};
  for (unsigned i = 0; i < 2; ++i) {
    if (kind_of.bits[i] == 0) continue;
    call.source[i] = what.shape == form::sopk && i == 0
                         ? static_cast<std::uint64_t>(what.immediate)
                         : scalar(what.source[i], kind_of.bits[i], kind_of.type[i], what.literal);
  }
  const bool writes = kind_of.result_bits != 0;
  if (writes) call.result = scalar(what.result, kind_of.result_bits, number::integer, 0);
  call.exec = exec();
  call.vcc = lane_mask(106);
  call.scc = scc;
  call.literal = what.literal;
  const std::uint64_t exec_before = call.exec;
  const std::uint64_t vcc_before = call.vcc;
  kind_of.scalar(call);
  scc = call.scc;
  if (call.vcc != vcc_before) set_lane_mask(106, call.vcc);
  if (call.exec != exec_before) set_exec(call.exec);
  if (!writes) return;
  set_scalar(what.result, static_cast<std::uint32_t>(call.result));
  if (kind_of.result_bits > 32)
    set_scalar(static_cast<std::uint16_t>(what.result + 1), static_cast<std::uint32_t>(call.result >> 32U));
}

wave::reached wave::addresses(const instruction& what) {
  reached out{{}, exec()};
  const bool has_base = what.mask_source != 0xffff;
  if (what.shape == form::scratch) {
    const std::uint64_t base = private_base + (has_base ? s[what.mask_source] : 0U);
    const row* const offsets = what.has_offset ? vector(what.source[0], 1) : nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint64_t offset = offsets == nullptr ? 0 : (*offsets)[lane];
      out.address[lane] = base + offset + static_cast<std::uint64_t>(std::int64_t{what.immediate});
    }
    return out;
  }
  const bool wide = what.shape != form::ds && !has_base;
  const row* const low = vector(what.source[0], wide ? 2 : 1);
  std::uint64_t base = has_base ? scalar(what.mask_source, 64, number::integer, 0) : 0;
  if (what.what->adds_offset || what.shape != form::ds)
    base += static_cast<std::uint64_t>(std::int64_t{what.immediate});
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::uint64_t address = low[0][lane];
    if (wide) address |= static_cast<std::uint64_t>(low[1][lane]) << 32U;
    address += base;
    out.address[lane] = memory.shared ? address & 0xffffffffU : address;
  }
  return out;
}

/// Lanes that leave the buffer take no part.
wave::reached wave::addresses_in_buffer(const instruction& what, unsigned bytes) {
  std::uint32_t word[4];
  for (unsigned i = 0; i < 4; ++i) word[i] = s[what.mask_source + i];
  const std::uint64_t base = word[0] | static_cast<std::uint64_t>(word[1] & 0xffffU) << 32U;
  const std::uint32_t stride = word[1] >> 16U & 0x3fffU;
  const bool is_raw = is_cdna ? stride == 0 : (word[3] >> 28U & 3U) == 3;
  // What begins as garbage has bits set that no compiler sets: of swizzled buffers, and that add the lane.
  const bool is_scratch = word[1] >> 31U != 0 && word[3] == scratch_buffer;
  if (!is_scratch && ((word[1] >> 30U) != 0 || (word[3] >> 23U & 1U) != 0 || !is_raw || what.has_index))
    throw fault{"accesses a buffer that is not raw, which is not known"};
  const std::uint64_t scalar_offset = scalar(what.source[2], 32, number::integer, 0);
  const row* const offsets = what.has_offset ? vector(what.source[0], 1) : nullptr;
  reached out{{}, exec()};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const std::uint64_t offset = std::uint64_t{offsets == nullptr ? 0 : (*offsets)[lane]} +
                                 static_cast<std::uint64_t>(what.immediate) + scalar_offset;
    out.address[lane] = (is_scratch ? private_base : base) + offset;
    if (!is_scratch && offset + bytes > word[2]) out.mask &= ~(std::uint64_t{1} << lane);
  }
  return out;
}

void wave::execute_memory(const instruction& what) {
  const kind& kind_of = *what.what;
  refresh_mask();
  memory.shared = what.shape == form::ds;
  // Its order to what other waves do would be open.
  if (memory.shared && signalled_)
    throw fault{"accesses the LDS between a barrier's signal and wait, which is not known"};
  pending one;
  const unsigned loaded = what.returns ? (kind_of.result_bits + 31U) / 32 : 0;
  one.kind = memory.shared ? arrival::shared : loaded == 0 ? arrival::store : arrival::vector;
  one.exec = exec();
  one.result = what.result;
  one.rows = static_cast<std::uint8_t>(loaded);
  one.mask = kind_of.loaded_mask;
  memory_call call{
      &memory,      nullptr,     nullptr, one.data.data(), static_cast<std::uint32_t>(what.immediate),
      what.offset0, what.offset1};
  const unsigned data = (kind_of.bits[0] + 31U) / 32;
  if (data != 0) call.data = vector(what.source[1], data);
  if (kind_of.bits[1] != 0) call.data2 = vector(what.source[2], (kind_of.bits[1] + 31U) / 32);
  row* const result = loaded == 0 ? nullptr : vector(what.result, loaded);
  if (result != nullptr) std::copy_n(result, loaded, one.data.data());
  const reached where =
      what.does == work::buffer ? addresses_in_buffer(what, kind_of.access_bytes) : addresses(what);
  {
    std::unique_lock<std::mutex> lock{atomics, std::defer_lock};
    memory.atomic = kind_of.reads_memory && kind_of.writes_memory;
    if (memory.atomic && !memory.shared) lock.lock();
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (mask_[lane] == 0) continue;
      if ((where.mask >> lane & 1U) != 0) {
        memory.lane = lane;
        kind_of.memory(call, lane, where.address[lane]);
      } else {
        for (unsigned i = 0; i < loaded; ++i) one.data[i][lane] = 0;
      }
    }
  }
  for (unsigned i = 0; i < loaded; ++i) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (mask_[lane] != 0)  // until it arrives
        result[i][lane] = (result[i][lane] & ~one.mask) | (0x7fc0ffad & one.mask);
    }
  }
  send(std::move(one));
}

void wave::execute_scalar_memory(const instruction& what) {
  const kind& kind_of = *what.what;
  memory.shared = memory.atomic = false;
  std::array<row, 16> loaded;
  const memory_call call{&memory, nullptr, nullptr, loaded.data(), 0, 0, 0};
  const std::uint64_t address = scalar(what.source[0], 64, number::integer, 0) +
                                static_cast<std::uint64_t>(std::int64_t{what.immediate}) +
                                scalar(what.source[1], 32, number::integer, 0);
  if (kind_of.result_bits == 0 || kind_of.result_bits > 512)
    throw fault{"is no load of scalars that is known"};
  const bool is_part =
      emulated == family::rdna4 && std::string_view{kind_of.name}.find("_B") == std::string_view::npos;
  kind_of.memory(call, 0, is_part ? address : address & ~std::uint64_t{3});
  pending one;
  one.kind = arrival::scalar;
  one.result = what.result;
  one.rows = static_cast<std::uint8_t>((kind_of.result_bits + 31U) / 32);
  for (unsigned i = 0; i < one.rows; ++i) {
    one.scalars[i] = loaded[i][0];
    set_scalar(static_cast<std::uint16_t>(what.result + i), 0xdeadbeefU);
  }
  send(std::move(one));
}

/// ds_permute_b32, ds_bpermute_b32 and ds_swizzle_b32, which move values between lanes and touch no memory.
void wave::exchange_lanes(const instruction& what) {
  refresh_mask();
  const row& addresses = *vector(what.source[0], 1);
  pending one;
  one.kind = arrival::shared;
  one.exec = exec();
  one.result = what.result;
  one.rows = 1;
  one.data[0] = row{};
  const auto offset = static_cast<std::uint32_t>(what.immediate);
  if (what.does == work::swizzle) {
    if (offset >= 0xc000) throw fault{"swizzles in a way that is not known"};
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const unsigned in_group = lane & 31U;
      const unsigned from =
          (offset & 0x8000U) != 0
              ? (lane & ~3U) + (offset >> 2 * (lane & 3U) & 3U)
              : (lane & ~31U) + (((in_group & offset) | (offset >> 5U & 31U)) ^ (offset >> 10U & 31U));
      one.data[0][lane] = mask_[from] != 0 ? addresses[from] : 0;
    }
  } else {
    const row& data = *vector(what.source[1], 1);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const unsigned other = (addresses[lane] + offset) / 4 % lanes;
      if (what.does == work::permute_back)
        one.data[0][lane] = mask_[other] != 0 ? data[other] : 0;
      else if (mask_[lane] != 0)
        one.data[0][other] = data[lane];
    }
  }
  row& result = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) result[lane] = 0x7fc0ffad;
  }
  send(std::move(one));
}

void wave::send(pending&& one) {
  switch (one.kind) {
    case arrival::vector:
      vector_.push_back(std::move(one));
      break;
    case arrival::store:
      if (is_cdna) vector_.push_back(std::move(one));
      break;
    default:
      others_.push_back(std::move(one));
  }
}

void wave::arrive(const pending& one) {
  if (one.kind == arrival::scalar) {
    for (unsigned i = 0; i < one.rows; ++i)
      set_scalar(static_cast<std::uint16_t>(one.result + i), one.scalars[i]);
    return;
  }
  if (one.rows == 0) return;
  row* const to = vector(one.result, one.rows);
  for (unsigned i = 0; i < one.rows; ++i) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if ((one.exec >> lane & 1U) != 0)
        to[i][lane] = (to[i][lane] & ~one.mask) | (one.data[i][lane] & one.mask);
    }
  }
}

/// The same with counters that are apart, as RDNA4 has them.
void wave::wait_of(arrival kind, std::size_t left) {
  const auto is_meant = [kind](const pending& one) { return one.kind == kind; };
  auto sent = static_cast<std::size_t>(std::count_if(others_.begin(), others_.end(), is_meant));
  if (kind == arrival::scalar && left != 0) return;  // they return in any order
  for (auto one = others_.begin(); sent > left; --sent) {
    one = std::find_if(one, others_.end(), is_meant);
    arrive(*one);
    one = others_.erase(one);
  }
}

/// Lets arrive what has arrived for sure when no more than so many are on their way. Loads of vectors return
/// in order, those of the LDS among themselves, those of scalars in any.
void wave::wait(std::size_t vector_loads, std::size_t others) {
  while (vector_.size() > vector_loads) {
    arrive(vector_.front());
    vector_.pop_front();
  }
  if (others_.size() <= others) return;
  if (others == 0) {
    for (const pending& one : others_) arrive(one);
    others_.clear();
    return;
  }
  std::deque<pending> left;
  std::size_t shared_behind = 0;
  for (auto one = others_.rbegin(); one != others_.rend(); ++one) {
    if (one->kind == arrival::shared && shared_behind++ >= others)
      arrive(*one);
    else
      left.push_front(std::move(*one));
  }
  others_ = std::move(left);
}

void wave::copy(const instruction& what) {
  refresh_mask();
  row value{};
  if (what.source[0] >= 256)
    value = *vector(what.source[0], 1);
  else
    std::fill_n(value.lane, lanes,
                static_cast<std::uint32_t>(scalar(what.source[0], 32, number::integer, what.literal)));
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) to[lane] = value[lane];
  }
}

/// v_swap_b32: two registers of the enabled lanes.
void wave::swap(const instruction& what) {
  if (!what.plain || !what.plain_result) throw fault{"changes what it swaps, which is not known"};
  refresh_mask();
  row& one = *vector(what.source[0], 1);
  row& other = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) std::swap(one[lane], other[lane]);
  }
}

/// v_permlane16_b32 and v_permlanex16_b32: within a row of 16 lanes, or from the row beside it.
void wave::permute_rows(const instruction& what) {
  refresh_mask();
  const row from = *vector(what.source[0], 1);
  std::uint64_t places = 0;
  for (unsigned i = 0; i < 2; ++i)
    places |= scalar(what.source[1 + i], 32, number::integer, what.literal) << 32 * i;
  const unsigned other = std::string_view{what.what->name}.starts_with("V_PERMLANEX") ? 16 : 0;
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const unsigned source = ((lane & ~15U) ^ other) + static_cast<unsigned>(places >> 4 * (lane % 16) & 15U);
    const bool fetches = mask_[source] != 0 || (what.opsel & 1U) != 0;
    if (mask_[lane] != 0 && (fetches || (what.opsel & 2U) != 0)) to[lane] = fetches ? from[source] : 0;
  }
}

/// v_permlane16_swap_b32 and v_permlane32_swap_b32: of all lanes, whatever EXEC says.
void wave::swap_rows(const instruction& what) {
  const unsigned apart = std::string_view{what.what->name}.starts_with("V_PERMLANE16") ? 16 : 32;
  row& one = *vector(what.source[0], 1);
  row& other = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if ((lane & apart) == 0) std::swap(one[lane], other[lane + apart]);
  }
}

/// ds_read_b64_tr_b16 and ..._b8: 16 lanes read four (eight) rows of 16 elements, four (two) lanes each row.
/// Lane n gets column n.
void wave::read_transposed(const instruction& what) {
  if (exec() != ~std::uint64_t{}) throw fault{"transposes what not all lanes read, which is not known"};
  memory.shared = true;
  memory.atomic = false;
  const unsigned bits = std::string_view{what.what->name}.ends_with("B8") ? 8 : 16;
  const unsigned rows = 64 / bits;
  const row& addresses = *vector(what.source[0], 1);
  std::array<std::uint64_t, lanes> read;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(what.immediate);
    read[lane] = memory.load<std::uint64_t>(address & 0xffffffffU);
  }
  pending one;
  one.kind = arrival::shared;
  one.exec = exec();
  one.result = what.result;
  one.rows = 2;
  row* const result = vector(what.result, 2);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::uint64_t column = 0;
    for (unsigned k = 0; k < rows; ++k) {
      const std::uint64_t from = read[(lane & ~15U) + 16 / rows * k + lane % 16 / rows];
      column |= (from >> bits * (lane % rows) & ((1U << bits) - 1)) << bits * k;
    }
    for (unsigned i = 0; i < 2; ++i) {
      one.data[i][lane] = static_cast<std::uint32_t>(column >> 32 * i);
      result[i][lane] = 0x7fc0ffad;  // until it arrives
    }
  }
  send(std::move(one));
}

/// Addresses of code are those in the image.
void wave::move_counter(const instruction& what) {
  const std::uint64_t target = scalar(what.source[0], 64, number::integer, 0);
  if (what.does != work::set_counter) {
    const std::uint64_t next = kernel_->address + what.offset + what.bytes;
    set_scalar(what.result, static_cast<std::uint32_t>(next));
    set_scalar(static_cast<std::uint16_t>(what.result + 1), static_cast<std::uint32_t>(next >> 32U));
    if (what.does == work::get_counter) return;
  }
  const std::uint64_t offset = target - kernel_->address;
  const auto found =
      std::lower_bound(kernel_->code.begin(), kernel_->code.end(), offset,
                       [](const instruction& one, std::uint64_t at) { return one.offset < at; });
  if (found == kernel_->code.end() || found->offset != offset) throw fault{"jumps out of the kernel"};
  at_ = static_cast<std::size_t>(found - kernel_->code.begin());
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

bool wave::branches(const instruction& what) const {
  switch (what.does) {
    case work::branch_scc0:
      return scc == 0;
    case work::branch_scc1:
      return scc != 0;
    case work::branch_vccz:
      return lane_mask(106) == 0;
    case work::branch_vccnz:
      return lane_mask(106) != 0;
    case work::branch_execz:
      return exec() == 0;
    case work::branch_execnz:
      return exec() != 0;
    default:
      return true;
  }
}

wave::stop wave::run() {
  const std::vector<instruction>& code = kernel_->code;
  constexpr int slice = 1 << 20;  // instructions
  try {
    for (int left = slice; left != 0; --left) {
      if (at_ >= code.size()) throw fault{"runs past the end of the kernel"};
      const instruction& what = code[at_++];
      ++executed[what.what - kinds.data()];
      switch (what.does) {
        case work::vector:
          execute_vector(what);
          break;
        case work::scalar:
          execute_scalar(what);
          break;
        case work::memory:
        case work::buffer:
          execute_memory(what);
          break;
        case work::scalar_memory:
          execute_scalar_memory(what);
          break;
        case work::dual:
          ++executed[what.second->what - kinds.data()];
          execute_dual(what);
          break;
        case work::one_lane:
          execute_one_lane(what);
          break;
        case work::nothing:
          break;
        case work::sleep:
          std::this_thread::yield();
          return stop::slice;
        case work::end:
          return stop::end;
        case work::signal:
          if (static_cast<std::int32_t>(scalar(what.source[0], 32, number::integer, 0)) != -1)
            throw fault{"signals a barrier other than the workgroup's, which is not known"};
          signalled_ = true;
          break;
        case work::barrier:
          if (emulated == family::rdna4 && !std::exchange(signalled_, false))
            throw fault{"waits at a barrier that it has not signalled"};
          return stop::barrier;
        case work::wait_loads:
          wait(static_cast<std::size_t>(what.immediate), others_.size());
          break;
        case work::wait_shared:
          wait_of(arrival::shared, static_cast<std::size_t>(what.immediate & 63));
          break;
        case work::wait_scalars:
          wait_of(arrival::scalar, static_cast<std::size_t>(what.immediate));
          break;
        case work::wait_loads_and_shared:
          wait(static_cast<std::size_t>(what.immediate >> 8), others_.size());
          wait_of(arrival::shared, static_cast<std::size_t>(what.immediate & 63));
          break;
        case work::wait: {
          const auto bits = static_cast<std::uint32_t>(what.immediate) & 0xffffU;
          if (is_cdna)
            wait((bits & 15U) | (bits >> 14U) << 4U, bits >> 8U & 15U);
          else
            wait(bits >> 10U & 63U, bits >> 4U & 63U);
          break;
        }
        case work::wait_stores:
          break;  // they have happened
        case work::read_first_lane:
        case work::read_lane: {
          const unsigned lane =
              what.does == work::read_lane
                  ? static_cast<unsigned>(scalar(what.source[1], 32, number::integer, what.literal)) % lanes
              : exec() == 0 ? 0
                            : static_cast<unsigned>(std::countr_zero(exec()));
          set_scalar(what.result, what.source[0] >= 256
                                      ? (*vector(what.source[0], 1))[lane]
                                      : static_cast<std::uint32_t>(
                                            scalar(what.source[0], 32, number::integer, what.literal)));
          break;
        }
        case work::write_lane: {
          const auto lane =
              static_cast<unsigned>(scalar(what.source[1], 32, number::integer, what.literal)) % lanes;
          (*vector(what.result, 1))[lane] =
              static_cast<std::uint32_t>(scalar(what.source[0], 32, number::integer, what.literal));
          break;
        }
        case work::permute:
        case work::permute_back:
        case work::swizzle:
          exchange_lanes(what);
          break;
        case work::copy:
          copy(what);
          break;
        case work::swap:
          swap(what);
          break;
        case work::matrix:
          execute_matrix(what);
          break;
        case work::permute_rows:
          permute_rows(what);
          break;
        case work::swap_rows:
          swap_rows(what);
          break;
        case work::read_transposed:
          read_transposed(what);
          break;
        case work::get_counter:
        case work::set_counter:
        case work::swap_counter:
          move_counter(what);
          break;
        default:
          if (branches(what)) at_ = what.target;
      }
    }
    return stop::slice;
  } catch (const fault& problem) {
    const instruction& what = code[at_ == 0 ? 0 : std::min(at_, code.size()) - 1];
    throw fault{kernel_->name + ", byte " + std::to_string(what.offset) + " of its code, " + what.what->name +
                ": " + problem.what()};
  }
}

}  // namespace emulator
