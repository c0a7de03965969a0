// SPDX-License-Identifier: MIT
// Whether a table has rows or tuning runs that another one lacks.
#pragma once

#include <map>
#include <string>

#include <switchyard/files/table.hpp>

#include "tables/table_files.hpp"

namespace tool {

struct named_row {
  std::string content;                           ///< times, blobs, preference and uncertainty, as text
  const switchyard::row_group* group = nullptr;  ///< of the table
};

/// A table's rows by name. Rows of the same type and sizes have the same name, whatever the order of their
/// axes.
using named_rows = std::map<std::string, named_row>;

[[nodiscard]] named_rows name_rows(const table_file& of);

/// Whether all rows of one table, with their times, and the runs that measured them are in another one of the
/// same operator and device. A table contains itself.
[[nodiscard]] bool contains(const table_file& whole, const named_rows& its_rows, const table_file& part,
                            const named_rows& part_rows);

}  // namespace tool
