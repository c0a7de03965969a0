// SPDX-License-Identifier: MIT
// Kernels that do nothing with many parameters: what is left of their launches is the launch.
#include <array>
#include <cstddef>
#include <cstdint>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/softmax.hpp>

#include "export.hpp"

namespace {

namespace sy = switchyard;

void nothing(const sy::host::block& /*where*/, const void*, const void*, void*, void*, std::int64_t,
             std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
             float, float, std::int32_t, std::int32_t) {}

void ignore(const sy::host::block& /*where*/, const void* const* /*parameters*/) {}

/// The sizes of all fields of an operator.
template <class Operator>
constexpr auto sizes = [] {
  std::array<std::uint32_t, Operator::fields.count> out{};
  std::size_t i = 0;
  Operator::fields.for_each([&]<auto Member>() { out[i++] = sizeof(sy::detail::member_value<Member>); });
  return out;
}();

template <class Operator>
constexpr sy::host::kernel take_all_of{1, sizes<Operator>.size(), sizes<Operator>.data(), &ignore};

/// The parameters of benchmarks/large_set.py: 13 pointers, 9 sizes, 23 strides, 4 scalars, a pointer.
constexpr auto sizes_of_50 = [] {
  std::array<std::uint32_t, 50> out{};
  out.fill(8);
  for (std::size_t i = 13; i < 22; ++i) out[i] = 4;
  for (std::size_t i = 45; i < 49; ++i) out[i] = 4;
  return out;
}();

}  // namespace

EXPORT_KERNEL(nothing_16, nothing);

#pragma GCC visibility push(default)
extern "C" {
extern const sy::host::kernel nothing_rotary;
extern const sy::host::kernel nothing_rotary_cache;
extern const sy::host::kernel nothing_attention_forward;
extern const sy::host::kernel nothing_attention_backward;
extern const sy::host::kernel nothing_attention_decode;
extern const sy::host::kernel nothing_embedding;
extern const sy::host::kernel nothing_rms_norm;
extern const sy::host::kernel nothing_softmax;
extern const sy::host::kernel nothing_50;
}
#pragma GCC visibility pop
const sy::host::kernel nothing_rotary = take_all_of<sy::operators::rotary>;
const sy::host::kernel nothing_rotary_cache = take_all_of<sy::operators::rotary_cache>;
const sy::host::kernel nothing_attention_forward = take_all_of<sy::operators::attention_forward>;
const sy::host::kernel nothing_attention_backward = take_all_of<sy::operators::attention_backward>;
const sy::host::kernel nothing_attention_decode = take_all_of<sy::operators::attention_decode>;
const sy::host::kernel nothing_embedding = take_all_of<sy::operators::embedding>;
const sy::host::kernel nothing_rms_norm = take_all_of<sy::operators::rms_norm>;
const sy::host::kernel nothing_softmax = take_all_of<sy::operators::softmax>;
const sy::host::kernel nothing_50{1, sizes_of_50.size(), sizes_of_50.data(), &ignore};
