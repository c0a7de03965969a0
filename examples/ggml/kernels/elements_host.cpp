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

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

template <class Function>
SWITCHYARD_INLINE void apply(const element_arguments& of, const float* a, const float* b, float* out,
                             std::int64_t count, float slope, Function function) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = function(of, a[i], b[i], slope);
}

#define SWITCHYARD_GGML_APPLY(expression)                                                            \
  return apply(                                                                                      \
      of, a, b, out, count, slope,                                                                   \
      [](const element_arguments& with, float x, float y, float by) __attribute__((always_inline)) { \
        static_cast<void>(with), static_cast<void>(x), static_cast<void>(y), static_cast<void>(by);  \
        return expression;                                                                           \
      })

/// `a` and `b` are pieces; b is any piece for functions of one tensor.
void compute(const element_arguments& of, const float* a, const float* b, float* out, std::int64_t count,
             float slope) {
  switch (of.function) {
    case element_function::copy:
      SWITCHYARD_GGML_APPLY(x);
    case element_function::negate:
      SWITCHYARD_GGML_APPLY(-x);
    case element_function::absolute:
      SWITCHYARD_GGML_APPLY(std::fabs(x));
    case element_function::sign:
      SWITCHYARD_GGML_APPLY(x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F);
    case element_function::step:
      SWITCHYARD_GGML_APPLY(x > 0 ? 1.0F : 0.0F);
    case element_function::relu:
      SWITCHYARD_GGML_APPLY(x > 0 ? x : 0.0F);
    case element_function::sigmoid:
      SWITCHYARD_GGML_APPLY(sigmoid(x));
    case element_function::silu:
      SWITCHYARD_GGML_APPLY(x / (1.0F + std::exp(-x)));
    case element_function::gelu:
      SWITCHYARD_GGML_APPLY(0.5F * x *
                            (1.0F + std::tanh(0.79788456080286535588F * x * (1.0F + 0.044715F * x * x))));
    case element_function::gelu_erf:
      SWITCHYARD_GGML_APPLY(0.5F * x * (1.0F + std::erf(x * 0.70710678118654752440F)));
    case element_function::gelu_quick:
      SWITCHYARD_GGML_APPLY(x * sigmoid(1.702F * x));
    case element_function::tanh:
      SWITCHYARD_GGML_APPLY(std::tanh(x));
    case element_function::elu:
      SWITCHYARD_GGML_APPLY(x > 0 ? x : std::expm1(x));
    case element_function::exp:
      SWITCHYARD_GGML_APPLY(std::exp(x));
    case element_function::softplus:
      SWITCHYARD_GGML_APPLY(x > 20.0F ? x : std::log1p(std::exp(x)));
    case element_function::hard_swish:
      SWITCHYARD_GGML_APPLY(x * std::min(1.0F, std::max(0.0F, (x + 3.0F) / 6.0F)));
    case element_function::hard_sigmoid:
      SWITCHYARD_GGML_APPLY(std::min(1.0F, std::max(0.0F, (x + 3.0F) / 6.0F)));
    case element_function::square:
      SWITCHYARD_GGML_APPLY(x * x);
    case element_function::square_root:
      SWITCHYARD_GGML_APPLY(std::sqrt(x));
    case element_function::logarithm:
      SWITCHYARD_GGML_APPLY(std::log(x));
    case element_function::sine:
      SWITCHYARD_GGML_APPLY(std::sin(x));
    case element_function::cosine:
      SWITCHYARD_GGML_APPLY(std::cos(x));
    case element_function::scale:
      SWITCHYARD_GGML_APPLY(x * with.p + with.q);
    case element_function::clamp:
      SWITCHYARD_GGML_APPLY(std::min(std::max(x, with.p), with.q));
    case element_function::leaky_relu:
      SWITCHYARD_GGML_APPLY((x > 0 ? x : 0.0F) + with.p * (x < 0 ? x : 0.0F));
    case element_function::add:
      SWITCHYARD_GGML_APPLY(x + y);
    case element_function::subtract:
      SWITCHYARD_GGML_APPLY(x - y);
    case element_function::multiply:
      SWITCHYARD_GGML_APPLY(x * y);
    case element_function::divide:
      SWITCHYARD_GGML_APPLY(x / y);
    case element_function::repeat:
      SWITCHYARD_GGML_APPLY(y);
    case element_function::masked_score:
      SWITCHYARD_GGML_APPLY(with.p == 0 ? by * y : x * with.p + by * y);
    case element_function::gated_relu:
      SWITCHYARD_GGML_APPLY((x > 0 ? x : 0.0F) * y);
    case element_function::gated_quick:
      SWITCHYARD_GGML_APPLY(x * sigmoid(1.702F * x) * y);
    case element_function::gated_oai:
      SWITCHYARD_GGML_APPLY(std::min(x, with.q) * sigmoid(with.p * std::min(x, with.q)) *
                            (1.0F + std::min(std::max(y, -with.q), with.q)));
  }
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
