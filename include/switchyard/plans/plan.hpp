// SPDX-License-Identifier: MIT
// A choice made ready: functions loaded, grid computed, parameters laid out. Launching a plan allocates
// nothing.
//
// Kernel parameters come from two places. An argument that a kernel takes unchanged is passed by its address
// in the caller's argument struct: nothing is copied. Everything else lies in a parameter block, filled when
// the plan is made; values that only the call knows (expressions over arguments, workspace addresses) are
// written into a copy of the parameter block on the caller's stack: see per_call_program. Launches of one
// plan whose parameter blocks are the same share one copy. Tensor maps are encoded for the arguments they
// depend on; they and the parameter blocks that are costly to finish are kept: see parameter_block_cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/parameters/argument_key.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem_key.hpp>

namespace switchyard {
inline namespace v0 {

/// A tensor map of a launch: what the problem decides of it, and the rest of its recipe.
struct planned_map {
  tensor_map_request known;
  const tensor_map_recipe* recipe = nullptr;
};

/// Writes the addresses of a launch's parameters: see bind_parameters.hpp.
using parameter_binder = void (*)(const launch_layout& of, std::uintptr_t arguments,
                                  std::uintptr_t parameter_block, void** to) noexcept;

/// The same for a copy of the parameter block, which it makes.
using copying_binder = void (*)(const launch_layout& of, std::uintptr_t arguments, const parameter_line* from,
                                parameter_line* parameter_block, void** to) noexcept;

class parameter_block_cache;
struct kept_block;
struct planned_launch;

/// Finds the parameter block that was kept of a launch, and binds the launch's parameters to it. Null: none
/// was.
using kept_binder = const kept_block* (*)(const parameter_block_cache& in, const planned_launch& of,
                                          const std::byte* arguments, const void* workspace,
                                          void** to) noexcept;

/// One launch of a plan. What it has in common with other plans' lies in its layout.
struct planned_launch {
  function_handle function = nullptr;
  const launch_layout* layout = nullptr;  ///< null for a fill
  parameter_binder bind = nullptr;
  copying_binder bind_copy = nullptr;
  kept_binder bind_kept = nullptr;
  const parameter_line* parameter_block =
      nullptr;  ///< parameters that are not passed in place; as the layout's, filled
  launch_geometry geometry;
  const per_call_program* per_call = nullptr;  ///< null: nothing is
  const std::array<expression, 3>* per_call_grid =
      nullptr;  ///< a grid that reads arguments of the single call
  std::span<const planned_map> maps;
  const argument_key* key = nullptr;  ///< of the parameter block that is kept; null: at most the maps are
  /// A number that no other launch has, for what is kept. The next one is for the maps without the parameter
  /// block. 0: nothing is kept.
  std::uint64_t owner = 0;

  bool is_fill = false;
  bool shares_block = false;  ///< it takes the copy with per-call values that the launch before has written
  bool makes_block =
      false;  ///< each call makes a parameter block with per-call values, of which nothing is kept
  bool has_large_block = false;  ///< with more than local_block_lines
  bool is_empty = false;         ///< the grid has no blocks: nothing is started
  std::uint8_t fill_byte = 0;
  std::uint32_t fill_workspace = 0;

  [[nodiscard]] bool has_maps() const noexcept { return !maps.empty(); }
};

struct workspace_buffer {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A call_problem, kept inside what it belongs to.
class kept_problem {
 public:
  void assign(problem_view own, std::uint64_t conditions) noexcept {
    count_ = own.size();
    for (std::size_t i = 0; i < count_; ++i) values_[i] = own[i];
    conditions_ = conditions;
  }
  /// The values of the operator's own axes.
  [[nodiscard]] problem_view own() const noexcept { return {values_.data(), count_}; }
  /// A bit for each condition on arguments that files added.
  [[nodiscard]] std::uint64_t conditions() const noexcept { return conditions_; }

 private:
  std::array<std::int64_t, max_axes> values_;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count_
  std::size_t count_ = 0;
  std::uint64_t conditions_ = 0;
};

class live_samples;
class type_kernels;

/// How a plan is launched.
enum class launch_way : std::uint8_t {
  any,       ///< launch by launch, perhaps with a workspace, or counted
  direct,    ///< the only launch; nothing is left to compute: the shortest path to the driver
  kept,      ///< the only launch, whose parameter block is kept
  compiled,  ///< the only launch, of which each call makes the parameter block; no per-call value needs the
             ///< interpreter
  interpreted,  ///< any other only launch
  guarded,      ///< arguments decide first whether the call is legal, or whether this plan is its own
};

/// Made with its launches and their parameter blocks in two allocations.
struct plan {
  plan() noexcept {}  // leaves the key and the problem to their makers
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() {
    while (own_per_call != nullptr) {
      const std::unique_ptr<const per_call_program> owned{own_per_call};
      own_per_call = owned->next;
    }
    for (plan* inner = within.load(std::memory_order_relaxed); inner != nullptr;) {
      const std::unique_ptr<plan> owned{inner};
      inner = owned->within.exchange(nullptr, std::memory_order_relaxed);
    }
  }

  const planned_launch* single = nullptr;  ///< the only launch, of a way that is not `any`
  launch_way way = launch_way::any;
  launch_way guarded_way = launch_way::any;  ///< where `way` is `guarded`: what follows
  std::atomic<plan*> next{nullptr};          ///< the next plan of its bucket in the plan_cache
  std::uint64_t hash = 0;
  std::array<detail::key_part, detail::max_key_parts> key;  ///< as many parts as its operator's keys have;
                                                            ///< plans share it that differ in conditions
                                                            ///< on arguments
  kept_problem problem;
  std::size_t position = 0;  ///< in the plan_cache's list; guarded by its owner's lock
  choice chosen;
  const variant* selected = nullptr;  ///< the variant that was chosen
  type_kernels* kernels = nullptr;    ///< what chose it, and its kernels
  std::span<planned_launch> launches;
  std::span<workspace_buffer> workspace;
  std::unique_ptr<std::byte[]> memory;       // NOLINT(modernize-avoid-c-arrays): has what the spans show
  per_call_program* own_per_call = nullptr;  ///< a list of those that layouts keep no more
  std::size_t workspace_bytes = 0;
  bool checks_memory = false;           ///< each call's check_memory() is asked first: the CPU's
  bool is_counted = false;              ///< calls are counted, printed one by one, or checked
  bool has_loaded = false;              ///< its kernel was not loaded before
  bool is_fallback = false;             ///< chosen while a better variant waits to be loaded again
  std::atomic<std::uint64_t> count{0};  ///< calls that are not recorded yet
  /// Owned plans of the same problem for calls that give less workspace than it takes: a list that only
  /// grows.
  mutable std::atomic<plan*> within{nullptr};
  live_samples* live = nullptr;              ///< of its calls, of which some are timed; null: none are
  launch_way counted_way = launch_way::any;  ///< where `is_counted`: how it would be launched else
  std::size_t max_workspace = 0;  ///< of such a plan: it is the choice for its own bytes up to these
};

}  // namespace v0
}  // namespace switchyard
