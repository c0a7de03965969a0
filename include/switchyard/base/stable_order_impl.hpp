// SPDX-License-Identifier: MIT
// The bodies of stable_order.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/stable_order.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::vector<std::uint32_t> stable_order(std::uint32_t count, index_comparison before,
                                                            const void* context) {
  std::vector<std::uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0U);
  std::sort(out.begin(), out.end(), [before, context](std::uint32_t a, std::uint32_t b) {
    if (before(context, a, b)) return true;
    return a < b && !before(context, b, a);
  });
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
