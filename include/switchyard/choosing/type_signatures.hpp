// SPDX-License-Identifier: MIT
// Type signatures of problems: they decide which entries of files may apply to a problem. Two problems have
// the same signature if no `type` in the files distinguishes them, so their number is bounded by the files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

/// For each axis the number of its value among those that types name; 0: none of them.
struct type_signature {
  std::array<std::uint32_t, max_axes> values{};
  std::uint64_t conditions = 0;  ///< those that types name and that hold, a bit each
  bool is_canary = false;        ///< of the share of problems that new tables decide

  friend bool operator==(const type_signature&, const type_signature&) = default;
};

class type_signatures {
 public:
  /// For an operator that has this many axes of its own.
  explicit type_signatures(std::size_t own_axes = max_axes) : own_axes_{own_axes} {}

  /// Makes a type's values known.
  void add(const std::vector<axis_value>& type);

  /// The type signature of a problem. All types are known before.
  [[nodiscard]] type_signature of(problem_view problem) const noexcept;

  /// Whether a type that was added holds for a type signature.
  [[nodiscard]] bool holds(const std::vector<axis_value>& type,
                           const type_signature& signature) const noexcept;

 private:
  [[nodiscard]] std::uint64_t bit_of(std::uint32_t axis) const noexcept {
    return std::uint64_t{1} << (axis - own_axes_);
  }

  /// An axis that types name, with the values that they give it.
  struct named_axis {
    std::uint32_t axis = 0;
    std::vector<std::int64_t> values;  // ascending
  };

  [[nodiscard]] static std::size_t count_below(const std::vector<std::int64_t>& values,
                                               std::int64_t limit) noexcept;

  [[nodiscard]] static std::uint32_t number_of(const named_axis& axis, std::int64_t value) noexcept;

  std::size_t own_axes_;
  std::vector<named_axis> axes_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/type_signatures_impl.hpp>
#endif
