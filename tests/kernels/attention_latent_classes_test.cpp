// SPDX-License-Identifier: MIT
// The reproducible classes of attention over latent caches with rotary columns apart, on the CPU: a query's
// row has the same bits alone, in a batch, beside other queries, and by each variant of a class.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

using namespace switchyard;
using operators::attention_decode;
using bytes = std::vector<std::byte>;

/// Latent caches in e4m3 with rotary columns apart, in rows: 136 numbers in e4m3, two scales, 8 in
/// bf16.
struct latent_sequences {
  static constexpr std::int64_t longest = 700, heads = 20, dim_v = 136, dim = 144, row = 160;
  std::vector<std::int32_t> keys{700, 129, 640};
  bytes q, cache;

  explicit latent_sequences(std::mt19937& random) {
    const auto rows = static_cast<std::int64_t>(keys.size()) * longest;
    std::normal_distribution<double> value{0, 1};
    q.resize(static_cast<std::size_t>(rows * heads * dim * 2));
    for (std::int64_t i = 0; i < rows * heads * dim; ++i)
      reference::store(dtype::bf16, q.data(), i, value(random));
    cache.resize(static_cast<std::size_t>(rows * row));
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

/// The last `count` bytes of each entry of a batch's results.
[[nodiscard]] bytes last_rows(const bytes& of, std::int64_t entry_bytes, std::int64_t count,
                              std::int64_t entry) {
  const auto end = of.begin() + static_cast<std::ptrdiff_t>((entry + 1) * entry_bytes);
  return {end - static_cast<std::ptrdiff_t>(count), end};
}

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
