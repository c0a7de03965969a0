// SPDX-License-Identifier: MIT
// Decoding on the GPU, through catalog and dispatcher: random calls over all axes, each run by every variant
// that may serve it, against the f64 reference; and caches of more than 2^31 elements. SWITCHYARD_TEST_CALLS
// says how many calls, SWITCHYARD_TEST_SEED from which seed on.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/operators/attention_decode.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "environment.hpp"
#include "every_variant.hpp"
#include "random_decode.hpp"
#include "run_random_calls.hpp"

namespace {

using sy::dtype;
using sy::operators::attention_decode;
using arguments = attention_decode::arguments;

/// Rotary columns and scales beside keys that are on the device: a part of them, or tensors of their own.
void put_apart(device_memory& memory, const sy::test::random_decode& given, arguments& a) {
  if (!given.rotary.empty()) {
    a.k_rotary = memory.copy(given.rotary);
    return;
  }
  const auto moved = [&](const void* part) {
    return static_cast<const std::byte*>(a.k) +
           (static_cast<const std::byte*>(part) - static_cast<const std::byte*>(given.a.k));
  };
  a.k_rotary = moved(a.k_rotary);
  a.k_scale = reinterpret_cast<const float*>(moved(a.k_scale));
}

attention_on_gpu<arguments> put(device_memory& memory, const sy::test::random_decode& given) {
  attention_on_gpu<arguments> result{memory, given};
  arguments& a = result.a;
  if (a.k_rotary != nullptr) put_apart(memory, given, a);
  if (!given.k_scales.empty()) a.k_scale = memory.copy(given.k_scales);
  if (a.v_scale != nullptr) a.v_scale = memory.copy(given.v_scales);
  if (a.seqused_k != nullptr) a.seqused_k = memory.copy(given.used);
  return result;
}

}  // namespace

TEST_CASE("decoding on the GPU: random calls by every variant", "[decode]") {
  run_random_calls<attention_decode, sy::test::random_decode>(300, put);
}

TEST_CASE("decoding on the GPU: latent caches with rotary columns apart, by every variant", "[apart]") {
  run_random_calls<attention_decode, sy::test::random_decode_apart>(40, put);
}

// A cache of NaN but for one sequence's keys, which lie behind 2^31 elements: where an offset is cut to 32
// bits, NaN is read. All keys weigh the same, so that the result is the mean of the values.
TEST_CASE("decoding on the GPU: caches of more than 2^31 elements", "[decode]") {
  every_variant<attention_decode> variants{tested_gpu()};
  if (!tests_cuda()) return;  // gigabytes are for hardware
  std::mt19937 random{sy::test::fresh_seed()};
  std::size_t launches = 0;
  for (const bool paged : {false, true}) {
    for (const dtype kv_dtype : {dtype::f16, dtype::f8_e4m3}) {
      constexpr std::int64_t batch = 2;
      constexpr std::int64_t heads = 4;
      constexpr std::int64_t dim = 128;
      constexpr std::int64_t page_size = 16;
      constexpr std::int64_t cached = (std::int64_t{1} << 24) + 4096;  // tokens; 2^31 elements and some
      constexpr std::int64_t seqlen_k = 300;
      const auto size = static_cast<std::size_t>(sy::size_of(kv_dtype));
      device_memory memory;
      std::vector<std::byte> tail(static_cast<std::size_t>(seqlen_k * dim) * size);
      std::normal_distribution<double> normal;
      std::vector<double> mean(static_cast<std::size_t>(dim));
      for (std::int64_t n = 0; n < seqlen_k * dim; ++n) {
        sy::reference::store(kv_dtype, tail.data(), n, normal(random));
        mean[static_cast<std::size_t>(n % dim)] +=
            sy::reference::load(kv_dtype, tail.data(), n) / static_cast<double>(seqlen_k);
      }
      std::byte* const v = memory.poisoned(static_cast<std::size_t>(cached * dim) * size);
      constexpr std::int64_t first = cached - 20 * page_size;
      raw::call("cuMemcpyHtoD_v2",
                reinterpret_cast<unsigned long long>(v + static_cast<std::size_t>(first * dim) * size),
                static_cast<const void*>(tail.data()), tail.size());
      std::byte* const q = memory.poisoned(4096);
      raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(q), static_cast<unsigned char>(0),
                std::size_t{4096});
      const sy::tensor queries{q, dtype::f16, {batch, 1, heads, dim}};  // zeros, and out only for check()
      const attention_decode::options same_weights{.scale = 0.0F};
      // The second sequence is the one at the end; the first has no keys.
      const sy::const_tensor used{
          memory.copy(std::vector<std::int32_t>{0, static_cast<std::int32_t>(seqlen_k)}),
          dtype::i32,
          {batch}};
      arguments a;
      if (paged) {
        constexpr std::int64_t entries = (seqlen_k + page_size - 1) / page_size;
        std::vector<std::int32_t> table(static_cast<std::size_t>(batch * entries), 1 << 30);
        for (std::int64_t p = 0; p < entries; ++p)
          table[static_cast<std::size_t>(entries + p)] = static_cast<std::int32_t>(first / page_size + p);
        const sy::const_tensor pages{v, kv_dtype, {cached / page_size, page_size, 1, dim}};
        const sy::const_tensor block_table{memory.copy(table), dtype::i32, {batch, entries}};
        a = attention_decode::call(queries, sy::operators::paged{pages, pages, block_table, used, seqlen_k},
                                   queries, same_weights);
      } else {
        const sy::const_tensor keys{v, kv_dtype, {batch, seqlen_k, 1, dim}, {first * dim, dim, dim, 1}};
        auto with = same_weights;
        with.seqused_k = used;
        a = attention_decode::call(queries, keys, keys, queries, with);
      }
      REQUIRE_THAT(attention_decode::check(a), no_text());
      variants.skip_without_any(a);
      for (const std::string& id : variants.serving(a)) {
        INFO(id << (paged ? ", paged" : ""));
        std::byte* const out = memory.poisoned(4096);
        raw::call("cuCtxSynchronize");
        a.out = out;
        variants.forced(id)(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        const std::vector<std::byte> found = fetch(out, 4096);
        double error = 0;
        for (std::int64_t n = 0; n < batch * heads * dim; ++n) {
          const double expected = n < heads * dim ? 0.0 : mean[static_cast<std::size_t>(n % dim)];
          const double difference = std::abs(sy::reference::load(dtype::f16, found.data(), n) - expected);
          error = difference <= error ? error : difference;  // a NaN stays
        }
        CHECK(error < 0x1p-10);
      }
    }
  }
  std::printf("%zu launches on large caches\n", launches);
  REQUIRE(launches > 0);
}
