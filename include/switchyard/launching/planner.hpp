// Makes the plan of one variant for one problem: grids, parameter images, tensor maps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/kernel_loader.hpp>
#include <switchyard/launching/parameter_image.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Makes the plan of one variant for one problem.
class planner {
 public:
  planner(const selector& from, const variant& chosen, problem_view problem)
      : from_{from}, variant_{chosen}, values_{problem, from.device.attributes, from.op->fields, nullptr} {}

  void build(const std::vector<loaded_kernel>& kernels, plan& out) {
    out.selected = &variant_;
    for (const named_expression& buffer : variant_.workspace) {
      const std::int64_t bytes = value_of(buffer.value, buffer.name);
      if (bytes < 0 || bytes > (std::int64_t{1} << 46))
        fail("workspace '" + buffer.name + "' would take " + std::to_string(bytes) + " bytes");
      out.workspace.push_back({out.workspace_bytes, static_cast<std::size_t>(bytes)});
      out.workspace_bytes += (static_cast<std::size_t>(bytes) + workspace_alignment - 1) /
                             workspace_alignment * workspace_alignment;
    }
    out.launches.resize(variant_.launches.size());
    for (std::size_t i = 0; i < variant_.launches.size(); ++i) {
      const launch& each = variant_.launches[i];
      planned_launch& planned = out.launches[i];
      if (each.is_fill) {
        planned.is_fill = true;
        planned.fill_byte = each.fill_byte;
        planned.fill_workspace = each.fill_workspace;
        planned.is_empty = out.workspace[each.fill_workspace].bytes == 0;
        continue;
      }
      planned.function = kernels[i].function;
      plan_geometry(each, planned);
      plan_parameters(each, planned);
    }
    const planned_launch& first = out.launches.front();
    const bool is_plain = out.launches.size() == 1 && !first.is_fill && !first.is_empty &&
                          first.late.empty() && first.late_grid == nullptr && out.workspace.empty() &&
                          !out.is_counted && !out.is_provisional;
    if (is_plain && first.maps.empty()) out.direct = &first;
    if (is_plain && !first.map_key.empty()) out.mapped = &first;
  }

  /// Calls `visit(expression, member of the request)` for each part of a recipe.
  template <class Visitor>
  static void visit_map(const tensor_map_recipe& recipe, tensor_map_request& request, const Visitor& visit) {
    visit(recipe.address, request.address);
    for (std::size_t i = 0; i < recipe.extents.size(); ++i) {
      visit(recipe.extents[i], request.extents[i]);
      visit(recipe.box[i], request.box[i]);
      if (!recipe.element_strides.empty()) visit(recipe.element_strides[i], request.element_strides[i]);
    }
    for (std::size_t i = 0; i < recipe.stride_bytes.size(); ++i)
      visit(recipe.stride_bytes[i], request.stride_bytes[i]);
  }
  static void store(void*& to, std::int64_t value) noexcept { __builtin_memcpy(&to, &value, sizeof to); }
  static void store(std::uint64_t& to, std::int64_t value) noexcept {
    to = static_cast<std::uint64_t>(value);
  }
  static void store(std::uint32_t& to, std::int64_t value) noexcept {
    to = static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] static bool to_extent(std::int64_t value, std::uint32_t& out) noexcept {
    if (value < 0 || value > 0xffffffff) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw call_error{error_code::evaluation_failed, std::string{from_.op->name} + ": variant '" +
                                                        variant_.id + "': " + message + " for " +
                                                        format_problem(*from_.op, values_.axes)};
  }

  [[nodiscard]] std::int64_t value_of(const expression& each, const std::string& name) const {
    const integer_result result = each.evaluate(values_);
    if (result.why != fault::none) fail(name + " " + std::string{to_string(result.why)});
    return result.value;
  }

  void extent_of(const std::array<expression, 3>& from, const char* name, dim3& out) const {
    const std::array<std::uint32_t*, 3> into{&out.x, &out.y, &out.z};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t value = value_of(from[i], name);
      if (!to_extent(value, *into[i])) fail(std::string{name} + " would be " + std::to_string(value));
    }
  }

  void plan_geometry(const launch& each, planned_launch& planned) const {
    extent_of(each.block, "block", planned.geometry.block);
    extent_of(each.cluster, "cluster", planned.geometry.cluster);
    const std::int64_t shared = value_of(each.shared_bytes, "shared_bytes");
    if (!to_extent(shared, planned.geometry.shared_bytes))
      fail("shared_bytes would be " + std::to_string(shared));
    planned.geometry.cooperative = each.cooperative;
    planned.geometry.programmatic_dependent_launch = each.programmatic_dependent_launch;
    for (const expression& extent : each.grid) {
      if (extent.reads_fields()) planned.late_grid = &each.grid;
    }
    if (planned.late_grid != nullptr) return;
    extent_of(each.grid, "grid", planned.geometry.grid);
    planned.is_empty =
        planned.geometry.grid.x == 0 || planned.geometry.grid.y == 0 || planned.geometry.grid.z == 0;
  }

  void plan_parameters(const launch& each, planned_launch& planned) const {
    planned.parameter_count = static_cast<std::uint32_t>(each.parameters.size());
    planned.offsets.assign(each.parameters.empty() ? 8 : (each.parameters.size() + 7) / 8 * 8, 0);
    std::size_t end = 0;
    for (std::size_t i = 0; i < each.parameters.size(); ++i) {
      const parameter& formal = each.parameters[i];
      if (formal.from == parameter::source::field) {
        planned.offsets[i] = from_.op->fields[formal.index].offset;
      } else if (formal.from == parameter::source::tensor_map) {
        plan_map(formal.map.front(), i, planned);
      } else {
        const std::size_t at = place(formal, planned, end);
        planned.fixed.push_back({at, i});
        end = at + formal.bytes;
      }
    }
    for (fixed_parameter& here : planned.fixed) {
      here.address += reinterpret_cast<std::uintptr_t>(planned.image.data());
    }
    if (!planned.maps.empty()) plan_map_key(planned);
  }

  void plan_map(const tensor_map_recipe& recipe, std::size_t parameter, planned_launch& planned) const {
    planned_map out{{}, &recipe};
    tensor_map_request& known = out.known;
    known.rank = static_cast<std::uint32_t>(recipe.extents.size());
    known.element_type = recipe.element_type;
    known.interleave = recipe.interleave;
    known.swizzle = recipe.swizzle;
    known.l2_promotion = recipe.l2_promotion;
    known.out_of_bounds_fill = recipe.out_of_bounds_fill;
    for (std::uint32_t& each : known.element_strides) each = 1;
    visit_map(recipe, known, [this](const expression& value, auto& to) {
      if (!value.reads_fields()) store(to, value_of(value, "a tensor map's part"));
    });
    planned.maps.push_back(out);
    planned.map_parameters.push_back(parameter);
  }

  /// The words of the arguments that the maps read, two by two.
  void plan_map_key(planned_launch& planned) const {
    const std::size_t words = from_.op->argument_bytes / 8;
    if (from_.op->argument_bytes % 8 != 0 || words < 2) return;
    std::vector<std::uint64_t> masks(words);
    std::vector<bool> has_pointer(words);
    const auto add = [&](std::uint32_t index) {
      const field_description& field = from_.op->fields[index];
      const unsigned bits = size_of(field.kind) * 8;
      const std::uint64_t all = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      masks[field.offset / 8] |= all << field.offset % 8 * 8;
      if (field.kind == value_kind::pointer) has_pointer[field.offset / 8] = true;
    };
    for (planned_map& each : planned.maps) {
      visit_map(*each.recipe, each.known, [&](const expression& value, auto&) { value.for_each_field(add); });
    }
    for (std::size_t word = 0; word < words; ++word) {
      if (masks[word] == 0) continue;
      const std::size_t first = word + 1 < words ? word : word - 1;
      argument_part part;
      part.mask = argument_part::bytes{first == word ? masks[word] : 0, masks[first + 1]};
      part.offset = first * 8;
      const bool hashed = has_pointer[word] || has_pointer[first + 1];
      auto at = planned.map_key.end();
      if (hashed) at = planned.map_key.begin() + static_cast<std::ptrdiff_t>(planned.map_hash_parts++);
      planned.map_key.insert(at, part);
      word = first + 1;
    }
    static std::atomic<std::uint64_t> owners{0};
    planned.map_owner = owners.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  [[nodiscard]] static std::byte* image_of(planned_launch& planned) noexcept {
    return reinterpret_cast<std::byte*>(planned.image.data());
  }

  /// Lays a parameter out at or behind `end`; returns its offset.
  [[nodiscard]] std::size_t place(const parameter& formal, planned_launch& planned, std::size_t end) const {
    const std::size_t offset = (end + formal.align - 1) / formal.align * formal.align;
    const std::size_t lines = (offset + formal.bytes + sizeof(image_line) - 1) / sizeof(image_line);
    if (planned.image.size() < lines) planned.image.resize(lines);
    const auto at = static_cast<std::uint32_t>(offset);
    switch (formal.from) {
      case parameter::source::field:
        planned.late.push_back({late_value::source::field, formal.kind, at, formal.index, nullptr});
        break;
      case parameter::source::workspace:
        planned.late.push_back({late_value::source::workspace, formal.kind, at, formal.index, nullptr});
        break;
      case parameter::source::integer:
        if (formal.value.reads_fields()) {
          planned.late.push_back({late_value::source::integer, formal.kind, at, 0, &formal.value});
        } else {
          const std::int64_t value = value_of(formal.value, formal.text);
          if (!fits(formal.kind, value))
            fail("parameter " + formal.text + " would be " + std::to_string(value) + ", which does not fit");
          store_integer(image_of(planned) + offset, formal.kind, value);
        }
        break;
      case parameter::source::real:
        if (formal.value.reads_fields()) {
          planned.late.push_back({late_value::source::real, formal.kind, at, 0, &formal.value});
        } else {
          store_real(image_of(planned) + offset, formal.kind, formal.value.evaluate_real(values_));
        }
        break;
      case parameter::source::structure: {
        std::size_t inside = offset;
        for (const parameter& member : formal.members) inside = place(member, planned, inside) + member.bytes;
        break;
      }
      case parameter::source::tensor_map:
        planned.late.push_back({late_value::source::tensor_map, formal.kind, at,
                                static_cast<std::uint32_t>(planned.maps.size()), nullptr});
        plan_map(formal.map.front(), no_parameter, planned);
        break;
      case parameter::source::zeros:
        break;
    }
    return offset;
  }

  const selector& from_;
  const variant& variant_;
  evaluation values_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
