// Random calls of attention_decode over all its axes, with what they must give: for the tests on the CPU and
// on GPUs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/tune/reference/attention_decode.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard::test {

using reference::load;
using reference::rounded;
using reference::store;

/// A random call. Tensors are on the host; pointers of `a` lead to them, that of `out` nowhere useful.
struct random_decode {
  operators::attention_decode::arguments a;
  std::vector<std::byte> q, k, v;
  std::vector<float> k_scales, v_scales, slopes, sinks;
  std::vector<std::int32_t> used, table;
  std::int64_t first = 0;  ///< elements before each tensor's first
  std::int64_t out_elements = 0, lse_elements = 0;
  bool with_lse = true;
  std::vector<double> expected, expected_lse;  ///< NaN where nothing is written
  double limit = 0, limit_lse = 0;

  /// `longest`: of the keys, which a slow reference and a fast kernel want differently.
  explicit random_decode(std::uint32_t seed, std::int64_t longest = 2500) : random_{seed} {
    choose(longest);
    make_lengths();
    make_tensors();
  }
  random_decode(const random_decode&) = delete;
  random_decode& operator=(const random_decode&) = delete;

  /// Fills expected values, and the errors that are allowed: four times those of the formula carried out
  /// plainly in float and rounded once; half a unit for the weights, which are rounded as the output is; and,
  /// because the largest of few errors is small by luck at times, eight units of float at the size of the
  /// numbers, which a weight is off by for each unit of its score.
  void compute() {
    const auto plain = run<float>();
    auto exact = run<double>();
    const double unit = a.dtype == dtype::f16 ? 0x1p-11 : 0x1p-8;
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < exact.first.size(); ++i) {
      if (std::isnan(exact.first[i])) continue;
      size = std::max(size, std::abs(exact.first[i]));
      error = std::max(error, std::abs(exact.first[i] - rounded(a.dtype, plain.first[i])));
    }
    double error_lse = 0;
    double size_lse = 1;
    for (std::size_t i = 0; i < exact.second.size(); ++i) {
      if (!std::isfinite(exact.second[i])) continue;
      size_lse = std::max(size_lse, std::abs(exact.second[i]));
      error_lse = std::max(error_lse, std::abs(exact.second[i] - plain.second[i]));
    }
    const double score = std::abs(static_cast<double>(a.scale)) * std::sqrt(static_cast<double>(a.head_dim));
    limit = 4 * error + unit / 2 * size + 0x1p-20 * score * size + unit * 0x1p-8 + 0x1p-24;
    limit_lse = 4 * error_lse + 0x1p-20 * (size_lse + score);
    expected = std::move(exact.first);
    expected_lse = std::move(exact.second);
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << enumerator_names<dtype>[static_cast<std::size_t>(a.dtype)] << '/'
        << enumerator_names<dtype>[static_cast<std::size_t>(a.kv_dtype)] << " batch " << a.batch << " heads "
        << a.heads << '/' << a.heads_kv << " seqlen " << a.seqlen_q << '/' << a.seqlen_k << " dim "
        << a.head_dim << '/' << a.head_dim_v << " mask " << static_cast<int>(a.mask) << " window "
        << a.window_left << " scale " << a.scale << " cap " << a.soft_cap << " alibi "
        << (a.alibi_slopes != nullptr) << " sinks " << (a.sinks != nullptr) << " page " << a.page_size
        << " used " << (a.seqused_k != nullptr) << " scales " << (a.k_scale != nullptr)
        << (a.v_scale != nullptr) << a.k_scale_stride << a.v_scale_stride << " alignment " << a.alignment();
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
    a.mask = pick({operators::attention_mask::none, operators::attention_mask::causal_bottom_right,
                   operators::attention_mask::causal_bottom_right});
    if (chance(25)) a.window_left = pick({0, 1, 5, 64, 100, 1000, std::numeric_limits<std::int32_t>::max()});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    if (chance(12)) a.scale = pick({0.0F, -0.125F, 0.5F, 20.0F});
    if (chance(15)) a.soft_cap = pick({2.0F, 30.0F});
    first = chance(12) ? 1 : 0;
  }

  void make_lengths() {
    const bool paged = chance(45);
    if (paged || chance(40)) {
      for (std::int64_t b = 0; b < a.batch; ++b) {
        const bool whole = b == 0 && chance(70);
        used.push_back(static_cast<std::int32_t>(whole        ? a.seqlen_k
                                                 : chance(10) ? 0
                                                              : below(a.seqlen_k + 1)));
      }
      a.seqused_k = used.data();
    }
    if (!paged) return;
    a.page_size = pick<std::int64_t>({16, 16, 32, 64, 128, 1, 5});
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
      const std::int64_t in_use = (used[static_cast<std::size_t>(b)] + a.page_size - 1) / a.page_size;
      for (std::int64_t p = 0; p < in_use; ++p) {
        table[static_cast<std::size_t>(b * a.block_table_stride + p)] = order[next++];
      }
    }
    a.block_table = table.data();
  }

  /// Elements of a tensor, and its strides.
  std::int64_t lay_out(std::int64_t entries, std::int64_t tokens, std::int64_t heads, std::int64_t dim,
                       std::int64_t gap, bool heads_first, std::int64_t& batch, std::int64_t& head,
                       std::int64_t& token) const {
    if (heads_first) {
      token = dim + gap;
      head = token * tokens + gap;
      batch = head * heads + gap;
    } else {
      head = dim + gap;
      token = head * heads + gap;
      batch = token * tokens + gap;
    }
    return batch * entries + first;
  }

  /// `spread` is the standard deviation. What nobody may read is NaN.
  std::vector<std::byte> random_tensor(dtype type, std::int64_t elements, double spread) {
    std::vector<std::byte> result(static_cast<std::size_t>((elements + 16) * size_of(type)), std::byte{0xFF});
    std::normal_distribution<double> normal{0.0, spread};
    for (std::int64_t i = 0; i < elements; ++i) store(type, result.data(), i, normal(random_));
    return result;
  }

  void make_tensors() {
    const bool heads_first = chance(40);
    const std::int64_t gap = pick<std::int64_t>({0, 0, 0, 16, 8, 3});
    const bool paged = a.block_table != nullptr;
    const std::int64_t tokens_k = paged ? a.page_size : a.seqlen_k;
    const std::int64_t entries_k = paged ? pages_ : a.batch;
    const double spread = chance(8) ? 20.0 : 1.0;
    q = random_tensor(a.dtype,
                      lay_out(a.batch, a.seqlen_q, a.heads, a.head_dim, gap, heads_first, a.q_stride_batch,
                              a.q_stride_head, a.q_stride_token),
                      1.0);
    k = random_tensor(a.kv_dtype,
                      lay_out(entries_k, tokens_k, a.heads_kv, a.head_dim, gap, heads_first, a.k_stride_batch,
                              a.k_stride_head, a.k_stride_token),
                      spread);
    v = random_tensor(a.kv_dtype,
                      lay_out(entries_k, tokens_k, a.heads_kv, a.head_dim_v, gap, heads_first,
                              a.v_stride_batch, a.v_stride_head, a.v_stride_token),
                      spread);
    out_elements = lay_out(a.batch, a.seqlen_q, a.heads, a.head_dim_v, gap, heads_first, a.out_stride_batch,
                           a.out_stride_head, a.out_stride_token);
    poison_unused();
    a.lse_stride_head = a.seqlen_q + 1;
    a.lse_stride_batch = a.heads * a.lse_stride_head;
    lse_elements = a.batch * a.lse_stride_batch;
    with_lse = chance(80);
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    const auto make_scales = [&](std::vector<float>& scales, const float*& pointer, std::int64_t& stride) {
      stride = chance(60) ? 1 : 0;
      const std::int64_t count = stride == 1 ? a.heads_kv : 1;
      for (std::int64_t h = 0; h < count; ++h) scales.push_back(0.25F + 1.5F * uniform(random_));
      if (chance(10)) scales[0] = -scales[0];
      pointer = scales.data();
    };
    if (a.kv_dtype == dtype::f8_e4m3 ? chance(80) : chance(10))
      make_scales(k_scales, a.k_scale, a.k_scale_stride);
    if (a.kv_dtype == dtype::f8_e4m3 ? chance(80) : chance(10))
      make_scales(v_scales, a.v_scale, a.v_scale_stride);
    if (chance(15)) {
      for (std::int64_t h = 0; h < a.heads; ++h) slopes.push_back(uniform(random_));
      a.alibi_slopes = slopes.data();
    }
    if (chance(20)) {
      for (std::int64_t h = 0; h < a.heads; ++h) sinks.push_back(4.0F * uniform(random_) - 2.0F);
      if (chance(20)) sinks[0] = -std::numeric_limits<float>::infinity();
      a.sinks = sinks.data();
    }
    a.q = q.data() + first * size_of(a.dtype);
    a.k = k.data() + first * size_of(a.kv_dtype);
    a.v = v.data() + first * size_of(a.kv_dtype);
    a.out = q.data() + first * size_of(a.dtype);  // for check(); results go elsewhere
  }

  /// NaN in the keys and values that are not in use.
  void poison_unused() {
    if (a.seqused_k == nullptr) return;
    const std::int64_t whole_pages = a.block_table != nullptr ? a.page_size : a.seqlen_k;
    for (std::int64_t b = 0; b < a.batch; ++b) {
      const std::int64_t in_use = used[static_cast<std::size_t>(b)];
      if (a.block_table != nullptr && in_use % whole_pages == 0) continue;
      const std::int64_t entry =
          a.block_table != nullptr
              ? table[static_cast<std::size_t>(b * a.block_table_stride + in_use / whole_pages)]
              : b;
      const std::int64_t begin = a.block_table != nullptr ? in_use % whole_pages : in_use;
      for (std::int64_t j = begin; j < whole_pages; ++j) {
        for (std::int64_t h = 0; h < a.heads_kv; ++h) {
          const std::int64_t k_row =
              first + entry * a.k_stride_batch + h * a.k_stride_head + j * a.k_stride_token;
          const std::int64_t v_row =
              first + entry * a.v_stride_batch + h * a.v_stride_head + j * a.v_stride_token;
          constexpr double nan = std::numeric_limits<double>::quiet_NaN();
          for (std::int64_t d = 0; d < a.head_dim; ++d) store(a.kv_dtype, k.data(), k_row + d, nan);
          for (std::int64_t d = 0; d < a.head_dim_v; ++d) store(a.kv_dtype, v.data(), v_row + d, nan);
        }
      }
    }
  }

  template <class Real>
  std::pair<std::vector<double>, std::vector<double>> run() const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    std::pair<std::vector<double>, std::vector<double>> result{
        std::vector<double>(static_cast<std::size_t>(out_elements), nan),
        std::vector<double>(static_cast<std::size_t>(lse_elements), nan)};
    reference::attention_decode<Real>(
        a,
        [&](std::int64_t out, std::int64_t lse, std::span<const Real> values, Real value) {
          for (std::size_t d = 0; d < values.size(); ++d) {
            result.first[static_cast<std::size_t>(first + out) + d] = static_cast<double>(values[d]);
          }
          if (with_lse) result.second[static_cast<std::size_t>(lse)] = static_cast<double>(value);
        },
        [](std::int64_t, std::int64_t, std::int64_t) { return true; });
    return result;
  }

  std::mt19937 random_;
  std::int64_t pages_ = 0;
};

/// What is wrong with a result of which every byte was 0xFF before; empty when nothing is.
[[nodiscard]] inline std::string differences(const std::string& what, const std::vector<double>& expected,
                                             double limit, dtype type, const void* found) {
  double largest = 0;
  const auto bytes = static_cast<std::size_t>(size_of(type));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto* at = static_cast<const std::byte*>(found) + i * bytes;
    if (std::isnan(expected[i])) {
      if (std::any_of(at, at + bytes, [](std::byte each) { return each != std::byte{0xFF}; })) {
        return what + ": element " + std::to_string(i) + " is written";
      }
      continue;
    }
    const double value = load(type, found, static_cast<std::int64_t>(i));
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

}  // namespace switchyard::test
