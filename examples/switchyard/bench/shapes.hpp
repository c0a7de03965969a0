// SPDX-License-Identifier: MIT
// Which shapes `bench` measures: rows of a table, and shapes between them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tables/table_files.hpp"
#include "tune/problems.hpp"

namespace tool {

struct bench_shape {
  tuning_problem problem;
  bool between = false;  ///< the table has no row of it
};

struct shape_wishes {
  std::vector<std::string> filter;  ///< "axis=value" words: only shapes that have them
  std::size_t rows = 0;             ///< so many rows, spread over the table; 0: all
  bool between = false;             ///< midpoints of neighbouring rows too, at most as many as rows
};

/// Rows first, evenly spread however many are taken. Throws usage_error if nothing is left.
[[nodiscard]] std::vector<bench_shape> shapes_of(const table_file& table, const shape_wishes& wishes);

}  // namespace tool
