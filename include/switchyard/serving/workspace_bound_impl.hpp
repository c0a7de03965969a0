// SPDX-License-Identifier: MIT
// The bodies of workspace_bound.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/larger.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/find_exceeded.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/workspace_need.hpp>
#include <switchyard/error.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/interval.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/prepare_ranges.hpp>
#include <switchyard/serving/workspace_bound.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// The most workspace of one variant in a box of problems, by halving it where it may be largest.
class variant_bound {
 public:
  using box = std::vector<interval>;  ///< by axis

  variant_bound(const candidate_set& from, const candidate& of) : from_{from}, of_{of} {
    for (const named_expression& buffer : of.variant->workspace) read_ |= buffer.value.axes_read();
    for (const condition& required : of.variant->conditions) read_ |= required.value.axes_read();
  }

  /// Not less than the workspace of any problem in the box, or than `known`, which another variant takes.
  [[nodiscard]] std::int64_t most(const box& all, std::int64_t known) {
    least_ = known;
    add(all);
    for (int i = 0; i < max_halvings; ++i) {
      const std::size_t at = largest();
      if (at == open_.size() || open_[at].total <= least_) return least_;
      const box widest = std::move(open_[at].of);
      std::swap(open_[at], open_.back());
      open_.pop_back();
      const std::size_t axis = longest(widest);
      box lower = widest;
      box upper = widest;
      const std::int64_t middle = widest[axis].low + (widest[axis].high - widest[axis].low) / 2;
      lower[axis].high = middle;
      upper[axis].low = middle + 1;
      add(lower);
      add(upper);
    }
    const std::size_t at = largest();
    return at == open_.size() ? least_ : larger(least_, open_[at].total);
  }

 private:
  static constexpr int max_halvings = 2048;

  /// A box whose problems take at most so many bytes.
  struct bounded {
    std::int64_t total;
    box of;
  };

  /// The open box of the most bytes; how many there are, where there are none.
  [[nodiscard]] std::size_t largest() const noexcept {
    std::size_t out = 0;
    for (std::size_t i = 1; i < open_.size(); ++i) {
      if (open_[i].total > open_[out].total) out = i;
    }
    return out;
  }

  void add(const box& of) {
    for (const condition& required : of_.variant->conditions) {
      const interval holds = bound(required.value, of, from_.device.attributes);
      if (holds.is_empty() || (holds.is_single() && holds.low == 0)) return;
    }
    std::int64_t total = 0;
    for (const named_expression& buffer : of_.variant->workspace) {
      const interval bytes = bound(buffer.value, of, from_.device.attributes);
      if (bytes.is_empty() || bytes.high < 0 || bytes.low > max_buffer_bytes) return;
      total += static_cast<std::int64_t>(padded_buffer(smaller(bytes.high, max_buffer_bytes)));
    }
    if (total <= least_) return;
    for (const bool is_upper : {false, true}) try_corner(of, is_upper);
    if (total > least_ && of[longest(of)].low < of[longest(of)].high) open_.push_back({total, of});
  }

  /// A problem of the box that the variant serves shows what is needed at least.
  void try_corner(const box& of, bool is_upper) {
    corner_.clear();
    for (const interval& side : of) corner_.push_back(is_upper ? side.high : side.low);
    const evaluation values{corner_, from_.device.attributes, {}, nullptr};
    for (const condition& required : of_.variant->conditions) {
      const integer_result holds = required.value.evaluate(values);
      if (holds.why != fault::none || holds.value == 0) return;
    }
    least_ = larger(least_, workspace_need(*of_.variant, values));
  }

  /// The axis of most values among those that count.
  [[nodiscard]] std::size_t longest(const box& of) const noexcept {
    std::size_t out = 0;
    double most = -1;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const bool counts = i < expression::max_axes_read && (read_ >> i & 1U) != 0;
      const double ratio =
          static_cast<double>(of[i].high) / static_cast<double>(larger<std::int64_t>(of[i].low, 1));
      const double length = !counts || of[i].is_single() ? -0.5 : ratio;
      if (length <= most) continue;
      most = length;
      out = i;
    }
    return out;
  }

  const candidate_set& from_;
  const candidate& of_;
  std::uint64_t read_ = 0;
  std::int64_t least_ = 0;
  std::vector<std::int64_t> corner_;
  std::vector<bounded> open_;
};

/// Goes through the types of ranges: each combination of the type axes that run, and of the conditions on
/// arguments that read an axis that runs.
class type_sweep {
 public:
  type_sweep(const operator_description& op, const prepared_ranges& ranges, const device_properties& device) {
    const call_problem whole{op, ranges.first, device.attributes, ranges.arguments.data()};
    for (const std::int64_t value : whole.all()) box_.push_back({value, value});
    std::uint64_t running = 0;
    for (std::size_t i = 0; i < ranges.first.size(); ++i) {
      if (ranges.first[i] == ranges.last[i]) continue;
      box_[i] = {ranges.first[i], ranges.last[i]};
      running |= std::uint64_t{1} << i;
      if (op.axes[i].kind == axis_kind::type) turning_.push_back({i, box_[i]});
    }
    for (std::size_t i = ranges.first.size(); i < box_.size(); ++i) {
      if ((op.added->axes_read_by(i - ranges.first.size()) & running) == 0) continue;
      turning_.push_back({i, {0, 1}});
    }
    double count = 1;
    for (const turn& axis : turning_) count *= static_cast<double>(axis.of.high - axis.of.low) + 1;
    if (count <= max_types) return;
    throw call_error{error_code::invalid_argument, std::string{op.name} + ": the ranges cover more than " +
                                                       std::to_string(max_types) +
                                                       " types of calls: ask for fewer at a time"};
  }

  template <class Visitor>
  void for_each(const Visitor& visit) {
    for (const turn& axis : turning_) box_[axis.axis] = {axis.of.low, axis.of.low};
    for (bool more = true; more;) {
      visit(box_);
      more = false;
      for (std::size_t i = 0; i < turning_.size() && !more; ++i) {
        interval& at = box_[turning_[i].axis];
        more = at.low < turning_[i].of.high;
        at.low = at.high = more ? at.low + 1 : turning_[i].of.low;
      }
    }
  }

 private:
  static constexpr int max_types = 1024;

  struct turn {
    std::size_t axis;
    interval of;
  };

  variant_bound::box box_;
  std::vector<turn> turning_;
};

SWITCHYARD_COLD std::size_t bound_workspace(const operator_selectors& rules, const prepared_ranges& ranges) {
  std::int64_t most = 0;
  type_sweep{rules.op(), ranges, rules.device()}.for_each([&](const variant_bound::box& box) {
    std::vector<std::int64_t> problem;
    for (const interval& side : box) problem.push_back(side.low);
    const std::shared_ptr<const selector> of_type = rules.read(rules.signature_of(problem));
    for (const candidate& served : of_type->candidates) {
      if (served.variant->workspace.empty() || !matches(served.variant->type, problem)) continue;
      if (!find_exceeded(of_type->limits, *served.variant).empty()) continue;
      most = smaller(variant_bound{*of_type, served}.most(box, most), of_type->limits.workspace_bytes);
    }
  });
  const std::int64_t memory = rules.device().attribute("memory_bytes");  // 0: not known
  return static_cast<std::size_t>(memory > 0 ? smaller(most, memory) : most);
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
