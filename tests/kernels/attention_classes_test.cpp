// SPDX-License-Identifier: MIT
// The reproducible classes of attention on the CPU: a query's row has the same bits as the last of a prompt
// and alone, in a batch and without one, from attention_forward and attention_decode, by any variant of its
// class.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

using namespace switchyard;
using operators::attention_decode;
using operators::attention_forward;
using bytes = std::vector<std::byte>;

/// Sequences of keys and their last queries, with room for the longest.
struct sequences {
  std::int64_t heads, heads_kv = 2, dim;
  dtype type, kv_type;
  std::int32_t window;
  float soft_cap;
  std::vector<std::int32_t> keys;  ///< of each
  std::int64_t longest = 0;
  bytes q, k, v;  ///< [batch, longest, heads, dim]: a query for each key
  std::vector<float> sinks;

  sequences(std::mt19937& random, dtype of, dtype of_kv, std::vector<std::int32_t> lengths)
      : heads{random() % 2 == 0 ? 6 : 4},
        dim{random() % 2 == 0 ? 64 : 40},
        type{of},
        kv_type{of_kv},
        window{random() % 2 == 0 ? -1 : 77},
        soft_cap{random() % 4 == 0 ? 20.0F : 0.0F},
        keys{std::move(lengths)} {
    for (const std::int32_t one : keys) longest = std::max<std::int64_t>(longest, one);
    const std::int64_t rows = static_cast<std::int64_t>(keys.size()) * longest;
    q = normal(random, type, rows * heads * dim);
    k = normal(random, kv_type, rows * heads_kv * dim);
    v = normal(random, kv_type, rows * heads_kv * dim);
    if (random() % 2 == 0) sinks.assign(static_cast<std::size_t>(heads), 0.5F);
  }

  [[nodiscard]] static bytes normal(std::mt19937& random, dtype of, std::int64_t count) {
    std::normal_distribution<double> value{0, 1};
    bytes out(static_cast<std::size_t>(count * size_of(of)));
    for (std::int64_t i = 0; i < count; ++i) reference::store(of, out.data(), i, value(random));
    return out;
  }

  /// What both operators have, with `queries_of` for the last `queries` of sequences [first, first + count).
  template <class Operator>
  [[nodiscard]] typename Operator::arguments call(std::int64_t first, std::int64_t count,
                                                  std::int64_t queries, const bytes& queries_of,
                                                  std::byte* out) const {
    typename Operator::arguments a;
    a.q = queries_of.data();
    a.k = k.data() + first * longest * heads_kv * dim * size_of(kv_type);
    a.v = v.data() + first * longest * heads_kv * dim * size_of(kv_type);
    a.out = out;
    a.seqused_k = keys.data() + first;
    a.sinks = sinks.empty() ? nullptr : sinks.data();
    a.batch = count, a.heads = heads, a.heads_kv = heads_kv;
    a.seqlen_q = queries, a.seqlen_k = longest;
    a.head_dim = a.head_dim_v = dim;
    a.q_stride_batch = queries * heads * dim, a.q_stride_token = heads * dim, a.q_stride_head = dim;
    a.k_stride_batch = a.v_stride_batch = longest * heads_kv * dim;
    a.k_stride_token = a.v_stride_token = heads_kv * dim;
    a.k_stride_head = a.v_stride_head = dim;
    a.out_stride_batch = queries * heads * dim, a.out_stride_token = heads * dim, a.out_stride_head = dim;
    a.scale = 1.0F / std::sqrt(static_cast<float>(dim));
    a.soft_cap = soft_cap;
    a.window_left = window;
    a.dtype = type, a.kv_dtype = kv_type;
    a.mask = operators::attention_mask::causal_bottom_right;
    return a;
  }

  [[nodiscard]] std::int64_t row_bytes() const { return heads * dim * size_of(type); }

  /// The rows of the last `queries` queries by a variant of the class, forced unless it is ""; empty where
  /// that serves no such call here.
  template <class Operator>
  [[nodiscard]] bytes run(const std::string& of_class, const std::string& variant, std::int64_t first,
                          std::int64_t count, std::int64_t queries) const {
    catalog_options options;
    options.roots = {SWITCHYARD_TEST_BLOBS_FOLDER};
    options.default_roots = false;
    options.settings = {};
    if (!variant.empty()) options.settings.forced = {{std::string{Operator::name}, variant}};
    catalog files{std::move(options)};
    dispatcher<Operator> on{files, device::host(), {.reproducible = of_class}};
    bytes out(static_cast<std::size_t>(count * queries * row_bytes()), std::byte{0xA5});
    bytes last;
    for (std::int64_t b = first; b < first + count; ++b) {
      const auto end = q.begin() + (b * longest + keys[static_cast<std::size_t>(b)]) * row_bytes();
      last.insert(last.end(), end - queries * row_bytes(), end);
    }
    const auto a = call<Operator>(first, count, queries, last, out.data());
    const auto chosen = on.explain(a);
    if (chosen.variant.empty() || (!variant.empty() && chosen.variant != variant)) return {};
    on({}, a);
    return out;
  }
};

/// The last `count` rows of each of a batch's results.
[[nodiscard]] bytes last_rows(const bytes& of, std::int64_t entry_bytes, std::int64_t count_bytes,
                              std::int64_t entry) {
  const auto end = of.begin() + static_cast<std::ptrdiff_t>((entry + 1) * entry_bytes);
  return {end - static_cast<std::ptrdiff_t>(count_bytes), end};
}

}  // namespace

TEST_CASE("attention's classes give a query the same bits in a prompt, alone, and while decoding") {
  const std::uint32_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  int compared = 0;
  int decoded = 0;
  const struct {
    dtype type, kv;
  } types[] = {{dtype::f32, dtype::f32},
               {dtype::f16, dtype::f16},
               {dtype::bf16, dtype::bf16},
               {dtype::bf16, dtype::f8_e4m3}};
  for (const auto& [type, kv] : types) {
    const sequences all{random, type, kv, {700, 1, 129, 640}};
    const std::int64_t row = all.row_bytes();
    for (const std::string isa : {"avx512", "avx2", "baseline"}) {
      for (const std::string kind : {"_tile_n128", "_rows_n128", "_rows_n512"}) {
        const std::string of_class = isa + kind;
        INFO(of_class << ", type " << static_cast<int>(type) << ", window " << all.window << ", dim "
                      << all.dim);
        const std::int64_t prompt = kind == "_tile_n128" ? 640 : 2;  // rows serve few queries
        const bytes whole = all.run<attention_forward>(of_class, "", 3, 1, prompt);
        if (whole.empty()) continue;  // this processor has not the instructions, or the set not the kernel
        const auto expect = [&](const bytes& got, std::int64_t queries, const char* what) {
          INFO(what << ", " << queries << " queries");
          const bytes expected(whole.end() - static_cast<std::ptrdiff_t>(queries * row), whole.end());
          CHECK((got == expected));
          ++compared;
        };
        expect(all.run<attention_forward>(of_class, "", 3, 1, 1), 1, "forward");
        expect(all.run<attention_forward>(of_class, "", 3, 1, 2), 2, "forward");
        for (const char* const m : {"_m384", "_m192", "_m96", "_m48", "_m24", "_m16", "_m4"}) {
          const std::string variant = isa + kind.substr(0, 5) + m + kind.substr(5);
          const bytes by_one = all.run<attention_forward>(of_class, variant, 3, 1, prompt);
          if (!by_one.empty()) expect(by_one, prompt, variant.c_str());
        }
        if (type == dtype::f32) continue;  // attention_decode does not serve it
        const bytes batch = all.run<attention_decode>(of_class, "", 0, 4, 1);
        expect(last_rows(batch, row, row, 3), 1, "a batch");
        for (const std::int64_t queries : {1, 2, 16}) {
          const bytes got = all.run<attention_decode>(of_class, "", 3, 1, queries);
          REQUIRE(!got.empty());
          const std::int64_t both = std::min(queries, prompt);
          expect(last_rows(got, queries * row, both * row, 0), both, "decoding");
          ++decoded;
        }
        for (const char* const m : {"_m24", "_m12", "_m16", "_m4"}) {
          const std::string variant = isa + kind.substr(0, 5) + m + kind.substr(5);
          const bytes by_one = all.run<attention_decode>(of_class, variant, 3, 1, 1);
          if (!by_one.empty()) expect(by_one, 1, variant.c_str());
        }
      }
    }
  }
  CHECK(compared >= 4 * 8);  // "baseline" runs everywhere
  CHECK(decoded >= 3 * 3);
}

namespace {

/// Latent caches in e4m3 with rotary columns apart, in rows: 136 numbers in e4m3, two scales, 8 in
/// bf16.
struct latent_sequences {
  static constexpr std::int64_t longest = 700, heads = 20, dim_v = 136, dim = 144, row = 160;
  std::vector<std::int32_t> keys{700, 129, 640};
  bytes q, cache;

  explicit latent_sequences(std::mt19937& random) {
    const auto rows = static_cast<std::int64_t>(keys.size()) * longest;
    q = sequences::normal(random, dtype::bf16, rows * heads * dim);
    cache.resize(static_cast<std::size_t>(rows * row));
    std::normal_distribution<double> value{0, 1};
    for (std::int64_t j = 0; j < rows; ++j) {
      for (std::int64_t d = 0; d < dim_v; ++d)
        reference::store(dtype::f8_e4m3, cache.data(), j * row + d, value(random));
      for (std::int64_t g = 0; g < 2; ++g)
        reference::store(dtype::f32, cache.data(), (j * row + dim_v) / 4 + g, 0.5 + std::abs(value(random)));
      for (std::int64_t d = 0; d < dim - dim_v; ++d)
        reference::store(dtype::bf16, cache.data(), (j * row + dim_v + 8) / 2 + d, value(random));
    }
  }

  /// The last `queries` rows of sequences [first, first + count) by a variant of the class; empty where that
  /// serves no such call here.
  [[nodiscard]] bytes run(const std::string& of_class, const std::string& variant, std::int64_t first,
                          std::int64_t count, std::int64_t queries) const {
    catalog_options options;
    options.roots = {SWITCHYARD_TEST_BLOBS_FOLDER};
    options.default_roots = false;
    options.settings = {};
    if (!variant.empty()) options.settings.forced = {{"attention_decode", variant}};
    catalog files{std::move(options)};
    dispatcher<attention_decode> on{files, device::host(), {.reproducible = of_class}};
    bytes last;
    for (std::int64_t b = first; b < first + count; ++b) {
      const auto end = q.begin() + (b * longest + keys[static_cast<std::size_t>(b)]) * heads * dim * 2;
      last.insert(last.end(), end - queries * heads * dim * 2, end);
    }
    bytes out(static_cast<std::size_t>(count * queries * heads * dim_v * 2), std::byte{0xA5});
    const std::byte* const at = cache.data() + first * longest * row;
    const auto part = [&](std::int64_t byte, dtype type, std::int64_t columns) {
      const std::int64_t stride = row / size_of(type);
      return const_tensor{at + byte, type, {count, longest, columns}, {longest * stride, stride, 1}};
    };
    const const_tensor k{at, dtype::f8_e4m3, {count, longest, 1, dim_v}, {longest * row, row, dim_v, 1}};
    const auto a =
        attention_decode::call(const_tensor{last.data(), dtype::bf16, {count, queries, heads, dim}}, k, k,
                               tensor{out.data(), dtype::bf16, {count, queries, heads, dim_v}},
                               {.k_scale = part(dim_v, dtype::f32, 2),
                                .seqused_k = const_tensor{keys.data() + first, dtype::i32, {count}},
                                .k_rotary = part(dim_v + 8, dtype::bf16, dim - dim_v)});
    const auto chosen = on.explain(a);
    if (chosen.variant.empty() || (!variant.empty() && chosen.variant != variant)) return {};
    on({}, a);
    return out;
  }
};

}  // namespace

TEST_CASE("attention's classes give rows of latent caches with rotary columns apart the same bits") {
  const std::uint32_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  const latent_sequences all{random};
  constexpr std::int64_t row = latent_sequences::heads * latent_sequences::dim_v * 2;
  int compared = 0;
  for (const std::string isa : {"avx512", "avx2", "baseline"}) {
    const std::string of_class = isa + "_rows_n128";
    INFO(of_class);
    const bytes alone = all.run(of_class, "", 2, 1, 1);
    if (alone.empty()) continue;  // this processor has not the instructions, or the set not the kernel
    const auto expect = [&](const bytes& got, std::int64_t queries, std::int64_t entry, const char* what) {
      INFO(what);
      CHECK((last_rows(got, queries * row, row, entry) == alone));
      ++compared;
    };
    expect(all.run(of_class, "", 0, 3, 1), 1, 2, "a batch");
    expect(all.run(of_class, "", 2, 1, 4), 4, 0, "four queries");
    for (const char* const m : {"_m16", "_m4"})
      expect(all.run(of_class, isa + "_apart" + m + "_n128", 1, 2, 2), 2, 1, m);
  }
  CHECK(compared >= 4);  // "baseline" runs everywhere
}
