// Sets every stride, and the scale, that a call's arguments leave unset: for tests of something else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <switchyard/operator.hpp>

namespace switchyard::test {

template <class Operator>
void set_strides(typename Operator::arguments& call, std::int64_t stride = 0) {
  for (const field_description& each : describe<Operator>().fields) {
    if (each.name.find("stride") == std::string_view::npos || each.kind != value_kind::i64) continue;
    auto* const at = reinterpret_cast<std::byte*>(&call) + each.offset;
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    if (value == unset) std::memcpy(at, &stride, sizeof stride);
  }
  if constexpr (requires { call.scale = 1.0F; }) {
    if (__builtin_isnan(call.scale)) call.scale = 1.0F;
  }
}

}  // namespace switchyard::test
