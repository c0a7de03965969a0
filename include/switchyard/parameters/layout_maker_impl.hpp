// SPDX-License-Identifier: MIT
// The bodies of layout_maker.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/argument_key.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/layout_maker.hpp>
#include <switchyard/parameters/parameter_block.hpp>
#include <switchyard/parameters/per_call_compiler.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/parameters/tensor_map_parts.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION bool have_same_block(const launch_layout& a, const launch_layout& b) noexcept {
  const auto same = [](const auto& left, const auto& right, const auto& equal) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!equal(left[i], right[i])) return false;
    }
    return true;
  };
  return a.parameter_block.size() <= local_block_lines && a.maps.empty() && b.maps.empty() &&
         same(a.parameter_block, b.parameter_block,
              [](const parameter_line& x, const parameter_line& y) { return x.bytes == y.bytes; }) &&
         same(a.values, b.values,
              [](const launch_layout::problem_value& x, const launch_layout::problem_value& y) {
                return x.value == y.value && x.kind == y.kind && x.is_real == y.is_real &&
                       x.offset == y.offset;
              }) &&
         same(a.per_call, b.per_call, [](const per_call_value& x, const per_call_value& y) {
           return x.from == y.from && x.kind == y.kind && x.offset == y.offset && x.index == y.index &&
                  (x.value == nullptr || *x.value == *y.value);
         });
}

SWITCHYARD_FUNCTION layout_maker::layout_maker(const selector& from, const variant& chosen,
                                               const launch& launch, const launch_layout* before)
    : from_{from},
      variant_{chosen},
      launch_{launch},
      before_{before},
      out_{std::make_unique<launch_layout>()} {}

SWITCHYARD_FUNCTION std::unique_ptr<launch_layout> layout_maker::make() {
  out_->type = variant_.type;
  lay_out_geometry();
  lay_out_parameters();
  lay_out_per_call_axes();
  lay_out_keys();
  out_->shares_block = before_ != nullptr && have_same_block(*before_, *out_);
  return std::move(out_);
}

SWITCHYARD_FUNCTION bool layout_maker::is_known(const expression& folded, std::int64_t& value) noexcept {
  if (!folded.is_constant()) return false;
  value = folded.evaluate({}).value;
  return true;
}

SWITCHYARD_FUNCTION bool layout_maker::to_extent(const expression& folded, std::uint32_t& out) noexcept {
  std::int64_t value = 0;
  return is_known(folded, value) && detail::to_extent(value, out);
}

SWITCHYARD_FUNCTION void layout_maker::lay_out_geometry() {
  launch_layout& out = *out_;
  for (std::size_t i = 0; i < 3; ++i) {
    out.block[i] = folded(launch_.block[i]);
    out.cluster[i] = folded(launch_.cluster[i]);
    out.grid[i] = folded(launch_.grid[i]);
    out.has_per_call_grid = out.has_per_call_grid || launch_.grid[i].reads_fields();
  }
  out.shared_bytes = folded(launch_.shared_bytes);
  out.is_block_known = to_extents(out.block, out.geometry.block) &&
                       to_extents(out.cluster, out.geometry.cluster) &&
                       to_extent(out.shared_bytes, out.geometry.shared_bytes);
  out.geometry.cooperative = launch_.cooperative;
  out.geometry.programmatic_dependent_launch = launch_.programmatic_dependent_launch;
}

SWITCHYARD_FUNCTION void layout_maker::lay_out_parameters() {
  launch_layout& out = *out_;
  const std::size_t count = launch_.parameters.size();
  const std::size_t padded = (count + launch_layout::group - 1) / launch_layout::group * launch_layout::group;
  out.parameter_count = static_cast<std::uint32_t>(count);
  out.groups = static_cast<std::uint32_t>(padded / launch_layout::group);
  out.offsets.assign(padded, 0);
  out.masks.assign(padded, ~std::uintptr_t{0});
  std::size_t end = 0;
  bool all_in_place = true;
  for (std::size_t i = 0; i < count; ++i) {
    const parameter& formal = launch_.parameters[i];
    if (formal.from == parameter::source::field) {
      out.offsets[i] = from_.op->fields[formal.index].offset;
    } else if (formal.from == parameter::source::tensor_map) {
      add_map(formal.map.front(), i);
    } else if (const field_description* const field = passed_whole(formal)) {
      out.offsets[i] = field->offset;
    } else {
      const std::size_t at = place(formal, end);
      out.offsets[i] = at;
      out.masks[i] = 0;
      all_in_place = false;
      end = at + formal.bytes;
    }
  }
  // Kept maps lie behind the parameter block.
  const std::size_t behind = out.parameter_block.size() * sizeof(parameter_line);
  for (std::size_t i = 0; i < out.maps.size(); ++i) {
    if (out.map_parameters[i] == no_parameter) continue;
    out.offsets[out.map_parameters[i]] = behind + i * tensor_map_bytes;
    out.masks[out.map_parameters[i]] = 0;
    all_in_place = false;
  }
  if (all_in_place) out.masks.clear();
}

SWITCHYARD_FUNCTION const field_description* layout_maker::passed_whole(const parameter& formal) const {
  if (formal.from != parameter::source::integer || !formal.value.reads_fields()) return nullptr;
  const std::uint32_t index = per_call_compiler::field_alone(folded(formal.value));
  if (index == no_index) return nullptr;
  const field_description& field = from_.op->fields[index];
  return per_call_compiler::same_bytes(field.kind, formal.kind) ? &field : nullptr;
}

SWITCHYARD_FUNCTION std::size_t layout_maker::place(const parameter& formal, std::size_t end) {
  launch_layout& out = *out_;
  const std::size_t offset = (end + formal.align - 1) / formal.align * formal.align;
  const std::size_t lines = (offset + formal.bytes + sizeof(parameter_line) - 1) / sizeof(parameter_line);
  if (out.parameter_block.size() < lines) out.parameter_block.resize(lines);
  const auto at = static_cast<std::uint32_t>(offset);
  switch (formal.from) {
    case parameter::source::field:
      out.per_call.push_back({per_call_value::source::field, formal.kind, at, formal.index, nullptr});
      break;
    case parameter::source::workspace:
      out.per_call.push_back({per_call_value::source::workspace, formal.kind, at, formal.index, nullptr});
      break;
    case parameter::source::integer:
    case parameter::source::real:
      place_value(formal, at);
      break;
    case parameter::source::structure: {
      std::size_t inside = offset;
      for (const parameter& member : formal.members) inside = place(member, inside) + member.bytes;
      break;
    }
    case parameter::source::tensor_map:
      out.per_call.push_back({per_call_value::source::tensor_map, formal.kind, at,
                              static_cast<std::uint32_t>(out.maps.size()), nullptr});
      add_map(formal.map.front(), no_parameter);
      break;
    case parameter::source::zeros:
      break;
  }
  return offset;
}

SWITCHYARD_FUNCTION void layout_maker::place_value(const parameter& formal, std::uint32_t at) {
  launch_layout& out = *out_;
  const bool is_real = formal.from == parameter::source::real;
  if (formal.value.reads_fields()) {
    out.per_call.push_back({is_real ? per_call_value::source::real : per_call_value::source::integer,
                            formal.kind, at, 0, &formal.value});
    return;
  }
  if (is_real) {
    if (formal.value.is_constant()) {
      store_real(at_block(at), formal.kind, formal.value.evaluate_real({}));
    } else {
      out.values.push_back({formal.value, formal.kind, true, no_index, at});
    }
    return;
  }
  expression value = folded(formal.value);
  std::int64_t constant = 0;
  if (is_known(value, constant) && fits(formal.kind, constant)) {
    store_integer(at_block(at), formal.kind, constant);
    return;
  }
  const std::uint32_t axis = per_call_compiler::axis_alone(value);
  out.values.push_back({std::move(value), formal.kind, false, axis, at});
}

SWITCHYARD_FUNCTION void layout_maker::add_map(const tensor_map_recipe& recipe, std::size_t parameter) {
  out_->maps.push_back(&recipe);
  out_->map_parameters.push_back(parameter);
}

SWITCHYARD_FUNCTION void layout_maker::lay_out_per_call_axes() {
  std::vector<bool> is_read(from_.op->axes.size());
  for (const per_call_value& per_call : out_->per_call) {
    if (per_call.from != per_call_value::source::integer) continue;
    const expression value = folded(*per_call.value);
    for (std::uint32_t axis = 0; axis < is_read.size(); ++axis)
      is_read[axis] = is_read[axis] || value.reads_axis(axis);
  }
  std::vector<std::uint32_t> axes;
  for (std::uint32_t axis = 0; axis < is_read.size(); ++axis) {
    if (is_read[axis]) axes.push_back(axis);
  }
  out_->programs.set_axes(std::move(axes));
}

SWITCHYARD_FUNCTION void layout_maker::lay_out_keys() {
  launch_layout& out = *out_;
  std::vector<bool> is_read(from_.op->fields.size());
  const auto add = [&](std::uint32_t field) { is_read[field] = true; };
  for (const tensor_map_recipe* const recipe : out.maps) {
    tensor_map_request unused;
    visit_parts(*recipe, unused, [&](const expression& value, auto&) { value.for_each_field(add); });
  }
  out.map_key = make_argument_key(*from_.op, is_read);
  bool has_address = false;
  for (const per_call_value& per_call : out.per_call) {
    out.has_workspace = out.has_workspace || per_call.from == per_call_value::source::workspace;
    std::uint32_t alone = no_index;
    if (per_call.from == per_call_value::source::field) {
      alone = per_call.index;
      add(alone);
    } else if (per_call.value != nullptr) {
      const expression value = folded(*per_call.value);
      alone = per_call_compiler::field_alone(value);
      value.for_each_field(add);
    }
    has_address = has_address || (alone != no_index && from_.op->fields[alone].kind == value_kind::pointer);
  }
  if (out.has_per_call_grid) {
    for (const expression& extent : out.grid) extent.for_each_field(add);
  }
  if (out.masks.empty()) return;  // nothing is in the parameter block
  // Without maps a parameter block with addresses is made as fast as it is found, and addresses are many.
  const bool is_kept = (!out.per_call.empty() || out.has_per_call_grid) &&
                       out.parameter_block.size() <= local_block_lines && (!out.maps.empty() || !has_address);
  if (is_kept) out.block_key = make_argument_key(*from_.op, is_read);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
