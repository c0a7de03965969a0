// SPDX-License-Identifier: MIT
// Turns the pairs of a head by their angles: what the CPU kernels of rotary embedding share.
//
// Private to kernels/; unnamed namespace for the reason given in ../host/simd.hpp.
#pragma once

#include <cstdint>

#include "../host/simd.hpp"

namespace {

/// Turns one head of one token. In and out may be the same memory: each vector is read before it is written.
template <class Element>
void turn_halves(const Element* in, Element* out, const float* cosine, const float* sine, std::int64_t half) {
  const auto width = static_cast<std::int64_t>(lanes);
  std::int64_t i = 0;
  for (; i + width <= half; i += width) {
    const floats x0 = load(in + i);
    const floats x1 = load(in + half + i);
    const floats c = load(cosine + i);
    const floats s = load(sine + i);
    store(out + i, x0 * c - x1 * s);
    store(out + half + i, x0 * s + x1 * c);
  }
  for (; i < half; ++i) {
    const float x0 = to_float(in[i]);
    const float x1 = to_float(in[half + i]);
    out[i] = from_double<Element>(x0 * cosine[i] - x1 * sine[i]);
    out[half + i] = from_double<Element>(x0 * sine[i] + x1 * cosine[i]);
  }
}

template <class Element>
void turn_neighbours(const Element* in, Element* out, const float* cosine, const float* sine,
                     std::int64_t half) {
  const auto width = static_cast<std::int64_t>(lanes);
  std::int64_t i = 0;
  for (; i + width <= half; i += width) {
    const floats low = load(in + 2 * i);
    const floats high = load(in + 2 * i + width);
    const floats x0 = even_lanes(low, high);
    const floats x1 = odd_lanes(low, high);
    const floats c = load(cosine + i);
    const floats s = load(sine + i);
    const floats y0 = x0 * c - x1 * s;
    const floats y1 = x0 * s + x1 * c;
    store(out + 2 * i, interleave_low(y0, y1));
    store(out + 2 * i + width, interleave_high(y0, y1));
  }
  for (; i < half; ++i) {
    const float x0 = to_float(in[2 * i]);
    const float x1 = to_float(in[2 * i + 1]);
    out[2 * i] = from_double<Element>(x0 * cosine[i] - x1 * sine[i]);
    out[2 * i + 1] = from_double<Element>(x0 * sine[i] + x1 * cosine[i]);
  }
}

}  // namespace
