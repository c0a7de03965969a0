// SPDX-License-Identifier: MIT
// Winners over two axes of a group, in colours.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/problem/problem.hpp>

#include "report/group_pages.hpp"
#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/costs.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

using plot::escaped;
using plot::format;

std::string group_pages::legend() const {
  std::string out = "<p class=\"legend\">";
  for (std::size_t i = 0; i < rank_.order.size() && rank_.wins[rank_.order[i]] > 0; ++i) {
    out += "<span><i style=\"background:" + std::string{plot::colour(i)} + "\"></i>" +
           escaped(rows_.ids[rank_.order[i]]) + format(" (%zu)", rank_.wins[rank_.order[i]]) + "</span> ";
  }
  return out + "</p>\n";
}

std::vector<std::int64_t> group_pages::levels(std::size_t axis) const {
  std::vector<std::int64_t> out;
  for (std::size_t row = 0; row < rows_.row_count(); ++row) out.push_back(rows_.coordinates(row)[axis]);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string group_pages::heat_maps() const {
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
      "</div>\n<p class=\"note\">Fastest variant by size. Pale: no row, predicted from those near; blank: "
      "outside the envelope.";
  if (sorted.size() > max_maps) out += format(" %zu more maps are left out.", sorted.size() - max_maps);
  return out + "</p>\n";
}

std::string group_pages::heat_map(std::size_t x, std::size_t y, const std::vector<std::int64_t>& rest,
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
  for (auto* values : {&xs, &ys}) {
    std::sort(values->begin(), values->end());
    values->erase(std::unique(values->begin(), values->end()), values->end());
  }
  const double cell = std::clamp(560.0 / static_cast<double>(xs.size()), 7.0, 30.0);
  const double left = 62;
  const double top = title.empty() ? 8 : 22;
  const double width = cell * static_cast<double>(xs.size());
  const double height = cell * static_cast<double>(ys.size());
  const double of_title = left + plot::width_of(title);
  plot::picture out{std::max({left + width + 10, of_title, 180.0}), top + height + 56, "heat-map"};
  if (!title.empty()) out.text(left, 14, title);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    for (std::size_t j = 0; j < ys.size(); ++j) {
      draw_cell(out, left + cell * static_cast<double>(i),
                top + cell * static_cast<double>(ys.size() - 1 - j), cell, x, y, xs[i], ys[j], rest, row_at);
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

void group_pages::draw_cell(
    plot::picture& out, double left, double top, double cell, std::size_t x, std::size_t y,
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

}  // namespace tool
