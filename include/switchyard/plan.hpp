// A choice made ready: functions loaded, grid computed, parameters laid out. Launching a plan allocates
// nothing.
//
// Kernel parameters come from two places. An argument that a kernel takes as it is, is passed by its address
// in the caller's argument struct: nothing is copied. Everything else lies in an image, filled when the plan
// is made; values that only the call knows (expressions over arguments, workspace addresses, tensor maps) are
// written into a copy of the image on the caller's stack.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choice.hpp>
#include <switchyard/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression.hpp>
#include <switchyard/float16.hpp>
#include <switchyard/manifest.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/select.hpp>

namespace switchyard::inline v0 {

/// A kernel ready to be launched.
struct loaded_kernel {
  function_handle function = nullptr;
  std::shared_ptr<const void> module;  ///< keeps it loaded
};

class kernel_loader {
 public:
  kernel_loader() = default;
  kernel_loader(const kernel_loader&) = delete;
  kernel_loader& operator=(const kernel_loader&) = delete;
  virtual ~kernel_loader() = default;

  [[nodiscard]] virtual device_driver& driver() const noexcept = 0;

  /// Loads a launch's kernel. Throws error with codes 205 to 209.
  [[nodiscard]] virtual loaded_kernel load(const launch& what) = 0;
};

/// A value of a parameter image that is known only when the call is made.
struct late_value {
  enum class source : std::uint8_t { field, integer, real, workspace, tensor_map };
  source from = source::field;
  value_kind kind = value_kind::pointer;
  std::uint32_t offset = 0;  ///< in the image
  std::uint32_t index = 0;   ///< of the field or the workspace buffer
  const expression* value = nullptr;
  const tensor_map_recipe* map = nullptr;
};

/// A piece of a parameter image: parameters may ask for alignment up to its own.
struct alignas(64) image_line {
  std::array<std::byte, 64> bytes;
};

/// A parameter whose value the image has.
struct fixed_parameter {
  std::uintptr_t address = 0;
  std::size_t index = 0;
};

struct planned_launch {
  function_handle function = nullptr;
  launch_geometry geometry;
  std::uint32_t parameter_count = 0;
  bool is_fill = false;
  bool is_empty = false;  ///< the grid has no blocks: nothing is started
  std::uint8_t fill_byte = 0;
  std::uint32_t fill_workspace = 0;

  // Parameter i is at arguments + offsets[i], but for those that are not passed in place: they are in the
  // image. Padded with zeros to a multiple of eight.
  std::vector<std::uintptr_t> offsets;
  std::vector<fixed_parameter> fixed;
  std::vector<image_line> image;
  std::vector<late_value> late;
  const std::array<expression, 3>* late_grid = nullptr;  ///< a grid that reads arguments of the single call
};

struct workspace_buffer {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct plan {
  std::vector<std::int64_t> problem;
  std::uint64_t hash = 0;
  choice chosen;
  const variant* what = nullptr;  ///< the chosen one
  /// Set when it is the only launch, nothing is late, there is no workspace, and calls are not counted: the
  /// shortest way to the driver.
  const planned_launch* direct = nullptr;
  std::vector<planned_launch> launches;
  std::vector<workspace_buffer> workspace;
  std::size_t workspace_bytes = 0;
  bool counted = false;                 ///< calls are counted, or printed one by one
  std::atomic<std::uint64_t> count{0};  ///< calls that are not recorded yet
};

/// Workspace buffers start at multiples of this.
inline constexpr std::size_t workspace_alignment = 256;

namespace detail {

inline void store_integer(std::byte* to, value_kind kind, std::int64_t value) noexcept {
  __builtin_memcpy(to, &value, size_of(kind));  // little-endian: the low bytes come first
}

inline void store_real(std::byte* to, value_kind kind, double value) noexcept {
  switch (kind) {
    case value_kind::f64:
      __builtin_memcpy(to, &value, 8);
      break;
    case value_kind::f16: {
      const std::uint16_t bits = f16_from(value);
      __builtin_memcpy(to, &bits, 2);
      break;
    }
    case value_kind::bf16: {
      const std::uint16_t bits = bf16_from(value);
      __builtin_memcpy(to, &bits, 2);
      break;
    }
    default: {
      const auto narrow = static_cast<float>(value);
      __builtin_memcpy(to, &narrow, 4);
    }
  }
}

/// Whether an integer expression's value can be stored as `kind` without loss.
[[nodiscard]] constexpr bool fits(value_kind kind, std::int64_t value) noexcept {
  const unsigned bits = size_of(kind) * 8;
  if (bits == 64) return kind != value_kind::u64 || value >= 0;
  const bool is_signed = kind == value_kind::i8 || kind == value_kind::i16 || kind == value_kind::i32;
  const std::int64_t high = std::int64_t{1} << (is_signed ? bits - 1 : bits);
  return value < high && value >= (is_signed ? -high : 0);
}

/// Makes the plan of one variant for one problem.
class planner {
 public:
  planner(const selector& from, const variant& what, problem_view problem)
      : from_{from}, what_{what}, values_{problem, from.device.attributes, from.op->fields, nullptr} {}

  void build(const std::vector<loaded_kernel>& kernels, plan& out) {
    out.what = &what_;
    for (const named_expression& buffer : what_.workspace) {
      const std::int64_t bytes = value_of(buffer.value, buffer.name);
      if (bytes < 0 || bytes > (std::int64_t{1} << 46))
        fail("workspace '" + buffer.name + "' would take " + std::to_string(bytes) + " bytes");
      out.workspace.push_back({out.workspace_bytes, static_cast<std::size_t>(bytes)});
      out.workspace_bytes += (static_cast<std::size_t>(bytes) + workspace_alignment - 1) /
                             workspace_alignment * workspace_alignment;
    }
    out.launches.resize(what_.launches.size());
    for (std::size_t i = 0; i < what_.launches.size(); ++i) {
      const launch& each = what_.launches[i];
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
    const bool is_direct = out.launches.size() == 1 && !first.is_fill && !first.is_empty &&
                           first.late.empty() && first.late_grid == nullptr && out.workspace.empty() &&
                           !out.counted;
    out.direct = is_direct ? &first : nullptr;
  }

  [[nodiscard]] static bool to_extent(std::int64_t value, std::uint32_t& out) noexcept {
    if (value < 0 || value > 0xffffffff) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw call_error{error_code::evaluation_failed, std::string{from_.op->name} + ": variant '" + what_.id +
                                                        "': " + what + " for " +
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
    planned.offsets.assign((each.parameters.size() + 7) / 8 * 8, 0);
    std::size_t end = 0;
    for (std::size_t i = 0; i < each.parameters.size(); ++i) {
      const parameter& what = each.parameters[i];
      if (what.from == parameter::source::field) {
        planned.offsets[i] = from_.op->fields[what.index].offset;
      } else {
        const std::size_t at = place(what, planned, end);
        planned.fixed.push_back({at, i});
        end = at + what.bytes;
      }
    }
    for (fixed_parameter& here : planned.fixed) {
      here.address += reinterpret_cast<std::uintptr_t>(planned.image.data());
    }
  }

  [[nodiscard]] static std::byte* image_of(planned_launch& planned) noexcept {
    return reinterpret_cast<std::byte*>(planned.image.data());
  }

  /// Lays a parameter out at or behind `end`; returns its offset.
  [[nodiscard]] std::size_t place(const parameter& what, planned_launch& planned, std::size_t end) const {
    const std::size_t offset = (end + what.align - 1) / what.align * what.align;
    const std::size_t lines = (offset + what.bytes + sizeof(image_line) - 1) / sizeof(image_line);
    if (planned.image.size() < lines) planned.image.resize(lines);
    const auto at = static_cast<std::uint32_t>(offset);
    switch (what.from) {
      case parameter::source::field:
        planned.late.push_back({late_value::source::field, what.kind, at, what.index, nullptr, nullptr});
        break;
      case parameter::source::workspace:
        planned.late.push_back({late_value::source::workspace, what.kind, at, what.index, nullptr, nullptr});
        break;
      case parameter::source::integer:
        if (what.value.reads_fields()) {
          planned.late.push_back({late_value::source::integer, what.kind, at, 0, &what.value, nullptr});
        } else {
          const std::int64_t value = value_of(what.value, what.text);
          if (!fits(what.kind, value))
            fail("parameter " + what.text + " would be " + std::to_string(value) + ", which does not fit");
          store_integer(image_of(planned) + offset, what.kind, value);
        }
        break;
      case parameter::source::real:
        if (what.value.reads_fields()) {
          planned.late.push_back({late_value::source::real, what.kind, at, 0, &what.value, nullptr});
        } else {
          store_real(image_of(planned) + offset, what.kind, what.value.evaluate_real(values_));
        }
        break;
      case parameter::source::structure: {
        std::size_t inside = offset;
        for (const parameter& member : what.members) inside = place(member, planned, inside) + member.bytes;
        break;
      }
      case parameter::source::tensor_map:
        planned.late.push_back({late_value::source::tensor_map, what.kind, at, 0, nullptr, what.map.data()});
        break;
      case parameter::source::zeros:
        break;
    }
    return offset;
  }

  const selector& from_;
  const variant& what_;
  evaluation values_;
};

}  // namespace detail

}  // namespace switchyard::inline v0
