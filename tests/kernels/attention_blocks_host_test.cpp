// SPDX-License-Identifier: MIT
// Attention under block masks on the CPU, through catalog and dispatcher: random calls, each by every variant
// that may serve it, against the f64 reference; and what the lists' numbers may not be. Random calls of the
// backward are among those of its own test. SWITCHYARD_TEST_CALLS says how many calls,
// SWITCHYARD_TEST_SEED from which seed on.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <switchyard/device.hpp>
#include <switchyard/operators/attention_backward.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "gpu/attention/every_variant.hpp"
#include "gpu/attention/random_call.hpp"

namespace {

/// 300 queries and keys of two heads: the first block is seen in part, the second in full by itself, the
/// third by nobody.
struct three_blocks {
  std::array<std::int32_t, 3> counts{1, 0, 0};
  std::array<std::int32_t, 9> indices{};
  std::array<std::int32_t, 9> bits{};
  std::array<std::int32_t, 3> full_counts{0, 1, 0};
  std::array<std::int32_t, 9> full_indices{0, 0, 0, 1};
  std::vector<std::uint32_t> words = std::vector<std::uint32_t>(128 * 4, 0xFFU);
  std::vector<float> q = std::vector<float>(300 * 2 * 16, 0.5F);
  std::vector<float> out = std::vector<float>(q.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> lse = std::vector<float>(2 * 300, std::numeric_limits<float>::quiet_NaN());

  [[nodiscard]] arguments call() {
    const auto list = [](auto& of, std::int64_t columns) {
      return columns == 0 ? sy::const_tensor{of.data(), dtype::i32, {1, 1, 3}}
                          : sy::const_tensor{of.data(), dtype::i32, {1, 1, 3, columns}};
    };
    const sy::const_tensor in{q.data(), dtype::f32, {1, 300, 2, 16}};
    return attention_forward::call(in, in, in, {out.data(), dtype::f32, {1, 300, 2, 16}},
                                   {.lse = {lse.data(), dtype::f32, {1, 2, 300}},
                                    .kv_num_blocks = list(counts, 0),
                                    .kv_indices = list(indices, 3),
                                    .kv_bits = list(bits, 3),
                                    .full_kv_num_blocks = list(full_counts, 0),
                                    .full_kv_indices = list(full_indices, 3),
                                    .mask_bits = {words.data(), dtype::i32, {1, 128, 4}}});
  }
};

}  // namespace

TEST_CASE("attention under block masks on the CPU: random calls by every variant", "[attention]") {
  ::setenv("SWITCHYARD_TEST_BLOCK_MASKS", "100", 1);
  every_variant<attention_forward> variants{sy::device::host()};
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", 80);
  const std::uint32_t seed = sy::test::fresh_seed();
  std::size_t launches = 0;
  for (std::uint32_t n = 0; n < calls; ++n) {
    call made{seed + n};
    made.compute();
    INFO("seed " << seed + n << ": " << made.text());
    REQUIRE(made.block_mask.is_given());
    REQUIRE_THAT(attention_forward::check(made.a), no_text());
    REQUIRE_THAT(attention_forward::check_memory(made.a), no_text());
    const std::vector<std::string> serving = variants.serving(made.a);
    REQUIRE(!serving.empty());
    for (const std::string& id : serving) {
      const auto bytes = static_cast<std::size_t>(made.out_elements * sy::size_of(made.a.dtype));
      std::vector<std::byte> out(bytes, std::byte{0xFF});
      std::vector<std::byte> lse(static_cast<std::size_t>(made.lse_elements) * sizeof(float),
                                 std::byte{0xFF});
      arguments a = made.a;
      a.out = out.data() + made.first * sy::size_of(a.dtype);
      a.lse = made.with_lse ? reinterpret_cast<float*>(lse.data()) : nullptr;
      variants.forced(id)(sy::stream{}, a);
      ++launches;
      INFO(id);
      CHECK_THAT(differences("out", made.expected, made.limit, a.dtype, out.data()), no_text());
      CHECK_THAT(differences("lse", made.expected_lse, made.limit_lse, dtype::f32, lse.data()), no_text());
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
}

TEST_CASE("attention under a block mask: what is seen of equal keys, and zeros where nothing is",
          "[attention]") {
  every_variant<attention_forward> variants{sy::device::host()};
  three_blocks made;
  const arguments a = made.call();
  REQUIRE_THAT(attention_forward::check(a), no_text());
  const std::vector<std::string> serving = variants.serving(a);
  REQUIRE(serving.size() > 1);
  for (const std::string& id : serving) {
    INFO(id);
    variants.forced(id)(sy::stream{}, a);
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 300; ++i) {
        const double keys = i < 128 ? 32 : i < 256 ? 128 : 0;  // 8 of each word; all; none
        const double expected =
            keys > 0 ? 16 * 0.25 / 4 + std::log(keys) : -std::numeric_limits<double>::infinity();
        const auto lse = static_cast<double>(made.lse[h * 300 + i]);
        if (std::isinf(expected)) {
          REQUIRE(lse == expected);
        } else {
          REQUIRE(std::abs(lse - expected) < 1e-5);
        }
        REQUIRE(made.out[(i * 2 + h) * 16] == (keys > 0 ? Approx(0.5) : Approx(0.0)));
      }
    }
  }
}

TEST_CASE("attention under a block mask on the CPU: numbers that lead elsewhere are refused", "[attention]") {
  sy::catalog catalog;
  sy::dispatcher<attention_forward> dispatcher{catalog, sy::device::host()};
  const auto refusal = [&](auto&& change) {
    three_blocks made;
    change(made);
    std::string text;
    try {
      dispatcher(sy::stream{}, made.call());
    } catch (const sy::error& wrong) {
      text = wrong.what();
    }
    REQUIRE(std::isnan(made.out.front()));
    return text;
  };
  CHECK_THAT(
      refusal([](auto& m) { m.counts[2] = 4; }),
      has_text("kv_num_blocks[2] is 4: it must be at least 0 and at most 3, the number of blocks of keys"));
  CHECK_THAT(refusal([](auto& m) { m.counts[0] = -1; }), has_text("kv_num_blocks[0] is -1"));
  CHECK_THAT(
      refusal([](auto& m) { m.indices[0] = 3; }),
      has_text("kv_indices[0][0] is 3: it must be at least 0 and below 3, the number of blocks of keys"));
  CHECK_THAT(
      refusal([](auto& m) { m.bits[0] = 1; }),
      has_text("kv_bits[0][0] is 1: it must be at least 0 and below 1, the number of entries of mask_bits"));
  CHECK_THAT(refusal([](auto& m) { m.full_counts[1] = 9; }), has_text("full_kv_num_blocks[1] is 9"));
  CHECK_THAT(refusal([](auto& m) { m.full_indices[3] = -2; }), has_text("full_kv_indices[1][0] is -2"));
}
