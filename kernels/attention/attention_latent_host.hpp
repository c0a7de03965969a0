// SPDX-License-Identifier: MIT
// Latent keys in e4m3 whose rotary columns lie apart, on the CPU: the keys of a tile become rows of floats in
// a block's scratch, which are their values too. Semantics: operators/attention_latent.hpp.
//
// Private to kernels/attention; unnamed namespace for the reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include <switchyard/operators/attention_decode.hpp>

#include "attention_host.hpp"

namespace {

/// As rows_in_place. Scratch: 4 * block_n * round_up(head_dim, 32) + 64 bytes.
template <class Element>
class rows_widened {
 public:
  using element = float;

  explicit rows_widened(const switchyard::operators::attention_decode::arguments& call)
      : call_{&call}, stride_{round_up(call.head_dim, static_cast<std::int64_t>(lanes))} {}

  void take(arena& memory, std::int64_t block_n) { rows_ = memory.take<float>(block_n * stride_); }

  void find(const attention_arguments& a, const sequence& s, std::int64_t head_kv, key_range range,
            const float** k_rows, const float** v_rows) const {
    constexpr std::int64_t group = switchyard::operators::scale_group_columns;
    const auto& c = *call_;
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      float* const row = rows_ + (j - range.begin) * stride_;
      *k_rows++ = row;
      *v_rows++ = row;
      std::int64_t entry = s.batch;
      std::int64_t token = j;
      if (a.block_table != nullptr) {
        entry = a.block_table[s.batch * a.block_table_stride + j / a.page_size];
        token = j % a.page_size;
      }
      const float8* const k = static_cast<const float8*>(a.k) + entry * a.k_stride_batch +
                              token * a.k_stride_token + head_kv * a.k_stride_head;
      const float* const scales = c.k_scale + entry * c.k_scale_stride_batch + token * c.k_scale_stride_token;
      for (std::int64_t d = 0; d < a.head_dim_v; d += group)
        widen(k + d, std::min(group, a.head_dim_v - d), scales[d / group], row + d);
      widen(static_cast<const Element*>(c.k_rotary) + entry * c.k_rotary_stride_batch +
                token * c.k_rotary_stride_token,
            c.rotary_dim, 1.0F, row + a.head_dim_v);
    }
  }

 private:
  template <class From>
  static void widen(const From* from, std::int64_t count, float scale, float* to) {
    constexpr auto width = static_cast<std::int64_t>(lanes);
    std::int64_t d = 0;
    for (; d + width <= count; d += width) store(to + d, load(from + d) * scale);
    if (d < count) {
      const auto rest = static_cast<std::size_t>(count - d);
      store_first(to + d, load_first(from + d, rest) * scale, rest);
    }
  }

  const switchyard::operators::attention_decode::arguments* call_;
  std::int64_t stride_;
  float* rows_ = nullptr;
};

}  // namespace
