// SPDX-License-Identifier: MIT
// How many bytes must be written to evict a device's caches.
#pragma once

#include <algorithm>
#include <unistd.h>

#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Bytes to write over so that nothing of use is left in the last cache; 0 where its size is not known.
[[nodiscard]] inline double cache_bytes(const device_properties& of) {
  double out = static_cast<double>(of.attribute("l2_bytes"));
#if defined(_SC_LEVEL3_CACHE_SIZE)
  if (of.backend == "host") out = std::max(out, static_cast<double>(::sysconf(_SC_LEVEL3_CACHE_SIZE)));
#endif
  return std::min(2.5 * out, 1e9);
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
