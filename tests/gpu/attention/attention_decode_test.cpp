// Decoding on the GPU, through catalog and dispatcher: random calls over all axes, each run by every variant
// that may serve it, against the f64 reference; and caches of more than 2^31 elements. SWITCHYARD_TEST_CALLS
// says how many calls, SWITCHYARD_TEST_SEED from which seed on.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
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

}  // namespace

TEST_CASE("decoding on the GPU: random calls by every variant", "[decode]") {
  const auto make = [](std::uint32_t seed) {
    auto result = std::make_unique<sy::test::random_decode>(seed);
    result->compute();
    return result;
  };
  const auto put = [](device_memory& memory, const sy::test::random_decode& each) {
    attention_on_gpu<arguments> result{memory, each};
    arguments& a = result.a;
    if (a.k_scale != nullptr) a.k_scale = memory.copy(each.k_scales);
    if (a.v_scale != nullptr) a.v_scale = memory.copy(each.v_scales);
    if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.used);
    return result;
  };
  run_random_calls<attention_decode>(300, make, put);
}

// A cache of NaN but for one sequence's keys, which lie behind 2^31 elements: where an offset is cut to 32
// bits, NaN is read. All keys weigh the same, so that the result is the mean of the values.
TEST_CASE("decoding on the GPU: caches of more than 2^31 elements", "[decode]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_decode> variants{sy::device{sy::cuda::open(0)}};
  std::mt19937 random{sy::test::fresh_seed()};
  std::size_t launches = 0;
  for (const bool paged : {false, true}) {
    for (const dtype kv_dtype : {dtype::f16, dtype::f8_e4m3}) {
      arguments a;
      a.dtype = dtype::f16;
      a.kv_dtype = kv_dtype;
      a.batch = 2;
      a.heads = 4;
      a.heads_kv = 1;
      a.head_dim = a.head_dim_v = 128;
      a.scale = 0.0F;                                              // every key weighs the same
      const std::int64_t cached = (std::int64_t{1} << 24) + 4096;  // tokens; 2^31 elements and some
      a.seqlen_k = 300;
      const auto size = static_cast<std::size_t>(sy::size_of(kv_dtype));
      device_memory memory;
      std::vector<std::byte> tail(static_cast<std::size_t>(a.seqlen_k * a.head_dim) * size);
      std::normal_distribution<double> normal;
      std::vector<double> mean(static_cast<std::size_t>(a.head_dim));
      for (std::int64_t n = 0; n < a.seqlen_k * a.head_dim; ++n) {
        sy::reference::store(kv_dtype, tail.data(), n, normal(random));
        mean[static_cast<std::size_t>(n % a.head_dim)] +=
            sy::reference::load(kv_dtype, tail.data(), n) / static_cast<double>(a.seqlen_k);
      }
      std::byte* const v = memory.poisoned(static_cast<std::size_t>(cached * a.head_dim) * size);
      const std::int64_t first = cached - 320;  // pages of 16 tokens
      raw::call("cuMemcpyHtoD_v2",
                reinterpret_cast<unsigned long long>(v + static_cast<std::size_t>(first * a.head_dim) * size),
                static_cast<const void*>(tail.data()), tail.size());
      std::byte* const q = memory.poisoned(4096);
      raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(q), static_cast<unsigned char>(0),
                std::size_t{4096});
      a.q = q;
      a.out = q;      // for check(); results go elsewhere
      a.k = a.v = v;  // a scale of zero makes every finite score zero
      a.q_stride_head = a.out_stride_head = a.head_dim;
      a.q_stride_token = a.q_stride_batch = a.out_stride_token = a.out_stride_batch = a.heads * a.head_dim;
      a.k_stride_head = a.v_stride_head = a.head_dim;
      a.k_stride_token = a.v_stride_token = a.head_dim;
      // The second sequence is the one at the end; the first has no keys.
      a.seqused_k = memory.copy(std::vector<std::int32_t>{0, static_cast<std::int32_t>(a.seqlen_k)});
      a.k_stride_batch = a.v_stride_batch = first * a.head_dim;
      if (paged) {
        a.page_size = 16;
        a.k_stride_batch = a.v_stride_batch = a.page_size * a.head_dim;
        a.block_table_stride = (a.seqlen_k + a.page_size - 1) / a.page_size;
        std::vector<std::int32_t> table(static_cast<std::size_t>(2 * a.block_table_stride), 1 << 30);
        for (std::int64_t p = 0; p < a.block_table_stride; ++p) {
          table[static_cast<std::size_t>(a.block_table_stride + p)] =
              static_cast<std::int32_t>(first / a.page_size + p);
        }
        a.block_table = memory.copy(table);
      }
      REQUIRE_THAT(attention_decode::check(a), no_text());
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
        for (std::int64_t n = 0; n < a.batch * a.heads * a.head_dim; ++n) {
          const double expected =
              n < a.heads * a.head_dim ? 0.0 : mean[static_cast<std::size_t>(n % a.head_dim)];
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
