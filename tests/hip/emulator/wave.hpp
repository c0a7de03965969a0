// SPDX-License-Identifier: MIT
// One wave: its registers and what it executes.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "arrivals.hpp"
#include "program.hpp"

namespace emulator {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): there are few, and rows are aligned
class wave {
 public:
  wave(const program& kernel, access seen) : memory{std::move(seen)}, kernel_{&kernel} {}

  enum class stop : std::uint8_t { end, barrier, slice };

  /// Back to the kernel's beginning.
  void reset() {
    at_ = 0;
    scc = 0;
    signalled_ = false;
    memory.begin();
    vector_.clear();
    others_.clear();
  }

  /// Runs to the next barrier or the end, or until others should run, too: it may wait for what they write.
  /// Throws fault.
  [[nodiscard]] stop run();

  [[nodiscard]] std::uint64_t exec() const { return pair(126); }
  void set_exec(std::uint64_t mask) { set_pair(126, lanes == 32 ? mask & 0xffffffffU : mask); }

  access memory;
  std::vector<row> v;
  std::array<std::uint32_t, 128> s{};
  std::uint32_t scc = 0;

 private:
  [[nodiscard]] std::uint64_t pair(unsigned index) const {
    return lanes == 32 ? s[index] : s[index] | static_cast<std::uint64_t>(s[index + 1]) << 32U;
  }
  void set_pair(unsigned index, std::uint64_t value) {
    s[index] = static_cast<std::uint32_t>(value);
    if (lanes == 64) s[index + 1] = static_cast<std::uint32_t>(value >> 32U);
  }

  [[nodiscard]] row* vector(std::uint16_t code, unsigned rows);
  [[nodiscard]] std::uint64_t scalar(std::uint16_t code, unsigned bits, number type,
                                     std::uint32_t literal) const;
  void set_scalar(std::uint16_t code, std::uint32_t value);
  [[nodiscard]] std::uint64_t lane_mask(std::uint16_t code) const;
  void set_lane_mask(std::uint16_t code, std::uint64_t mask);

  [[nodiscard]] const std::uint32_t* source(const instruction& what, unsigned index);
  void apply_modifiers(const instruction& what, unsigned index, row* value);
  void permute_lanes(const instruction& what, row& value);
  void pack(const instruction& what, unsigned index, row* value);
  void refresh_mask();
  void execute_vector(const instruction& what, row* forced_result = nullptr);
  void finish_result(const instruction& what, const row* computed);
  void execute_one_lane(const instruction& what);
  void execute_dual(const instruction& what);
  void execute_scalar(const instruction& what);
  /// The addresses of a memory instruction in the lanes of a mask.
  struct reached {
    std::array<std::uint64_t, lanes> address;
    std::uint64_t mask;
  };
  [[nodiscard]] reached addresses(const instruction& what);
  [[nodiscard]] reached addresses_in_buffer(const instruction& what, unsigned bytes);
  void execute_memory(const instruction& what);
  void execute_scalar_memory(const instruction& what);
  void exchange_lanes(const instruction& what);
  void permute_rows(const instruction& what);
  void swap_rows(const instruction& what);
  void read_transposed(const instruction& what);
  void move_counter(const instruction& what);
  void copy(const instruction& what);
  void swap(const instruction& what);
  void execute_matrix(const instruction& what);
  [[nodiscard]] bool branches(const instruction& what) const;

  [[nodiscard]] pending& send(arrival kind, std::uint16_t result, std::uint8_t rows);
  void wait(std::size_t vector_loads, std::size_t others);
  void wait_of(arrival kind, std::size_t left);
  void arrive(const pending& one);

  const program* kernel_;
  std::size_t at_ = 0;
  bool signalled_ = false;
  row mask_{};
  std::uint64_t mask_is_of_ = ~std::uint64_t{};
  bool mask_known_ = false;
  row lanes_written_{};
  row carry_in_{};
  row carry_out_{};
  std::array<std::array<row, 2>, 3> sources_{};
  std::array<row, 2> result_{};
  std::array<row, 2> first_of_two_{};
  arrivals vector_;  ///< of gfx9 the stores as well
  arrivals others_;
  pending unheeded_;  ///< of stores that no wait covers
};

/// How often each kind was executed, by its place in `kinds`.
extern thread_local std::uint64_t* executed;

}  // namespace emulator
