// SPDX-License-Identifier: MIT
// A manifest as plain data: the variants of one operator for one target, with parsed expressions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>

namespace switchyard {
inline namespace v0 {

/// Limits: launches of a variant, parameters of a launch, and their bytes (the CUDA driver's limit).
inline constexpr std::size_t max_launches = 16;
inline constexpr std::size_t max_parameters = 256;
inline constexpr std::size_t max_parameter_bytes = 32764;

/// Whether a problem has all of these values.
[[nodiscard]] bool matches(const std::vector<axis_value>& wanted, problem_view problem) noexcept;

/// Whether two lists require different values of one axis.
[[nodiscard]] bool contradict(const std::vector<axis_value>& a, const std::vector<axis_value>& b) noexcept;

/// A tiled view of a tensor, encoded as a CUtensorMap at launch.
struct tensor_map_recipe {
  expression address;                       ///< integer, the value of a pointer
  std::vector<expression> extents;          ///< elements, innermost first; 1 to 5
  std::vector<expression> stride_bytes;     ///< of dimensions 1 and up
  std::vector<expression> box;              ///< elements of one copy
  std::vector<expression> element_strides;  ///< empty: all 1
  std::uint32_t element_type = 0;           ///< these five as the CUDA driver API numbers them
  std::uint32_t interleave = 0;
  std::uint32_t swizzle = 0;
  std::uint32_t l2_promotion = 0;
  std::uint32_t out_of_bounds_fill = 0;
};

/// One kernel parameter, or one member of a struct parameter.
struct parameter {
  enum class source : std::uint8_t {
    field,       ///< an argument, unchanged
    workspace,   ///< address of a workspace buffer
    integer,     ///< an integer expression, stored as `kind`
    real,        ///< a real expression, stored as `kind`
    zeros,       ///< `bytes` zero bytes: pointers that a compiler appends and that may be null
    structure,   ///< members by value
    tensor_map,  ///< a CUtensorMap by value
  };
  source from = source::field;
  value_kind kind = value_kind::pointer;
  std::uint32_t index = 0;  ///< of the field or the workspace buffer
  std::uint32_t bytes = 0;
  std::uint32_t align = 1;
  expression value;
  std::vector<parameter> members;
  std::vector<tensor_map_recipe> map;  ///< one, for a tensor map
  std::string text;                    ///< as written in the manifest, for messages
};

struct named_expression {
  std::string name;
  expression value;
  std::string text{};  ///< as written in the manifest, for messages; empty for an integer
};

/// What a launch's expressions are in the manifest, for messages; integers have none.
struct launch_texts {
  std::array<std::string, 3> grid;
  std::array<std::string, 3> block;
  std::array<std::string, 3> cluster;
  std::string shared_bytes;
};

/// One kernel of a blob, or a fill of a workspace buffer.
struct launch {
  bool is_fill = false;
  std::uint32_t fill_workspace = 0;
  std::uint8_t fill_byte = 0;

  std::string blob;    ///< path of the file
  std::string sha256;  ///< 64 hexadecimal digits
  std::string kernel;
  std::array<expression, 3> grid;
  std::array<expression, 3> block;
  std::array<expression, 3> cluster;
  expression shared_bytes;
  launch_texts texts;
  bool cooperative = false;
  bool programmatic_dependent_launch = false;
  std::vector<parameter> parameters;
};

struct config_entry {
  std::string name;
  std::int64_t value = 0;
};

/// An expression and its text in the manifest.
struct condition {
  std::string text;
  expression value;
};

/// One way to compute an operator.
struct variant {
  std::string id;
  std::vector<axis_value> type;  ///< sorted by axis; other axes may have any value
  std::vector<config_entry> config;
  std::vector<condition> conditions;  ///< `requires`
  /// A quantity that the variant's time is proportional to, in any unit, over axes, config and device
  /// attributes. Times are carried from a row to another size in proportion to it. No text: unknown.
  condition cost;
  /// Microseconds that a unit of `cost` takes, about; it makes the costs of variants comparable. 0: unknown.
  double cost_us = 0;
  /// Nanoseconds that a call takes, about, as an expression like `cost`, for where no rows decide. No time is
  /// carried by it. No text: `cost` and `cost_us` say it, if these do.
  condition cost_ns;
  std::vector<named_expression> workspace;
  std::vector<launch> launches;
  /// How far results may be off, in units of what the operator's definition allows: see choice_limits.
  double max_error = 1;
  std::string reproducible{};  ///< the class of variants that give the same bits; empty: none

  /// Whether it states how long a call takes, about.
  [[nodiscard]] bool has_time() const noexcept { return cost_us > 0 || !cost_ns.text.empty(); }
  /// About how many microseconds a call takes, of a variant that has_time(); infinite where that is a fault
  /// or not positive.
  [[nodiscard]] double time_at(const evaluation& values) const noexcept;
};

struct target {
  std::string backend;
  std::string arch;
};

struct manifest {
  std::string path;
  std::string operator_name;
  switchyard::target target;
  std::string built_by;
  std::vector<variant> variants;
};

/// "block_m=64,block_n=128" for messages and SWITCHYARD_FORCE.
[[nodiscard]] std::string format_config(const variant& of);

/// Identifies a variant's blobs, so that a table can tell whether it measured them: the first 16 digits of
/// each blob's digest, joined.
[[nodiscard]] std::string blob_fingerprint(const variant& of);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/manifest_impl.hpp>
#endif
