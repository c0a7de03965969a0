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

class kind_binding;

/// What finding it reads, for up to six axes, lies in its first cache line.
struct alignas(64) plan {
  /// Set when it is the only launch, nothing is late, there is no workspace, and each call need not be looked
  /// at: the shortest path to the driver.
  const planned_launch* direct = nullptr;
  std::uint64_t hash = 0;
  kept_problem problem;
  std::atomic<plan*> next{nullptr};  ///< the next plan of its bucket in the plan_cache
  std::size_t position = 0;          ///< in the plan_cache's list; guarded by its owner's lock
  choice chosen;
  const variant* selected = nullptr;  ///< the variant that was chosen
  kind_binding* kind = nullptr;       ///< what chose it
  /// As `direct`, but for tensor maps that it has and that may be kept.
  const planned_launch* mapped = nullptr;
  std::vector<planned_launch> launches;
  std::vector<workspace_buffer> workspace;
  std::size_t workspace_bytes = 0;
  bool is_counted = false;              ///< calls are counted, or printed one by one
  bool is_provisional = false;          ///< chosen while a better variant waits to be loaded again
  std::atomic<std::uint64_t> count{0};  ///< calls that are not recorded yet
};

/// Workspace buffers start at multiples of this.
inline constexpr std::size_t workspace_alignment = 256;

}  // namespace v0
}  // namespace switchyard
