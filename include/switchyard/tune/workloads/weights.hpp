// SPDX-License-Identifier: MIT
// Random weights in any format, for measuring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <switchyard/base/float16.hpp>
#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

namespace detail {

/// Where the f16 factors of a block lie, and the most that one step of the integers may be: weights come out
/// between -1 and 1.
struct block_factors {
  std::int64_t first;
  std::int64_t count;
  double largest;
  double middle = 0;  ///< the second factor in steps: half of the integers' range, negative where it is added
};
[[nodiscard]] inline block_factors factors_of(operators::weight_format format) {
  using operators::weight_format;
  switch (format) {
    case weight_format::q8_0:
      return {0, 1, 1.0 / 128};
    case weight_format::q4_0:
      return {0, 1, 1.0 / 8};
    case weight_format::q4_1:
      return {0, 2, 1.0 / 16, -8};
    case weight_format::q4_k:
      return {0, 2, 1.0 / (63 * 16), 8};
    case weight_format::q5_k:
      return {0, 2, 1.0 / (63 * 32), 16};
    case weight_format::q6_k:
      return {208, 1, 1.0 / (128 * 32)};
    case weight_format::iq4_nl:
      return {0, 1, 1.0 / 128};
    case weight_format::q5_0:
      return {0, 1, 1.0 / 16};
    case weight_format::q5_1:
      return {0, 2, 1.0 / 32, -16};
    default:  // mxfp4's factor is no f16
      return {0, 0, 0};
  }
}

}  // namespace detail

/// The blocks of `count` random weights of a quantised format.
[[nodiscard]] inline std::vector<std::byte> random_blocks(operators::weight_format format, std::int64_t count,
                                                          std::uint64_t seed) {
  const std::int64_t bytes = operators::block_bytes(format);
  std::vector<std::byte> out(static_cast<std::size_t>(operators::row_bytes(format, count) + bytes) +
                             sizeof(std::uint64_t));
  std::mt19937_64 generator{seed};
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= out.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
  out.resize(static_cast<std::size_t>(operators::row_bytes(format, count)));
  const detail::block_factors factors = detail::factors_of(format);
  std::uniform_real_distribution<double> part{0.1, 1.0};
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(bytes)) {
    for (std::int64_t i = 0; i < factors.count; ++i) {
      const std::uint16_t bits = f16_from(part(generator) * factors.largest * (i == 1 ? factors.middle : 1));
      std::memcpy(out.data() + at + factors.first + 2 * i, &bits, sizeof bits);
    }
    // Up to 6 times 2^-3.
    if (format == operators::weight_format::mxfp4) out[at] = static_cast<std::byte>(120 + generator() % 5);
  }
  return out;
}

/// A matrix of random weights in the memory of a call.
[[nodiscard]] inline operators::weight_matrix random_weights(tensors& memory, operators::weight_format format,
                                                             std::int64_t rows, std::int64_t columns,
                                                             std::uint64_t seed) {
  using operators::weight_format;
  operators::weight_matrix out{nullptr, format, rows, columns};
  switch (format) {
    case weight_format::f32:
      out.data = memory.random(dtype::f32, rows * columns, 1);
      break;
    case weight_format::f16:
      out.data = memory.random(dtype::f16, rows * columns, 1);
      break;
    case weight_format::bf16:
      out.data = memory.random(dtype::bf16, rows * columns, 1);
      break;
    default:
      out.data = memory.copy(random_blocks(format, rows * columns, seed));
  }
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
