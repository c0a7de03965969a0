// What the tests of attention through catalog and dispatcher share: random calls, and running every variant.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/reference/attention.hpp>

#include "every_variant.hpp"

namespace {

namespace sy = switchyard;
using sy::dtype;
using sy::operators::attention_forward;
using sy::operators::attention_mask;
using arguments = attention_forward::arguments;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A random call. Tensors are on the host; pointers of `a` lead to them.
struct call {
  arguments a;
  std::vector<std::byte> q, k, v, bias;
  std::vector<float> slopes, sinks;
  std::vector<std::int32_t> cu_q, cu_k, used_q, used_k, table;
  std::vector<std::uint64_t> state;
  std::int64_t first = 0;  ///< elements before each tensor's first
  std::int64_t out_elements = 0, lse_elements = 0;
  std::vector<double> expected, expected_lse;  ///< NaN where nothing is written
  double limit = 0, limit_lse = 0;

  /// Without paging and sinks unless `forward`.
  explicit call(std::uint32_t seed, bool forward = true) : forward_{forward}, random_{seed} {
    choose();
    make_lengths();
    make_tensors();
  }
  call(const call&) = delete;
  call& operator=(const call&) = delete;

  /// Fills expected values, and the errors that are allowed: four times those of the formula carried out
  /// plainly in float and rounded once; half a unit for the weights, which are rounded as the output is; and,
  /// because the largest of few errors is small by luck at times, eight units of float at the size of the
  /// numbers, which a weight is off by for each unit of its score.
  void compute() {
    const auto plain = run<float>();
    auto exact = run<double>();
    const double unit = a.dtype == dtype::f32 ? 0x1p-22 : a.dtype == dtype::f16 ? 0x1p-11 : 0x1p-8;
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < exact.first.size(); ++i) {
      if (std::isnan(exact.first[i])) continue;
      size = std::max(size, std::abs(exact.first[i]));
      error = std::max(error, std::abs(exact.first[i] - sy::reference::rounded(a.dtype, plain.first[i])));
    }
    double error_lse = 0;
    double size_lse = 1;
    for (std::size_t i = 0; i < exact.second.size(); ++i) {
      if (!std::isfinite(exact.second[i])) continue;
      size_lse = std::max(size_lse, std::abs(exact.second[i]));
      error_lse = std::max(error_lse, std::abs(exact.second[i] - plain.second[i]));
    }
    const double score = std::abs(static_cast<double>(a.scale)) * std::sqrt(static_cast<double>(a.head_dim));
    limit = 4 * error + (a.dtype == dtype::f32 ? 0x1p-20 : unit / 2) * size + 0x1p-20 * score * size +
            unit * 0x1p-8 + 0x1p-24;
    limit_lse = 4 * error_lse + 0x1p-20 * size_lse;
    expected = std::move(exact.first);
    expected_lse = std::move(exact.second);
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << sy::enumerator_names<dtype>[static_cast<std::size_t>(a.dtype)] << " batch " << a.batch << " heads "
        << a.heads << '/' << a.heads_kv << " seqlen " << a.seqlen_q << '/' << a.seqlen_k << " dim "
        << a.head_dim << '/' << a.head_dim_v << " mask " << static_cast<int>(a.mask) << " window "
        << a.window_left << '/' << a.window_right << " scale " << a.scale << " cap " << a.soft_cap
        << " dropout " << a.dropout_p << " bias " << (a.bias != nullptr) << " alibi "
        << (a.alibi_slopes != nullptr) << " sinks " << (a.sinks != nullptr) << " packed "
        << (a.cu_seqlens_q != nullptr) << (a.cu_seqlens_k != nullptr) << " page " << a.page_size << " used "
        << (a.seqused_q != nullptr) << (a.seqused_k != nullptr) << " alignment " << a.alignment();
    return out.str();
  }

 private:
  template <class Value>
  Value pick(std::initializer_list<Value> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>{0, end - 1}(random_);
  }
  bool chance(int percent) { return below(100) < percent; }

  void choose() {
    a.dtype = pick({dtype::f16, dtype::bf16, dtype::f32});
    a.batch = 1 + below(3);
    a.heads_kv = 1 + below(2);
    a.heads = a.heads_kv * pick<std::int64_t>({1, 1, 2, 3});
    a.seqlen_q = pick<std::int64_t>({0, 1, 7, 16, 63, 64, 65, 127, 128, 129, 200});
    a.seqlen_k = pick<std::int64_t>({0, 1, 7, 32, 63, 64, 65, 127, 128, 129, 257, 384});
    // Long enough, for few queries, for keys to be split over many blocks.
    if (chance(a.seqlen_q <= 16 ? 35 : 2)) a.seqlen_k = pick<std::int64_t>({1023, 2500});
    a.head_dim = a.head_dim_v =
        pick<std::int64_t>({16, 32, 64, 64, 64, 80, 96, 128, 128, 128, 192, 256, 256, 33, 1, 320, 512});
    if (chance(15)) a.head_dim_v = pick<std::int64_t>({16, 64, 128, 256, 40, 65});
    a.mask =
        pick({attention_mask::none, attention_mask::causal_top_left, attention_mask::causal_bottom_right});
    if (chance(25)) a.window_left = pick({0, 1, 5, 64, 100, std::numeric_limits<std::int32_t>::max()});
    if (chance(15)) a.window_right = pick({0, 1, 5, 64, 100, std::numeric_limits<std::int32_t>::max()});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    if (chance(10)) a.scale = pick({0.0F, -0.125F, 0.5F, 20.0F});  // the last for scores of some hundreds
    if (chance(15)) a.soft_cap = pick({2.0F, 30.0F});
    if (chance(15)) a.dropout_p = pick({0.1F, 0.5F, 0.9F});
    first = chance(15) ? 1 : 0;
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
    const bool paged = chance(20) && forward_;
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
    if (!paged) return;
    a.page_size = pick<std::int64_t>({16, 32, 64, 5});
    const std::int64_t most = (a.seqlen_k + a.page_size - 1) / a.page_size;
    a.block_table_stride = most + 2;
    pages_ = a.batch * most + 2;
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages_));
    for (std::size_t p = 0; p < order.size(); ++p) order[p] = static_cast<std::int32_t>(p);
    std::shuffle(order.begin(), order.end(), random_);
    table.assign(static_cast<std::size_t>(a.batch * a.block_table_stride),
                 1 << 30);  // nobody may follow these
    std::size_t next = 0;
    for (std::int64_t b = 0; b < a.batch; ++b) {
      const std::int64_t in_use = (used_k[static_cast<std::size_t>(b)] + a.page_size - 1) / a.page_size;
      for (std::int64_t p = 0; p < in_use; ++p) {
        table[static_cast<std::size_t>(b * a.block_table_stride + p)] = order[next++];
      }
    }
    a.block_table = table.data();
  }

  /// Elements of a tensor, and its strides.
  std::int64_t lay_out(bool packed, std::int64_t entries, std::int64_t tokens, std::int64_t heads,
                       std::int64_t dim, std::int64_t gap, bool heads_first, std::int64_t& batch,
                       std::int64_t& head, std::int64_t& token) const {
    if (heads_first) {
      token = dim + gap;
      head = token * tokens + gap;
      batch = head * heads + gap;
    } else {
      head = dim + gap;
      token = head * heads + gap;
      batch = token * tokens + gap;
    }
    const std::int64_t elements = batch * (packed ? 1 : entries) + first;
    if (packed) batch = std::int64_t{1} << 40;  // must not be used
    return elements;
  }

  std::vector<std::byte> random_tensor(std::int64_t elements) {
    std::vector<std::byte> result(static_cast<std::size_t>((elements + 16) * sy::size_of(a.dtype)));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < elements; ++i)
      sy::reference::store(a.dtype, result.data(), i, normal(random_));
    return result;
  }

  void make_tensors() {
    const bool heads_first = chance(40);
    const std::int64_t gap = pick<std::int64_t>({0, 0, 0, 8, 16, 3});
    const bool packed_k = a.cu_seqlens_k != nullptr;
    const bool packed_q = a.cu_seqlens_q != nullptr;
    const std::int64_t tokens_q = packed_q ? cu_q.back() : a.seqlen_q;
    const std::int64_t tokens_k = a.block_table != nullptr ? a.page_size
                                  : packed_k               ? cu_k.back()
                                                           : a.seqlen_k;
    const std::int64_t entries_k = a.block_table != nullptr ? pages_ : a.batch;
    q = random_tensor(lay_out(packed_q, a.batch, tokens_q, a.heads, a.head_dim, gap, heads_first,
                              a.q_stride_batch, a.q_stride_head, a.q_stride_token));
    k = random_tensor(lay_out(packed_k, entries_k, tokens_k, a.heads_kv, a.head_dim, gap, heads_first,
                              a.k_stride_batch, a.k_stride_head, a.k_stride_token));
    v = random_tensor(lay_out(packed_k, entries_k, tokens_k, a.heads_kv, a.head_dim_v, gap, heads_first,
                              a.v_stride_batch, a.v_stride_head, a.v_stride_token));
    out_elements = lay_out(packed_q, a.batch, tokens_q, a.heads, a.head_dim_v, gap, heads_first,
                           a.out_stride_batch, a.out_stride_head, a.out_stride_token);
    poison_unused();
    a.lse_stride_head = tokens_q + 1;
    a.lse_stride_batch = packed_q ? std::int64_t{1} << 40 : a.heads * a.lse_stride_head;
    lse_elements = (packed_q ? 1 : a.batch) * a.heads * a.lse_stride_head;
    with_lse = chance(80) || !forward_;
    if (chance(15)) {
      const bool broadcast = chance(50);
      a.bias_stride_row = a.seqlen_k + below(3);
      a.bias_stride_head = broadcast ? 0 : std::max<std::int64_t>(a.seqlen_q, 1) * a.bias_stride_row;
      a.bias_stride_batch = broadcast ? 0 : a.heads * a.bias_stride_head;
      const std::int64_t elements =
          (broadcast ? 1 : a.batch * a.heads) * std::max<std::int64_t>(a.seqlen_q, 1) * a.bias_stride_row;
      bias = random_tensor(elements);
      const double minus_infinity = -std::numeric_limits<double>::infinity();
      for (std::int64_t n = 0; n < elements; n += 7)
        sy::reference::store(a.dtype, bias.data(), n, minus_infinity);
      for (std::int64_t n = 0; n < std::min(elements, a.seqlen_k); ++n) {  // a row that sees nothing
        sy::reference::store(a.dtype, bias.data(), n, minus_infinity);
      }
      a.bias = bias.data();
    }
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    if (chance(15)) {
      for (std::int64_t h = 0; h < a.heads; ++h) slopes.push_back(uniform(random_));
      a.alibi_slopes = slopes.data();
    }
    if (chance(15) && forward_) {
      for (std::int64_t h = 0; h < a.heads; ++h) sinks.push_back(4.0F * uniform(random_) - 2.0F);
      if (chance(20)) sinks[0] = -std::numeric_limits<float>::infinity();
      a.sinks = sinks.data();
    }
    const std::uint64_t seed = (std::uint64_t{random_()} << 32) | random_();
    const std::uint64_t offset = (std::uint64_t{random_()} << 32) | random_();
    if (chance(30)) {
      state = {seed, offset};
      a.dropout_state = state.data();
    } else {
      a.dropout_seed = seed;
      a.dropout_offset = offset;
    }
    const auto bytes_before = first * sy::size_of(a.dtype);
    a.q = q.data() + bytes_before;
    a.k = k.data() + bytes_before;
    a.v = v.data() + bytes_before;
    a.out = q.data() + bytes_before;  // for check(); results go elsewhere
  }

  /// NaN in the keys and values that are not in use.
  void poison_unused() {
    if (a.seqused_k == nullptr || a.block_table != nullptr) return;
    for (std::int64_t b = 0; b < a.batch; ++b) {
      const auto at = static_cast<std::size_t>(b);
      const std::int64_t begin = cu_k.empty() ? 0 : cu_k[at];
      const std::int64_t end = cu_k.empty() ? a.seqlen_k : cu_k[at + 1];
      for (std::int64_t j = begin + used_k[at]; j < end; ++j) {
        for (std::int64_t h = 0; h < a.heads_kv; ++h) {
          const auto row = [&](std::int64_t batch, std::int64_t head, std::int64_t token) {
            return first + (cu_k.empty() ? b * batch : 0) + h * head + j * token;
          };
          for (std::int64_t d = 0; d < a.head_dim; ++d) {
            sy::reference::store(a.dtype, k.data(),
                                 row(a.k_stride_batch, a.k_stride_head, a.k_stride_token) + d, nan);
          }
          for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
            sy::reference::store(a.dtype, v.data(),
                                 row(a.v_stride_batch, a.v_stride_head, a.v_stride_token) + d, nan);
          }
        }
      }
    }
  }

  template <class Real>
  std::pair<std::vector<double>, std::vector<double>> run() const {
    std::pair<std::vector<double>, std::vector<double>> result{
        std::vector<double>(static_cast<std::size_t>(out_elements), nan),
        std::vector<double>(static_cast<std::size_t>(lse_elements), nan)};
    sy::reference::attention_forward<Real>(
        a, [&](std::int64_t out, std::int64_t lse, std::span<const Real> values, Real value) {
          for (std::size_t d = 0; d < values.size(); ++d) {
            result.first[static_cast<std::size_t>(first + out) + d] = static_cast<double>(values[d]);
          }
          if (with_lse) result.second[static_cast<std::size_t>(lse)] = static_cast<double>(value);
        });
    return result;
  }

  bool forward_;
  std::mt19937 random_;
  std::int64_t pages_ = 0;

 public:
  bool with_lse = true;
};

/// What is wrong with results; empty when nothing is.
[[maybe_unused]] std::string differences(const std::string& what, const std::vector<double>& expected,
                                         double limit, dtype type, const std::vector<std::byte>& found) {
  double largest = 0;
  const auto bytes = static_cast<std::size_t>(sy::size_of(type));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      for (std::size_t n = 0; n < bytes; ++n) {
        if (found[i * bytes + n] != std::byte{0xFF})
          return what + ": element " + std::to_string(i) + " is written";
      }
      continue;
    }
    const double value = sy::reference::load(type, found.data(), static_cast<std::int64_t>(i));
    if (value == expected[i]) continue;
    const double error = std::abs(value - expected[i]);
    if (!(error <= std::numeric_limits<double>::max())) {
      return what + ": element " + std::to_string(i) + " is " + std::to_string(value) + ", not " +
             std::to_string(expected[i]);
    }
    largest = std::max(largest, error);
  }
  if (largest <= limit) return {};
  std::ostringstream text;
  text << what << ": error " << largest << ", allowed " << limit;
  return text.str();
}

}  // namespace
