// SPDX-License-Identifier: MIT
// Launches that are run in two orders of workgroups and waves, which must agree on every byte that they
// write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <shared_mutex>

#include "module.hpp"
#include "write_log.hpp"

namespace emulator {

struct order {
  std::uint64_t number = 0;           ///< which order of waves, and which garbage they begin with
  bool workgroups_backwards = false;  ///< from the grid's end
  bool waves_backwards = false;       ///< between two barriers
};

/// Runs all workgroups of a launch. Where there is a log, it is told of what they write, and neighbours in
/// the grid run in the order that is asked for.
using run_in_order = std::function<void(const order&, write_log*)>;

/// Runs a launch once, or twice from the same memory, the second time with workgroups and waves in the
/// opposite order. HIP_EMULATOR_ORDERS says which run twice. `first`, the default: of each kernel the first
/// that has several waves in a workgroup, and the first that has several workgroups; `all`: each such launch;
/// `none`. Throws fault where memory differs. `arguments` is what the kernel is given.
void run_in_orders(const kernel& what, const grid& where, const std::byte* arguments, std::uint64_t number,
                   const run_in_order& run);

/// Who reads or writes memory of a device shares this. A launch that runs twice has it alone: it puts back
/// what memory held.
[[nodiscard]] std::shared_mutex& users_of_memory();

}  // namespace emulator
