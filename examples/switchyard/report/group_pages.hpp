// SPDX-License-Identifier: MIT
// The part of a report that shows one group of rows: heat maps, a roofline, regrets, a table.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/problem/problem.hpp>

#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/costs.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

using plot::escaped;
using plot::format;

/// The variants of a group by the rows they win.
struct ranking {
  std::vector<std::uint32_t> order;  ///< ids, most wins first
  std::vector<std::size_t> wins;     ///< by id
  std::vector<std::size_t> place;    ///< by id: index in order, which is its colour
};

[[nodiscard]] inline ranking rank_variants(const sy::row_group& rows) {
  ranking out;
  out.wins.resize(rows.ids.size());
  out.place.resize(rows.ids.size());
  for (std::size_t row = 0; row < rows.row_count(); ++row) ++out.wins[rows.row_times(row).front().variant];
  out.order.resize(rows.ids.size());
  std::iota(out.order.begin(), out.order.end(), 0U);
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&out](std::uint32_t a, std::uint32_t b) { return out.wins[a] > out.wins[b]; });
  for (std::size_t i = 0; i < out.order.size(); ++i) out.place[out.order[i]] = i;
  return out;
}

[[nodiscard]] inline std::string format_group_type(const sy::operator_description& op,
                                                   const sy::row_group& group) {
  std::string out;
  for (const sy::axis_value& each : group.type) {
    out += (out.empty() ? "" : " ") + std::string{op.axes[each.axis].name} + "=" +
           sy::format_value(op.axes[each.axis], each.value);
  }
  return out.empty() ? "any type" : out;
}

[[nodiscard]] inline std::string short_number(std::int64_t value) {
  if (value >= 1 << 20 && value % (1 << 20) == 0) return std::to_string(value >> 20) + "Mi";
  if (value >= 1 << 12 && value % 1024 == 0) return std::to_string(value >> 10) + "Ki";
  return std::to_string(value);
}

/// One group's plots.
class group_pages {
 public:
  group_pages(const table_file& table, std::size_t group, const std::shared_ptr<const sy::manifest>& variants)
      : table_{table},
        op_{table.op()},
        rows_{table.content.groups[group]},
        rank_{rank_variants(rows_)},
        rules_{rules_of(table, variants)},
        predicted_{leave_one_out(table, group, variants)} {}

  [[nodiscard]] const prediction_quality& predicted() const noexcept { return predicted_; }

  [[nodiscard]] std::string write() const {
    std::string out = "<section class=\"group\"><h3>" + escaped(format_group_type(op_, rows_)) + "</h3>\n";
    out += format(
        "<p>%zu rows, %zu variants. Each row predicted from the others: chosen over best %.4f in "
        "the mean, %.3f at the 99th percentile, ",
        rows_.row_count(), rows_.ids.size(), predicted_.mean(), predicted_.quantile(0.99));
    out += predicted_.worst > 1
               ? format("%.3f at worst (", predicted_.worst) + escaped(predicted_.worst_at) + ")."
               : std::string{"1 at worst."};
    if (predicted_.outside > 0) {
      out += format(" %zu rows lie outside the envelope of all others.", predicted_.outside);
    }
    out += "</p>\n" + legend() + heat_maps();
    out += "<div class=\"pair\">" + roofline() + regret_plot() + variant_plot() + "</div>\n";
    return out + shape_table() + "</section>\n";
  }

 private:
  [[nodiscard]] std::string legend() const {
    std::string out = "<p class=\"legend\">";
    for (std::size_t i = 0; i < rank_.order.size() && rank_.wins[rank_.order[i]] > 0; ++i) {
      out += "<span><i style=\"background:" + std::string{plot::colour(i)} + "\"></i>" +
             escaped(rows_.ids[rank_.order[i]]) + format(" (%zu)", rank_.wins[rank_.order[i]]) + "</span> ";
    }
    return out + "</p>\n";
  }

  [[nodiscard]] std::vector<std::int64_t> levels(std::size_t axis) const {
    std::vector<std::int64_t> out;
    for (std::size_t row = 0; row < rows_.row_count(); ++row) out.push_back(rows_.coordinates(row)[axis]);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  /// Winners over the two axes with the most values, a map for each combination of the others.
  [[nodiscard]] std::string heat_maps() const {
    constexpr std::size_t max_maps = 16;
    const std::size_t count = rows_.axes.size();
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return levels(a).size() > levels(b).size(); });
    if (count == 0) return {};
    const std::size_t x = order[0];
    const std::size_t y = count > 1 ? order[1] : order[0];
    std::map<std::vector<std::int64_t>, std::vector<std::size_t>> facets;
    for (std::size_t row = 0; row < rows_.row_count(); ++row) {
      std::vector<std::int64_t> key(rows_.coordinates(row).begin(), rows_.coordinates(row).end());
      key[x] = key[y] = 0;
      facets[key].push_back(row);
    }
    std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::size_t>>> sorted(facets.begin(),
                                                                                       facets.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    std::string out = "<div class=\"maps\">";
    for (std::size_t i = 0; i < sorted.size() && i < max_maps; ++i) {
      std::string title;
      for (std::size_t axis = 0; axis < count; ++axis) {
        if (axis == x || axis == y) continue;
        title += (title.empty() ? "" : " ") + std::string{op_.axes[rows_.axes[axis]].name} + "=" +
                 std::to_string(sorted[i].first[axis]);
      }
      out += heat_map(x, y, sorted[i].first, sorted[i].second, title);
    }
    out +=
        "</div>\n<p class=\"note\">Fastest variant by size. Pale: no row, predicted from those near; white: "
        "outside the envelope.";
    if (sorted.size() > max_maps) out += format(" %zu more maps are left out.", sorted.size() - max_maps);
    return out + "</p>\n";
  }

  [[nodiscard]] std::string heat_map(std::size_t x, std::size_t y, const std::vector<std::int64_t>& rest,
                                     const std::vector<std::size_t>& rows, const std::string& title) const {
    const bool flat = x == y;
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> row_at;
    std::vector<std::int64_t> xs;
    std::vector<std::int64_t> ys;
    for (const std::size_t row : rows) {
      const std::int64_t across = rows_.coordinates(row)[x];
      const std::int64_t up = flat ? 0 : rows_.coordinates(row)[y];
      row_at[{across, up}] = row;
      xs.push_back(across);
      ys.push_back(up);
    }
    for (auto* each : {&xs, &ys}) {
      std::sort(each->begin(), each->end());
      each->erase(std::unique(each->begin(), each->end()), each->end());
    }
    const double cell = std::clamp(560.0 / static_cast<double>(xs.size()), 7.0, 30.0);
    const double left = 62;
    const double top = title.empty() ? 8 : 22;
    const double width = cell * static_cast<double>(xs.size());
    const double height = cell * static_cast<double>(ys.size());
    plot::picture out{std::max(left + width + 10, 180.0), top + height + 56, "heat-map"};
    if (!title.empty()) out.text(left, 14, title);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      for (std::size_t j = 0; j < ys.size(); ++j) {
        draw_cell(out, left + cell * static_cast<double>(i),
                  top + cell * static_cast<double>(ys.size() - 1 - j), cell, x, y, xs[i], ys[j], rest,
                  row_at);
      }
    }
    const std::size_t skip = cell < 12 ? 4 : 1;
    for (std::size_t i = 0; i < xs.size(); i += skip) {
      const double at = left + cell * (static_cast<double>(i) + 0.6);
      out.text(at, top + height + 10, short_number(xs[i]), "end", -60);
    }
    for (std::size_t j = 0; j < ys.size() && !flat; j += skip) {
      out.text(left - 4, top + cell * (static_cast<double>(ys.size() - 1 - j) + 0.7), short_number(ys[j]),
               "end");
    }
    out.text(left + width / 2, top + height + 52, std::string{op_.axes[rows_.axes[x]].name}, "middle");
    if (!flat) {
      out.text(12, top + height / 2, std::string{op_.axes[rows_.axes[y]].name}, "middle", -90);
    }
    return out.finish();
  }

  void draw_cell(plot::picture& out, double left, double top, double cell, std::size_t x, std::size_t y,
                 std::int64_t across, std::int64_t up, const std::vector<std::int64_t>& rest,
                 const std::map<std::pair<std::int64_t, std::int64_t>, std::size_t>& row_at) const {
    if (const auto found = row_at.find({across, up}); found != row_at.end()) {
      const auto times = rows_.row_times(found->second);
      out.rectangle(left, top, cell - 1, cell - 1, plot::colour(rank_.place[times.front().variant]), 1,
                    describe(found->second), "row");
      return;
    }
    sy::row_group one;
    one.type = rows_.type;
    one.axes = rows_.axes;
    one.at = rest;
    one.at[x] = across;
    if (x != y) one.at[y] = up;
    one.first_time.push_back(0);
    const sy::choice chosen = rules_->select(problem_of_row(op_, one, 0));
    if (chosen.variant == sy::no_index || chosen.why != sy::reason::interpolated) return;
    const std::string& id = rules_->candidates[chosen.variant].variant->id;
    const auto known = std::find(rows_.ids.begin(), rows_.ids.end(), id);
    if (known == rows_.ids.end()) return;
    const std::size_t colour = rank_.place[static_cast<std::size_t>(known - rows_.ids.begin())];
    out.rectangle(left, top, cell - 1, cell - 1, plot::colour(colour), 0.3,
                  format_row(op_, one, 0) + ": predicted " + id +
                      format(", %.3g us", static_cast<double>(chosen.microseconds)),
                  "predicted");
  }

  [[nodiscard]] std::string describe(std::size_t row) const {
    const auto times = rows_.row_times(row);
    std::string out = format_row(op_, rows_, row) + ": " + rows_.ids[times[0].variant] +
                      format(" %.4g us", microseconds_of(times[0]));
    if (times.size() > 1) {
      out += ", then " + rows_.ids[times[1].variant] +
             format(" +%.1f %%", 100 * (microseconds_of(times[1]) / microseconds_of(times[0]) - 1));
    }
    return out;
  }

  /// Achieved operations over arithmetic intensity, under the memory's roof.
  [[nodiscard]] std::string roofline() const {
    struct point {
      double intensity;
      double rate;
      std::size_t row;
    };
    std::vector<point> points;
    for (std::size_t row = 0; row < rows_.row_count(); ++row) {
      const cost least = cost_of(op_, problem_of_row(op_, rows_, row));
      if (!least.known()) return {};
      points.push_back({least.flops / least.bytes,
                        least.flops / microseconds_of(rows_.row_times(row).front()) / 1e6, row});
    }
    if (points.empty()) return {};
    const double bandwidth =
        static_cast<double>(table_.content.device.attribute("memory_bandwidth")) / 1e12;  // TB/s
    double low_x = points[0].intensity;
    double high_x = low_x;
    double low_y = points[0].rate;
    double high_y = low_y;
    for (const point& each : points) {
      low_x = std::min(low_x, each.intensity);
      high_x = std::max(high_x, each.intensity);
      low_y = std::min(low_y, each.rate);
      high_y = std::max(high_y, each.rate);
    }
    low_x /= 1.5, high_x *= 1.5, low_y /= 1.5, high_y *= 2;
    const double width = 360;
    const double height = 240;
    const double left = 56;
    const double top = 24;
    plot::picture out{left + width + 14, top + height + 44, "roofline"};
    const auto at_x = [&](double v) { return left + width * std::log(v / low_x) / std::log(high_x / low_x); };
    const auto at_y = [&](double v) {
      return top + height - height * std::log(v / low_y) / std::log(high_y / low_y);
    };
    out.text(left, 14, "Roofline: TFLOP/s over operations a byte");
    decades(low_x, high_x, [&](double v) {
      out.line(at_x(v), top, at_x(v), top + height, "#eee");
      out.text(at_x(v), top + height + 14, format("%.4g", v), "middle");
    });
    decades(low_y, high_y, [&](double v) {
      out.line(left, at_y(v), left + width, at_y(v), "#eee");
      out.text(left - 4, at_y(v) + 4, format("%.4g", v), "end");
    });
    if (bandwidth > 0) {
      const double from = std::max(low_x, low_y / bandwidth);
      const double to = std::min(high_x, high_y / bandwidth);
      if (from < to) {
        out.line(at_x(from), at_y(from * bandwidth), at_x(to), at_y(to * bandwidth), "#c00", true);
        out.text(left + width, top + height + 34, format("dashed: %.2f TB/s of the memory", bandwidth),
                 "end");
      }
    }
    for (const point& each : points) {
      out.circle(at_x(each.intensity), at_y(each.rate), 3.5,
                 plot::colour(rank_.place[rows_.row_times(each.row).front().variant]), describe(each.row));
    }
    return out.finish();
  }

  template <class Draw>
  static void decades(double low, double high, const Draw& draw) {
    const double steps = std::log10(high / low) > 3 ? 1 : 0.5;
    for (double e = std::ceil(std::log10(low) / steps) * steps; std::pow(10, e) < high; e += steps) {
      draw(std::pow(10, e));
    }
  }

  /// Regret of predicted rows, sorted: how far right the curve stays at 1 is what a user sees.
  [[nodiscard]] std::string regret_plot() const {
    if (predicted_.regrets.size() < 2) return {};
    std::vector<double> sorted = predicted_.regrets;
    std::sort(sorted.begin(), sorted.end());
    return curve("Rows predicted from the others: chosen over best", "share of rows, %", sorted, "regret");
  }

  /// How much slower the best remaining variant is when only so many are shipped, picked greedily.
  [[nodiscard]] std::string variant_plot() const {
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
        for (const sy::measured_time& each : times) {
          const double share = microseconds_of(each) / microseconds_of(times.front());
          if (share < reached[row]) gain[each.variant] += std::log(reached[row] / share);
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
    return curve("Variants shipped: best of them over best of all, mean", "variants", curve_points,
                 "variants");
  }

  [[nodiscard]] static std::string curve(const std::string& title, const std::string& across,
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
      out.line(left, at_y(v), left + width, at_y(v), "#eee");
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

  [[nodiscard]] std::string shape_table() const {
    constexpr std::size_t max_rows = 1000;
    const double bandwidth = static_cast<double>(table_.content.device.attribute("memory_bandwidth"));
    std::string out = "<details><summary>Shapes</summary><table><thead><tr>";
    for (const std::uint32_t axis : rows_.axes) out += "<th>" + escaped(op_.axes[axis].name) + "</th>";
    out +=
        "<th>&micro;s</th><th>variant</th><th>next</th><th>TB/s</th><th>of the memory's</th>"
        "<th>TFLOP/s</th></tr></thead><tbody>\n";
    for (std::size_t row = 0; row < rows_.row_count() && row < max_rows; ++row) {
      const auto times = rows_.row_times(row);
      const cost least = cost_of(op_, problem_of_row(op_, rows_, row));
      out += "<tr>";
      for (const std::int64_t value : rows_.coordinates(row)) out += "<td>" + std::to_string(value) + "</td>";
      out += format("<td>%.4g</td><td class=\"id\">", microseconds_of(times[0])) +
             escaped(rows_.ids[times[0].variant]) + "</td><td>";
      if (times.size() > 1)
        out += format("+%.1f %%", 100 * (microseconds_of(times[1]) / microseconds_of(times[0]) - 1));
      const double rate = least.bytes / microseconds_of(times[0]) * 1e6;
      out += "</td><td>" + (least.known() ? format("%.3f", rate / 1e12) : std::string{}) + "</td><td>" +
             (least.known() && bandwidth > 0 ? format("%.0f %%", 100 * rate / bandwidth) : std::string{}) +
             "</td><td>" +
             (least.known() ? format("%.4g", least.flops / microseconds_of(times[0]) / 1e6) : std::string{}) +
             "</td></tr>\n";
    }
    out += "</tbody></table>";
    if (rows_.row_count() > max_rows) out += format("<p>and %zu more</p>", rows_.row_count() - max_rows);
    return out + "</details>\n";
  }

  const table_file& table_;
  const sy::operator_description& op_;
  const sy::row_group& rows_;
  ranking rank_;
  std::shared_ptr<const sy::selector> rules_;
  prediction_quality predicted_;
};

}  // namespace tool
