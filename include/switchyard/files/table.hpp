// SPDX-License-Identifier: MIT
// A tuning table as plain data: measured rows for one operator on one device, in flat arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// How distance along a size axis is measured between a problem and a row.
enum class axis_metric : std::uint8_t {
  log,     ///< difference of binary logarithms over `unit`: with 1, a factor of two is 1
  linear,  ///< difference over `unit`
  exact,   ///< rows with another value are not used
  ignore,  ///< no distance
};

struct axis_rule {
  axis_metric metric = axis_metric::log;
  double unit = 1;  ///< the difference that is distance 1: in octaves for `log`, else in the axis's own unit

  friend bool operator==(const axis_rule&, const axis_rule&) = default;
};

/// A quantity of axes that adds a dimension to the distance, such as "batch * seqlen". Rows that are far
/// apart on each axis may be close in it.
struct match_feature {
  std::string text;
  expression value;  ///< over axes alone
  axis_rule rule;

  friend bool operator==(const match_feature& a, const match_feature& b) {
    return a.text == b.text && a.rule == b.rule;
  }
};

/// How a problem without a row of its own is decided.
struct match_rule {
  std::vector<axis_rule> axes;  ///< by axis of the operator; type axes are not read
  std::vector<match_feature> features;
  std::uint32_t neighbours = 8;
  double envelope = 1.5;  ///< largest distance of the nearest row that is still interpolation

  friend bool operator==(const match_rule&, const match_rule&) = default;
};

struct measured_time {
  std::uint32_t variant = 0;  ///< index into the group's ids
  float microseconds = 0;
};

/// A type axis and the values that it had where rows were measured, ascending.
struct measured_values {
  std::uint32_t axis = 0;
  std::vector<std::int64_t> values;

  friend bool operator==(const measured_values&, const measured_values&) = default;
};

/// Rows of one combination of type values. Row r has the coordinates [r * axes, (r + 1) * axes) of `at` and
/// the times [first_time[r], first_time[r + 1]). The first time is that of the preferred variant: the
/// fastest, unless the row names one that is as fast within the noise. The others follow by time.
struct row_group {
  std::vector<axis_value> type;     ///< sorted by axis
  std::vector<std::uint32_t> axes;  ///< the size axes of the coordinates
  std::vector<std::string> ids;     ///< variants
  std::vector<std::string> blobs;   ///< their fingerprints when they were measured; empty: not recorded
  std::vector<std::int64_t> at;
  std::vector<std::uint32_t> first_time{0};
  std::vector<measured_time> times;
  std::vector<std::uint32_t> source_row;  ///< the row's index in the group in the file
  /// By row, the relative error of its times; 0, or no entry, if unknown.
  std::vector<float> uncertainty{};
  std::uint32_t source_group = 0;  ///< the group's index in the file
  /// Of type axes that `type` does not name, the values that the rows were measured with, sorted by axis.
  /// Empty: not recorded.
  std::vector<measured_values> measured_with{};
  /// False: the rows list winners without times. Their times are made up: 1, 1.1, 1.21 and so on, in order.
  bool timed = true;

  [[nodiscard]] std::size_t row_count() const noexcept { return first_time.size() - 1; }
  [[nodiscard]] std::span<const std::int64_t> coordinates(std::size_t row) const noexcept {
    return std::span{at}.subspan(row * axes.size(), axes.size());
  }
  [[nodiscard]] std::span<const measured_time> row_times(std::size_t row) const noexcept {
    return std::span{times}.subspan(first_time[row], first_time[row + 1] - first_time[row]);
  }
  [[nodiscard]] double row_uncertainty(std::size_t row) const noexcept {
    return row < uncertainty.size() ? static_cast<double>(uncertainty[row]) : 0;
  }
};

/// Whether an expression reads no axes besides those that have a value in `type` and those of a group's rows.
[[nodiscard]] inline bool is_decided_by(const std::vector<axis_value>& type,
                                        const std::vector<std::uint32_t>& axes,
                                        const expression& value) noexcept {
  std::uint64_t unknown = value.axes_read();
  for (const axis_value& has : type) unknown &= ~(std::uint64_t{1} << has.axis);
  for (const std::uint32_t axis : axes) unknown &= ~(std::uint64_t{1} << axis);
  return unknown == 0;
}

/// A variant that must not be used.
struct denial {
  std::string variant;
  std::string reason;
  std::vector<axis_value> type;  ///< empty: everywhere
};

struct axis_range {
  std::uint32_t axis = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// A choice set by hand.
struct pin {
  std::string variant;
  std::string reason;
  std::vector<axis_value> type;
  std::vector<axis_range> at;
};

struct table {
  std::string path;
  std::string operator_name;
  device_properties device;   ///< as the file describes it; what is empty may be any
  bool other_devices = true;  ///< whether its rows may serve devices that `device` does not describe
  std::string measured_on;    ///< the day of its newest run, "2026-11-22"; empty: not stated
  match_rule match;
  std::vector<row_group> groups;
  std::vector<denial> denials;
  std::vector<pin> pins;
};

}  // namespace v0
}  // namespace switchyard
