// SPDX-License-Identifier: MIT
// The part of a problem's results that is compared with the reference.
#pragma once

#include <cstdint>
#include <string>

namespace switchyard {
inline namespace v0 {
namespace tune {

struct checked_extent {
  std::int64_t rows = 0;      ///< compared
  std::int64_t all_rows = 0;  ///< of the problem that is checked
  std::string smaller;        ///< that problem, if it is a smaller one of the same type; otherwise empty
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
