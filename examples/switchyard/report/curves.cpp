// SPDX-License-Identifier: MIT
// A group's plots: roofline, regret, and how many variants it takes.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <switchyard/problem/problem.hpp>

#include "report/group_pages.hpp"
#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/costs.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

using plot::format;

namespace {

/// A number in at most six characters, for which the margin has room.
[[nodiscard]] std::string tick_text(double of) {
  if (of >= 1e6) return format("%.3gM", of / 1e6);
  if (of >= 1e4) return format("%.3gk", of / 1e3);
  return format("%.4g", of);
}

}  // namespace

std::string group_pages::roofline() const {
  struct point {
    double intensity;
    double rate;
    std::size_t row;
  };
  std::vector<point> points;
  for (std::size_t row = 0; row < rows_.row_count(); ++row) {
    const cost least = cost_of(op_, problem_of_row(op_, rows_, row));
    if (!least.known()) return {};
    points.push_back(
        {least.flops / least.bytes, least.flops / microseconds_of(rows_.row_times(row).front()) / 1e6, row});
  }
  if (points.empty()) return {};
  const double bandwidth =
      static_cast<double>(table_.content.device.attribute("memory_bandwidth")) / 1e12;  // TB/s
  double low_x = points[0].intensity;
  double high_x = low_x;
  double low_y = points[0].rate;
  double high_y = low_y;
  for (const point& shown : points) {
    low_x = std::min(low_x, shown.intensity);
    high_x = std::max(high_x, shown.intensity);
    low_y = std::min(low_y, shown.rate);
    high_y = std::max(high_y, shown.rate);
  }
  low_x /= 1.5, high_x *= 1.5, low_y /= 1.5, high_y *= 2;
  const double width = 360;
  const double height = 240;
  const double left = 56;
  const double top = 24;
  plot::picture out{left + width + 20, top + height + 44, "roofline"};
  const auto at_x = [&](double v) { return left + width * std::log(v / low_x) / std::log(high_x / low_x); };
  const auto at_y = [&](double v) {
    return top + height - height * std::log(v / low_y) / std::log(high_y / low_y);
  };
  out.text(left, 14, "Roofline: TFLOP/s over operations a byte");
  decades(low_x, high_x, [&](double v) {
    out.grid_line(at_x(v), top, at_x(v), top + height);
    out.text(at_x(v), top + height + 14, tick_text(v), "middle");
  });
  decades(low_y, high_y, [&](double v) {
    out.grid_line(left, at_y(v), left + width, at_y(v));
    out.text(left - 4, at_y(v) + 4, tick_text(v), "end");
  });
  if (bandwidth > 0) {
    const double from = std::max(low_x, low_y / bandwidth);
    const double to = std::min(high_x, high_y / bandwidth);
    if (from < to) {
      out.line(at_x(from), at_y(from * bandwidth), at_x(to), at_y(to * bandwidth), "#c00", true);
      out.text(left + width, top + height + 34, format("dashed: %.2f TB/s of the memory", bandwidth), "end");
    }
  }
  for (const point& shown : points) {
    out.circle(at_x(shown.intensity), at_y(shown.rate), 3.5,
               plot::colour(rank_.place[rows_.row_times(shown.row).front().variant]), describe(shown.row));
  }
  return out.finish();
}

template <class Draw>
void group_pages::decades(double low, double high, const Draw& draw) {
  const double steps = std::log10(high / low) > 3 ? 1 : 0.5;
  for (double e = std::ceil(std::log10(low) / steps) * steps; std::pow(10, e) < high; e += steps) {
    draw(std::pow(10, e));
  }
}

std::string group_pages::regret_plot() const {
  if (predicted_.regrets.size() < 2) return {};
  std::vector<double> sorted = predicted_.regrets;
  std::sort(sorted.begin(), sorted.end());
  return curve("Rows predicted from the others: chosen over best", "share of rows, %", sorted, "regret");
}

std::string group_pages::variant_plot() const {
  std::vector<double> reached(rows_.row_count());
  for (std::size_t row = 0; row < reached.size(); ++row) {
    reached[row] =
        microseconds_of(rows_.row_times(row).back()) / microseconds_of(rows_.row_times(row).front());
  }
  std::vector<bool> taken(rows_.ids.size());
  std::vector<double> curve_points;
  const std::size_t most = std::min<std::size_t>(rows_.ids.size(), 32);
  for (std::size_t n = 0; n < most; ++n) {
    std::vector<double> gain(rows_.ids.size());
    for (std::size_t row = 0; row < reached.size(); ++row) {
      const auto times = rows_.row_times(row);
      for (const sy::measured_time& time : times) {
        const double share = microseconds_of(time) / microseconds_of(times.front());
        if (share < reached[row]) gain[time.variant] += std::log(reached[row] / share);
      }
    }
    std::size_t best = 0;
    for (std::size_t id = 1; id < gain.size(); ++id) {
      if (!taken[id] && (taken[best] || gain[id] > gain[best])) best = id;
    }
    taken[best] = true;
    double sum = 0;
    for (std::size_t row = 0; row < reached.size(); ++row) {
      const double time = time_of(rows_, row, rows_.ids[best]);
      if (time > 0)
        reached[row] = std::min(reached[row], time / microseconds_of(rows_.row_times(row).front()));
      sum += std::log(reached[row]);
    }
    curve_points.push_back(std::exp(sum / static_cast<double>(reached.size())));
  }
  if (curve_points.size() < 2) return {};
  return curve("Variants shipped: best of them over best of all, mean", "variants", curve_points, "variants");
}

std::string group_pages::curve(const std::string& title, const std::string& across,
                               const std::vector<double>& values, const char* kind) {
  const double width = 300;
  const double height = 240;
  const double left = 48;
  const double top = 24;
  const double high = std::max(1.02, *std::max_element(values.begin(), values.end()));
  plot::picture out{left + width + 14, top + height + 44, kind};
  out.text(4, 14, title);
  const auto at_y = [&](double v) { return top + height - height * (v - 1) / (high - 1); };
  for (int i = 0; i <= 4; ++i) {
    const double v = 1 + (high - 1) * i / 4;
    out.grid_line(left, at_y(v), left + width, at_y(v));
    out.text(left - 4, at_y(v) + 4, format("%.3f", v), "end");
  }
  const auto last = static_cast<double>(values.size() - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = left + width * static_cast<double>(i) / last;
    out.circle(x, at_y(values[i]), 2.5, "#0072b2", format("%.4f", values[i]));
    if (i > 0) {
      const double before = left + width * static_cast<double>(i - 1) / last;
      out.line(before, at_y(values[i - 1]), x, at_y(values[i]), "#0072b2");
    }
  }
  const bool is_share = across.find('%') != std::string::npos;
  out.text(left, top + height + 14, is_share ? "0" : "1", "middle");
  out.text(left + width, top + height + 14, is_share ? "100" : std::to_string(values.size()), "end");
  out.text(left + width / 2, top + height + 30, across, "middle");
  return out.finish();
}

}  // namespace tool
