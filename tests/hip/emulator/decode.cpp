// SPDX-License-Identifier: MIT
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "program.hpp"

namespace emulator {

namespace {

/// What the emulator does by itself. The manuals' pseudocode of these is prose, or concerns the machine.
const std::unordered_map<std::string_view, work>& known_works() {
  static const std::unordered_map<std::string_view, work> all{
      {"S_NOP", work::nothing},
      {"S_CLAUSE", work::nothing},
      {"S_DELAY_ALU", work::nothing},
      {"S_SETPRIO", work::nothing},
      {"S_SLEEP", work::sleep},
      {"S_SENDMSG", work::nothing},
      {"S_SET_INST_PREFETCH_DISTANCE", work::nothing},
      {"S_INST_PREFETCH", work::nothing},
      {"S_WAITCNT_DEPCTR", work::nothing},
      {"S_ICACHE_INV", work::nothing},
      {"S_DCACHE_INV", work::nothing},
      {"S_DCACHE_WB", work::nothing},
      {"BUFFER_INV", work::nothing},
      {"BUFFER_WBL2", work::nothing},
      {"BUFFER_WBINVL1_VOL", work::nothing},
      {"BUFFER_GL0_INV", work::nothing},
      {"BUFFER_GL1_INV", work::nothing},
      {"GLOBAL_INV", work::nothing},
      {"GLOBAL_WB", work::nothing},
      {"GLOBAL_WBINV", work::nothing},
      {"S_PREFETCH_INST", work::nothing},
      {"S_PREFETCH_INST_PC_REL", work::nothing},
      {"S_PREFETCH_DATA", work::nothing},
      {"S_PREFETCH_DATA_PC_REL", work::nothing},
      {"S_WAIT_ALU", work::nothing},
      {"S_WAIT_IDLE", work::nothing},
      {"S_ENDPGM", work::end},
      {"S_BARRIER", work::barrier},
      {"S_BARRIER_SIGNAL", work::signal},
      {"S_BARRIER_WAIT", work::barrier},
      {"S_BRANCH", work::branch},
      {"S_CBRANCH_SCC0", work::branch_scc0},
      {"S_CBRANCH_SCC1", work::branch_scc1},
      {"S_CBRANCH_VCCZ", work::branch_vccz},
      {"S_CBRANCH_VCCNZ", work::branch_vccnz},
      {"S_CBRANCH_EXECZ", work::branch_execz},
      {"S_CBRANCH_EXECNZ", work::branch_execnz},
      {"S_WAITCNT", work::wait},
      {"S_WAITCNT_VSCNT", work::wait_stores},
      {"S_WAIT_LOADCNT", work::wait_loads},
      {"S_WAIT_STORECNT", work::wait_stores},
      {"S_WAIT_DSCNT", work::wait_shared},
      {"S_WAIT_KMCNT", work::wait_scalars},
      {"S_WAIT_LOADCNT_DSCNT", work::wait_loads_and_shared},
      {"S_WAIT_STORECNT_DSCNT", work::wait_shared},
      {"V_READFIRSTLANE_B32_E32", work::read_first_lane},
      {"V_READFIRSTLANE_B32_E64", work::read_first_lane},
      {"V_READLANE_B32", work::read_lane},
      {"V_READLANE_B32_E64", work::read_lane},
      {"V_WRITELANE_B32", work::write_lane},
      {"V_WRITELANE_B32_E64", work::write_lane},
      {"V_NOP_E32", work::nothing},
      {"V_SWAP_B32_E32", work::swap},
      {"DS_PERMUTE_B32", work::permute},
      {"DS_BPERMUTE_B32", work::permute_back},
      {"DS_SWIZZLE_B32", work::swizzle},
      {"V_ACCVGPR_READ", work::copy},
      {"V_ACCVGPR_WRITE", work::copy},
      {"V_ACCVGPR_MOV_B32_E32", work::copy},
      {"V_PERMLANE16_B32", work::permute_rows},
      {"V_PERMLANEX16_B32", work::permute_rows},
      {"V_PERMLANE16_SWAP_B32_E32", work::swap_rows},
      {"V_PERMLANE16_SWAP_B32_E64", work::swap_rows},
      {"V_PERMLANE32_SWAP_B32_E32", work::swap_rows},
      {"V_PERMLANE32_SWAP_B32_E64", work::swap_rows},
      {"DS_READ_B64_TR_B16", work::read_transposed},
      {"DS_READ_B64_TR_B8", work::read_transposed},
      {"S_GETPC_B64", work::get_counter},
      {"S_SETPC_B64", work::set_counter},
      {"S_SWAPPC_B64", work::swap_counter},
  };
  return all;
}

class decoder {
 public:
  decoder(std::span<const std::byte> text, std::uint32_t accumulation_offset, bool is_gfx90a)
      : text_{text}, accumulation_offset_{accumulation_offset}, is_gfx90a_{is_gfx90a} {}

  [[nodiscard]] instruction at(std::size_t offset) {
    offset_ = offset;
    const encoding& used = find_encoding();
    encoding_ = &used;
    instruction out;
    out.offset = static_cast<std::uint32_t>(offset);
    out.bytes = used.bytes;
    out.shape = used.shape;
    out.literal = get(f_literal);
    if (used.shape == form::vopd) {
      decode_dual(out);
      return out;
    }
    out.what = &kinds[used.kinds[opcode(used)] - 1U];
    choose_work(out);
    read_fields(out);
    return out;
  }

 private:
  [[nodiscard]] std::uint32_t dword(std::size_t index) const {
    const std::size_t begin = offset_ + index * 4;
    std::uint32_t value = 0;
    if (begin + 4 <= text_.size()) std::memcpy(&value, text_.data() + begin, 4);
    return value;
  }

  [[nodiscard]] static std::uint32_t part(std::uint64_t low, std::uint32_t high, const place& where) {
    if (where.low < 0) return 0;
    const auto first = static_cast<unsigned>(where.low);
    const std::uint64_t mask = (std::uint64_t{1} << static_cast<unsigned>(where.bits)) - 1;
    return static_cast<std::uint32_t>((first < 64 ? low >> first : high >> (first - 64)) & mask);
  }
  [[nodiscard]] std::uint32_t get(field which) const { return get(*encoding_, which); }
  [[nodiscard]] std::uint32_t get(const encoding& in, field which) const {
    return part(dword(0) | static_cast<std::uint64_t>(dword(1)) << 32U, dword(2), in.places[which]);
  }
  [[nodiscard]] bool has(field which) const { return encoding_->places[which].low >= 0; }

  /// Of gfx90a's successors, whose matrix instructions of bf16 have other numbers.
  [[nodiscard]] std::uint32_t opcode(const encoding& in) const {
    const std::uint32_t op = get(in, f_op);
    return is_gfx90a_ && in.shape == form::mfma && op >= 0x63 && op <= 0x67 ? op - 6 : op;
  }

  [[nodiscard]] bool matches(const encoding& one) const {
    for (unsigned i = 0; i < one.fixed_count; ++i) {
      if ((dword(one.fixed[i].dword) & one.fixed[i].mask) != one.fixed[i].value) return false;
    }
    if (offset_ + one.bytes > text_.size()) return false;
    if (one.shape == form::vopd) return true;
    const std::uint32_t op = opcode(one);
    return op < one.kinds.size() && one.kinds[op] != 0;
  }

  [[nodiscard]] const encoding& find_encoding() const {
    for (const encoding& one : encodings) {
      if (one.is_variant || !matches(one)) continue;
      int variant = -1;
      for (const field source : {f_src0, f_src1, f_src2, f_ssrc0, f_ssrc1, f_srcx0, f_srcy0}) {
        if (one.places[source].low < 0 || one.shape == form::mfma) continue;
        const std::uint32_t code = get(one, source);
        if (code == 255) variant = one.with_literal;
        if (code == 250 && one.places[f_dpp].low < 0) variant = one.with_dpp;
        if (code == 249 && one.places[f_src0_sel].low < 0) variant = is_cdna ? one.with_sdwa : -1;
      }
      if (one.shape == form::vopd && needs_literal()) variant = one.with_literal;
      return variant < 0 ? one : encodings[static_cast<std::size_t>(variant)];
    }
    char word[16];
    std::snprintf(word, sizeof word, "0x%08x", dword(0));
    throw std::runtime_error{"no encoding is known of the word " + std::string{word}};
  }
  /// Of a half that multiplies by, or adds, a literal.
  [[nodiscard]] bool needs_literal() const {
    const std::uint32_t x = dword(0) >> 22U & 15U;
    const std::uint32_t y = dword(0) >> 17U & 31U;
    return x == 1 || x == 2 || y == 1 || y == 2;
  }

  static void choose_work(instruction& out) {
    const kind& what = *out.what;
    if (const auto known = known_works().find(what.name); known != known_works().end()) {
      out.does = known->second;
    } else if (out.matrix = find_matrix_kind(what.name); out.matrix != nullptr) {
      out.does = work::matrix;
    } else if (what.vector != nullptr) {
      out.does = std::string_view{what.name}.starts_with("V_S_") ? work::one_lane : work::vector;
    } else if (what.scalar != nullptr) {
      out.does = work::scalar;
    } else if (what.memory != nullptr) {
      out.does = out.shape == form::smem    ? work::scalar_memory
                 : out.shape == form::mubuf ? work::buffer
                                            : work::memory;
    } else {
      throw std::runtime_error{std::string{what.name} + " is not known: " +
                               (what.reason == nullptr ? "nothing tells what it does" : what.reason)};
    }
  }

  void decode_dual(instruction& out) {
    const std::uint32_t vdstx = get(f_vdstx);
    out.does = work::dual;
    out.second = std::make_unique<instruction>();
    half_of_dual(out, get(f_opx), get(f_srcx0), get(f_vsrcx1), vdstx);
    half_of_dual(*out.second, get(f_opy), get(f_srcy0), get(f_vsrcy1), get(f_vdsty) << 1U | (~vdstx & 1U));
    out.second->literal = out.literal;
    out.second->offset = out.offset;
  }
  static void half_of_dual(instruction& out, std::uint32_t op, std::uint32_t source0, std::uint32_t source1,
                           std::uint32_t result) {
    if (op >= dual_kinds.size() || dual_kinds[op] == 0 || kinds[dual_kinds[op] - 1U].vector == nullptr)
      throw std::runtime_error{"opcode " + std::to_string(op) + " of a dual instruction is not known"};
    out.what = &kinds[dual_kinds[op] - 1U];
    out.source[0] = static_cast<std::uint16_t>(source0);
    out.source[1] = static_cast<std::uint16_t>(256 + source1);
    out.result = static_cast<std::uint16_t>(256 + result);
  }

  void read_fields(instruction& out) const {
    out.immediate = static_cast<std::int16_t>(get(f_simm16));
    if (out.does == work::copy) {
      read_copy(out);
      return;
    }
    if (out.does == work::matrix) {
      read_matrix(out);
      return;
    }
    switch (out.shape) {
      case form::vop1:
      case form::vop2:
      case form::vopc:
      case form::vop3:
      case form::vop3p:
      case form::vop3sd:
        read_vector(out);
        break;
      case form::sop1:
      case form::sop2:
      case form::sopc:
      case form::sopk:
        out.source[0] = static_cast<std::uint16_t>(get(f_ssrc0));
        out.source[1] = static_cast<std::uint16_t>(get(f_ssrc1));
        out.result = static_cast<std::uint16_t>(get(f_sdst));
        if (out.shape == form::sopk && !has(f_literal)) out.literal = get(f_simm16);
        break;
      case form::smem:
        read_scalar_memory(out);
        break;
      case form::ds:
      case form::flat:
      case form::global:
      case form::scratch:
        read_memory(out);
        break;
      case form::mubuf:
        if (out.does == work::buffer) read_buffer(out);
        break;
      case form::sopp:
        break;
      default:
        throw std::runtime_error{std::string{out.what->name} + " has an encoding that is not known"};
    }
  }

  void read_vector(instruction& out) const {
    const kind& what = *out.what;
    out.source[0] = static_cast<std::uint16_t>(get(f_src0));
    if (has(f_vsrc0)) out.source[0] = static_cast<std::uint16_t>(256 + get(f_vsrc0));
    out.source[1] = static_cast<std::uint16_t>(has(f_vsrc1) ? 256 + get(f_vsrc1) : get(f_src1));
    out.source[2] = static_cast<std::uint16_t>(get(f_src2));
    if (encoding_->name[std::strlen(encoding_->name) - 1] == 'A' ||
        has(f_src0_sel)) {  // SDWA: s0 and s1 say scalar
      if (get(f_s0) != 0) out.source[0] = static_cast<std::uint16_t>(get(f_vsrc0));
      if (get(f_s1) != 0) out.source[1] = static_cast<std::uint16_t>(get(f_vsrc1));
    }
    out.result = static_cast<std::uint16_t>(256 + get(f_vdst));
    out.mask_result = 106;
    if (out.shape == form::vop3 && (what.writes_carry || what.writes_exec))
      out.mask_result = static_cast<std::uint16_t>(get(f_vdst));
    if (out.shape == form::vop3sd) out.mask_result = static_cast<std::uint16_t>(get(f_sdst));
    if (has(f_sd) && get(f_sd) != 0) out.mask_result = static_cast<std::uint16_t>(get(f_sdst));
    // v_div_fmas reads vcc itself; the others name their mask, where they have a third source.
    if (what.reads_carry && (out.shape == form::vop3 || out.shape == form::vop3sd) &&
        std::string_view{what.name}.find("DIV_FMAS") == std::string_view::npos)
      out.mask_source = out.source[2];
    if (out.does == work::read_first_lane || out.does == work::read_lane || out.does == work::one_lane)
      out.result = static_cast<std::uint16_t>(get(f_vdst));
    out.neg = static_cast<std::uint8_t>(get(f_neg) | get(f_src0_neg) | get(f_src1_neg) << 1U);
    out.abs = static_cast<std::uint8_t>(get(f_abs) | get(f_src0_abs) | get(f_src1_abs) << 1U);
    out.omod = static_cast<std::uint8_t>(get(f_omod));
    out.clamp = get(f_clmp) != 0;
    out.opsel = static_cast<std::uint8_t>(get(f_opsel));
    if (std::string_view{what.name}.starts_with("V_BITOP3_B")) {  // whose modifiers are a table
      out.literal = static_cast<std::uint32_t>(out.omod << 6U | out.abs << 3U | out.neg);
      out.neg = out.abs = out.omod = 0;
      if (out.clamp) throw std::runtime_error{std::string{what.name} + " with a clamp is not known"};
    }
    if (out.shape == form::vop3p) {
      out.neg_hi = static_cast<std::uint8_t>(get(f_neg_hi));
      out.opsel_hi = static_cast<std::uint8_t>(get(f_opsel_hi) | get(f_opsel_hi2) << 2U);
    }
    if (has(f_dpp)) {
      out.dpp = static_cast<std::int16_t>(get(f_dpp));
      out.row_mask = static_cast<std::uint8_t>(get(f_row_mask));
      out.bank_mask = static_cast<std::uint8_t>(get(f_bank_mask));
      out.bound_control = get(f_bc) != 0;
      out.fetch_inactive = get(f_fi) != 0;
    }
    if (has(f_src0_sel)) {
      out.select[0] = static_cast<std::uint8_t>(get(f_src0_sel));
      if (has(f_vsrc1)) out.select[1] = static_cast<std::uint8_t>(get(f_src1_sel));
      out.sign_extend[0] = get(f_src0_sext) != 0;
      out.sign_extend[1] = get(f_src1_sext) != 0;
      if (has(f_dst_sel)) {
        out.result_select = static_cast<std::uint8_t>(get(f_dst_sel));
        out.result_unused = static_cast<std::uint8_t>(get(f_dst_unused));
      }
    }
    if (!is_cdna && (out.shape == form::vop1 || out.shape == form::vop2 || out.shape == form::vopc)) {
      for (unsigned i = 0; i < 2; ++i) {
        if (what.bits[i] != 16 || out.source[i] < 384) continue;
        out.source[i] = static_cast<std::uint16_t>(out.source[i] - 128);
        out.high_sources = static_cast<std::uint16_t>(out.high_sources | 1U << i);
      }
      if (what.result_bits == 16 && out.result >= 384) {
        out.result = static_cast<std::uint16_t>(out.result - 128);
        out.high_result = true;
      }
    }
    const bool selects = out.select[0] != 6 || out.select[1] != 6;
    out.plain = out.neg == 0 && out.abs == 0 && (out.opsel & 7U) == 0 && out.dpp < 0 && !selects &&
                out.high_sources == 0 && (out.shape != form::vop3p || packs_as_it_is(out));
    out.plain_result = out.omod == 0 && !out.clamp && out.result_select == 6 && (out.opsel & 8U) == 0 &&
                       out.dpp < 0 && !out.high_result;
    if (out.clamp && what.result_type == number::integer && !what.writes_carry && what.result_bits != 0)
      throw std::runtime_error{std::string{what.name} + " with saturation is not known"};
  }

  /// A packed instruction that takes both halves of each source from where they are.
  [[nodiscard]] static bool packs_as_it_is(const instruction& of) {
    if (of.neg != 0 || of.neg_hi != 0 || of.opsel != 0) return false;
    for (unsigned i = 0; i < 3; ++i) {
      const unsigned bits = of.what->bits[i];
      if (bits == 0) continue;
      const bool is_constant = of.source[i] >= 128 && of.source[i] < 256;  // in both halves of 64 bits
      if ((of.opsel_hi >> i & 1U) == 0 || (bits == 64 && is_constant)) return false;
    }
    return true;
  }

  /// The code of a vector register, or of one of accumulation.
  [[nodiscard]] std::uint16_t either(std::uint32_t code, bool accumulates) const {
    return static_cast<std::uint16_t>(accumulates && code >= 256 ? code + accumulation_offset_ : code);
  }

  void read_matrix(instruction& out) const {
    const std::uint32_t accumulates = get(f_acc);
    const bool sums = get(f_acc_cd) != 0;
    out.source[0] = either(get(f_src0), (accumulates & 1U) != 0);
    out.source[1] = either(get(f_src1), (accumulates & 2U) != 0);
    out.source[2] = either(get(f_src2), sums);
    out.result = either(256 + get(f_vdst), sums);
    const bool modifies = out.shape == form::mfma ? get(f_cbsz) != 0 || get(f_abid) != 0 || get(f_blgp) != 0
                                                  : get(f_neg) != 0 || get(f_neg_hi) != 0 || get(f_clmp) != 0;
    if (modifies)
      throw std::runtime_error{std::string{out.what->name} +
                               " with broadcast or negated blocks is not known"};
  }

  /// Between vector registers and those of accumulation: the name says which are which.
  void read_copy(instruction& out) const {
    const std::string_view name = out.what->name;
    out.source[0] = either(get(f_src0), name != "V_ACCVGPR_WRITE");
    out.result = either(256 + get(f_vdst), name != "V_ACCVGPR_READ");
  }

  void read_scalar_memory(instruction& out) const {
    out.source[0] = static_cast<std::uint16_t>(get(f_sbase) << 1U);
    out.result = static_cast<std::uint16_t>(get(f_sdata));
    const bool immediate = !is_cdna || get(f_imm) != 0;
    out.immediate = !immediate                  ? 0
                    : emulated == family::rdna4 ? sign_extended<24>(get(f_offset))
                                                : sign_extended<21>(get(f_offset));
    out.source[1] = 128;  // 0
    if (is_cdna ? get(f_soffset_en) != 0 : get(f_soffset) != 124)
      out.source[1] = static_cast<std::uint16_t>(get(f_soffset));
    else if (!immediate)
      out.source[1] = static_cast<std::uint16_t>(get(f_offset) & 0x7fU);
  }

  void read_buffer(instruction& out) const {
    const std::uint32_t accumulation = get(f_acc) != 0 ? accumulation_offset_ : 0;
    if (get(f_lds) != 0 || get(f_tfe) != 0)
      throw std::runtime_error{std::string{out.what->name} + " into the LDS is not known"};
    out.source[0] = static_cast<std::uint16_t>(256 + get(f_vaddr));
    out.source[1] = static_cast<std::uint16_t>(256 + get(f_vdata) + accumulation);
    out.source[2] = static_cast<std::uint16_t>(get(f_soffset));
    out.result = out.source[1];
    out.mask_source =
        static_cast<std::uint16_t>(emulated == family::rdna4 ? get(f_srsrc) : get(f_srsrc) << 2U);
    out.immediate = static_cast<std::int32_t>(get(f_offset));
    out.has_offset = get(f_offen) != 0;
    out.has_index = get(f_idxen) != 0;
    out.returns = returns(out);
  }

  /// Of an atomic instruction, whether it returns what it found. Those of the LDS say so by their names.
  [[nodiscard]] bool returns(const instruction& one) const {
    if (!one.what->reads_memory || !one.what->writes_memory) return true;
    return emulated == family::rdna4 ? (get(f_th) & 1U) != 0 : get(is_cdna ? f_sc0 : f_glc) != 0;
  }

  void read_memory(instruction& out) const {
    const std::uint32_t accumulation = has(f_acc) && get(f_acc) != 0 ? accumulation_offset_ : 0;
    const auto vector = [](std::uint32_t index) { return static_cast<std::uint16_t>(256 + index); };
    out.source[0] = vector(get(f_addr));
    out.source[1] = vector((has(f_data) ? get(f_data) : get(f_data0)) + accumulation);
    out.source[2] = vector(get(f_data1) + accumulation);
    out.result = vector(get(f_vdst) + accumulation);
    out.mask_source = 0xffff;
    if (out.shape == form::ds) {
      out.offset0 = get(f_offset0);
      out.offset1 = get(f_offset1);
      out.immediate = static_cast<std::int32_t>(out.offset0 | out.offset1 << 8U);
      if (get(f_gds) != 0) throw std::runtime_error{std::string{out.what->name} + " of the GDS is not known"};
      return;
    }
    out.immediate = emulated == family::rdna4            ? sign_extended<24>(get(f_offset))
                    : is_cdna && out.shape == form::flat ? static_cast<std::int32_t>(get(f_offset))
                                                         : sign_extended<13>(get(f_offset));
    const std::uint32_t base = get(f_saddr);
    out.returns = returns(out);
    if (out.shape != form::flat && base != (is_cdna ? 127U : 124U))
      out.mask_source = static_cast<std::uint16_t>(base);
    out.has_offset = out.shape == form::scratch && get(f_sve) != 0;
  }

  std::span<const std::byte> text_;
  std::uint32_t accumulation_offset_;
  bool is_gfx90a_;
  std::size_t offset_ = 0;
  const encoding* encoding_ = nullptr;
};

std::uint32_t descriptor_word(std::span<const std::byte> descriptor, std::size_t offset) {
  std::uint32_t value = 0;
  std::memcpy(&value, descriptor.data() + offset, 4);
  return value;
}

void read_descriptor(program& kernel, std::span<const std::byte> descriptor) {
  if (descriptor.size() < 64) throw std::runtime_error{"its descriptor is cut short"};
  const std::uint32_t resources1 = descriptor_word(descriptor, 48);
  kernel.shared_bytes = descriptor_word(descriptor, 0);
  kernel.private_bytes = descriptor_word(descriptor, 4);
  kernel.argument_bytes = descriptor_word(descriptor, 8);
  kernel.resources2 = descriptor_word(descriptor, 52);
  kernel.properties = descriptor_word(descriptor, 56) & 0xffffU;
  kernel.first_arguments = descriptor_word(descriptor, 56) >> 16U & 0x7fU;
  kernel.user_registers = kernel.resources2 >> 1U & 31U;
  kernel.vector_registers = ((resources1 & 63U) + 1) * 8;
  kernel.accumulation_offset = is_cdna ? ((descriptor_word(descriptor, 44) & 63U) + 1) * 4 : 0;
  kernel.ieee = (resources1 >> 23U & 1U) != 0;
  if ((resources1 >> 12U & 15U) != 0) throw std::runtime_error{"it rounds other than to nearest even"};
  if ((resources1 >> 16U & 15U) != 15) throw std::runtime_error{"it flushes denormal numbers"};
  if (!is_cdna && (kernel.properties >> 10U & 1U) == 0) throw std::runtime_error{"its waves have 64 lanes"};
}

bool writes_exec(const instruction& one) {
  if (one.what->writes_exec) return true;
  return one.does == work::scalar &&
         ((one.what->result_bits != 0 && (one.result == 126 || one.result == 127)) ||
          std::string_view{one.what->name}.find("SAVEEXEC") != std::string_view::npos);
}

bool obeys_exec(const instruction& one) {
  switch (one.does) {
    case work::vector:
    case work::dual:
    case work::memory:
    case work::buffer:
    case work::copy:
    case work::swap:
    case work::permute:
    case work::permute_back:
    case work::swizzle:
      return true;
    default:
      return false;
  }
}

/// Where the lanes that took a branch meet those that did not, EXEC is restored first. LLVM at times copies
/// vector registers before it (llvm-project issue 166657), which leaves garbage in the lanes that did not.
/// `offset` is that of the instruction that is looked at.
void check_where_lanes_meet(const program& kernel, std::size_t& offset) {
  const std::vector<instruction>& code = kernel.code;
  std::vector<bool> is_target(code.size() + 1);
  for (const instruction& one : code) {
    if (one.does >= work::branch && one.does <= work::branch_execnz) is_target[one.target] = true;
  }
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].does != work::branch_execz && code[i].does != work::branch_execnz) continue;
    const std::size_t begin = code[i].does == work::branch_execz ? code[i].target : i + 1;
    const instruction* early = nullptr;
    for (std::size_t at = begin; at < code.size() && (at == begin || !is_target[at]); ++at) {
      const instruction& one = code[at];
      if (one.does >= work::branch && one.does <= work::branch_execnz) break;
      if (one.does == work::end || one.does == work::set_counter || one.does == work::swap_counter) break;
      if (writes_exec(one)) {
        const std::string_view name = one.what->name;
        const bool restores =
            (name.starts_with("S_OR_B") && (one.source[0] == 126 || one.source[1] == 126)) ||
            (name.find("SAVEEXEC") != std::string_view::npos && !name.starts_with("S_AND_SAVEEXEC") &&
             one.source[0] < 128);  // not of all lanes for a while
        if (!restores || early == nullptr) break;
        offset = early->offset;
        throw std::runtime_error{std::string{early->what->name} +
                                 " runs where lanes meet, before EXEC is restored"};
      }
      if (early == nullptr && obeys_exec(one)) early = &one;
    }
  }
}

}  // namespace

std::shared_ptr<const program> decode(const std::string& name, std::span<const std::byte> descriptor,
                                      std::span<const std::byte> text, const std::string& architecture) {
  auto kernel = std::make_shared<program>();
  kernel->name = name;
  kernel->address = reinterpret_cast<std::uint64_t>(text.data());
  std::size_t offset = 0;
  try {
    read_descriptor(*kernel, descriptor);
    decoder reader{text, kernel->accumulation_offset, architecture == "gfx90a"};
    std::map<std::size_t, std::size_t> index_at;
    while (offset + 4 <= text.size()) {
      index_at[offset] = kernel->code.size();
      kernel->code.push_back(reader.at(offset));
      offset += kernel->code.back().bytes;
    }
    for (instruction& one : kernel->code) {
      if (one.does < work::branch || one.does > work::branch_execnz) continue;
      offset = one.offset;
      const std::int64_t to = std::int64_t{one.offset} + 4 + std::int64_t{one.immediate} * 4;
      const auto found = index_at.find(static_cast<std::size_t>(to));
      if (found == index_at.end()) throw std::runtime_error{"a branch goes out of the kernel"};
      one.target = found->second;
    }
    check_where_lanes_meet(*kernel, offset);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error{name + ", byte " + std::to_string(offset) + " of its code: " + problem.what()};
  }
  return kernel;
}

}  // namespace emulator
