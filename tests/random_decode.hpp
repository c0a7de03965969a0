// SPDX-License-Identifier: MIT
// Random calls of attention_decode over all its axes, with what they must give: for the tests on the CPU and
// on GPUs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/tune/reference/attention_decode.hpp>

#include "random_attention.hpp"

namespace switchyard::test {

/// A random call.
struct random_decode : random_attention<operators::attention_decode::arguments> {
  std::vector<float> k_scales, v_scales;
  std::vector<std::byte> rotary;  ///< rotary columns that lie apart
  std::vector<std::int32_t> used;

  /// `longest`: of the keys, which a slow reference and a fast kernel want differently. `apart`: always a
  /// latent cache with rotary columns apart.
  explicit random_decode(std::uint32_t seed, std::int64_t longest = 2500, bool apart = false)
      : random_attention{seed}, apart_{apart} {
    choose(longest);
    make_lengths();
    make_tensors();
  }

  /// Fills expected values, and the errors that are allowed.
  void compute() {
    const auto values_apart = [this] {  // v holds what the values are, also where they lie in the keys
      const void* const kept = std::exchange(a.v, v.data() + first * size_of(a.kv_dtype));
      results result = run<double>();
      a.v = kept;
      return result;
    };
    expect(run<float>(), run<double>(), a.kv_dtype, values_apart);
    limit_lse += 0x1p-20 * score();
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << enumerator_names<dtype>[static_cast<std::size_t>(a.dtype)] << '/'
        << enumerator_names<dtype>[static_cast<std::size_t>(a.kv_dtype)] << " batch " << a.batch << " heads "
        << a.heads << '/' << a.heads_kv << " seqlen " << a.seqlen_q << '/' << a.seqlen_k << " dim "
        << a.head_dim << '/' << a.head_dim_v << (a.latent() ? " latent" : "")
        << (a.k_rotary != nullptr ? " rotary apart" : "") << " mask " << static_cast<int>(a.mask)
        << " window " << a.window_left << " scale " << a.scale << " cap " << a.soft_cap << " alibi "
        << (a.alibi_slopes != nullptr) << " sinks " << (a.sinks != nullptr) << " page " << a.page_size
        << " used " << (a.seqused_k != nullptr) << " scales " << (a.k_scale != nullptr)
        << (a.v_scale != nullptr) << a.k_scale_stride << a.v_scale_stride << " groups " << a.scale_groups
        << " alignment " << a.alignment();
    return out.str();
  }

 private:
  void choose(std::int64_t longest) {
    a.dtype = pick({dtype::f16, dtype::bf16});
    a.kv_dtype = chance(40) ? dtype::f8_e4m3 : a.dtype;
    a.batch = 1 + below(4);
    a.heads_kv = 1 + below(3);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2, 3, 4, 4, 5, 8, 8, 16});
    a.seqlen_q = pick<std::int64_t>({1, 1, 1, 1, 2, 3, 4, 7, 8, 16});
    a.seqlen_k = pick<std::int64_t>({0, 1, 7, 15, 16, 17, 31, 33, 64, 127, 129, 257, 400});
    if (chance(40)) a.seqlen_k = std::min(longest, pick<std::int64_t>({1023, 1024, 1500, 2500}));
    a.head_dim = a.head_dim_v =
        pick<std::int64_t>({16, 32, 64, 64, 64, 80, 96, 128, 128, 128, 128, 192, 256, 256, 40, 33, 1});
    if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 128, 256, 48, 65});
    if (draws_small_calls()) choose_small();
    if (apart_) a.kv_dtype = dtype::f8_e4m3;
    if (apart_ || chance(draws_small_calls() && !draws_every_kind ? 4 : 25)) choose_latent();
    a.mask = pick({operators::attention_mask::none, operators::attention_mask::causal_bottom_right,
                   operators::attention_mask::causal_bottom_right});
    if (is_of_small_set()) a.dtype = dtype::bf16;
    if (chance(apart_ ? 50 : 25))
      a.window_left = pick({0, 1, 5, 64, 100, 1000, std::numeric_limits<std::int32_t>::max()});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    if (chance(12)) a.scale = pick({0.0F, -0.125F, 0.5F, 20.0F});
    if (chance(15)) a.soft_cap = pick({2.0F, 30.0F});
    first = chance(12) ? 1 : 0;
  }

  /// Values that are the first columns of the keys, mostly of the usual size.
  void choose_latent() {
    latent_ = true;
    a.heads_kv = pick<std::int64_t>({1, 1, 1, 1, 2});
    a.heads = a.heads_kv * pick<std::int64_t>({1, 3, 16, 16, 20, 64, 128});
    a.seqlen_q = pick<std::int64_t>({1, 1, 1, 2, 3, 4});
    if (a.heads * a.seqlen_q > 64) {  // which would take the reference seconds
      a.batch = 1;
      a.seqlen_k = std::min<std::int64_t>(a.seqlen_k, 400);
    }
    a.head_dim = 576;
    a.head_dim_v = 512;
    apart_ = apart_ || (a.kv_dtype == dtype::f8_e4m3 && chance(50));
    if (chance(25)) {
      a.head_dim = pick<std::int64_t>({64, 80, 128, 192});  // wider keys are served with as wide values alone
      a.head_dim_v = pick<std::int64_t>({16, 64});
      if (apart_) {
        a.head_dim_v = pick<std::int64_t>({16, 128, 136, 256, 300});
        a.head_dim = a.head_dim_v + pick<std::int64_t>({64, 32, 8, 5});
      }
    }
    if (apart_) {
      a.heads /= a.heads_kv;
      a.heads_kv = 1;
      a.scale_groups = (a.head_dim_v + 127) / 128;
    }
    if (!draws_small_calls()) return;
    a.heads_kv = 1;
    a.heads = draws_every_kind ? pick<std::int64_t>({1, 1, 20}) : 1;
    a.seqlen_q = pick<std::int64_t>({1, 3});
  }

  void choose_small() {
    a.dtype = pick({dtype::f16, dtype::f16, dtype::f16, dtype::bf16});
    if (a.kv_dtype != dtype::f8_e4m3) a.kv_dtype = a.dtype;
    a.batch = 1 + below(2);
    a.heads_kv = 1 + below(2);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 2, 3, 8});
    a.seqlen_q = pick<std::int64_t>({1, 1, 2, 7});
    a.seqlen_k = pick<std::int64_t>({0, 1, 15, 17, 33, 64, 129, 300});
    a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 64, 48, 40, 33, 1, 128});
    if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 65});
    if (draws_every_kind) {
      a.dtype = pick({dtype::f16, dtype::bf16});
      if (a.kv_dtype != dtype::f8_e4m3) a.kv_dtype = a.dtype;
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 128, 128, 192, 256, 256, 48, 33, 1});
      if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 128, 65});
    }
    if (chance(30)) {  // for splits
      a.batch = a.heads_kv = 1;
      a.heads = pick<std::int64_t>({1, 3});
      a.seqlen_k = pick<std::int64_t>({600, 2100});
      if (draws_every_kind && chance(50)) {
        a.heads = 20;
        a.seqlen_k = 4200;
      }
    }
  }

  void make_lengths() {
    const bool paged = is_of_small_set() || chance(45);
    if (paged || chance(40)) {
      for (std::int64_t b = 0; b < a.batch; ++b) {
        const bool whole = b == 0 && chance(70);
        used.push_back(static_cast<std::int32_t>(whole        ? a.seqlen_k
                                                 : chance(10) ? 0
                                                              : below(a.seqlen_k + 1)));
      }
      a.seqused_k = used.data();
    }
    if (paged) make_pages(used, pick<std::int64_t>({16, 16, 32, 64, 128, 1, 5}));
    if (paged && apart_) forget_unseen_pages();
  }

  /// Nobody may follow the entries whose keys no query sees. Kernels for other caches do, before a window, in
  /// the block of keys that it begins in.
  void forget_unseen_pages() {
    for (std::size_t b = 0; b < used.size(); ++b) {
      const auto seen = operators::seen_by_all(a, a.seqlen_q, used[b]);
      for (std::int64_t page = 0; page < a.block_table_stride; ++page) {
        if (page * a.page_size < seen.end && (page + 1) * a.page_size > seen.begin) continue;
        table[b * static_cast<std::size_t>(a.block_table_stride) + static_cast<std::size_t>(page)] = 1 << 30;
      }
    }
  }

  void make_tensors() {
    choose_layout({0, 0, 0, 16, 8, 3});
    in_rows_ = apart_ && chance(60);
    if (in_rows_) first = 0;  // the scales' alignment
    const bool paged = a.block_table != nullptr;
    const std::int64_t tokens_k = paged ? a.page_size : a.seqlen_k;
    const std::int64_t entries_k = paged ? pages_ : a.batch;
    const double spread = chance(8) ? 20.0 : 1.0;
    constexpr std::byte nan{0xFF};  // nobody may read what is behind a tensor
    q = random_tensor(a.dtype,
                      lay_out(false, a.batch, a.seqlen_q, a.heads, a.head_dim, a.q_stride_batch,
                              a.q_stride_head, a.q_stride_token),
                      1.0, nan);
    if (!apart_) {
      k = random_tensor(a.kv_dtype,
                        lay_out(false, entries_k, tokens_k, a.heads_kv, a.head_dim, a.k_stride_batch,
                                a.k_stride_head, a.k_stride_token),
                        spread, nan);
    }
    if (apart_) {
      make_apart(entries_k, tokens_k);
    } else if (latent_) {
      v = k;
      a.v_stride_batch = a.k_stride_batch;
      a.v_stride_head = a.k_stride_head;
      a.v_stride_token = a.k_stride_token;
    } else {
      v = random_tensor(a.kv_dtype,
                        lay_out(false, entries_k, tokens_k, a.heads_kv, a.head_dim_v, a.v_stride_batch,
                                a.v_stride_head, a.v_stride_token),
                        spread, nan);
    }
    out_elements = lay_out(false, a.batch, a.seqlen_q, a.heads, a.head_dim_v, a.out_stride_batch,
                           a.out_stride_head, a.out_stride_token);
    poison_unused();
    a.lse_stride_head = a.seqlen_q + 1;
    a.lse_stride_batch = a.heads * a.lse_stride_head;
    lse_elements = a.batch * a.lse_stride_batch;
    with_lse = chance(80);
    if (!apart_ && (a.kv_dtype == dtype::f8_e4m3 ? chance(80) : chance(10)))
      make_scales(k_scales, a.k_scale, a.k_scale_stride, a.heads_kv);
    if (!apart_ && (a.kv_dtype == dtype::f8_e4m3 ? chance(80) : chance(10)))
      make_scales(v_scales, a.v_scale, a.v_scale_stride, a.heads_kv);
    if (chance(15)) make_slopes();
    if (chance(20)) make_sinks();
    a.q = q.data() + first * size_of(a.dtype);
    a.k = k.data() + first * size_of(a.kv_dtype);
    a.v = (latent_ ? k : v).data() + first * size_of(a.kv_dtype);
    a.out = q.data() + first * size_of(a.dtype);  // for check(); results go elsewhere
  }

  /// A latent cache with rotary columns apart: as servers have it, a row a token, or three tensors.
  void make_apart(std::int64_t entries, std::int64_t tokens) {
    const std::int64_t size = size_of(a.dtype);
    a.rotary_dim = a.head_dim - a.head_dim_v;
    a.k_stride_head = a.v_stride_head = a.head_dim_v;
    std::int64_t rotary_at = 0;  // bytes
    if (in_rows_) {
      const std::int64_t scales_at = (a.head_dim_v + 3) / 4 * 4;
      rotary_at = scales_at + 4 * a.scale_groups;
      const std::int64_t row = (rotary_at + size * a.rotary_dim + 3) / 4 * 4 + pick({0, 0, 0, 4, 16});
      const std::int64_t entry = tokens * row + pick({0, 0, 16});
      a.k_stride_token = row, a.k_stride_batch = entry;
      a.k_rotary_stride_token = row / size, a.k_rotary_stride_batch = entry / size;
      a.k_scale_stride_token = row / 4, a.k_scale_stride_batch = entry / 4;
      k.assign(static_cast<std::size_t>(entries * entry + row + 16), std::byte{0xFF});
      a.k_scale = reinterpret_cast<const float*>(k.data() + scales_at);
    } else {
      k.assign(static_cast<std::size_t>(16 + lay_out(false, entries, tokens, 1, a.head_dim_v,
                                                     a.k_stride_batch, a.k_stride_head, a.k_stride_token)),
               std::byte{0xFF});
      a.k_rotary_stride_token = a.rotary_dim + pick<std::int64_t>({0, 0, 8, 1});
      a.k_rotary_stride_batch = tokens * a.k_rotary_stride_token + pick<std::int64_t>({0, 16});
      rotary.assign(static_cast<std::size_t>(size * (entries * a.k_rotary_stride_batch + 8)),
                    std::byte{0xFF});
      a.k_scale_stride_token = a.scale_groups + pick<std::int64_t>({0, 1});
      a.k_scale_stride_batch = tokens * a.k_scale_stride_token + pick<std::int64_t>({0, 3});
      k_scales.assign(static_cast<std::size_t>(entries * a.k_scale_stride_batch + 4),
                      std::numeric_limits<float>::quiet_NaN());
      a.k_scale = k_scales.data();
    }
    a.k_rotary = (in_rows_ ? k : rotary).data() + rotary_at;
    std::normal_distribution<double> normal{0.0, chance(8) ? 20.0 : 1.0};
    std::uniform_real_distribution<float> exponent{-2.0F, chance(20) ? 6.0F : 1.0F};
    for (std::int64_t entry = 0; entry < entries; ++entry) {
      for (std::int64_t j = 0; j < tokens; ++j) {
        set_apart(
            entry, j, [&] { return normal(random_); },
            [&] { return std::exp2(exponent(random_)) * (chance(2) ? -1.0F : 1.0F); });
      }
    }
    v = k;
    a.v_stride_batch = a.k_stride_batch;
    a.v_stride_head = a.k_stride_head;
    a.v_stride_token = a.k_stride_token;
  }

  /// Writes a token of such a cache.
  template <class Number, class Scale>
  void set_apart(std::int64_t entry, std::int64_t j, const Number& number, const Scale& scale) {
    const std::int64_t at = first + entry * a.k_stride_batch + j * a.k_stride_token;
    for (std::int64_t d = 0; d < a.head_dim_v; ++d) reference::store(a.kv_dtype, k.data(), at + d, number());
    const std::int64_t rotary_row = entry * a.k_rotary_stride_batch + j * a.k_rotary_stride_token;
    for (std::int64_t d = 0; d < a.rotary_dim; ++d)
      reference::store(a.dtype, const_cast<void*>(a.k_rotary), rotary_row + d, number());
    float* const scales =
        const_cast<float*>(a.k_scale) + entry * a.k_scale_stride_batch + j * a.k_scale_stride_token;
    for (std::int64_t g = 0; g < a.scale_groups; ++g) scales[g] = static_cast<float>(scale());
  }

  /// NaN in the keys and values that are not in use.
  void poison_unused() {
    for (std::size_t b = 0; b < used.size(); ++b) {
      if (a.block_table == nullptr) {
        poison_keys(static_cast<std::int64_t>(b), used[b], a.seqlen_k);
      } else if (const std::int64_t begin = used[b] % a.page_size; begin != 0) {
        const auto last = static_cast<std::size_t>(used[b] / a.page_size);
        poison_keys(table[b * static_cast<std::size_t>(a.block_table_stride) + last], begin, a.page_size);
      }
    }
  }
  void poison_keys(std::int64_t entry, std::int64_t begin, std::int64_t end) {
    if (!apart_) return poison(a.kv_dtype, entry, begin, end);
    const auto nan = [] { return std::numeric_limits<float>::quiet_NaN(); };
    for (std::int64_t j = begin; j < end; ++j) set_apart(entry, j, nan, nan);
  }

  /// Whether to draw what the smaller set of kernels serves with rotary columns apart.
  [[nodiscard]] bool is_of_small_set() const { return apart_ && draws_small_calls() && !draws_every_kind; }

  bool latent_ = false;
  bool apart_;            ///< with rotary columns apart,
  bool in_rows_ = false;  ///< in one row with the others and with the scales

  template <class Real>
  results run() const {
    return collect<Real>([&](auto&& write) {
      reference::attention_decode<Real>(a, write,
                                        [](std::int64_t, std::int64_t, std::int64_t) { return true; });
    });
  }
};

/// The same with rotary columns apart.
struct random_decode_apart : random_decode {
  explicit random_decode_apart(std::uint32_t seed) : random_decode{seed, 2500, true} {}
};

}  // namespace switchyard::test
