// SPDX-License-Identifier: MIT
// What all plans of one launch share, made once when its kernel is loaded: where each parameter lies, the
// constants of its parameter block, and what must be evaluated for each problem and each call.
//
// Immutable once made, except for the list of per-call programs (see per_call_program.hpp), to which any
// thread may add.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/choosing/choice.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/argument_key.hpp>
#include <switchyard/parameters/per_call_program.hpp>

namespace switchyard {
inline namespace v0 {

/// A piece of a parameter block: parameters may ask for alignment up to its own.
struct alignas(64) parameter_line {
  std::array<std::byte, 64> bytes;
};

/// Stands in for the parameter number of a tensor map inside a struct, which is not a parameter itself.
inline constexpr std::size_t no_parameter = ~std::size_t{0};

struct launch_layout {
  /// Parameters are bound in groups of four.
  static constexpr std::size_t group = 4;

  /// A value of the parameter block that each plan computes.
  struct problem_value {
    expression value;
    value_kind kind = value_kind::i64;
    bool is_real = false;
    std::uint32_t axis = no_index;  ///< the value is this axis
    std::uint32_t offset = 0;       ///< in the parameter block
  };

  // Parameter i is at arguments + offsets[i] where masks[i] is all ones, else at parameter_block +
  // offsets[i]. Padded to a multiple of four.
  std::vector<std::uintptr_t> offsets;
  std::vector<std::uintptr_t> masks;  ///< empty: all are in the arguments
  std::uint32_t parameter_count = 0;
  std::uint32_t groups = 0;

  std::vector<parameter_line> parameter_block;  ///< with its constants
  std::vector<problem_value> values;
  std::vector<per_call_value> per_call;
  /// The parameter block is that of the launch before, constant by constant and value by value.
  bool shares_block = false;
  std::span<const axis_value> type;  ///< of the variant

  launch_geometry geometry;         ///< its constants
  std::array<expression, 3> block;  ///< folded, as the next three
  std::array<expression, 3> cluster;
  expression shared_bytes;
  std::array<expression, 3> grid;
  bool has_per_call_grid = false;  ///< the grid reads arguments of the single call
  bool is_block_known = false;     ///< and so are cluster and shared_bytes

  std::vector<const tensor_map_recipe*> maps;
  std::vector<std::size_t> map_parameters;  ///< which each map is, or no_parameter for a member of one
  argument_key map_key;                     ///< all arguments that the maps depend on
  argument_key block_key;  ///< all that maps, per-call values and a per-call grid depend on; empty: not kept
  bool has_workspace = false;  ///< the parameter block has addresses of the workspace

  mutable detail::per_call_programs programs;  ///< what it can make at any time, remembered
};

namespace detail {

/// Parameter blocks of at most so many lines are written where the call is made, without an allocation.
inline constexpr std::size_t local_block_lines = 64;

/// Room for one, aligned by hand: a function with over-aligned variables takes a dozen instructions more.
class local_block {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): written before it is read
  local_block() noexcept {}
  local_block(const local_block&) = delete;
  local_block& operator=(const local_block&) = delete;

  [[nodiscard, gnu::always_inline]] inline parameter_line* data() noexcept {
    std::byte* const end = bytes_.data() + sizeof(parameter_line) - 1;
    return reinterpret_cast<parameter_line*>(end -
                                             reinterpret_cast<std::uintptr_t>(end) % sizeof(parameter_line));
  }

 private:
  std::array<std::byte, (local_block_lines + 1) * sizeof(parameter_line)> bytes_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
