// SPDX-License-Identifier: MIT
// Sequences of keys and a query for each, which attention_forward and attention_decode are called on in every
// way in which a query may come: in a prompt, alone, in a batch, packed, from pages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/memory.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard::test {

using operators::attention_decode;
using operators::attention_forward;
using bytes = std::vector<std::byte>;

enum class layout { dense, paged, packed };

/// A call: of which sequences, with how many of their keys in use, and for how many of the last queries.
struct asked_rows {
  std::vector<std::size_t> sequences;
  std::int64_t queries = 1;
  layout in = layout::dense;
  std::int32_t hidden = 0;  ///< so many last keys of each sequence, and their queries, are not there yet
  std::int64_t page_size = 16;
};

/// What identifies a query's results: the bytes of its row of `out`, and of its LSE.
struct row_bits {
  bytes out, lse;
  [[nodiscard]] bool operator==(const row_bits&) const = default;
};

class attention_sequences {
 public:
  std::int64_t heads, heads_kv, dim, dim_v;
  dtype type, kv_type;
  std::int32_t window = -1;
  float soft_cap = 0;
  std::vector<std::int32_t> keys;  ///< of each
  std::vector<float> sinks, slopes, k_scales, v_scales;

  /// `is_odd`: with a head dim that is no multiple of 16 bytes.
  attention_sequences(std::mt19937& random, dtype of, dtype of_kv, std::vector<std::int32_t> lengths,
                      bool is_odd)
      : type{of}, kv_type{of_kv}, keys{std::move(lengths)} {
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    heads_kv = 1 + static_cast<std::int64_t>(random() % 2);
    const std::int64_t groups[] = {1, 2, 3, 5};
    heads = heads_kv * groups[random() % 4];
    dim = is_odd ? 60 : one_in(2) ? 64 : 48;
    dim_v = one_in(4) ? 64 : dim;
#ifdef SWITCHYARD_TEST_FULL_KERNELS
    const std::int64_t dims[] = {128, 96, 256, 192};
    if (one_in(2)) dim = dim_v = dims[random() % 4] - (is_odd ? 4 : 0);
#endif
    if (one_in(2)) window = static_cast<std::int32_t>(random() % 200);
    if (one_in(4)) soft_cap = 20;
    std::normal_distribution<float> normal;
    const auto some = [&](std::int64_t count, float least) {
      std::vector<float> out(static_cast<std::size_t>(count));
      for (float& one : out) one = least + std::abs(normal(random));
      return out;
    };
    if (one_in(2)) sinks = some(heads, 0);
    if (one_in(4)) slopes = some(heads, 0.01F);
    if (kv_type == dtype::f8_e4m3) k_scales = some(heads_kv, 0.5F), v_scales = some(1, 0.5F);
    longest_ = *std::max_element(keys.begin(), keys.end());
    const std::int64_t rows = static_cast<std::int64_t>(keys.size()) * longest_;
    q_ = numbers(random, type, rows * heads * dim);
    k_ = numbers(random, kv_type, rows * heads_kv * dim);
    v_ = numbers(random, kv_type, rows * heads_kv * dim_v);
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << name_of(type) << '/' << name_of(kv_type) << " heads " << heads << '/' << heads_kv << " dim " << dim
        << '/' << dim_v << " window " << window << " cap " << soft_cap << " sinks " << !sinks.empty()
        << " slopes " << !slopes.empty();
    return out.str();
  }

  /// Runs a call in memory of its own on a device, whose results were NaN. By `entry` and query, from the
  /// first.
  template <class Operator>
  [[nodiscard]] std::vector<std::vector<row_bits>> run(const asked_rows& asked, const device& on,
                                                       dispatcher<Operator>& run) const {
    prepared<Operator> call{*this, asked, on.driver()};
    run({}, call.a);
    return call.rows();
  }

  /// The arguments of a call, for explain() alone.
  template <class Operator>
  [[nodiscard]] auto with_arguments(const asked_rows& asked, const device& on, auto&& use) const {
    const prepared<Operator> call{*this, asked, on.driver()};
    return use(call.a);
  }

  /// The largest difference of a row from the definition in double, over the row's largest number.
  [[nodiscard]] double error(std::size_t sequence, std::int32_t position, const row_bits& found) const {
    double largest = 0, off = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::vector<double> expected = defined_row(sequence, position, h);
      for (std::int64_t d = 0; d < dim_v; ++d) {
        const double value = reference::load(type, found.out.data(), h * dim_v + d);
        const double wanted = expected[static_cast<std::size_t>(d)];
        largest = std::max(largest, std::abs(wanted));
        const double difference = std::abs(value - wanted);
        off = difference <= off ? off : difference;  // a NaN stays
      }
    }
    return off / largest;
  }

 private:
  [[nodiscard]] static bytes numbers(std::mt19937& random, dtype of, std::int64_t count) {
    std::normal_distribution<double> value{0, 1};
    bytes out(static_cast<std::size_t>(count * size_of(of)));
    for (std::int64_t i = 0; i < count; ++i) reference::store(of, out.data(), i, value(random));
    return out;
  }

  /// Tokens [first, first + count) of a sequence of a tensor of `token_bytes` each.
  [[nodiscard]] const std::byte* token(const bytes& of, std::size_t sequence, std::int64_t at,
                                       std::int64_t token_bytes) const {
    return of.data() + (static_cast<std::int64_t>(sequence) * longest_ + at) * token_bytes;
  }

  [[nodiscard]] std::vector<double> defined_row(std::size_t sequence, std::int32_t position,
                                                std::int64_t h) const {
    const std::int64_t h_kv = h / (heads / heads_kv);
    const std::int64_t q_bytes = heads * dim * size_of(type), k_bytes = heads_kv * dim * size_of(kv_type);
    const double k_scale =
        k_scales.empty() ? 1 : static_cast<double>(k_scales[static_cast<std::size_t>(h_kv)]);
    const double v_scale = v_scales.empty() ? 1 : static_cast<double>(v_scales[0]);
    std::vector<double> scores;
    const std::int32_t from = window < 0 ? 0 : std::max(0, position - window);
    for (std::int32_t j = from; j <= position; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < dim; ++d) {
        score += reference::load(type, token(q_, sequence, position, q_bytes), h * dim + d) *
                 reference::load(kv_type, token(k_, sequence, j, k_bytes), h_kv * dim + d);
      }
      score *= k_scale / std::sqrt(static_cast<double>(dim));
      if (soft_cap > 0)
        score = static_cast<double>(soft_cap) * std::tanh(score / static_cast<double>(soft_cap));
      if (!slopes.empty()) score -= static_cast<double>(slopes[static_cast<std::size_t>(h)]) * (position - j);
      scores.push_back(score);
    }
    double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    if (!sinks.empty()) {
      const auto sink = static_cast<double>(sinks[static_cast<std::size_t>(h)]);
      top = std::max(top, sink);
      sum = std::exp(sink - top);
    }
    std::vector<double> out(static_cast<std::size_t>(dim_v));
    const std::int64_t v_bytes = heads_kv * dim_v * size_of(kv_type);
    for (std::size_t n = 0; n < scores.size(); ++n) {
      const double weight = std::exp(scores[n] - top);
      sum += weight;
      const std::byte* const values = token(v_, sequence, from + static_cast<std::int64_t>(n), v_bytes);
      for (std::int64_t d = 0; d < dim_v; ++d)
        out[static_cast<std::size_t>(d)] +=
            weight * v_scale * reference::load(kv_type, values, h_kv * dim_v + d);
    }
    for (double& one : out) one /= sum;
    return out;
  }

  /// A call with its tensors in memory of a device.
  template <class Operator>
  struct prepared;

  std::int64_t longest_ = 0;
  bytes q_, k_, v_;  ///< [sequences, longest, heads, dim]
};

template <class Operator>
struct attention_sequences::prepared {
  typename Operator::arguments a;

  prepared(const attention_sequences& from, const asked_rows& asked, std::shared_ptr<device_driver> driver)
      : of_{from}, driver_{std::move(driver)}, packed_{asked.in == layout::packed} {
    for (const std::size_t s : asked.sequences) {
      used_.push_back(std::max(0, from.keys[s] - asked.hidden));
      queries_.push_back(packed_ ? std::min<std::int64_t>(asked.queries, used_.back()) : asked.queries);
    }
    a.batch = static_cast<std::int64_t>(asked.sequences.size());
    a.heads = from.heads, a.heads_kv = from.heads_kv, a.head_dim = from.dim, a.head_dim_v = from.dim_v;
    a.seqlen_q = *std::max_element(queries_.begin(), queries_.end());
    a.seqlen_k = *std::max_element(used_.begin(), used_.end());
    a.dtype = from.type, a.kv_dtype = from.kv_type;
    a.scale = 1.0F / std::sqrt(static_cast<float>(from.dim));
    a.soft_cap = from.soft_cap, a.window_left = from.window;
    a.mask = operators::attention_mask::causal_bottom_right;
    a.sinks = copied(from.sinks), a.alibi_slopes = copied(from.slopes);
    a.k_scale = copied(from.k_scales), a.v_scale = copied(from.v_scales);
    a.k_scale_stride = from.k_scales.size() > 1 ? 1 : 0;
    put_queries(asked);
    put_keys(asked);
  }

  /// What was written, by entry and query.
  [[nodiscard]] std::vector<std::vector<row_bits>> rows() const {
    bytes out(out_bytes_), lse(lse_bytes_);
    buffers_[out_].download(out.data(), out.size());
    buffers_[lse_].download(lse.data(), lse.size());
    std::vector<std::vector<row_bits>> result;
    const std::int64_t row = a.heads * a.head_dim_v * size_of(a.dtype);
    std::int64_t first = 0;
    for (std::size_t b = 0; b < queries_.size(); ++b) {
      auto& rows = result.emplace_back();
      for (std::int64_t i = 0; i < queries_[b]; ++i) {
        const auto at = out.begin() + (first + i) * row;
        row_bits& one =
            rows.emplace_back(row_bits{{at, at + row}, bytes(static_cast<std::size_t>(4 * a.heads))});
        for (std::int64_t h = 0; h < a.heads; ++h) {
          const std::int64_t entry =
              packed_ ? h * a.lse_stride_head + first + i
                      : static_cast<std::int64_t>(b) * a.lse_stride_batch + h * a.lse_stride_head + i;
          std::memcpy(one.lse.data() + 4 * h, lse.data() + 4 * entry, 4);
        }
      }
      first += queries_[b];
    }
    return result;
  }

 private:
  template <class Value>
  [[nodiscard]] const Value* copied(const std::vector<Value>& values) {
    if (values.empty()) return nullptr;
    auto& buffer = buffers_.emplace_back(driver_, values.size() * sizeof(Value));
    buffer.upload(values.data(), buffer.bytes());
    return buffer.template data<Value>();
  }

  void put_queries(const asked_rows& asked) {
    const std::int64_t row = a.heads * a.head_dim * size_of(a.dtype);
    bytes q;
    std::vector<std::int32_t> starts{0};
    for (std::size_t b = 0; b < asked.sequences.size(); ++b) {
      for (std::int64_t i = used_[b] - queries_[b]; i < used_[b]; ++i) {
        const std::byte* const from =
            of_.token(of_.q_, asked.sequences[b], std::max<std::int64_t>(i, 0), row);
        q.insert(q.end(), from, from + row);
      }
      starts.push_back(static_cast<std::int32_t>(starts.back() + queries_[b]));
    }
    const std::int64_t tokens = starts.back();
    a.q = copied(q);
    a.q_stride_token = a.heads * a.head_dim, a.q_stride_head = a.head_dim;
    a.q_stride_batch = a.seqlen_q * a.q_stride_token;
    a.out_stride_token = a.heads * a.head_dim_v, a.out_stride_head = a.head_dim_v;
    a.out_stride_batch = a.seqlen_q * a.out_stride_token;
    a.lse_stride_head = packed_ ? tokens : a.seqlen_q;
    a.lse_stride_batch = a.heads * a.lse_stride_head;
    out_bytes_ = static_cast<std::size_t>(tokens * a.out_stride_token * size_of(a.dtype));
    lse_bytes_ = static_cast<std::size_t>(tokens * a.heads * 4);
    out_ = buffers_.size(), buffers_.emplace_back(driver_, out_bytes_).fill(0xFF);
    lse_ = buffers_.size(), buffers_.emplace_back(driver_, lse_bytes_).fill(0xFF);
    a.out = buffers_[out_].data();
    a.lse = buffers_[lse_].template data<float>();
    if constexpr (requires { a.cu_seqlens_q; }) {
      if (packed_) a.cu_seqlens_q = copied(starts), a.tokens_q = tokens;
    }
  }

  /// Keys and values; what no query may see is NaN, as are the pages that are nobody's.
  void put_keys(const asked_rows& asked) {
    const std::int64_t page = asked.in == layout::paged ? asked.page_size : 0;
    const std::int64_t room = a.seqlen_k + 3;  // between the sequences
    std::vector<std::int64_t> place;           // of each token, by entry
    std::vector<std::int32_t> starts{0}, table;
    const std::int64_t entries = page > 0 ? (a.seqlen_k + page - 1) / page : 0;
    std::int64_t tokens = page > 0 ? a.batch * entries * page : a.batch * room;
    std::vector<std::int32_t> order(static_cast<std::size_t>(a.batch * entries));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937{7});
    for (std::size_t b = 0; b < used_.size(); ++b) {
      const auto entry = static_cast<std::int64_t>(b);
      for (std::int64_t j = 0; j < used_[b]; ++j) {
        const auto at = static_cast<std::size_t>(entry * entries + (page > 0 ? j / page : 0));
        place.push_back(page > 0  ? order[at] * page + j % page
                        : packed_ ? starts.back() + j
                                  : entry * room + j);
      }
      starts.push_back(starts.back() + used_[b]);
    }
    for (const std::int32_t one : order) table.push_back(one);
    if (packed_) tokens = starts.back();
    const auto put = [&](const bytes& from, std::int64_t width) {
      const std::int64_t size = a.heads_kv * width * size_of(a.kv_dtype);
      bytes to(static_cast<std::size_t>(tokens * size), std::byte{0xFF});
      std::size_t next = 0;
      for (std::size_t b = 0; b < used_.size(); ++b) {
        for (std::int64_t j = 0; j < used_[b]; ++j)
          std::memcpy(to.data() + place[next++] * size, of_.token(from, asked.sequences[b], j, size),
                      static_cast<std::size_t>(size));
      }
      return copied(to);
    };
    a.k = put(of_.k_, a.head_dim), a.v = put(of_.v_, a.head_dim_v);
    a.k_stride_token = a.heads_kv * a.head_dim, a.k_stride_head = a.head_dim;
    a.v_stride_token = a.heads_kv * a.head_dim_v, a.v_stride_head = a.head_dim_v;
    a.k_stride_batch = (page > 0 ? page : room) * a.k_stride_token;
    a.v_stride_batch = (page > 0 ? page : room) * a.v_stride_token;
    if (page > 0) {
      a.page_size = page, a.block_table = copied(table), a.block_table_stride = entries;
      a.pages = a.batch * entries, a.block_table_entries = entries;
    }
    if (!packed_) a.seqused_k = copied(used_);
    if constexpr (requires { a.cu_seqlens_k; }) {
      if (packed_) a.cu_seqlens_k = copied(starts), a.tokens_k = tokens;
    }
  }

  const attention_sequences& of_;
  std::shared_ptr<device_driver> driver_;
  bool packed_;
  std::vector<std::int32_t> used_;
  std::vector<std::int64_t> queries_;
  std::vector<tune::device_buffer> buffers_;
  std::size_t out_ = 0, lse_ = 0, out_bytes_ = 0, lse_bytes_ = 0;
};

}  // namespace switchyard::test
