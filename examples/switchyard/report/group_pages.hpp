// SPDX-License-Identifier: MIT
// The part of a report that shows one group of rows: heat maps, a roofline, regrets, a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/table_files.hpp"

namespace tool {

/// The variants of a group by the rows they win.
struct ranking {
  std::vector<std::uint32_t> order;  ///< ids, most wins first
  std::vector<std::size_t> wins;     ///< by id
  std::vector<std::size_t> place;    ///< by id: index in order, which is its colour
};

/// With Ki or Mi if it divides the value.
[[nodiscard]] std::string short_number(std::int64_t value);

/// One group's plots.
class group_pages {
 public:
  group_pages(const table_file& table, std::size_t group,
              const std::shared_ptr<const switchyard::manifest>& variants);

  [[nodiscard]] const prediction_quality& predicted() const noexcept { return predicted_; }

  [[nodiscard]] std::string write() const;

 private:
  [[nodiscard]] std::string legend() const;

  [[nodiscard]] std::vector<std::int64_t> levels(std::size_t axis) const;

  /// Winners over the two axes with the most values, a map for each combination of the others.
  [[nodiscard]] std::string heat_maps() const;

  [[nodiscard]] std::string heat_map(std::size_t x, std::size_t y, const std::vector<std::int64_t>& rest,
                                     const std::vector<std::size_t>& rows, const std::string& title) const;

  void draw_cell(plot::picture& out, double left, double top, double cell, std::size_t x, std::size_t y,
                 std::int64_t across, std::int64_t up, const std::vector<std::int64_t>& rest,
                 const std::map<std::pair<std::int64_t, std::int64_t>, std::size_t>& row_at) const;

  [[nodiscard]] std::string describe(std::size_t row) const;

  /// Achieved operations over arithmetic intensity, under the memory's roof.
  [[nodiscard]] std::string roofline() const;

  template <class Draw>
  static void decades(double low, double high, const Draw& draw);

  /// Regret of predicted rows, sorted. The longer the curve stays at 1, the better.
  [[nodiscard]] std::string regret_plot() const;

  /// How much slower the best remaining variant is if only so many variants are shipped, picked greedily.
  [[nodiscard]] std::string variant_plot() const;

  [[nodiscard]] static std::string curve(const std::string& title, const std::string& across,
                                         const std::vector<double>& values, const char* kind);

  [[nodiscard]] std::string shape_table() const;

  const table_file& table_;
  const switchyard::operator_description& op_;
  const switchyard::row_group& rows_;
  ranking rank_;
  std::shared_ptr<const switchyard::selector> rules_;
  prediction_quality predicted_;
};

}  // namespace tool
