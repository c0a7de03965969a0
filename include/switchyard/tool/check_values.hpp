// SPDX-License-Identifier: MIT
// Finds calls for which a variant's grid, memory or parameters cannot be computed: what planning would refuse
// with error 305, said without a device.
//
// An expression is tried at sample values of the axes that it reads:
//   no axis       it is evaluated once
//   one axis      1, 2, 3, 7, 8, 64, 100, 1,000, 1,024 and 4,096; each constant of the expression and of the
//                 conditions on the axis; and the neighbours of those constants
//   several axes  all of them equal; and one of them at such a value of the expression's own constants. That
//                 is reported only if it is wrong with the others at the same value, four times it, 1, 2, 64,
//                 100 and 1,024, because not every combination is a legal call. A value that is too large is
//                 reported only where the product of the axes is at most 64
// An axis with named values takes each of them. A call counts only if the variant's conditions hold for it.
// Arguments that no axis holds, and device attributes that the architecture does not decide, take a few usual
// values; an expression that reads an argument is wrong only if no value is right.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/dim3.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tool/trial_calls.hpp>
#include <switchyard/tool/usual_device.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// What is wrong with one expression of a variant.
struct value_problem {
  std::string kind;  ///< the same for variants whose expressions fail in the same way
  std::string text;
};

class value_checker {
 public:
  /// `fields_known`: whether the operator's argument struct is known, not only the names of its members.
  value_checker(const operator_description& op, const target& on, bool fields_known)
      : op_{op}, on_{on}, device_{usual_device(on)} {
    if (!fields_known) return;
    for (const std::int64_t usual : trial_calls::usual_values)
      arguments_.push_back(trial_calls::make_arguments(op, usual));
  }

  /// What is wrong with a variant, at most once for each of its expressions.
  [[nodiscard]] std::vector<value_problem> check(const variant& owner) {
    owner_ = &owner;
    out_.clear();
    calls_.emplace(op_, device_, owner);
    constexpr std::int64_t max_workspace = std::int64_t{1} << 40U;  // no device has as much memory
    for (const named_expression& buffer : owner.workspace)
      check(buffer.value, "workspace '" + buffer.name + "'", 0, max_workspace);
    for (const launch& launch : owner.launches) {
      if (!launch.is_fill) check_launch_values(launch);
    }
    return std::move(out_);
  }

 private:
  using values = trial_calls::values;

  static constexpr std::int64_t largest_of_several = std::int64_t{1} << 20U;

  /// An expression that is being tried, and what its value must be.
  struct subject {
    const expression& value;
    std::string_view name;
    std::int64_t least;
    std::int64_t most;
  };

  void check_launch_values(const launch& launch) {
    constexpr std::uint32_t extent = 0xffffffff;
    constexpr dim3 any_grid{extent, extent, extent};
    const dim3& max_grid = on_.backend == "cuda" ? max_cuda_grid : any_grid;
    const std::array<std::uint32_t, 3> most{max_grid.x, max_grid.y, max_grid.z};
    const std::string kernel = "kernel '" + launch.kernel + "': ";
    static constexpr std::array<std::string_view, 3> names{"[0]", "[1]", "[2]"};
    for (std::size_t i = 0; i < 3; ++i) {
      check(launch.grid[i], kernel + "grid" + std::string{names[i]}, 0, most[i]);
      check(launch.block[i], kernel + "block" + std::string{names[i]}, 1, extent);
      check(launch.cluster[i], kernel + "cluster" + std::string{names[i]}, 1, extent);
    }
    check_grid_size(launch, kernel);
    // More than a device has makes the variant serve other calls only, but for the host's, whose limit no
    // attribute states.
    check(launch.shared_bytes, kernel + "shared_bytes", 0,
          on_.backend == "host" ? max_host_scratch_bytes : extent);
    check_parameters(launch.parameters, kernel);
  }

  void check_grid_size(const launch& launch, const std::string& kernel) {
    std::array<std::uint32_t, 3> grid{};
    for (std::size_t i = 0; i < grid.size(); ++i) {
      const auto value = constant_of(launch.grid[i]);
      if (!value || *value < 0) return;
      grid[i] = static_cast<std::uint32_t>(std::min<std::int64_t>(*value, 0xffffffff));
    }
    std::uint64_t blocks = 0;
    if (!switchyard::detail::count_blocks({grid[0], grid[1], grid[2]}, blocks))
      out_.push_back({"grid blocks", kernel + "grid has more than 2^63 blocks for every call"});
  }

  void check_parameters(const std::vector<parameter>& all, const std::string& kernel) {
    for (const parameter& member : all) {
      if (member.from == parameter::source::integer) {
        const auto [least, most] = range_of(member.kind);
        check(member.value, kernel + "parameter " + member.text, least, most);
      }
      check_parameters(member.members, kernel);
      for (const tensor_map_recipe& map : member.map) {
        for (const auto* const list : {&map.extents, &map.stride_bytes, &map.box, &map.element_strides}) {
          for (const expression& part : *list)
            check(part, kernel + "a tensor map's part", 0, std::numeric_limits<std::int64_t>::max());
        }
      }
    }
  }

  struct range {
    std::int64_t least;
    std::int64_t most;
  };

  /// The values that a parameter holds: those that fits() takes.
  [[nodiscard]] static range range_of(value_kind kind) noexcept {
    constexpr auto highest = std::numeric_limits<std::int64_t>::max();
    const bool is_signed = kind == value_kind::i8 || kind == value_kind::i16 || kind == value_kind::i32 ||
                           kind == value_kind::i64 || kind == value_kind::pointer;
    const unsigned bits = size_of(kind) * 8 - (is_signed ? 1 : 0);
    const std::int64_t most = bits >= 63 ? highest : (std::int64_t{1} << bits) - 1;
    return {is_signed ? -most - 1 : 0, most};
  }

  [[nodiscard]] std::optional<std::int64_t> constant_of(const expression& of) const {
    if (of.axes_read() != 0 || of.reads_fields() || of.reads_attributes()) return std::nullopt;
    const integer_result out = of.evaluate({});
    return out.why == fault::none ? std::optional{out.value} : std::nullopt;
  }

  void check(const expression& of, const std::string& name, std::int64_t least, std::int64_t most) {
    if (of.is_constant() && within({of, name, least, most}, of.evaluate({}))) return;
    const expression folded = of.fold(owner_->type, device_.attributes);
    const subject checked{folded, name, least, most};
    if (folded.reads_fields()) return check_arguments(checked);
    const std::uint64_t axes = folded.axes_read();
    if (axes == 0) {
      const integer_result found = folded.evaluate({});
      if (!within(checked, found)) report(checked, found, "every call");
      return;
    }
    std::vector<std::uint32_t> read;
    for (std::uint32_t i = 0; i < op_.axes.size() && i < expression::max_axes_read; ++i) {
      if ((axes >> i & 1U) != 0) read.push_back(i);
    }
    values own;
    trial_calls::add_constants(folded, own);
    if (read.size() == 1) {
      for (const condition& bound : owner_->conditions) {
        if (bound.value.reads_axis(read.front())) trial_calls::add_constants(bound.value, own);
      }
      values call = calls_->make_call(1);
      for (const std::int64_t value : calls_->values_of(read.front(), own, trial_calls::largest_alone)) {
        call[read.front()] = value;
        if (judge(checked, call) == verdict::wrong) return report_call(checked, call);
      }
      return;
    }
    for (const std::int64_t size : trial_calls::sizes) {
      const values call = calls_->make_call(size);
      if (judge(checked, call) == verdict::wrong) return report_call(checked, call);
    }
    for (const std::uint32_t axis : read) {
      for (const std::int64_t value : calls_->values_of(axis, own, largest_of_several)) {
        if (const auto call = find_wrong(checked, axis, value)) return report_call(checked, *call);
      }
    }
  }

  enum class verdict : std::uint8_t { right, wrong, not_served };

  /// The first call with a value of one axis, if it and all others with this value are wrong. Operators
  /// refuse some combinations of sizes, which nothing here knows of.
  [[nodiscard]] std::optional<values> find_wrong(const subject& checked, std::uint32_t axis,
                                                 std::int64_t value) const {
    std::optional<values> first;
    std::array<std::int64_t, trial_calls::usual_values.size() + 2> others{value, 4 * value};
    std::copy(trial_calls::usual_values.begin(), trial_calls::usual_values.end(), others.begin() + 2);
    for (const std::int64_t other : others) {
      values call = calls_->make_call(other);
      call[axis] = value;
      const verdict found = judge(checked, call);
      if (found == verdict::right) return std::nullopt;
      if (found == verdict::wrong && !first) first = std::move(call);
    }
    return first;
  }

  [[nodiscard]] verdict judge(const subject& checked, const values& call) const {
    const integer_result found = checked.value.evaluate({call, {}, {}, nullptr});
    if (within(checked, found) || is_too_large(checked, found, call)) return verdict::right;
    return serves(checked, call) ? verdict::wrong : verdict::not_served;
  }

  void report_call(const subject& checked, const values& call) {
    std::string where;
    for (std::uint32_t i = 0; i < op_.axes.size() && i < expression::max_axes_read; ++i) {
      if (!checked.value.reads_axis(i)) continue;
      where += (where.empty() ? "" : " ") + std::string{op_.axes[i].name} + "=" +
               format_value(op_.axes[i], call[i]);
    }
    report(checked, checked.value.evaluate({call, {}, {}, nullptr}), where);
  }

  /// Whether a value of several axes is too large only because the call is: nothing says how large they are
  /// together.
  [[nodiscard]] bool is_too_large(const subject& checked, const integer_result& found,
                                  const values& call) const {
    if (found.why == fault::none ? found.value < checked.least : found.why != fault::overflow) return false;
    constexpr std::int64_t small = 64;
    std::int64_t size = 1;
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < op_.axes.size() && i < expression::max_axes_read; ++i) {
      if (!checked.value.reads_axis(i)) continue;
      ++count;
      if (__builtin_mul_overflow(size, call[i], &size)) return true;
    }
    return count > 1 && size > small;
  }

  /// Whether the conditions hold for a call, with some size of the axes that the subject does not read.
  [[nodiscard]] bool serves(const subject& checked, const values& call) const {
    if (calls_->hold(call)) return true;
    for (const std::int64_t size : trial_calls::sizes) {
      values other = calls_->make_call(size);
      for (std::uint32_t i = 0; i < op_.axes.size() && i < expression::max_axes_read; ++i) {
        if (checked.value.reads_axis(i)) other[i] = call[i];
      }
      if (calls_->hold(other)) return true;
    }
    return false;
  }

  void check_arguments(const subject& checked) {
    std::optional<integer_result> first;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const values call = calls_->make_call(trial_calls::usual_values[i]);
      const integer_result found =
          checked.value.evaluate({call, device_.attributes, op_.fields, arguments_[i].data()});
      if (within(checked, found)) return;
      if (!first) first = found;
    }
    if (first) report(checked, *first, "every call that was tried");
  }

  [[nodiscard]] static bool within(const subject& checked, const integer_result& found) noexcept {
    return found.why == fault::none && found.value >= checked.least && found.value <= checked.most;
  }

  void report(const subject& checked, const integer_result& found, const std::string& where) {
    std::string text{checked.name};
    // Without the kernel's name, which often differs from variant to variant.
    const std::size_t colon = text.starts_with("kernel '") ? text.find("': ") : std::string::npos;
    std::string kind = colon == std::string::npos ? text : text.substr(colon);
    kind.append(" ").append(found.why != fault::none      ? to_string(found.why)
                            : found.value < checked.least ? std::string_view{"below"}
                                                          : std::string_view{"above"});
    kind.append(" ").append(where);
    if (found.why != fault::none) {
      text.append(" ").append(to_string(found.why)).append(" for ").append(where);
    } else {
      text += " would be " + std::to_string(found.value) + " for " + where + "; it must be " +
              std::to_string(checked.least) + " to " + std::to_string(checked.most);
    }
    out_.push_back({std::move(kind), std::move(text)});
  }

  const operator_description& op_;
  const target& on_;
  device_properties device_;
  std::vector<std::vector<std::byte>> arguments_;  // one for each usual value
  const variant* owner_ = nullptr;
  std::optional<trial_calls> calls_;  // of the variant that is checked
  std::vector<value_problem> out_;
};

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
