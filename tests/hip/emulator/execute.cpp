// SPDX-License-Identifier: MIT
// One wave, from instruction to instruction.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "wave.hpp"

namespace emulator {

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
