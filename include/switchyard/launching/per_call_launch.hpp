// SPDX-License-Identifier: MIT
// Launches whose parameters depend on the single call: expressions over arguments, workspace addresses,
// tensor maps, grids. Their values are written into a copy of the plan's parameter block, which is kept for
// later calls with the same arguments where that is faster.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/parameter_block.hpp>
#include <switchyard/parameters/parameter_block_cache.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/parameters/tensor_map_parts.hpp>
#include <switchyard/plans/bind_parameters.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/workspace.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Most objects that may wait for a reader before nothing more is cached: memory stays bounded.
inline constexpr std::size_t max_waiting = 512;

/// One call of one plan. The caller holds a guard of the reclaimer.
class per_call_launch {
 public:
  per_call_launch(operator_state& now, device_driver& driver, reclaimer& owner, const plan& of,
                  const void* arguments, stream launch_stream, const scratch* memory)
      : driver_{driver},
        reclaimer_{owner},
        state_{now},
        plan_{of},
        arguments_{static_cast<const std::byte*>(arguments)},
        stream_{launch_stream},
        memory_{memory} {}

  /// A plan's launches are started in their order. `local` takes a parameter block that is made for this
  /// call; `parameter_block` is the last one that was made or found, for launches that share it. Throws
  /// call_error evaluation_failed for a value that does not fit.
  [[nodiscard, gnu::always_inline]] inline status start(const planned_launch& of, local_block& local,
                                                        const parameter_line*& parameter_block) const {
    pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): binding writes what is read
    if (of.makes_block) {
      parameter_line* const made = local.data();
      finish(of, nullptr, made, pointers);
      parameter_block = made;
      return launch(of, pointers);
    }
    if (of.key != nullptr) {
      const kept_block* const found =
          of.bind_kept(state_.parameter_blocks(), of, arguments_, workspace_of(of), pointers.data());
      if (found == nullptr) return apart().start_keeping(of, local, parameter_block, pointers);
      parameter_block = found->parameter_block;
      if (of.per_call_grid != nullptr) [[unlikely]]
        return apart().launch_on(of, found->grid, pointers);
      return start_launch(driver_, of, pointers, stream_);
    }
    if (of.has_maps()) return apart().start_keeping(of, local, parameter_block, pointers);
    if (of.per_call != nullptr) return apart().start_large(of, nullptr, pointers);
    bind_parameters(of, arguments_, of.shares_block ? parameter_block : of.parameter_block, pointers);
    return launch(of, pointers);
  }

 private:
  /// A copy, for functions that are not inlined: what calls them has this one in registers.
  [[nodiscard, gnu::always_inline]] inline per_call_launch apart() const noexcept { return *this; }

  /// The workspace, where a parameter block has addresses of it.
  [[nodiscard, gnu::always_inline]] inline const void* workspace_of(const planned_launch& of) const noexcept {
    return of.layout->has_workspace ? memory_->address() : nullptr;
  }
  [[nodiscard]] block_query map_query(const planned_launch& of) const noexcept {
    return {of.owner + 1, &of.layout->map_key, arguments_, nullptr};
  }

  /// Starts a launch whose maps and parameter block were not kept together, and keeps what was asked for
  /// before.
  [[nodiscard, gnu::noinline]] status start_keeping(const planned_launch& of, local_block& local,
                                                    const parameter_line*& parameter_block,
                                                    pointer_array& pointers) const {
    std::vector<parameter_line> own;
    const parameter_line* maps = nullptr;
    if (of.has_maps()) {
      maps = find_maps(of);
      if (maps == nullptr) {
        if (const status result = encode(of, own); result != 0) return result;
        maps = own.data();
      }
    }
    std::span<const parameter_line> finished{of.parameter_block, of.layout->parameter_block.size()};
    if (of.per_call == nullptr) {
      bind_parameters(of, arguments_, of.shares_block ? parameter_block : of.parameter_block, pointers);
    } else if (of.has_large_block) {
      keep_maps(of, own);
      return start_large(of, maps, pointers);
    } else {
      parameter_line* const made = local.data();
      finish(of, maps, made, pointers);
      finished = {made, finished.size()};
      parameter_block = made;
    }
    bind_maps(of, maps, pointers);
    const dim3 grid = of.per_call_grid != nullptr ? per_call_grid(of) : of.geometry.grid;
    const block_query whole{of.owner, of.key, arguments_, workspace_of(of)};
    if (of.key == nullptr || !keep(whole, finished, {maps, of.maps.size() * map_lines}, grid))
      keep_maps(of, own);
    return launch_on(of, grid, pointers);
  }

  /// Makes the parameter block with its per-call values, and binds the parameters to it.
  [[gnu::always_inline]] inline void finish(const planned_launch& of, const parameter_line* maps,
                                            parameter_line* parameter_block, pointer_array& pointers) const {
    of.bind_copy(*of.layout, reinterpret_cast<std::uintptr_t>(arguments_), of.parameter_block,
                 parameter_block, pointers.data());
    auto* const bytes = reinterpret_cast<std::byte*>(parameter_block);
    // Read here: behind each write into the parameter block it would be loaded again.
    const workspace_buffer* const buffers = plan_.workspace.data();
    const scratch* const memory = memory_;
    run_per_call(
        *of.per_call, arguments_, bytes,
        [buffers, memory](std::uint32_t buffer) { return memory->at(buffers[buffer]); },
        [&](std::uint32_t index)
            __attribute__((always_inline)) { apart().interpret(of, index, bytes, maps); });
  }

  [[nodiscard, gnu::noinline]] status start_large(const planned_launch& of, const parameter_line* maps,
                                                  pointer_array& pointers) const {
    std::vector<parameter_line> parameter_block(of.layout->parameter_block.size());
    finish(of, maps, parameter_block.data(), pointers);
    bind_maps(of, maps, pointers);
    return launch(of, pointers);
  }

  [[nodiscard, gnu::always_inline]] inline status launch(const planned_launch& of,
                                                         pointer_array& pointers) const {
    if (of.per_call_grid != nullptr) [[unlikely]]
      return apart().launch_per_call_grid(of, pointers);
    return start_launch(driver_, of, pointers, stream_);
  }

  [[nodiscard, gnu::noinline]] status launch_per_call_grid(const planned_launch& of,
                                                           pointer_array& pointers) const {
    return launch_on(of, per_call_grid(of), pointers);
  }

  [[nodiscard, gnu::noinline]] status launch_on(const planned_launch& of, const dim3& grid,
                                                pointer_array& pointers) const {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return 0;
    launch_geometry geometry = of.geometry;
    geometry.grid = grid;
    return driver_.launch(of.function, geometry, pointers.data(), stream_);
  }

  [[nodiscard]] dim3 per_call_grid(const planned_launch& of) const {
    const evaluation values = all_values();
    dim3 out;
    const std::array<std::uint32_t*, 3> extents{&out.x, &out.y, &out.z};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t extent = value_of((*of.per_call_grid)[i], values);
      if (!to_extent(extent, *extents[i]))
        fail_value(op(), plan_, "the grid would be " + std::to_string(extent));
    }
    return out;
  }

  [[nodiscard]] const operator_description& op() const noexcept { return state_.op(); }
  [[nodiscard]] evaluation all_values() const noexcept {
    return {plan_.problem.own(), state_.device().attributes, op().fields, arguments_};
  }

  [[gnu::noinline]] void interpret(const planned_launch& of, std::uint32_t index, std::byte* parameter_block,
                                   const parameter_line* maps) const {
    const per_call_value& wanted = of.layout->per_call[index];
    std::byte* const to = parameter_block + wanted.offset;
    switch (wanted.from) {
      case per_call_value::source::field:  // these need no interpreter
      case per_call_value::source::workspace:
        return;
      case per_call_value::source::integer: {
        const std::int64_t value = value_of(of.per_call->values[index], all_values());
        if (!fits(wanted.kind, value)) {
          fail_value(op(), plan_,
                     "a parameter would be " + std::to_string(value) + ", which does not fit its type");
        }
        store_integer(to, wanted.kind, value);
        return;
      }
      case per_call_value::source::real:
        store_real(to, wanted.kind, wanted.value->evaluate_real(all_values()));
        return;
      case per_call_value::source::tensor_map:
        __builtin_memcpy(to, maps + wanted.index * map_lines, tensor_map_bytes);
    }
  }

  /// Whether maps depend on fewer arguments than the parameter block that is kept with them.
  [[nodiscard]] static bool keeps_maps_apart(const planned_launch& of) noexcept {
    return of.key != &of.layout->map_key && !of.layout->map_key.is_empty();
  }

  /// The maps of a launch that were kept without a parameter block, or null.
  [[nodiscard]] const parameter_line* find_maps(const planned_launch& of) const {
    if (!keeps_maps_apart(of)) return nullptr;
    const block_query query = map_query(of);
    const kept_block* const found = state_.parameter_blocks().find(parameter_block_cache::hash(query), query);
    return found != nullptr ? found->maps : nullptr;
  }

  /// Keeps maps that were encoded for this call without the parameter block, which other arguments decide as
  /// well.
  void keep_maps(const planned_launch& of, std::span<const parameter_line> fresh) const {
    if (!fresh.empty() && keeps_maps_apart(of)) (void)keep(map_query(of), {}, fresh, {});
  }

  /// Keeps a parameter block and maps where the same were asked for before. False: they were not.
  [[nodiscard]] bool keep(const block_query& of, std::span<const parameter_line> parameter_block,
                          std::span<const parameter_line> maps, const dim3& grid) const {
    parameter_block_cache& cache = state_.parameter_blocks();
    const std::uint64_t hash = parameter_block_cache::hash(of);
    if (!cache.seen_before(hash, of)) return false;
    if (reclaimer_.collect() > max_waiting) return true;
    if (kept_block* const displaced =
            cache.insert(hash, parameter_block_cache::make(of, parameter_block, maps, grid)))
      reclaimer_.retire(displaced, [](void* unused) { delete static_cast<kept_block*>(unused); });
    return true;
  }

  [[nodiscard]] status encode(const planned_launch& of, std::vector<parameter_line>& own) const {
    const evaluation values = all_values();
    own.resize(of.maps.size() * map_lines);
    for (std::size_t i = 0; i < of.maps.size(); ++i) {
      tensor_map_request request = of.maps[i].known;
      visit_parts(*of.maps[i].recipe, request, [&](const expression& value, auto& to) {
        if (value.reads_fields()) set_part(to, value_of(value, values));
      });
      const status result = driver_.encode(request, &own[i * map_lines]);
      if (result != 0) return result;
    }
    return 0;
  }

  [[nodiscard]] std::int64_t value_of(const expression& value, const evaluation& values) const {
    const integer_result result = value.evaluate(values);
    if (result.why != fault::none)
      fail_value(op(), plan_, "an expression " + std::string{to_string(result.why)});
    return result.value;
  }

  device_driver& driver_;
  reclaimer& reclaimer_;
  operator_state& state_;
  const plan& plan_;
  const std::byte* arguments_;
  stream stream_;
  const scratch* memory_;  // null where the plan has no workspace
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
