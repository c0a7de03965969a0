// What a tuning table says: measured rows for one operator on one device, as flat arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/problem/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// How distance along a size axis is measured between a problem and a row.
enum class axis_metric : std::uint8_t {
  log,     ///< difference of binary logarithms over `unit`: with 1, a factor of two is 1
  linear,  ///< difference over `unit`
  exact,   ///< rows with another value do not count
  ignore,  ///< does not matter
};

struct axis_rule {
  axis_metric metric = axis_metric::log;
  double unit = 1;  ///< distance that counts as 1: octaves of a log metric, else the axis' own

  friend bool operator==(const axis_rule&, const axis_rule&) = default;
};

/// A quantity of axes that distance is measured along too, such as "batch * seqlen". Rows that were measured
/// far apart on each axis may be alike in it.
struct match_feature {
  std::string text;
  expression value;  ///< over axes alone
  axis_rule rule;

  friend bool operator==(const match_feature& a, const match_feature& b) {
    return a.text == b.text && a.rule == b.rule;
  }
};

/// How a problem that has no row of its own is decided.
struct match_rule {
  std::vector<axis_rule> axes;  ///< by axis of the operator; type axes are not read
  std::vector<match_feature> features;
  std::uint32_t neighbours = 8;
  double envelope = 1.5;  ///< farthest nearest row, in the metric above, that still counts as near

  friend bool operator==(const match_rule&, const match_rule&) = default;
};

struct measured_time {
  std::uint32_t variant = 0;  ///< index into the group's ids
  float microseconds = 0;
};

/// Rows of one combination of type values. Row r is at coordinates [r * axes, (r + 1) * axes) and has the
/// times [first_time[r], first_time[r + 1]): the one that a problem of these sizes gets first, which is the
/// fastest unless the row names another that cannot be told from it; then by time.
struct row_group {
  std::vector<axis_value> type;     ///< sorted by axis
  std::vector<std::uint32_t> axes;  ///< the size axes of the coordinates
  std::vector<std::string> ids;     ///< variants
  std::vector<std::string> blobs;   ///< their fingerprints when they were measured; empty: not recorded
  std::vector<std::int64_t> at;
  std::vector<std::uint32_t> first_time{0};
  std::vector<measured_time> times;
  std::vector<std::uint32_t> source_row;  ///< the row's index in the file
  /// By row, how far its times may be off, as a share of them; 0, or no entry, where that is not known.
  std::vector<float> uncertainty{};

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

/// A variant taken out of service.
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
  device_properties device;  ///< what the file says of it; an empty name in an overlay: any device
  match_rule match;
  std::vector<row_group> groups;
  std::vector<denial> denials;
  std::vector<pin> pins;
};

}  // namespace v0
}  // namespace switchyard
