// SPDX-License-Identifier: MIT
// The bodies of planner.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/parameter_block.hpp>
#include <switchyard/parameters/per_call_compiler.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/parameters/tensor_map_parts.hpp>
#include <switchyard/plans/bind_parameters.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/planner.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/problem/problem_key.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD void planner::fail() const {
  throw call_error{error_code::evaluation_failed, std::string{from_.op->name} + ": variant '" + variant_.id +
                                                      "': " + find_unfit(from_, variant_, values_.axes) +
                                                      " for " + format_problem(*from_.op, values_.axes)};
}

SWITCHYARD_FUNCTION void planner::build(const std::vector<loaded_kernel>& kernels, plan& out) {
  out.selected = &variant_;
  const erased_key key = make_key(*from_.op, values_.axes);
  __builtin_memcpy(out.key.data(), key.words.data(), key.parts * sizeof(key_part));
  reserve(kernels, out);
  for (std::size_t i = 0; i < variant_.workspace.size(); ++i) {
    const std::int64_t bytes = value_of(variant_.workspace[i].value);
    if (bytes < 0 || bytes > max_buffer_bytes) fail();
    out.workspace[i] = {out.workspace_bytes, static_cast<std::size_t>(bytes)};
    out.workspace_bytes += padded_buffer(bytes);
  }
  if (out.workspace_bytes != 0) require_memory(out.workspace_bytes);
  const planned_launch* before = nullptr;  // fills do not count
  for (std::size_t i = 0; i < variant_.launches.size(); ++i) {
    const launch& launch = variant_.launches[i];
    planned_launch& planned = out.launches[i];
    if (launch.is_fill) {
      planned.is_fill = true;
      planned.fill_byte = launch.fill_byte;
      planned.fill_workspace = launch.fill_workspace;
      planned.is_empty = out.workspace[launch.fill_workspace].bytes == 0;
      continue;
    }
    planned.function = kernels[i].function;
    plan_geometry(launch, planned);
    if (planned.layout->shares_block && before != nullptr && !before->is_empty) {
      planned.parameter_block = before->parameter_block;
      planned.shares_block = before->per_call != nullptr || before->shares_block;
    } else {
      plan_parameters(planned);
      if (!planned.layout->per_call.empty()) plan_per_call(planned, out);
    }
    plan_maps(planned);
    plan_keeping(planned);
    before = &planned;
  }
  const planned_launch& first = out.launches.front();
  const bool is_single = out.launches.size() == 1 && !first.is_fill && !first.is_empty &&
                         out.workspace.empty() && !out.is_fallback;
  if (is_single) {
    out.single = &first;
    (out.is_counted ? out.counted_way : out.way) = way_of(first);
  }
  out.checks_memory = from_.op->check_memory != nullptr && from_.device.backend == "host";
  if (out.checks_memory || from_.op->added_count > 0) {
    out.guarded_way = out.way;
    out.way = launch_way::guarded;
  }
}

SWITCHYARD_FUNCTION void planner::require_memory(std::size_t workspace_bytes) const {
  constexpr std::size_t index = find_attribute("memory_bytes");
  const std::int64_t memory = from_.device.attributes[index];  // 0: not known
  if (memory > 0 && workspace_bytes > static_cast<std::size_t>(memory)) fail();
}

SWITCHYARD_FUNCTION std::int64_t planner::value_of(const expression& expression) const {
  const integer_result result = expression.evaluate(values_);
  if (result.why != fault::none) fail();
  return result.value;
}

SWITCHYARD_FUNCTION void planner::extent_of(const std::array<expression, 3>& from, dim3& out) const {
  const std::array<std::uint32_t*, 3> into{&out.x, &out.y, &out.z};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!to_extent(value_of(from[i]), *into[i])) fail();
  }
}

SWITCHYARD_FUNCTION launch_way planner::way_of(const planned_launch& single) {
  if (single.per_call == nullptr && single.per_call_grid == nullptr && single.maps.empty())
    return launch_way::direct;
  if (single.per_call_grid != nullptr) return launch_way::interpreted;
  if (single.key != nullptr) return launch_way::kept;
  return single.makes_block && !single.per_call->interprets() ? launch_way::compiled
                                                              : launch_way::interpreted;
}

SWITCHYARD_FUNCTION void planner::reserve(const std::vector<loaded_kernel>& kernels, plan& out) const {
  const std::size_t launches = variant_.launches.size();
  std::size_t lines = 0;
  std::size_t maps = 0;
  for (std::size_t i = 0; i < launches; ++i) {
    if (variant_.launches[i].is_fill) continue;
    lines += kernels[i].layout->parameter_block.size();
    maps += kernels[i].layout->maps.size();
  }
  const std::size_t bytes = (lines + 1) * sizeof(parameter_line) + maps * sizeof(planned_map) +
                            launches * sizeof(planned_launch) +
                            variant_.workspace.size() * sizeof(workspace_buffer);
  // Default alignment: over-aligned memory takes the allocator several times as long.
  out.memory.reset(new std::byte[bytes]);
  const auto address = reinterpret_cast<std::uintptr_t>(out.memory.get());
  std::byte* at = out.memory.get() + (0 - address) % alignof(parameter_line);
  auto* line = reinterpret_cast<parameter_line*>(at);
  at += lines * sizeof(parameter_line);
  planned_launch* const planned = take<planned_launch>(at, launches);
  planned_map* map = take<planned_map>(at, maps);
  out.launches = {planned, launches};
  out.workspace = {take<workspace_buffer>(at, variant_.workspace.size()), variant_.workspace.size()};
  for (std::size_t i = 0; i < launches; ++i) {
    if (variant_.launches[i].is_fill) continue;
    const launch_layout& layout = *kernels[i].layout;
    planned[i].layout = &layout;
    find_binders(layout, planned[i]);
    planned[i].has_large_block = layout.parameter_block.size() > local_block_lines;
    planned[i].parameter_block = line;
    planned[i].maps = {map, layout.maps.size()};
    for (const parameter_line& source : layout.parameter_block)
      __builtin_memcpy(line++, &source, sizeof source);
    map += layout.maps.size();
  }
}

SWITCHYARD_FUNCTION void planner::plan_geometry(const launch& launch, planned_launch& planned) const {
  const launch_layout& layout = *planned.layout;
  planned.geometry = layout.geometry;
  if (!layout.is_block_known) {
    extent_of(layout.block, planned.geometry.block);
    extent_of(layout.cluster, planned.geometry.cluster);
    if (!to_extent(value_of(layout.shared_bytes), planned.geometry.shared_bytes)) fail();
  }
  if (layout.has_per_call_grid) {
    planned.per_call_grid = &launch.grid;
    return;
  }
  extent_of(layout.grid, planned.geometry.grid);
  planned.is_empty =
      planned.geometry.grid.x == 0 || planned.geometry.grid.y == 0 || planned.geometry.grid.z == 0;
}

SWITCHYARD_FUNCTION void planner::plan_parameters(planned_launch& planned) const {
  const launch_layout& layout = *planned.layout;
  // Only this plan's own copy is written.
  auto* const parameter_block =
      reinterpret_cast<std::byte*>(const_cast<parameter_line*>(planned.parameter_block));
  for (const launch_layout::problem_value& wanted : layout.values) {
    if (wanted.is_real) {
      store_real(parameter_block + wanted.offset, wanted.kind, wanted.value.evaluate_real(values_));
      continue;
    }
    const std::int64_t value = wanted.axis != no_index ? values_.axes[wanted.axis] : value_of(wanted.value);
    if (!fits(wanted.kind, value)) fail();
    store_integer(parameter_block + wanted.offset, wanted.kind, value);
  }
}

SWITCHYARD_FUNCTION void planner::plan_maps(planned_launch& planned) const {
  const launch_layout& layout = *planned.layout;
  for (std::size_t i = 0; i < layout.maps.size(); ++i)
    plan_map(*layout.maps[i], const_cast<planned_map&>(planned.maps[i]));
}

SWITCHYARD_FUNCTION void planner::plan_keeping(planned_launch& planned) const {
  if (planned.shares_block) return;  // it is kept with the launch before
  const launch_layout& layout = *planned.layout;
  const argument_key& key =
      planned.per_call != nullptr || layout.has_per_call_grid ? layout.block_key : layout.map_key;
  if (!key.is_empty()) planned.key = &key;
  planned.makes_block = planned.per_call != nullptr && planned.key == nullptr && !planned.has_maps() &&
                        !planned.has_large_block;
  if (key.is_empty() && layout.map_key.is_empty()) return;
  static std::atomic<std::uint64_t> owners{0};
  planned.owner = owners.fetch_add(2, std::memory_order_relaxed) + 1;
}

SWITCHYARD_FUNCTION void planner::plan_map(const tensor_map_recipe& recipe, planned_map& out) const {
  out.recipe = &recipe;
  tensor_map_request& known = out.known;
  known.rank = static_cast<std::uint32_t>(recipe.extents.size());
  known.element_type = recipe.element_type;
  known.interleave = recipe.interleave;
  known.swizzle = recipe.swizzle;
  known.l2_promotion = recipe.l2_promotion;
  known.out_of_bounds_fill = recipe.out_of_bounds_fill;
  for (std::uint32_t& stride : known.element_strides) stride = 1;
  visit_parts(recipe, known, [this](const expression& value, auto& to) {
    if (!value.reads_fields()) set_part(to, value_of(value));
  });
}

SWITCHYARD_FUNCTION void planner::plan_per_call(planned_launch& planned, plan& out) const {
  planned.per_call = find_per_call(*planned.layout, out);
  auto* const parameter_block =
      reinterpret_cast<std::byte*>(const_cast<parameter_line*>(planned.parameter_block));
  for (const per_call_constant& constant : planned.per_call->constants)
    store_integer(parameter_block + constant.to, constant.kind, constant.value);
  if (planned.per_call->is_empty()) planned.per_call = nullptr;
}

SWITCHYARD_FUNCTION const per_call_program* planner::find_per_call(const launch_layout& layout,
                                                                   plan& out) const {
  per_call_programs& programs = layout.programs;
  if (const per_call_program* const found = programs.find(values_.axes)) return found;
  std::vector<axis_value> axes{layout.type.begin(), layout.type.end()};
  for (const std::uint32_t axis : programs.axes()) axes.push_back({axis, values_.axes[axis]});
  std::unique_ptr<per_call_program> fresh = per_call_compiler{layout.per_call, values_.fields}.compile(
      axes, programs.axes().size(), values_.attributes);
  if (const per_call_program* const kept = programs.add(fresh)) return kept;
  fresh->next = out.own_per_call;
  out.own_per_call = fresh.release();
  return out.own_per_call;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
