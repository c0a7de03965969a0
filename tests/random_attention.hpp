// SPDX-License-Identifier: MIT
// What random calls of attention share, whichever operator they are of: choices, pages, strides and tensors,
// the errors that are allowed, and judging results. For the tests on the CPU and on GPUs.
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

#include <switchyard/base/dtype.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "environment.hpp"

namespace switchyard::test {

/// Whether calls are to be small, for GPUs on which a call takes seconds: SWITCHYARD_TEST_SMALL. They are
/// mostly of the types and head dims for which the smaller set of kernels has one, unless every kernel was
/// built.
[[nodiscard]] inline bool draws_small_calls() {
  static const bool answer = number("SWITCHYARD_TEST_SMALL", 0) != 0;
  return answer;
}
#ifdef SWITCHYARD_TEST_FULL_KERNELS
inline constexpr bool draws_every_kind = true;
#else
inline constexpr bool draws_every_kind = false;
#endif

/// NaN in the keys and values, of `type`, of tokens [begin, end) of a batch entry or page of a call, which
/// has its arguments in `a`, its tensors in `k` and `v`, and their first element at `first`.
template <class Call>
void poison_tokens(Call& of, dtype type, std::int64_t entry, std::int64_t begin, std::int64_t end) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto& a = of.a;
  for (std::int64_t j = begin; j < end; ++j) {
    for (std::int64_t h = 0; h < a.heads_kv; ++h) {
      const std::int64_t k_row =
          of.first + entry * a.k_stride_batch + h * a.k_stride_head + j * a.k_stride_token;
      const std::int64_t v_row =
          of.first + entry * a.v_stride_batch + h * a.v_stride_head + j * a.v_stride_token;
      for (std::int64_t d = 0; d < a.head_dim; ++d) reference::store(type, of.k.data(), k_row + d, nan);
      for (std::int64_t d = 0; d < a.head_dim_v; ++d) reference::store(type, of.v.data(), v_row + d, nan);
    }
  }
}

/// A block table: pages in random order.
struct random_pages {
  std::vector<std::int32_t> table;
  std::int64_t stride = 0;
  std::int64_t count = 0;  ///< of the cache's pages, some of which are nobody's

  random_pages() = default;
  /// For sequences of which `used` keys are in use, of `seqlen` at most.
  random_pages(std::span<const std::int32_t> used, std::int64_t seqlen, std::int64_t page_size,
               std::mt19937& random)
      : stride{(seqlen + page_size - 1) / page_size + 2},
        count{static_cast<std::int64_t>(used.size()) * (stride - 2) + 2} {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::size_t p = 0; p < order.size(); ++p) order[p] = static_cast<std::int32_t>(p);
    std::shuffle(order.begin(), order.end(), random);
    table.assign(used.size() * static_cast<std::size_t>(stride), 1 << 30);  // nobody may follow these
    std::size_t next = 0;
    for (std::size_t b = 0; b < used.size(); ++b) {
      const std::int64_t in_use = (used[b] + page_size - 1) / page_size;
      for (std::int64_t p = 0; p < in_use; ++p) {
        table[b * static_cast<std::size_t>(stride) + static_cast<std::size_t>(p)] = order[next++];
      }
    }
  }
};

/// What the random calls of all operators have. Tensors are on the host; pointers of `a` lead to them, that
/// of `out` nowhere useful.
template <class Arguments>
struct random_attention {
  Arguments a;
  std::vector<std::byte> q, k, v;
  std::vector<float> slopes, sinks;
  std::vector<std::int32_t> table;
  std::int64_t first = 0;  ///< elements before each tensor's first
  std::int64_t out_elements = 0, lse_elements = 0;
  bool with_lse = true;
  std::vector<double> expected, expected_lse;  ///< NaN where nothing is written
  double limit = 0, limit_lse = 0;

  random_attention(const random_attention&) = delete;
  random_attention& operator=(const random_attention&) = delete;

  /// The size of the scores of normal numbers.
  [[nodiscard]] double score() const {
    return std::abs(static_cast<double>(a.scale)) * std::sqrt(static_cast<double>(a.head_dim));
  }

 protected:
  struct results {
    std::vector<double> out, lse;
  };

  explicit random_attention(std::uint32_t seed) : random_{seed} {}
  ~random_attention() = default;

  template <class Value>
  Value pick(std::initializer_list<Value> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>{0, end - 1}(random_);
  }
  bool chance(int percent) { return below(100) < percent; }

  /// A cache of pages.
  void make_pages(std::span<const std::int32_t> used, std::int64_t page_size) {
    random_pages pages{used, a.seqlen_k, page_size, random_};
    table = std::move(pages.table);
    pages_ = pages.count;
    a.page_size = page_size;
    a.block_table_stride = pages.stride;
    a.block_table = table.data();
  }

  void choose_layout(std::initializer_list<std::int64_t> gaps) {
    heads_first_ = chance(40);
    gap_ = pick(gaps);
  }

  /// Elements of a tensor [entries, tokens, heads, dim] or, heads first, [entries, heads, tokens, dim], and
  /// its strides. A packed one has one entry.
  std::int64_t lay_out(bool packed, std::int64_t entries, std::int64_t tokens, std::int64_t heads,
                       std::int64_t dim, std::int64_t& batch, std::int64_t& head, std::int64_t& token) const {
    if (heads_first_) {
      token = dim + gap_;
      head = token * tokens + gap_;
      batch = head * heads + gap_;
    } else {
      head = dim + gap_;
      token = head * heads + gap_;
      batch = token * tokens + gap_;
    }
    const std::int64_t elements = batch * (packed ? 1 : entries) + first;
    if (packed) batch = std::int64_t{1} << 40;  // must not be used
    return elements;
  }

  /// `spread` is the standard deviation, `behind` what the bytes behind the elements are.
  std::vector<std::byte> random_tensor(dtype type, std::int64_t elements, double spread = 1.0,
                                       std::byte behind = std::byte{0}) {
    std::vector<std::byte> result(static_cast<std::size_t>((elements + 16) * size_of(type)), behind);
    std::normal_distribution<double> normal{0.0, spread};
    for (std::int64_t i = 0; i < elements; ++i) reference::store(type, result.data(), i, normal(random_));
    return result;
  }

  void make_slopes() {
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    for (std::int64_t h = 0; h < a.heads; ++h) slopes.push_back(uniform(random_));
    a.alibi_slopes = slopes.data();
  }

  void make_sinks() {
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    for (std::int64_t h = 0; h < a.heads; ++h) sinks.push_back(4.0F * uniform(random_) - 2.0F);
    if (chance(20)) sinks[0] = -std::numeric_limits<float>::infinity();
    a.sinks = sinks.data();
  }

  /// Scales of keys or values in e4m3, for each KV head or for all; negative ones at times.
  void make_scales(std::vector<float>& scales, const float*& pointer, std::int64_t& stride,
                   std::int64_t heads) {
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    stride = chance(60) ? 1 : 0;
    const std::int64_t count = stride == 1 ? heads : 1;
    for (std::int64_t h = 0; h < count; ++h) scales.push_back(0.25F + 1.5F * uniform(random_));
    if (chance(10)) scales[0] = -scales[0];
    pointer = scales.data();
  }

  /// NaN in the keys and values of tokens [begin, end) of a batch entry or page.
  void poison(dtype type, std::int64_t entry, std::int64_t begin, std::int64_t end) {
    poison_tokens(*this, type, entry, begin, end);
  }

  /// What a reference gives that is called with where to write.
  template <class Real, class Reference>
  results collect(Reference&& reference) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    results result{std::vector<double>(static_cast<std::size_t>(out_elements), nan),
                   std::vector<double>(static_cast<std::size_t>(lse_elements), nan)};
    reference([&](std::int64_t out, std::int64_t lse, std::span<const Real> values, Real value) {
      for (std::size_t d = 0; d < values.size(); ++d) {
        result.out[static_cast<std::size_t>(first + out) + d] = static_cast<double>(values[d]);
      }
      if (with_lse) result.lse[static_cast<std::size_t>(lse)] = static_cast<double>(value);
    });
    return result;
  }

  /// The size of what results are sums of, the weighed values. `run` computes results of the call as it is.
  template <class Run>
  [[nodiscard]] double size_of_terms(dtype type, const Run& run) {
    const std::vector<std::byte> kept = v;
    const auto bytes = static_cast<std::size_t>(size_of(type));
    for (std::size_t last = bytes - 1; last < v.size(); last += bytes) v[last] &= std::byte{0x7F};
    double size = 0;
    for (const double value : run().out) {
      if (!std::isnan(value)) size = std::max(size, std::abs(value));
    }
    std::copy(kept.begin(), kept.end(), v.begin());
    return size;
  }

  /// Fills expected values, and the errors that are allowed: four times those of the formula carried out
  /// plainly in float and rounded once; half a unit for the weights, which are rounded as the output is; and,
  /// because the largest of few errors is small by luck at times, eight units of float at the size of the
  /// numbers, which a weight is off by for each unit of its score. Of few results all may be small by luck,
  /// while what is rounded is not: they are taken to be of the size of their terms, of values of `type`, as
  /// `run` computes them.
  template <class Run>
  void expect(const results& plain, results exact, dtype type, const Run& run) {
    const double unit = a.dtype == dtype::f32 ? 0x1p-22 : a.dtype == dtype::f16 ? 0x1p-11 : 0x1p-8;
    double error = 0;
    double size = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < exact.out.size(); ++i) {
      if (std::isnan(exact.out[i])) continue;
      ++count;
      size = std::max(size, std::abs(exact.out[i]));
      error = std::max(error, std::abs(exact.out[i] - reference::rounded(a.dtype, plain.out[i])));
    }
    if (count < 64) size = std::max(size, size_of_terms(type, run));
    double error_lse = 0;
    double size_lse = 1;
    for (std::size_t i = 0; i < exact.lse.size(); ++i) {
      if (!std::isfinite(exact.lse[i])) continue;
      size_lse = std::max(size_lse, std::abs(exact.lse[i]));
      error_lse = std::max(error_lse, std::abs(exact.lse[i] - plain.lse[i]));
    }
    limit = 4 * error + (a.dtype == dtype::f32 ? 0x1p-20 : unit / 2) * size + 0x1p-20 * score() * size +
            unit * 0x1p-8 + 0x1p-24;
    limit_lse = 4 * error_lse + 0x1p-20 * size_lse;
    expected = std::move(exact.out);
    expected_lse = std::move(exact.lse);
  }

  std::mt19937 random_;
  std::int64_t pages_ = 0;

 private:
  bool heads_first_ = false;
  std::int64_t gap_ = 0;
};

/// What is wrong with a result of which every byte was 0xFF before; empty when nothing is.
[[nodiscard]] inline std::string differences(const std::string& name, const std::vector<double>& expected,
                                             double limit, dtype type, const void* found) {
  double largest = 0;
  const auto bytes = static_cast<std::size_t>(size_of(type));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto* at = static_cast<const std::byte*>(found) + i * bytes;
    if (std::isnan(expected[i])) {
      if (std::any_of(at, at + bytes, [](std::byte byte) { return byte != std::byte{0xFF}; })) {
        return name + ": element " + std::to_string(i) + " is written";
      }
      continue;
    }
    const double value = reference::load(type, found, static_cast<std::int64_t>(i));
    if (value == expected[i]) continue;
    const double error = std::abs(value - expected[i]);
    if (!(error <= std::numeric_limits<double>::max())) {
      return name + ": element " + std::to_string(i) + " is " + std::to_string(value) + ", not " +
             std::to_string(expected[i]);
    }
    largest = std::max(largest, error);
  }
  if (largest <= limit) return {};
  std::ostringstream text;
  text << name << ": error " << largest << ", allowed " << limit;
  return text.str();
}

}  // namespace switchyard::test
