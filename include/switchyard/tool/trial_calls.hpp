// SPDX-License-Identifier: MIT
// Sample calls of a variant, for checks that must hold for every call: sizes around the constants of its
// expressions and conditions, and arguments with a few usual values.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// Calls of one variant. The operator, the device and the variant outlive it.
class trial_calls {
 public:
  using values = std::vector<std::int64_t>;  ///< of all axes

  static constexpr std::array<std::int64_t, 5> usual_values{1, 2, 64, 100, 1024};
  static constexpr std::array<std::int64_t, 10> sizes{1, 2, 3, 7, 8, 64, 100, 1000, 1024, 4096};
  static constexpr std::int64_t largest_alone = std::int64_t{1} << 40U;

  trial_calls(const operator_description& op, const device_properties& device, const variant& owner)
      : op_{op}, device_{device}, owner_{owner} {
    find_bounds();
  }

  /// A call of the variant's type whose other axes have one size, or one that their conditions admit; named
  /// values are the first ones.
  [[nodiscard]] values make_call(std::int64_t size) const {
    values out(op_.axes.size(), size);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!op_.axes[i].value_names.empty()) out[i] = 0;
    }
    for (const bound_axis& bound : bounds_) {
      const std::int64_t wanted = out[bound.axis];
      if (!is_within(bound, wanted, out)) out[bound.axis] = bound.usual;
    }
    for (const axis_value& fixed : owner_.type) out[fixed.axis] = fixed.value;
    return out;
  }

  /// What an axis is tried with, in ascending order.
  [[nodiscard]] values values_of(std::uint32_t axis, const values& constants, std::int64_t largest) const {
    values out;
    if (!op_.axes[axis].value_names.empty()) {
      for (std::size_t i = 0; i < op_.axes[axis].value_names.size() && i < max_constants; ++i)
        out.push_back(static_cast<std::int64_t>(i));
      return out;
    }
    out.assign(sizes.begin(), sizes.end());
    for (const std::int64_t constant : constants) {
      if (constant < 0 || constant > largest) continue;
      for (std::int64_t near = constant - 1; near <= constant + 1; ++near) {
        if (near >= 1 && near <= largest) out.push_back(near);
      }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// Whether the variant's conditions hold for a call.
  [[nodiscard]] bool hold(const values& call) const {
    const evaluation at{call, device_.attributes, {}, nullptr};
    return std::all_of(owner_.conditions.begin(), owner_.conditions.end(), [&at](const condition& required) {
      const integer_result holds = required.value.evaluate(at);
      return holds.why == fault::none && holds.value != 0;
    });
  }

  /// The constants of an expression, each once, and not too many.
  static void add_constants(const expression& of, values& to) {
    for (const switchyard::detail::instruction& step : of.program()) {
      const bool is_new = step.from == switchyard::detail::operand::constant && to.size() < max_constants &&
                          std::find(to.begin(), to.end(), step.integer) == to.end();
      if (is_new) to.push_back(step.integer);
    }
  }

  /// An argument struct whose members all have one value, as far as they hold it.
  [[nodiscard]] static std::vector<std::byte> make_arguments(const operator_description& op,
                                                             std::int64_t value) {
    std::size_t bytes = op.argument_bytes;
    for (const field_description& field : op.fields)
      bytes = std::max<std::size_t>(bytes, field.offset + size_of(field.kind));
    std::vector<std::byte> out(bytes);
    for (const field_description& field : op.fields) {
      std::byte* const to = out.data() + field.offset;
      if (field.kind == value_kind::f32) {
        const auto real = static_cast<float>(value);
        std::memcpy(to, &real, sizeof real);
      } else if (field.kind == value_kind::f64) {
        const auto real = static_cast<double>(value);
        std::memcpy(to, &real, sizeof real);
      } else {
        const std::int64_t held = size_of(field.kind) == 1 ? std::min<std::int64_t>(value, 127) : value;
        std::memcpy(to, &held, size_of(field.kind));  // little-endian, as every machine that is served
      }
    }
    return out;
  }

 private:
  static constexpr std::size_t max_constants = 64;

  /// An axis, the conditions that read no other one, and a value that meets them.
  struct bound_axis {
    std::uint32_t axis;
    std::vector<const expression*> conditions;
    std::int64_t usual;
  };

  /// Whether a value meets an axis's conditions. `call` is where it is put.
  [[nodiscard]] bool is_within(const bound_axis& bound, std::int64_t value, values& call) const {
    call[bound.axis] = value;
    const evaluation at{call, device_.attributes, {}, nullptr};
    return std::all_of(bound.conditions.begin(), bound.conditions.end(), [&at](const expression* condition) {
      const integer_result holds = condition->evaluate(at);
      return holds.why == fault::none && holds.value != 0;
    });
  }

  /// The axes that one condition bounds alone.
  void find_bounds() {
    for (const condition& required : owner_.conditions) {
      const std::uint64_t axes = required.value.axes_read();
      const auto axis = static_cast<std::uint32_t>(std::countr_zero(axes));
      if (!std::has_single_bit(axes) || required.value.reads_fields() || axis >= op_.axes.size()) continue;
      const auto known = std::find_if(bounds_.begin(), bounds_.end(),
                                      [axis](const bound_axis& other) { return other.axis == axis; });
      (known == bounds_.end() ? bounds_.emplace_back(bound_axis{axis, {}, 0}) : *known)
          .conditions.push_back(&required.value);
    }
    for (bound_axis& bound : bounds_) {
      values call(op_.axes.size(), 1);
      values constants;
      for (const expression* condition : bound.conditions) add_constants(*condition, constants);
      const values tried = values_of(bound.axis, constants, largest_alone);
      const auto found = std::find_if(tried.begin(), tried.end(),
                                      [&](std::int64_t value) { return is_within(bound, value, call); });
      bound.usual = found == tried.end() ? 1 : *found;
    }
  }

  const operator_description& op_;
  const device_properties& device_;
  const variant& owner_;
  std::vector<bound_axis> bounds_;
};

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
