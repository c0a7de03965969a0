// A choice made ready: functions loaded, grid computed, parameters laid out. Launching a plan allocates
// nothing.
//
// Kernel parameters come from two places. An argument that a kernel takes as it is, is passed by its address
// in the caller's argument struct: nothing is copied. Everything else lies in an image, filled when the plan
// is made; values that only the call knows (expressions over arguments, workspace addresses) are written into
// a copy of the image on the caller's stack. Tensor maps are encoded for the arguments they depend on and
// kept: see tensor_map_cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/float16.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

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
  std::uint32_t index = 0;   ///< of the field, the workspace buffer or the launch's tensor map
  const expression* value = nullptr;
};

/// A tensor map of a launch: what the problem decides of it, and the rest of its recipe.
struct planned_map {
  tensor_map_request known;
  const tensor_map_recipe* recipe = nullptr;
};

/// Stands for the parameter that a tensor map inside a struct is not.
inline constexpr std::size_t no_parameter = ~std::size_t{0};

/// Sixteen bytes of the arguments, under a mask.
struct argument_part {
  using bytes = std::uint64_t __attribute__((vector_size(16)));
  bytes mask{};
  std::size_t offset = 0;
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

/// What a launch reads of it lies in its first two cache lines.
struct alignas(64) planned_launch {
  function_handle function = nullptr;

  // Parameter i is at arguments + offsets[i], but for those that are not passed in place: they are in the
  // image. Padded with zeros to a multiple of eight, of which there is at least one.
  std::vector<std::uintptr_t> offsets;
  std::vector<fixed_parameter> fixed;
  launch_geometry geometry;

  std::uint32_t parameter_count = 0;
  bool is_fill = false;
  bool is_empty = false;  ///< the grid has no blocks: nothing is started
  std::uint8_t fill_byte = 0;
  std::uint32_t fill_workspace = 0;
  std::vector<image_line> image;
  std::vector<late_value> late;
  const std::array<expression, 3>* late_grid = nullptr;  ///< a grid that reads arguments of the single call

  std::vector<planned_map> maps;
  std::vector<std::size_t> map_parameters;  ///< which each map is, or no_parameter for a member of one
  std::vector<argument_part> map_key;  ///< all that the maps depend on, pointers first; empty: not to be kept
  std::size_t map_hash_parts = 0;      ///< how many of the key's parts have pointers
  std::uint64_t map_owner = 0;         ///< a number that no other launch has, for the cache of maps
};

struct workspace_buffer {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A problem, kept inside what it belongs to.
class kept_problem {
 public:
  void assign(problem_view from) noexcept {
    count_ = from.size();
    for (std::size_t i = 0; i < count_; ++i) values_[i] = from[i];
  }
  [[nodiscard]] const std::int64_t* data() const noexcept { return values_.data(); }
  operator problem_view() const noexcept {
    return {values_.data(), count_};
  }  // NOLINT(google-explicit-constructor)

 private:
  std::array<std::int64_t, max_axes> values_{};
  std::size_t count_ = 0;
};

/// What finding it reads, for up to six axes, lies in its first cache line.
struct alignas(64) plan {
  /// Set when it is the only launch, nothing is late, there is no workspace, and calls are not counted: the
  /// shortest way to the driver.
  const planned_launch* direct = nullptr;
  std::uint64_t hash = 0;
  kept_problem problem;
  choice chosen;
  const variant* what = nullptr;  ///< the chosen one
  /// As `direct`, but for tensor maps that it has and that may be kept.
  const planned_launch* mapped = nullptr;
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
    const bool is_plain = out.launches.size() == 1 && !first.is_fill && !first.is_empty &&
                          first.late.empty() && first.late_grid == nullptr && out.workspace.empty() &&
                          !out.counted;
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
    planned.offsets.assign(each.parameters.empty() ? 8 : (each.parameters.size() + 7) / 8 * 8, 0);
    std::size_t end = 0;
    for (std::size_t i = 0; i < each.parameters.size(); ++i) {
      const parameter& what = each.parameters[i];
      if (what.from == parameter::source::field) {
        planned.offsets[i] = from_.op->fields[what.index].offset;
      } else if (what.from == parameter::source::tensor_map) {
        plan_map(what.map.front(), i, planned);
      } else {
        const std::size_t at = place(what, planned, end);
        planned.fixed.push_back({at, i});
        end = at + what.bytes;
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
  [[nodiscard]] std::size_t place(const parameter& what, planned_launch& planned, std::size_t end) const {
    const std::size_t offset = (end + what.align - 1) / what.align * what.align;
    const std::size_t lines = (offset + what.bytes + sizeof(image_line) - 1) / sizeof(image_line);
    if (planned.image.size() < lines) planned.image.resize(lines);
    const auto at = static_cast<std::uint32_t>(offset);
    switch (what.from) {
      case parameter::source::field:
        planned.late.push_back({late_value::source::field, what.kind, at, what.index, nullptr});
        break;
      case parameter::source::workspace:
        planned.late.push_back({late_value::source::workspace, what.kind, at, what.index, nullptr});
        break;
      case parameter::source::integer:
        if (what.value.reads_fields()) {
          planned.late.push_back({late_value::source::integer, what.kind, at, 0, &what.value});
        } else {
          const std::int64_t value = value_of(what.value, what.text);
          if (!fits(what.kind, value))
            fail("parameter " + what.text + " would be " + std::to_string(value) + ", which does not fit");
          store_integer(image_of(planned) + offset, what.kind, value);
        }
        break;
      case parameter::source::real:
        if (what.value.reads_fields()) {
          planned.late.push_back({late_value::source::real, what.kind, at, 0, &what.value});
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
        planned.late.push_back({late_value::source::tensor_map, what.kind, at,
                                static_cast<std::uint32_t>(planned.maps.size()), nullptr});
        plan_map(what.map.front(), no_parameter, planned);
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

}  // namespace v0
}  // namespace switchyard
