// SPDX-License-Identifier: MIT
// Arguments that follow from others by name, for tests of something else: strides that are unset, the scale,
// what a call has of the call before it, and the layout of gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <switchyard/operator.hpp>

namespace switchyard::test {

template <class Operator>
void set_strides(typename Operator::arguments& call, std::int64_t stride = 0) {
  for (const field_description& field : describe<Operator>().fields) {
    if (field.name.find("stride") == std::string_view::npos || field.kind != value_kind::i64) continue;
    auto* const at = reinterpret_cast<std::byte*>(&call) + field.offset;
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    if (value == unset) std::memcpy(at, &stride, sizeof stride);
  }
  if constexpr (requires { call.scale = 1.0F; }) {
    if (__builtin_isnan(call.scale)) call.scale = 1.0F;
  }
}

/// Copies what has the same name and kind in both.
template <class From, class To>
void copy_arguments(const typename From::arguments& from, typename To::arguments& to) {
  for (const field_description& source : describe<From>().fields) {
    for (const field_description& target : describe<To>().fields) {
      if (source.name != target.name || source.kind != target.kind) continue;
      std::memcpy(reinterpret_cast<std::byte*>(&to) + target.offset,
                  reinterpret_cast<const std::byte*>(&from) + source.offset, size_of(target.kind));
    }
  }
}

/// Strides of dq, where it is given, are those of q; the same for every other gradient.
template <class Operator>
void lay_out_gradients(typename Operator::arguments& call) {
  auto* const bytes = reinterpret_cast<std::byte*>(&call);
  for (const field_description& gradient : describe<Operator>().fields) {
    const void* address = nullptr;
    if (gradient.kind != value_kind::pointer || !gradient.name.starts_with('d')) continue;
    std::memcpy(&address, bytes + gradient.offset, sizeof address);
    if (address == nullptr) continue;
    const std::string begin = std::string{gradient.name} + "_stride_";
    for (const field_description& target : describe<Operator>().fields) {
      if (!target.name.starts_with(begin)) continue;
      for (const field_description& source : describe<Operator>().fields) {
        if (source.name == target.name.substr(1))
          std::memcpy(bytes + target.offset, bytes + source.offset, sizeof(std::int64_t));
      }
    }
  }
}

}  // namespace switchyard::test
