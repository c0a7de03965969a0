// SPDX-License-Identifier: MIT
// What the generator writes of an instruction set: its encodings and the kinds of instruction.
#pragma once

#include <cstdint>
#include <span>

#include "family.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace emulator {

/// One 32-bit value a lane.
struct alignas(64) row {
  std::uint32_t lane[lanes];
  std::uint32_t& operator[](unsigned i) { return lane[i]; }
  std::uint32_t operator[](unsigned i) const { return lane[i]; }
};

/// What an instruction of all lanes computes on. A 64-bit operand is two rows, the low half first.
struct vector_call {
  const std::uint32_t* source[3];
  std::uint32_t* result;
  const std::uint32_t* mask;      ///< all bits in the lanes that execute
  const std::uint32_t* carry_in;  ///< 0 or 1
  std::uint32_t* carry_out;
  std::uint32_t literal;
  std::uint32_t opsel;
  std::uint32_t opsel_hi;
  std::uint32_t neg;
  bool ieee;
};

struct scalar_call {
  std::uint64_t source[2];
  std::uint64_t result;
  std::uint64_t exec;
  std::uint64_t vcc;
  std::uint32_t scc;
  std::uint32_t literal;
};

/// What a memory instruction does for one lane, or a scalar one for all.
struct memory_call {
  access* memory;
  const row* data;
  const row* data2;
  row* result;
  std::uint32_t offset;
  std::uint32_t offset0;
  std::uint32_t offset1;

  template <class Value>
  [[nodiscard]] Value load(std::uint64_t address) const {
    return memory->load<Value>(address);
  }
  template <class Value>
  void store(std::uint64_t address, Value value) const {
    memory->store(address, value);
  }
};

enum class number : std::uint8_t { integer, signed64, f16, f32, f64, packed_f16, packed_f32, packed_integer };

/// One kind of instruction. One that has no function is either among those that decode.cpp knows by name, or
/// unknown.
struct kind {
  const char* name;
  const char* reason;  ///< why the pseudocode has no translation
  void (*vector)(const vector_call&);
  void (*scalar)(scalar_call&);
  void (*memory)(const memory_call&, unsigned lane, std::uint64_t address);
  std::uint16_t bits[3];  ///< of the sources; of the data, where it is a memory instruction
  number type[3];
  std::uint16_t result_bits;
  number result_type;
  bool writes_carry;  ///< one bit a lane, into a scalar register
  bool writes_exec;   ///< the same into EXEC
  bool reads_carry;   ///< the same from VCC, or what src2 names
  bool zeroes_high_half;
  bool adds_offset;  ///< the address includes the offset
  bool reads_memory;
  bool writes_memory;
  std::uint8_t access_bytes;  ///< of a buffer, behind the address
  std::uint32_t loaded_mask;  ///< the bits of a register that a load writes
};

enum class form : std::uint8_t {
  ds,
  flat,
  global,
  scratch,
  mubuf,
  smem,
  sop1,
  sop2,
  sopc,
  sopk,
  sopp,
  vop1,
  vop2,
  vop3,
  vop3p,
  vop3sd,
  vopc,
  vopd,
  mfma,
  other
};

/// Places of the fields of an encoding.
enum field : std::uint8_t {
  f_abid,
  f_abs,
  f_acc,
  f_acc_cd,
  f_addr,
  f_bank_mask,
  f_bc,
  f_blgp,
  f_cbsz,
  f_clmp,
  f_data,
  f_data0,
  f_data1,
  f_dpp,
  f_dst_sel,
  f_dst_unused,
  f_fi,
  f_gds,
  f_glc,
  f_idxen,
  f_imm,
  f_lds,
  f_literal,
  f_neg,
  f_neg_hi,
  f_offen,
  f_offset,
  f_offset0,
  f_offset1,
  f_omod,
  f_op,
  f_opsel,
  f_opsel_hi,
  f_opsel_hi2,
  f_opx,
  f_opy,
  f_row_mask,
  f_s0,
  f_s1,
  f_saddr,
  f_sbase,
  f_sc0,
  f_sd,
  f_sdata,
  f_sdst,
  f_simm16,
  f_soffset,
  f_soffset_en,
  f_src0,
  f_src0_abs,
  f_src0_neg,
  f_src0_sel,
  f_src0_sext,
  f_src1,
  f_src1_abs,
  f_src1_neg,
  f_src1_sel,
  f_src1_sext,
  f_src2,
  f_srsrc,
  f_srcx0,
  f_srcy0,
  f_ssrc0,
  f_ssrc1,
  f_sve,
  f_tfe,
  f_th,
  f_vaddr,
  f_vdata,
  f_vdst,
  f_vdstx,
  f_vdsty,
  f_vsrc0,
  f_vsrc1,
  f_vsrcx1,
  f_vsrcy1,
  field_count
};

struct place {
  std::int16_t low = -1;
  std::int16_t bits = 0;
};

struct fixed_bits {
  std::uint8_t dword;
  std::uint32_t mask;
  std::uint32_t value;
};

struct encoding {
  const char* name;
  form shape;
  std::uint8_t bytes;
  std::uint8_t fixed_count;
  fixed_bits fixed[4];
  std::span<const std::uint16_t> kinds;  ///< by opcode: index of the kind and 1, or 0
  std::int16_t with_literal;             ///< the same with a literal, with DPP, with SDWA; -1
  std::int16_t with_dpp;
  std::int16_t with_sdwa;
  bool is_variant;  ///< reached through another one only
  place places[field_count];
};

extern const std::span<const kind> kinds;
extern const std::span<const encoding> encodings;
extern const std::span<const std::uint16_t>
    dual_kinds;  ///< of each half of a dual instruction: index and 1, or 0

}  // namespace emulator
