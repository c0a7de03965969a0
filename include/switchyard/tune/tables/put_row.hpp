// SPDX-License-Identifier: MIT
// Puts measurements into the rows of a table, for tuners: see files/put_row.hpp.
#pragma once

#include <switchyard/files/put_row.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

using switchyard::find_group;
using switchyard::find_row;
using switchyard::put_row;
using switchyard::record_type;
using switchyard::remove_variant;
using switchyard::row_entry;
using switchyard::without_rows;

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
