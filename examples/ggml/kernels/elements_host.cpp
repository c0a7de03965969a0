// SPDX-License-Identifier: MIT
// Element-wise operations on the CPU. A block takes an equal share of the pieces, which are up to 512
// neighbours of a row: read as floats, computed, rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <switchyard/devices/host/kernel.hpp>

#include "../../../kernels/host/instantiate.hpp"
#include "../../../kernels/host/simd.hpp"
#include "elements.hpp"

namespace {

using switchyard::dtype;
using switchyard::host::block;
using switchyard_ggml::element_function;
using element_arguments = switchyard_ggml::elements::arguments;

constexpr std::int64_t piece_elements = 512;
using piece = std::array<float, piece_elements>;

template <class Element>
void read_as(const std::uint8_t* from, std::int64_t stride, std::int64_t count, float* to) {
  if (stride == static_cast<std::int64_t>(sizeof(Element))) {
    constexpr auto width = static_cast<std::int64_t>(lanes);
    const auto* const elements = reinterpret_cast<const Element*>(from);
    std::int64_t i = 0;
    for (; i + width <= count; i += width) store(to + i, load(elements + i));
    for (; i < count; ++i) to[i] = to_float(elements[i]);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    Element value;
    std::memcpy(&value, from + i * stride, sizeof value);
    to[i] = to_float(value);
  }
}

void read(dtype type, const std::uint8_t* from, std::int64_t stride, std::int64_t count, float* to) {
  switch (type) {
    case dtype::f32:
      return read_as<float>(from, stride, count, to);
    case dtype::f16:
      return read_as<half>(from, stride, count, to);
    case dtype::bf16:
      return read_as<bfloat>(from, stride, count, to);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        std::int32_t value = 0;
        std::memcpy(&value, from + i * stride, sizeof value);
        to[i] = static_cast<float>(value);
      }
  }
}

template <class Element>
void write_as(const float* from, std::uint8_t* to, std::int64_t stride, std::int64_t count) {
  constexpr auto width = static_cast<std::int64_t>(lanes);
  if (stride == static_cast<std::int64_t>(sizeof(Element))) {
    auto* const elements = reinterpret_cast<Element*>(to);
    std::int64_t i = 0;
    for (; i + width <= count; i += width) store(elements + i, load(from + i));
    if (i < count)
      store_first(elements + i, load_first(from + i, static_cast<std::size_t>(count - i)),
                  static_cast<std::size_t>(count - i));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    store_first(reinterpret_cast<Element*>(to + i * stride), splat(from[i]), 1);
}

void write(dtype type, const float* from, std::uint8_t* to, std::int64_t stride, std::int64_t count) {
  switch (type) {
    case dtype::f32:
      return write_as<float>(from, to, stride, count);
    case dtype::f16:
      return write_as<half>(from, to, stride, count);
    case dtype::bf16:
      return write_as<bfloat>(from, to, stride, count);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<std::int32_t>(from[i]);
        std::memcpy(to + i * stride, &value, sizeof value);
      }
  }
}

float logistic(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}
float lesser(float a, float b) {
  return std::min(a, b);
}
float greater(float a, float b) {
  return std::max(a, b);
}

float tanh_gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(0.79788456080286535588F * x * (1.0F + 0.044715F * x * x)));
}

template <class Function>
SWITCHYARD_INLINE void apply(const element_arguments& of, const float* a, const float* b, float* out,
                             std::int64_t count, float slope, Function function) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = function(a[i], b[i], of.p, of.q, slope);
}

/// `a` and `b` are pieces; b is any piece for functions of one tensor.
void compute(const element_arguments& of, const float* a, const float* b, float* out, std::int64_t count,
             float by) {
  using std::cos, std::erf, std::exp, std::expm1, std::fabs, std::log, std::log1p, std::sin, std::sqrt,
      std::tanh;
#define SWITCHYARD_GGML_CASE(name, expression)                                           \
  case element_function::name:                                                           \
    return apply(                                                                        \
        of, a, b, out, count, by,                                                        \
        []([[maybe_unused]] float x, [[maybe_unused]] float y, [[maybe_unused]] float p, \
           [[maybe_unused]] float q, [[maybe_unused]] float slope)                       \
            __attribute__((always_inline)) { return expression; });
  switch (of.function) {
    SWITCHYARD_GGML_UNARY_FUNCTIONS(SWITCHYARD_GGML_CASE)
    SWITCHYARD_GGML_BINARY_FUNCTIONS(SWITCHYARD_GGML_CASE)
  }
#undef SWITCHYARD_GGML_CASE
}

/// ALiBi's slope of a head, for the largest bias q; 1 without one.
float slope_of(const element_arguments& of, std::int64_t head) {
  if (of.function != element_function::masked_score || of.q <= 0) return 1.0F;
  std::int64_t power = 1;
  while (power * 2 <= of.extent[2]) power *= 2;
  const double base = std::exp2(-static_cast<double>(of.q) / static_cast<double>(power));
  const double half = std::exp2(-static_cast<double>(of.q) / 2.0 / static_cast<double>(power));
  return static_cast<float>(head < power ? std::pow(base, static_cast<double>(head + 1))
                                         : std::pow(half, static_cast<double>(2 * (head - power) + 1)));
}

/// Elements of `bytes` bytes, bit by bit.
void copy_bits(const std::uint8_t* from, std::int64_t from_stride, std::uint8_t* to, std::int64_t to_stride,
               std::int64_t count, std::int64_t bytes) {
  if (from_stride == bytes && to_stride == bytes) {
    std::memmove(to, from, static_cast<std::size_t>(count * bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(bytes));
}

/// b of columns [first, first + count), which start anew after b's extent.
void read_repeated(const element_arguments& of, const std::uint8_t* row, std::int64_t first,
                   std::int64_t count, float* to) {
  if (of.b_extent[0] == 1) {
    read(of.b_dtype, row, of.b_stride[0], 1, to);
    std::fill(to + 1, to + count, to[0]);
    return;
  }
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = (first + done) % of.b_extent[0];
    const std::int64_t some = std::min(count - done, of.b_extent[0] - at);
    read(of.b_dtype, row + at * of.b_stride[0], of.b_stride[0], some, to + done);
    done += some;
  }
}

void elements(const block& here, element_arguments of) {
  const std::int64_t in_row = (of.extent[0] + piece_elements - 1) / piece_elements;
  const std::int64_t pieces = in_row * of.rows();
  const std::int64_t begin = pieces * here.index.x / here.grid.x;
  const std::int64_t end = pieces * (here.index.x + std::int64_t{1}) / here.grid.x;
  const bool is_bits = of.function == element_function::copy && of.a_dtype == of.out_dtype;
  piece a;
  piece b;
  piece out;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t first = i % in_row * piece_elements;
    const std::int64_t count = std::min(piece_elements, of.extent[0] - first);
    const std::int64_t row = i / in_row;
    const std::array<std::int64_t, 4> at{first, row % of.extent[1], row / of.extent[1] % of.extent[2],
                                         row / of.extent[1] / of.extent[2]};
    const auto* from = static_cast<const std::uint8_t*>(of.a);
    auto* to = static_cast<std::uint8_t*>(of.out);
    for (std::size_t d = 0; d < 4; ++d) {
      from += at[d] * of.a_stride[d];
      to += at[d] * of.out_stride[d];
    }
    if (is_bits) {
      copy_bits(from, of.a_stride[0], to, of.out_stride[0], count, switchyard::size_of(of.out_dtype));
      continue;
    }
    read(of.a_dtype, from, of.a_stride[0], count, a.data());
    if (of.is_binary()) {
      const auto* with = static_cast<const std::uint8_t*>(of.b);
      for (std::size_t d = 1; d < 4; ++d) with += at[d] % of.b_extent[d] * of.b_stride[d];
      read_repeated(of, with, first, count, b.data());
    }
    compute(of, a.data(), of.is_binary() ? b.data() : a.data(), out.data(), count, slope_of(of, at[2]));
    write(of.out_dtype, out.data(), to, of.out_stride[0], count);
  }
}

}  // namespace
