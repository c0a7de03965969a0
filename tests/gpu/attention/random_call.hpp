// SPDX-License-Identifier: MIT
// Random calls of attention forward over all its axes, with what they must give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/reference/attention.hpp>

#include "random_attention.hpp"
#include "random_block_mask.hpp"

namespace {

namespace sy = switchyard;
using sy::dtype;
using sy::operators::attention_forward;
using sy::operators::attention_mask;
using sy::test::differences;
using arguments = attention_forward::arguments;

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A random call.
struct call : sy::test::random_attention<arguments> {
  std::vector<std::byte> bias;
  std::int64_t first_bias = 0;  ///< element of `bias`
  std::vector<std::int32_t> cu_q, cu_k, used_q, used_k;
  std::vector<std::uint64_t> state;
  std::vector<float> q_scales, k_scales, v_scales;
  sy::test::random_block_mask block_mask;

  /// Without paging, sinks and keys in e4m3 unless `forward`. SWITCHYARD_TEST_BLOCK_MASKS is the percentage
  /// of calls that have a block mask.
  explicit call(std::uint32_t seed, bool forward = true) : random_attention{seed}, forward_{forward} {
    choose();
    if (is_masked_) {
      block_mask = {a, random_};
      block_mask.set(a);
    } else {
      make_lengths();
    }
    make_tensors();
  }

  /// Fills expected values, and the errors that are allowed.
  void compute() {
    expect(run<float>(), run<double>(), a.type_of_kv(), [this] { return run<double>(); });
    if (is_narrow()) limit_lse += 0x1p-20 * score();
    if (is_narrow_q()) {  // weights in e4m3, and sums of e4m3 products with some 13 bits
      limit += 0x1p-4 * size_of_terms(a.type_of_kv(), [this] { return run<double>(); });
      limit_lse += 0x1p-11 * (1 + score());
    }
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << sy::name_of(a.dtype) << '/' << sy::name_of(a.type_of_q()) << '/' << sy::name_of(a.type_of_kv())
        << " batch " << a.batch << " heads " << a.heads << '/' << a.heads_kv << " seqlen " << a.seqlen_q
        << '/' << a.seqlen_k << " dim " << a.head_dim << '/' << a.head_dim_v << " mask "
        << static_cast<int>(a.mask) << " window " << a.window_left << '/' << a.window_right << " scale "
        << a.scale << " cap " << a.soft_cap << " dropout " << a.dropout_p << " bias " << (a.bias != nullptr)
        << " alibi " << (a.alibi_slopes != nullptr) << " sinks " << (a.sinks != nullptr) << " packed "
        << (a.cu_seqlens_q != nullptr) << (a.cu_seqlens_k != nullptr) << " page " << a.page_size << " used "
        << (a.seqused_q != nullptr) << (a.seqused_k != nullptr) << " scales " << (a.q_scale != nullptr)
        << (a.k_scale != nullptr) << (a.v_scale != nullptr) << a.k_scale_stride << a.v_scale_stride
        << " block mask " << block_mask.text() << " alignment " << a.alignment();
    return out.str();
  }

 private:
  [[nodiscard]] bool is_narrow() const { return a.kv_dtype == dtype::f8_e4m3; }
  [[nodiscard]] bool is_narrow_q() const { return a.q_dtype == dtype::f8_e4m3; }

  void choose() {
    a.dtype = pick({dtype::f16, dtype::bf16, dtype::f32});
    a.batch = 1 + below(3);
    a.heads_kv = 1 + below(2);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2, 3, 4, 5, 7, 8});
    a.seqlen_q = pick<std::int64_t>({0, 1, 7, 16, 63, 64, 65, 127, 128, 129, 200});
    a.seqlen_k = pick<std::int64_t>({0, 1, 7, 32, 63, 64, 65, 127, 128, 129, 257, 384});
    // Long enough, for few queries, for keys to be split over many blocks.
    if (chance(a.seqlen_q <= 16 ? 35 : 2)) a.seqlen_k = pick<std::int64_t>({1023, 2500});
    a.head_dim = a.head_dim_v = pick<std::int64_t>(
        {16, 32, 40, 64, 64, 64, 72, 80, 88, 96, 112, 128, 128, 128, 192, 192, 256, 256, 33, 1, 320, 512});
    if (a.head_dim == 192 && chance(50)) a.head_dim_v = 128;
    if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 128, 256, 40, 65});
    if (forward_ && chance(8)) {
      // More tiles than a device has multiprocessors, for kernels that go from one to the next; with few keys
      // many in a row see none under a mask.
      a.batch = 3 + below(3);
      a.heads_kv = 16 + below(24);
      a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2});
      a.seqlen_q = pick<std::int64_t>({129, 200, 300, 500});
      a.seqlen_k = pick<std::int64_t>({1, 60, 128, 200, 257});
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 96, 128, 128, 192, 256});
    }
    if (!forward_ && chance(8)) {  // likewise, of keys
      a.batch = 3;
      a.heads_kv = 24 + below(24);
      a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2});
      a.seqlen_q = pick<std::int64_t>({1, 65, 129, 200});
      a.seqlen_k = pick<std::int64_t>({129, 200, 257});
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 96, 128, 192, 256});
    }
    if (forward_ && chance(5)) {  // few tiles of many keys
      a.batch = a.heads_kv = 1;
      a.heads = pick<std::int64_t>({1, 4, 7});
      a.seqlen_q = pick<std::int64_t>({1, 17, 64, 100});
      a.seqlen_k = pick<std::int64_t>({512, 1500, 2048});
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 128, 128, 256, 512});
    }
    if (sy::test::draws_small_calls()) choose_small();
    a.mask =
        pick({attention_mask::none, attention_mask::causal_top_left, attention_mask::causal_bottom_right});
    if (chance(25)) a.window_left = pick({0, 1, 5, 64, 100, std::numeric_limits<std::int32_t>::max()});
    if (chance(15)) a.window_right = pick({0, 1, 5, 64, 100, std::numeric_limits<std::int32_t>::max()});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    if (chance(10)) a.scale = pick({0.0F, -0.125F, 0.5F, 20.0F});  // the last for scores of some hundreds
    if (chance(15)) a.soft_cap = pick({2.0F, 30.0F});
    if (chance(15)) a.dropout_p = pick({0.1F, 0.5F, 0.9F});
    first = chance(15) ? 1 : 0;
    if (forward_ && chance(15) &&
        (sy::test::draws_every_kind ||
         !sy::test::draws_small_calls())) {  // what kernels for one kind of call need
      fused_ = true;
      a.dtype = pick({dtype::f16, dtype::bf16});
      a.head_dim = a.head_dim_v = pick<std::int64_t>({32, 64, 64, 72, 80, 96, 128, 128, 256, 512});
      if (a.batch * a.heads * a.seqlen_q * a.seqlen_k > 4'000'000) a.head_dim = a.head_dim_v = 64;
      a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
      a.soft_cap = a.dropout_p = 0.0F;
      first = 0;
    }
    is_masked_ = chance(static_cast<int>(sy::test::number("SWITCHYARD_TEST_BLOCK_MASKS", 10)));
    if (is_masked_) choose_masked();
    if (!forward_ || is_masked_) return;
    if (a.dtype != dtype::f32 && chance(30)) {
      a.kv_dtype = dtype::f8_e4m3;
      if (chance(30)) a.q_dtype = dtype::f8_e4m3;
    } else if (chance(50)) {
      a.kv_dtype = a.dtype;  // else not set, which means the same
    }
  }

  /// What goes with a block mask.
  void choose_masked() {
    a.mask = attention_mask::none;
    a.window_left = a.window_right = -1;
    a.soft_cap = a.dropout_p = 0.0F;
    const bool small = sy::test::draws_small_calls();
    a.batch = 1 + below(2);
    a.heads_kv = 1 + below(2);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2, 3});
    a.seqlen_q = small ? pick<std::int64_t>({1, 65, 128, 129}) : pick<std::int64_t>({1, 128, 200, 256, 300});
    a.seqlen_k = small ? pick<std::int64_t>({1, 65, 128, 257}) : pick<std::int64_t>({1, 128, 255, 384, 400});
    if (a.head_dim > 256) a.head_dim = a.head_dim_v = 256;  // all that GPUs serve
    if (chance(60) && (sy::test::draws_every_kind || !small))
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 128});
    if (a.scale > 0.0F && a.scale < 0.5F) a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  }

  void choose_small() {
    a.dtype = pick({dtype::f16, dtype::f16, dtype::f16, dtype::bf16, dtype::f32});
    a.batch = 1 + below(2);
    a.heads_kv = 1 + below(2);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2, 3});
    a.seqlen_q = pick<std::int64_t>({0, 1, 7, 16, 63, 65, 129});
    a.seqlen_k = pick<std::int64_t>({0, 1, 32, 63, 65, 129, 200});
    a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 64, 40, 33, 1, 128});
    if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 40, 65});
    if (sy::test::draws_every_kind) {
      a.dtype = pick({dtype::f16, dtype::bf16, dtype::f32});
      a.head_dim = a.head_dim_v = pick<std::int64_t>({64, 64, 128, 128, 192, 256, 256, 512, 80, 40, 33, 1});
      if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 128, 65});
    }
    if (forward_ && chance(30)) {  // for splits
      a.batch = a.heads_kv = 1;
      a.heads = pick<std::int64_t>({1, 3});
      a.seqlen_q = pick<std::int64_t>({1, 7, 16});
      a.seqlen_k = a.head_dim > 256 ? 600 : pick<std::int64_t>({600, 2100, 8200});
    }
  }

  std::vector<std::int32_t> cumulated(std::int64_t longest) {
    std::vector<std::int32_t> result{0};
    for (std::int64_t b = 0; b < a.batch; ++b) {
      const std::int64_t length = b == 0 ? longest : below(longest + 1);
      result.push_back(result.back() + static_cast<std::int32_t>(length));
    }
    return result;
  }

  std::vector<std::int32_t> used(std::int64_t longest, const std::vector<std::int32_t>& cu) {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < static_cast<std::size_t>(a.batch); ++b) {
      result.push_back(static_cast<std::int32_t>(below((cu.empty() ? longest : cu[b + 1] - cu[b]) + 1)));
    }
    return result;
  }

  void make_lengths() {
    if (chance(25)) {
      cu_q = cumulated(a.seqlen_q);
      a.cu_seqlens_q = cu_q.data();
    }
    const bool paged = chance(is_narrow() ? 50 : 20) && forward_;
    if (!paged && chance(25)) {
      cu_k = cumulated(a.seqlen_k);
      a.cu_seqlens_k = cu_k.data();
    }
    if (chance(15)) {
      used_q = used(a.seqlen_q, cu_q);
      a.seqused_q = used_q.data();
    }
    if (paged || chance(15)) {
      used_k = used(a.seqlen_k, cu_k);
      a.seqused_k = used_k.data();
    }
    if (paged) make_pages(used_k, pick<std::int64_t>({16, 32, 64, 128, 256, 48, 5}));
  }

  void make_tensors() {
    choose_layout({0, 0, 0, is_narrow() ? 16 : 8, 16, 3});
    const bool packed_k = a.cu_seqlens_k != nullptr;
    const bool packed_q = a.cu_seqlens_q != nullptr;
    const std::int64_t tokens_q = packed_q ? cu_q.back() : a.seqlen_q;
    const std::int64_t tokens_k = a.block_table != nullptr ? a.page_size
                                  : packed_k               ? cu_k.back()
                                                           : a.seqlen_k;
    const std::int64_t entries_k = a.block_table != nullptr ? pages_ : a.batch;
    // Where a tensor ends, in half of the packed calls. Kernels for queries in e4m3 read whole blocks of
    // keys: a call that does not say it needs room behind the last sequence.
    if (packed_q && a.batch % 2 == 0) a.tokens_q = tokens_q;
    if (packed_k && (a.batch % 2 == 0 || is_narrow_q())) a.tokens_k = tokens_k;
    q = random_tensor(a.type_of_q(), lay_out(packed_q, a.batch, tokens_q, a.heads, a.head_dim,
                                             a.q_stride_batch, a.q_stride_head, a.q_stride_token));
    k = random_tensor(a.type_of_kv(), lay_out(packed_k, entries_k, tokens_k, a.heads_kv, a.head_dim,
                                              a.k_stride_batch, a.k_stride_head, a.k_stride_token));
    v = random_tensor(a.type_of_kv(), lay_out(packed_k, entries_k, tokens_k, a.heads_kv, a.head_dim_v,
                                              a.v_stride_batch, a.v_stride_head, a.v_stride_token));
    out_elements = lay_out(packed_q, a.batch, tokens_q, a.heads, a.head_dim_v, a.out_stride_batch,
                           a.out_stride_head, a.out_stride_token);
    poison_unused();
    a.lse_stride_head = tokens_q + 1;
    a.lse_stride_batch = packed_q ? std::int64_t{1} << 40 : a.heads * a.lse_stride_head;
    lse_elements = (packed_q ? 1 : a.batch) * a.heads * a.lse_stride_head;
    with_lse = chance(80) || !forward_;
    if (chance(fused_ ? 50 : 15) && !is_masked_) {
      const bool of_heads = chance(50);
      const bool of_entries = chance(50);
      a.bias_stride_row = a.seqlen_k + below(3);
      if (chance(50)) a.bias_stride_row = (a.bias_stride_row + 7) / 8 * 8;
      const std::int64_t of_one = std::max<std::int64_t>(a.seqlen_q, 1) * a.bias_stride_row;
      a.bias_stride_head = of_heads ? of_one : 0;
      a.bias_stride_batch = of_entries ? (of_heads ? a.heads : 1) * of_one : 0;
      const std::int64_t elements = (of_heads ? a.heads : 1) * (of_entries ? a.batch : 1) * of_one;
      bias = random_tensor(a.dtype, elements);
      const double minus_infinity = -std::numeric_limits<double>::infinity();
      for (std::int64_t n = 0; n < elements; n += 7)
        sy::reference::store(a.dtype, bias.data(), n, minus_infinity);
      for (std::int64_t n = 0; n < std::min(elements, a.seqlen_k); ++n) {  // a row that sees nothing
        sy::reference::store(a.dtype, bias.data(), n, minus_infinity);
      }
      if (forward_ && chance(20)) first_bias = 1 + below(7);  // behind the tensor are 16 zeros
      a.bias = bias.data() + first_bias * sy::size_of(a.dtype);
    }
    if (chance(15) && !fused_ && !is_masked_) make_slopes();
    if (chance(15) && forward_) make_sinks();
    if (is_narrow_q() && chance(80)) make_scales(q_scales, a.q_scale, a.q_scale_stride, a.heads);
    if (is_narrow() && chance(80)) make_scales(k_scales, a.k_scale, a.k_scale_stride, a.heads_kv);
    if (is_narrow() && chance(80)) make_scales(v_scales, a.v_scale, a.v_scale_stride, a.heads_kv);
    const std::uint64_t seed = (std::uint64_t{random_()} << 32) | random_();
    const std::uint64_t offset = (std::uint64_t{random_()} << 32) | random_();
    if (chance(30)) {
      state = {seed, offset};
      a.dropout_state = state.data();
    } else {
      a.dropout_seed = seed;
      a.dropout_offset = offset;
    }
    a.q = q.data() + first * sy::size_of(a.type_of_q());
    a.k = k.data() + first * sy::size_of(a.type_of_kv());
    a.v = v.data() + first * sy::size_of(a.type_of_kv());
    // For check(); results go elsewhere.
    a.out = q.data() + first * sy::size_of(a.dtype);
  }

  /// NaN in the keys and values that are not in use.
  void poison_unused() {
    if (a.block_table != nullptr) {
      poison_pages();
      return;
    }
    for (std::size_t b = 0; b < used_k.size(); ++b) {
      if (cu_k.empty()) {
        poison(a.type_of_kv(), static_cast<std::int64_t>(b), used_k[b], a.seqlen_k);
      } else {
        poison(a.type_of_kv(), 0, cu_k[b] + used_k[b], cu_k[b + 1]);
      }
    }
  }

  /// NaN in pages that are nobody's, and in what is left of a sequence's last one.
  void poison_pages() {
    std::vector<std::int64_t> in_use(static_cast<std::size_t>(pages_), 0);  // rows of each page
    for (std::size_t b = 0; b < used_k.size(); ++b) {
      for (std::int64_t key = 0; key < used_k[b]; key += a.page_size) {
        const std::int64_t at = static_cast<std::int64_t>(b) * a.block_table_stride + key / a.page_size;
        in_use[static_cast<std::size_t>(table[static_cast<std::size_t>(at)])] =
            std::min(a.page_size, used_k[b] - key);
      }
    }
    for (std::int64_t page = 0; page < pages_; ++page)
      poison(a.type_of_kv(), page, in_use[static_cast<std::size_t>(page)], a.page_size);
  }

  template <class Real>
  results run() const {
    return collect<Real>([&](auto&& write) { sy::reference::attention_forward<Real>(a, write); });
  }

  bool forward_;
  bool fused_ = false;
  bool is_masked_ = false;
};

}  // namespace
