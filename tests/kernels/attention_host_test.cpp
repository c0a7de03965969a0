// SPDX-License-Identifier: MIT
// The CPU's attention kernels against the f64 reference, for every instruction set that runs here.
//
// Every feature alone and in random company, with fresh numbers, irregular sizes and all layouts. Errors may
// be four times those of the same formula carried out plainly in float.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/reference/attention.hpp>

#include "catch.hpp"
#include "kernels/host_attention.hpp"
#include "random_attention.hpp"

namespace {

using namespace switchyard;
using operators::attention_mask;
using arguments = operators::attention_forward::arguments;

struct options {
  dtype type = dtype::f32;
  bool narrow = false;    ///< keys and values in e4m3
  bool narrow_q = false;  ///< and queries
  bool q_scales = false, k_scales = false, v_scales = false, shared_scales = false;
  std::int64_t batch = 2, heads_kv = 2, group = 2, seqlen_q = 37, seqlen_k = 53;
  std::int64_t head_dim = 64, head_dim_v = 64;
  attention_mask mask = attention_mask::none;
  std::int32_t window_left = -1, window_right = -1;
  float soft_cap = 0.0F, dropout_p = 0.0F;
  float scale = 0.0F;  ///< 0: 1 / sqrt(head_dim)
  bool dropout_in_memory = false, bias = false, bias_broadcast = false, alibi = false, sinks = false;
  bool with_lse = true, packed_q = false, packed_k = false, paged = false, seqused_q = false,
       seqused_k = false;
  bool heads_first = false, padded = false, misaligned = false;
  std::int64_t page_size = 16;
};

std::string describe(const options& o, std::uint32_t seed) {
  std::ostringstream text;
  text << "seed " << seed << ": " << test::type_name(o.type) << (o.narrow_q ? "/all" : "")
       << (o.narrow ? "/f8_e4m3" : "") << " scales " << o.q_scales << o.k_scales << o.v_scales
       << o.shared_scales << " batch " << o.batch << " heads " << o.heads_kv * o.group << '/' << o.heads_kv
       << " seqlen " << o.seqlen_q << '/' << o.seqlen_k << " dim " << o.head_dim << '/' << o.head_dim_v
       << " mask " << static_cast<int>(o.mask) << " window " << o.window_left << '/' << o.window_right
       << " cap " << o.soft_cap << " dropout " << o.dropout_p << " bias " << o.bias << o.bias_broadcast
       << " alibi " << o.alibi << " sinks " << o.sinks << " packed " << o.packed_q << o.packed_k << " paged "
       << o.paged << '/' << o.page_size << " seqused " << o.seqused_q << o.seqused_k << " heads_first "
       << o.heads_first << " padded " << o.padded << " misaligned " << o.misaligned;
  return text.str();
}

/// A call with tensors of its own.
struct problem {
  static constexpr float largest_scale = 1.5F;  ///< of q_scale, k_scale and v_scale, either sign

  arguments a;
  test::tensor q, k, v, out, bias, lse;
  std::vector<float> slopes, sinks, q_scales, k_scales, v_scales;
  std::vector<std::int32_t> cu_q, cu_k, used_q, used_k, table;
  std::vector<std::uint64_t> state;
  std::int64_t first = 0;  ///< elements before the tensors' first

  problem(const options& o, std::mt19937& random) {
    const auto below = [&](std::int64_t limit) {
      return std::uniform_int_distribution<std::int64_t>{0, limit}(random);
    };
    a.batch = o.batch;
    a.heads_kv = o.heads_kv;
    a.heads = o.heads_kv * o.group;
    a.head_dim = o.head_dim;
    a.head_dim_v = o.head_dim_v;
    a.dtype = o.type;
    const dtype kv_type = o.narrow ? dtype::f8_e4m3 : o.type;
    const dtype q_type = o.narrow_q ? dtype::f8_e4m3 : o.type;
    if (o.narrow) a.kv_dtype = kv_type;
    if (o.narrow_q) a.q_dtype = q_type;
    a.mask = o.mask;
    a.window_left = o.window_left;
    a.window_right = o.window_right;
    a.soft_cap = o.soft_cap;
    a.dropout_p = o.dropout_p;
    a.scale = o.scale != 0.0F ? o.scale : 1.0F / std::sqrt(static_cast<float>(o.head_dim));
    a.seqlen_q = o.seqlen_q;
    a.seqlen_k = o.seqlen_k;
    first = o.misaligned ? 1 : 0;

    const auto lengths = [&](std::int64_t longest, std::vector<std::int32_t>& cu) {
      cu = {0};
      for (std::int64_t b = 0; b < o.batch; ++b) {
        const std::int64_t length = b == o.batch - 1 ? longest : below(longest);
        cu.push_back(cu.back() + static_cast<std::int32_t>(length));
      }
    };
    std::int64_t tokens_q = o.seqlen_q;
    if (o.packed_q) {
      lengths(o.seqlen_q, cu_q);
      a.cu_seqlens_q = cu_q.data();
      tokens_q = cu_q.back();
    }
    std::int64_t tokens_k = o.seqlen_k;
    std::int64_t entries_k = o.batch;
    if (o.packed_k) {
      lengths(o.seqlen_k, cu_k);
      a.cu_seqlens_k = cu_k.data();
      tokens_k = cu_k.back();
    }
    const auto used = [&](std::int64_t longest, const std::vector<std::int32_t>& cu) {
      std::vector<std::int32_t> result;
      for (std::size_t b = 0; b < static_cast<std::size_t>(o.batch); ++b) {
        result.push_back(static_cast<std::int32_t>(below(cu.empty() ? longest : cu[b + 1] - cu[b])));
      }
      return result;
    };
    if (o.seqused_q) {
      used_q = used(o.seqlen_q, cu_q);
      a.seqused_q = used_q.data();
    }
    if (o.seqused_k || o.paged) {
      used_k = used(o.seqlen_k, cu_k);
      a.seqused_k = used_k.data();
    }
    if (o.paged) {
      test::random_pages pages{used_k, o.seqlen_k, o.page_size, random};
      table = std::move(pages.table);
      a.page_size = o.page_size;
      a.block_table_stride = pages.stride;
      a.block_table = table.data();
      entries_k = pages.count;
      tokens_k = o.page_size;
    }

    // Strides of [entries, tokens, heads, dim] or [entries, heads, tokens, dim]; the tensor's size.
    const auto layout = [&](bool packed, std::int64_t entries, std::int64_t tokens, std::int64_t heads,
                            std::int64_t dim, std::int64_t& batch, std::int64_t& head, std::int64_t& token) {
      const std::int64_t gap = o.padded ? 3 : 0;
      if (o.heads_first) {
        token = dim + gap;
        head = token * tokens + 2 * gap;
        batch = head * heads + gap;
      } else {
        head = dim + gap;
        token = head * heads + gap;
        batch = token * tokens + 2 * gap;
      }
      const std::int64_t size = batch * (packed ? 1 : entries) + first;
      if (packed) batch = std::int64_t{1} << 40;  // must not be used
      return size;
    };
    q = test::tensor::random(q_type,
                             layout(o.packed_q, o.batch, tokens_q, a.heads, o.head_dim, a.q_stride_batch,
                                    a.q_stride_head, a.q_stride_token),
                             random);
    k = test::tensor::random(kv_type,
                             layout(o.packed_k, entries_k, tokens_k, a.heads_kv, o.head_dim, a.k_stride_batch,
                                    a.k_stride_head, a.k_stride_token),
                             random);
    v = test::tensor::random(kv_type,
                             layout(o.packed_k, entries_k, tokens_k, a.heads_kv, o.head_dim_v,
                                    a.v_stride_batch, a.v_stride_head, a.v_stride_token),
                             random);
    out = test::tensor::poisoned(o.type, layout(o.packed_q, o.batch, tokens_q, a.heads, o.head_dim_v,
                                                a.out_stride_batch, a.out_stride_head, a.out_stride_token));
    if (o.paged) poison_pages();
    const auto at_first = [&](test::tensor& t, dtype type) {
      return static_cast<std::byte*>(t.data()) + first * size_of(type);
    };
    a.q = at_first(q, q_type);
    a.k = at_first(k, kv_type);
    a.v = at_first(v, kv_type);
    a.out = at_first(out, o.type);
    const auto scales = [&](std::vector<float>& of, std::int64_t& stride, std::int64_t heads) {
      stride = o.shared_scales ? 0 : 1;
      std::uniform_real_distribution<float> scale{-largest_scale, largest_scale};
      for (std::int64_t h = 0; h < (o.shared_scales ? 1 : heads); ++h) of.push_back(scale(random));
      return of.data();
    };
    if (o.q_scales) a.q_scale = scales(q_scales, a.q_scale_stride, a.heads);
    if (o.k_scales) a.k_scale = scales(k_scales, a.k_scale_stride, a.heads_kv);
    if (o.v_scales) a.v_scale = scales(v_scales, a.v_scale_stride, a.heads_kv);
    a.lse_stride_head = tokens_q + 1;
    a.lse_stride_batch = o.packed_q ? std::int64_t{1} << 40 : a.heads * a.lse_stride_head;
    lse = test::tensor::poisoned(dtype::f32, (o.packed_q ? 1 : o.batch) * a.heads * a.lse_stride_head);
    if (o.with_lse) a.lse = static_cast<float*>(lse.data());

    if (o.bias) {
      a.bias_stride_row = o.seqlen_k;
      a.bias_stride_head = o.bias_broadcast ? 0 : o.seqlen_q * o.seqlen_k;
      a.bias_stride_batch = o.bias_broadcast ? 0 : a.heads * a.bias_stride_head;
      const std::int64_t size = (o.bias_broadcast ? 1 : o.batch * a.heads) * o.seqlen_q * o.seqlen_k;
      bias = test::tensor::random(o.type, size, random);
      for (std::int64_t n = 0; n < size; n += 7) {
        reference::store(o.type, bias.data(), n, -std::numeric_limits<double>::infinity());
      }
      a.bias = bias.data();
    }
    std::uniform_real_distribution<float> uniform{0.0F, 1.0F};
    if (o.alibi) {
      for (std::int64_t h = 0; h < a.heads; ++h) slopes.push_back(uniform(random));
      a.alibi_slopes = slopes.data();
    }
    if (o.sinks) {
      for (std::int64_t h = 0; h < a.heads; ++h) sinks.push_back(4.0F * uniform(random) - 2.0F);
      a.sinks = sinks.data();
    }
    const std::uint64_t seed = (std::uint64_t{random()} << 32) | random();
    const std::uint64_t offset = (std::uint64_t{random()} << 32) | random();
    if (o.dropout_in_memory) {
      state = {seed, offset};
      a.dropout_state = state.data();
    } else {
      a.dropout_seed = seed;
      a.dropout_offset = offset;
    }
  }

 private:
  /// NaN in pages that are nobody's, and in what is left of a sequence's last one.
  void poison_pages() {
    const dtype type = a.type_of_kv();
    std::vector<std::int64_t> in_use(
        static_cast<std::size_t>(k.size() / std::max(a.k_stride_batch, std::int64_t{1})));
    for (std::size_t b = 0; b < used_k.size(); ++b) {
      for (std::int64_t key = 0; key < used_k[b]; key += a.page_size) {
        const auto at =
            static_cast<std::size_t>(static_cast<std::int64_t>(b) * a.block_table_stride + key / a.page_size);
        in_use[static_cast<std::size_t>(table[at])] = std::min(a.page_size, used_k[b] - key);
      }
    }
    for (std::size_t page = 0; page < in_use.size(); ++page)
      test::poison_tokens(*this, type, static_cast<std::int64_t>(page), in_use[page], a.page_size);
  }
};

/// The launches of the variants.
std::vector<test::way<arguments>> ways() {
  const auto type = [](const arguments& a) {
    return test::type_name(a.dtype) + (a.q_dtype == dtype::f8_e4m3 ? "_all_" : "_") +
           test::type_name(a.type_of_kv());
  };
  auto result = test::common_ways<arguments>("attention", {{4, 64}, {8, 256}}, 8, type);
  for (const auto& tile : {std::pair{24, 32}, {96, 64}, {48, 128}}) {
    const std::int32_t m = tile.first;
    const std::int32_t n = tile.second;
    result.push_back(
        {"tile " + std::to_string(m) + "x" + std::to_string(n),
         [=](const test::blob& blob, const arguments& a) {
           const std::int64_t w = test::round_up(a.head_dim_v, 32);
           const auto scratch =
               4 * (test::round_up(m, 12) * (a.head_dim + n + w + 8) + n * (a.head_dim + w + 4)) + 1024;
           const std::int64_t rows = a.seqlen_q * (a.heads / a.heads_kv);
           test::launch(blob.find("attention_tile_" + type(a)),
                        test::grid((rows + m - 1) / m, a.batch * a.heads_kv, 1),
                        static_cast<std::size_t>(scratch), a, m, n);
         }});
  }
  return result;
}

struct outcome {
  std::vector<double> out, lse;  ///< NaN where nothing belongs
};

template <class Real>
outcome compute(problem& p) {
  outcome result;
  result.out.assign(static_cast<std::size_t>(p.out.size()), std::numeric_limits<double>::quiet_NaN());
  result.lse.assign(static_cast<std::size_t>(p.lse.size()), std::numeric_limits<double>::quiet_NaN());
  reference::attention_forward<Real>(
      p.a, [&](std::int64_t out, std::int64_t lse, std::span<const Real> values, Real value) {
        for (std::size_t d = 0; d < values.size(); ++d) {
          result.out[static_cast<std::size_t>(p.first + out) + d] = static_cast<double>(values[d]);
        }
        if (p.a.lse != nullptr) result.lse[static_cast<std::size_t>(lse)] = static_cast<double>(value);
      });
  return result;
}

/// Largest error of a result; infinite where values are missing, too many, or of another kind.
double largest_error(const std::vector<double>& expected, const std::vector<double>& found) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) continue;
    if (expected[i] == found[i]) continue;
    const double error = std::abs(expected[i] - found[i]);
    if (!(error <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, error);
  }
  return largest;
}

void check(const options& o) {
  const std::uint32_t seed = test::fresh_seed();
  INFO(describe(o, seed));
  std::mt19937 random{seed};
  problem p{o, random};
  REQUIRE_THAT(operators::attention_forward::check(p.a), no_text());

  const outcome expected = compute<double>(p);
  outcome plain = compute<float>(p);
  for (double& value : plain.out) value = reference::rounded(o.type, value);
  double largest_lse = 1;
  for (const double value : expected.lse) {
    if (std::isfinite(value)) largest_lse = std::max(largest_lse, std::abs(value));
  }
  // Beside four times the plain error (the largest of few elements, hence lucky at times), four units of
  // float at the size of the numbers that are added up, and of the scores: where two keys weigh alike, the
  // errors of their scores move the output from one value towards the other.
  const double out_limit = 4 * largest_error(expected.out, plain.out) + 0x1p-22 * (4 + largest_lse);
  // A score adds up terms that may cancel: the product, the bias, and ALiBi's, which in a score that counts
  // is no larger than the LSE and the others together. The first two are of normal numbers: five deviations.
  double product = 5 * std::abs(static_cast<double>(p.a.scale)) * std::sqrt(static_cast<double>(o.head_dim));
  if (o.q_scales) product *= double{problem::largest_scale};
  if (o.k_scales) product *= double{problem::largest_scale};
  const double terms = largest_lse + product + (o.bias ? 5 : 0);
  const double lse_limit = 4 * largest_error(expected.lse, plain.lse) + 0x1p-22 * terms;

  for (const test::blob& blob : test::blobs("attention")) {
    for (const test::way<arguments>& run : ways()) {
      if (o.narrow_q && !run.name.starts_with("tile") && !run.name.starts_with("reference")) continue;
      INFO(blob.name() << ", " << run.name);
      p.out = test::tensor::poisoned(o.type, p.out.size());
      p.lse = test::tensor::poisoned(dtype::f32, p.lse.size());
      p.a.out = static_cast<std::byte*>(p.out.data()) + p.first * size_of(o.type);
      if (o.with_lse) p.a.lse = static_cast<float*>(p.lse.data());
      run.run(blob, p.a);

      outcome found;
      std::int64_t touched = 0;
      for (std::int64_t i = 0; i < p.out.size(); ++i) {
        found.out.push_back(p.out[i]);
        if (std::isnan(expected.out[static_cast<std::size_t>(i)]) && !p.out.untouched(i)) ++touched;
      }
      for (std::int64_t i = 0; i < p.lse.size(); ++i) {
        found.lse.push_back(p.lse[i]);
        if (std::isnan(expected.lse[static_cast<std::size_t>(i)]) && !p.lse.untouched(i)) ++touched;
      }
      CHECK(touched == 0);
      CHECK(largest_error(expected.out, found.out) <= out_limit);
      CHECK(largest_error(expected.lse, found.lse) <= lse_limit);
    }
  }
}

void check_types(options o) {
  for (const dtype type : test::element_types) {
    o.type = type;
    check(o);
  }
  o.narrow = true;
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    o.type = type;
    o.k_scales = o.v_scales = type == dtype::bf16;
    check(o);
  }
  o.narrow_q = o.q_scales = true;
  check(o);
}

/// Every feature by itself.
const std::vector<std::pair<std::string, options>> features{
    {"plain", {}},
    {"causal, top left", {.mask = attention_mask::causal_top_left}},
    {"causal, bottom right, fewer queries", {.mask = attention_mask::causal_bottom_right}},
    {"causal, bottom right, more queries: rows without keys",
     {.seqlen_q = 41, .seqlen_k = 17, .mask = attention_mask::causal_bottom_right}},
    {"window to the left", {.mask = attention_mask::causal_bottom_right, .window_left = 9}},
    {"window to both sides", {.window_left = 5, .window_right = 3}},
    {"window of one key, top left",
     {.mask = attention_mask::causal_top_left, .window_left = 0, .window_right = 0}},
    {"soft cap", {.soft_cap = 3.0F, .scale = 0.5F}},
    {"bias", {.bias = true}},
    {"bias for all heads", {.bias = true, .bias_broadcast = true}},
    {"alibi", {.alibi = true}},
    {"sinks", {.sinks = true}},
    {"sinks and rows without keys",
     {.seqlen_k = 11, .mask = attention_mask::causal_bottom_right, .sinks = true}},
    {"no lse", {.with_lse = false}},
    {"variable length", {.packed_q = true, .packed_k = true}},
    {"packed queries only", {.packed_q = true}},
    {"packed keys only", {.packed_k = true}},
    {"queries in use", {.seqused_q = true}},
    {"keys in use", {.seqused_k = true}},
    {"pages", {.paged = true}},
    {"pages of three, packed queries", {.packed_q = true, .paged = true, .page_size = 3}},
    {"dropout", {.dropout_p = 0.3F}},
    {"dropout, seed in memory", {.dropout_p = 0.6F, .dropout_in_memory = true}},
    {"heads before tokens", {.heads_first = true}},
    {"gaps, aligned to elements only", {.padded = true, .misaligned = true}},
    {"multi-head", {.group = 1}},
    {"one KV head for nine", {.heads_kv = 1, .group = 9}},
    {"decoding", {.group = 4, .seqlen_q = 1, .seqlen_k = 333, .head_dim = 128, .head_dim_v = 128}},
    {"no keys", {.seqlen_k = 0}},
    {"one key", {.seqlen_k = 1}},
    {"negative scale", {.scale = -0.2F}},
    {"scale of zero is a mean", {.scale = 1e-30F}},
};

}  // namespace

TEST_CASE("attention: each feature by itself", "[attention]") {
  for (const auto& [name, o] : features) {
    DYNAMIC_SECTION(name) {
      check_types(o);
    }
  }
}

TEST_CASE("attention: head dimensions", "[attention]") {
  options o;
  o.batch = 1;
  o.mask = attention_mask::causal_bottom_right;
  for (const auto& [dim, dim_v] : std::vector<std::pair<int, int>>{{1, 1},
                                                                   {3, 5},
                                                                   {8, 72},
                                                                   {40, 40},
                                                                   {64, 128},
                                                                   {80, 33},
                                                                   {96, 96},
                                                                   {100, 7},
                                                                   {192, 128},
                                                                   {256, 256}}) {
    o.head_dim = dim;
    o.head_dim_v = dim_v;
    check_types(o);
  }
}

TEST_CASE("attention: large scores do not overflow", "[attention]") {
  options o;
  o.scale = 40.0F;
  o.seqlen_k = 300;
  check_types(o);
}

TEST_CASE("attention: random problems", "[attention]") {
  const std::uint32_t seed = test::fresh_seed();
  INFO("choices from seed " << seed);
  std::mt19937 random{seed};
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>{0, limit - 1}(random); };
  for (int round = 0; round < 60; ++round) {
    options o;
    o.type = test::element_types[static_cast<std::size_t>(below(3))];
    o.batch = 1 + below(3);
    o.heads_kv = 1 + below(3);
    o.group = 1 + below(5);
    o.seqlen_q = below(3) == 0 ? 1 + below(4) : 1 + below(90);
    o.seqlen_k = 1 + below(below(2) == 0 ? 40 : 300);
    o.head_dim = 1 + below(140);
    o.head_dim_v = below(2) == 0 ? o.head_dim : 1 + below(140);
    o.mask = static_cast<attention_mask>(below(3));
    if (below(3) == 0) o.window_left = below(60);
    if (below(4) == 0) o.window_right = below(60);
    if (below(4) == 0) o.soft_cap = 0.5F + static_cast<float>(below(20));
    if (below(4) == 0) o.dropout_p = 0.1F * static_cast<float>(1 + below(8));
    o.dropout_in_memory = below(2) == 0;
    o.bias = below(4) == 0;
    o.bias_broadcast = below(2) == 0;
    o.alibi = below(4) == 0;
    o.sinks = below(4) == 0;
    o.with_lse = below(4) != 0;
    o.packed_q = below(3) == 0;
    o.paged = below(3) == 0;
    o.packed_k = !o.paged && below(3) == 0;
    o.page_size = 1 + below(40);
    o.seqused_q = below(4) == 0;
    o.seqused_k = below(4) == 0;
    o.heads_first = below(2) == 0;
    o.padded = below(3) == 0;
    o.misaligned = below(3) == 0;
    o.narrow = o.type != dtype::f32 && below(3) == 0;
    o.narrow_q = o.narrow && below(3) == 0;
    o.q_scales = o.narrow_q && below(4) != 0;
    o.k_scales = o.narrow && below(4) != 0;
    o.v_scales = o.narrow && below(4) != 0;
    o.shared_scales = below(3) == 0;
    check(o);
  }
}
