// SPDX-License-Identifier: MIT
// The bodies of entry_cache.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/entry_cache.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION entry_list every_entry(std::size_t count) {
  entry_list out(count);
  for (std::uint32_t i = 0; i < count; ++i) out[i] = i;
  return out;
}

}  // namespace v0
}  // namespace switchyard
