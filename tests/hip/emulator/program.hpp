// SPDX-License-Identifier: MIT
// A kernel's code, decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinds.hpp"
#include "matrix.hpp"

namespace emulator {

enum class work : std::uint8_t {
  vector,
  scalar,
  memory,
  buffer,
  scalar_memory,
  nothing,
  sleep,
  end,
  signal,  ///< arrives at the barrier that a later instruction waits for
  barrier,
  branch,
  branch_scc0,
  branch_scc1,
  branch_vccz,
  branch_vccnz,
  branch_execz,
  branch_execnz,
  wait,
  wait_stores,
  wait_loads,
  wait_shared,
  wait_scalars,
  wait_loads_and_shared,
  dual,
  one_lane,  ///< a vector instruction whose operands and result are scalar
  read_first_lane,
  read_lane,
  write_lane,
  permute,
  permute_back,
  swizzle,
  permute_rows,
  swap_rows,
  read_transposed,
  get_counter,
  set_counter,
  swap_counter,
  copy,
  swap,
  matrix
};

/// Sources are codes of the scalar and vector register space: 0 to 105 s, 106 and 107 vcc, 126 and 127 exec,
/// 128 to 248 constants, 255 the literal, from 256 on v, behind the v registers those of accumulation.
struct instruction {
  const kind* what = nullptr;
  const matrix_kind* matrix = nullptr;
  work does = work::nothing;
  form shape = form::other;
  std::uint32_t offset = 0;  ///< in the kernel's code
  std::uint16_t bytes = 0;
  std::uint16_t source[3] = {};
  std::uint16_t result = 0;
  std::uint16_t mask_result = 0;  ///< where one bit a lane goes
  std::uint16_t mask_source = 106;
  std::uint32_t literal = 0;
  std::uint8_t neg = 0;
  std::uint8_t abs = 0;
  std::uint8_t neg_hi = 0;
  std::uint8_t opsel = 0;
  std::uint8_t opsel_hi = 0;
  std::uint8_t omod = 0;
  bool clamp = false;
  bool plain = true;               ///< no modifier of a source
  bool plain_result = true;        ///< nor of the result
  std::uint16_t high_sources = 0;  ///< bits: the high half of a register (VOP1, VOP2 and VOPC of RDNA3)
  bool high_result = false;
  std::int16_t dpp = -1;
  std::uint8_t row_mask = 15;
  std::uint8_t bank_mask = 15;
  bool bound_control = false;
  bool fetch_inactive = false;
  std::uint8_t select[2] = {6, 6};  ///< SDWA: bytes 0 to 3, words 4 and 5, all 6
  bool sign_extend[2] = {};
  std::uint8_t result_select = 6;
  std::uint8_t result_unused = 0;
  std::int32_t immediate = 0;
  bool returns = true;      ///< what an atomic instruction found
  bool has_offset = false;  ///< of a buffer or of scratch memory: in source[0]
  bool has_index = false;   ///< of a buffer: in source[0], before the offset
  std::uint32_t offset0 = 0;
  std::uint32_t offset1 = 0;
  std::size_t target = 0;               ///< index of the instruction that a branch goes to
  std::unique_ptr<instruction> second;  ///< of a dual instruction
};

/// The last word of the descriptor of the buffer that is a wave's scratch memory.
constexpr std::uint32_t scratch_buffer = 0x00e25c7aU;

struct program {
  std::string name;
  std::vector<instruction> code;
  std::uint64_t address = 0;  ///< of the code
  std::uint32_t shared_bytes = 0;
  std::uint32_t private_bytes = 0;
  std::uint32_t argument_bytes = 0;
  std::uint32_t vector_registers = 0;  ///< those of accumulation included
  std::uint32_t accumulation_offset = 0;
  std::uint32_t user_registers = 0;
  std::uint32_t first_arguments = 0;  ///< dwords of arguments that are in scalar registers
  std::uint32_t properties = 0;       ///< which scalar registers are set: kernel_code_properties
  std::uint32_t resources2 = 0;
  bool ieee = true;
};

/// Decodes a kernel from its entry on. Throws std::runtime_error where the code has what is not known.
/// `descriptor` is the 64 bytes that its .kd symbol names; `text` the code, which begins at the kernel's
/// entry.
[[nodiscard]] std::shared_ptr<const program> decode(const std::string& name,
                                                    std::span<const std::byte> descriptor,
                                                    std::span<const std::byte> text,
                                                    const std::string& architecture);

}  // namespace emulator
