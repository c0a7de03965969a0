// SPDX-License-Identifier: MIT
// Normalises and turns queries and keys, and writes keys and values to a paged cache, on the CPU: a block
// takes block_tokens tokens with all their heads. Compiled once for each instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/rotary_cache.hpp>

#include "../host/instantiate.hpp"
#include "turn_host.hpp"

namespace {

using switchyard::host::block;
using switchyard::operators::rotary_style;
using cache_arguments = switchyard::operators::rotary_cache::arguments;

constexpr auto width = static_cast<std::int64_t>(lanes);

template <class Element>
void widen(const Element* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + width <= count; i += width) store(to + i, load(from + i));
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

SWITCHYARD_INLINE void store_cached(float8* to, const float* from, std::int64_t count, float scale) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i].bits = switchyard::f8_e4m3_from(static_cast<double>(from[i] * scale));
}
template <class Element>
SWITCHYARD_INLINE void store_cached(Element* to, const float* from, std::int64_t count, float scale) {
  std::int64_t i = 0;
  for (; i + width <= count; i += width) store(to + i, load(from + i) * scale);
  for (; i < count; ++i) to[i] = from_double<Element>(static_cast<double>(from[i] * scale));
}

/// x / sqrt(mean(x^2) + epsilon) * gamma
void normalise(float* x, const float* gamma, std::int64_t count, float epsilon) {
  floats squares{};
  std::int64_t i = 0;
  for (; i + width <= count; i += width) squares += load(x + i) * load(x + i);
  float sum = sum_of(squares);
  for (; i < count; ++i) sum += x[i] * x[i];
  const float factor = 1.0F / std::sqrt(sum / static_cast<float>(count) + epsilon);
  for (i = 0; i < count; ++i) x[i] *= factor * gamma[i];
}

/// Turns one head in place.
void turn(float* x, const float* cosine, const float* sine, std::int64_t half, rotary_style style) {
  if (style == rotary_style::interleaved) return turn_neighbours(x, x, cosine, sine, half);
  turn_halves(x, x, cosine, sine, half);
}

SWITCHYARD_INLINE float inverse_scale(const float* scales, std::int64_t stride, std::int64_t head) {
  return scales == nullptr ? 1.0F : 1.0F / scales[head * stride];
}

template <class Element, class Cached>
void place_token(const cache_arguments& a, std::int64_t t, float* head) {
  const std::int64_t position = a.positions[t];
  const float* const cosine = a.cos + position * a.table_stride;
  const float* const sine = a.sin + position * a.table_stride;
  const std::int64_t half = a.rotary_dim / 2;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    auto* const q = static_cast<Element*>(a.q) + t * a.q_stride_token + h * a.q_stride_head;
    widen(q, head, a.head_dim);
    if (a.q_gamma != nullptr) normalise(head, a.q_gamma, a.head_dim, a.epsilon);
    turn(head, cosine, sine, half, a.style);
    store_cached(q, head, a.head_dim, 1.0F);
  }
  const std::int64_t slot = a.slots[t];
  if (slot < 0) return;
  const std::int64_t page = slot / a.page_size;
  const std::int64_t within = slot % a.page_size;
  for (std::int64_t h = 0; h < a.heads_kv; ++h) {
    widen(static_cast<const Element*>(a.k) + t * a.k_stride_token + h * a.k_stride_head, head, a.head_dim);
    if (a.k_gamma != nullptr) normalise(head, a.k_gamma, a.head_dim, a.epsilon);
    turn(head, cosine, sine, half, a.style);
    store_cached(static_cast<Cached*>(a.k_cache) + page * a.k_cache_stride_page +
                     within * a.k_cache_stride_token + h * a.k_cache_stride_head,
                 head, a.head_dim, inverse_scale(a.k_scale, a.k_scale_stride, h));
    widen(static_cast<const Element*>(a.v) + t * a.v_stride_token + h * a.v_stride_head, head, a.head_dim);
    store_cached(static_cast<Cached*>(a.v_cache) + page * a.v_cache_stride_page +
                     within * a.v_cache_stride_token + h * a.v_cache_stride_head,
                 head, a.head_dim, inverse_scale(a.v_scale, a.v_scale_stride, h));
  }
}

/// Scratch: 4 * head_dim bytes. Strides that a call leaves unset belong to extents of one.
template <class Element, class Cached>
void place(const block& here, cache_arguments a, std::int32_t block_tokens) {
  auto* const head = reinterpret_cast<float*>(here.scratch.data());
  const std::int64_t begin = here.index.x * static_cast<std::int64_t>(block_tokens);
  const std::int64_t end = std::min(begin + block_tokens, a.tokens);
  for (std::int64_t t = begin; t < end; ++t) place_token<Element, Cached>(a, t, head);
}

}  // namespace
