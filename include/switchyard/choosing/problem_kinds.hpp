// Kinds of problems: what decides which entries of files may speak about a problem. Two problems are of one
// kind where no `type` of the files tells them apart, so there are never more kinds than the files make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// For each axis the number of its value among those that types name; 0: none of them.
struct problem_kind {
  std::array<std::uint32_t, max_axes> values{};
  std::uint64_t conditions = 0;  ///< those that types name and that hold, a bit each

  friend bool operator==(const problem_kind&, const problem_kind&) = default;
};

class problem_kinds {
 public:
  /// Of an operator with so many axes of its own.
  explicit problem_kinds(std::size_t own_axes = max_axes) : own_axes_{own_axes} {}

  /// Makes a type's values known.
  void add(const std::vector<axis_value>& type) {
    for (const axis_value& each : type) {
      std::size_t at = 0;
      while (at < axes_.size() && axes_[at].axis != each.axis) ++at;
      if (at == axes_.size()) axes_.push_back({each.axis, {}});
      std::vector<std::int64_t>& values = axes_[at].values;
      const std::size_t place = count_below(values, each.value);
      if (place == values.size() || values[place] != each.value)
        values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), each.value);
    }
  }

  /// The kind of a problem. All types are known before.
  [[nodiscard]] problem_kind of(problem_view problem) const noexcept {
    problem_kind out;
    for (const named_axis& each : axes_) {
      if (each.axis < own_axes_) {
        out.values[each.axis] = number_of(each, problem[each.axis]);
      } else if (problem[each.axis] != 0) {
        out.conditions |= bit_of(each.axis);
      }
    }
    return out;
  }

  /// Whether a type that was added holds for a kind.
  [[nodiscard]] bool holds(const std::vector<axis_value>& type, const problem_kind& kind) const noexcept {
    for (const axis_value& wanted : type) {
      if (wanted.axis >= own_axes_) {
        if (((kind.conditions & bit_of(wanted.axis)) != 0) != (wanted.value != 0)) return false;
        continue;
      }
      for (const named_axis& each : axes_) {
        if (each.axis == wanted.axis && number_of(each, wanted.value) != kind.values[each.axis]) return false;
      }
    }
    return true;
  }

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
                                               std::int64_t limit) noexcept {
    std::size_t first = 0;
    for (std::size_t left = values.size(); left > 0;) {
      const std::size_t half = left / 2;
      if (values[first + half] < limit) {
        first += half + 1;
        left -= half + 1;
      } else {
        left = half;
      }
    }
    return first;
  }

  [[nodiscard]] static std::uint32_t number_of(const named_axis& axis, std::int64_t value) noexcept {
    const std::size_t place = count_below(axis.values, value);
    const bool is_named = place < axis.values.size() && axis.values[place] == value;
    return is_named ? static_cast<std::uint32_t>(place) + 1 : 0;
  }

  std::size_t own_axes_;
  std::vector<named_axis> axes_;
};

}  // namespace v0
}  // namespace switchyard
