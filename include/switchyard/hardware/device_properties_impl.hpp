// SPDX-License-Identifier: MIT
// The bodies of device_properties.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::int64_t device_properties::attribute(std::string_view which) const noexcept {
  const std::size_t index = find_attribute(which);
  return index < attributes.size() ? attributes[index] : 0;
}

SWITCHYARD_FUNCTION void device_properties::set(std::string_view which, std::int64_t value) noexcept {
  if (const std::size_t index = find_attribute(which); index < attributes.size()) attributes[index] = value;
}

}  // namespace v0
}  // namespace switchyard
