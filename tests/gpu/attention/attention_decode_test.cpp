// Decoding on the GPU, through catalog and dispatcher: random calls over all axes, each run by every variant
// that may serve it, against the f64 reference; and caches of more than 2^31 elements. SWITCHYARD_TEST_CALLS
// says how many calls, SWITCHYARD_TEST_SEED from which seed on.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/cuda/driver.hpp>
#include <switchyard/operators/attention_decode.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "every_variant.hpp"
#include "random_decode.hpp"

namespace {

using sy::dtype;
using sy::operators::attention_decode;
using arguments = attention_decode::arguments;

}  // namespace

TEST_CASE("decoding on the GPU: random calls by every variant", "[decode]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_decode> variants{sy::device{sy::cuda::open(0)}};
  const std::uint32_t calls = number("SWITCHYARD_TEST_CALLS", 300);
  const std::uint32_t seed = number("SWITCHYARD_TEST_SEED", std::random_device{}());
  std::size_t launches = 0;
  std::size_t failures = 0;
  constexpr std::uint32_t portion = 64;
  for (std::uint32_t from = 0; from < calls; from += portion) {
    std::vector<std::unique_ptr<sy::test::random_decode>> some(std::min(portion, calls - from));
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < some.size(); i = next++) {
          some[i] = std::make_unique<sy::test::random_decode>(seed + from + static_cast<std::uint32_t>(i));
          some[i]->compute();
        }
      });
    }
    for (std::thread& worker : workers) worker.join();

    for (std::size_t i = 0; i < some.size(); ++i) {
      const sy::test::random_decode& each = *some[i];
      REQUIRE(attention_decode::check(each.a) == "");
      device_memory memory;
      arguments a = each.a;
      const auto before = static_cast<std::size_t>(each.first);
      const auto size = static_cast<std::size_t>(sy::size_of(a.dtype));
      const auto kv_size = static_cast<std::size_t>(sy::size_of(a.kv_dtype));
      a.q = memory.copy(each.q) + before * size;
      a.k = memory.copy(each.k) + before * kv_size;
      a.v = memory.copy(each.v) + before * kv_size;
      const std::size_t out_bytes = static_cast<std::size_t>(each.out_elements) * size;
      std::byte* const out = memory.poisoned(out_bytes);
      a.out = out + before * size;
      const std::size_t lse_bytes = static_cast<std::size_t>(each.lse_elements) * sizeof(float);
      std::byte* const lse = memory.poisoned(lse_bytes);
      a.lse = each.with_lse ? reinterpret_cast<float*>(lse) : nullptr;
      if (a.k_scale != nullptr) a.k_scale = memory.copy(each.k_scales);
      if (a.v_scale != nullptr) a.v_scale = memory.copy(each.v_scales);
      if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(each.slopes);
      if (a.sinks != nullptr) a.sinks = memory.copy(each.sinks);
      if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.used);
      if (a.block_table != nullptr) a.block_table = memory.copy(each.table);

      const auto check = [&](const std::string& id, sy::dispatcher<attention_decode>& dispatcher) {
        raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(out),
                  static_cast<unsigned char>(0xFF), std::max<std::size_t>(out_bytes, 16));
        raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(lse),
                  static_cast<unsigned char>(0xFF), std::max<std::size_t>(lse_bytes, 16));
        raw::call("cuCtxSynchronize");  // the kernel's stream does not wait for the fill
        dispatcher(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        std::vector<std::byte> found(std::max(out_bytes, lse_bytes));
        raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                  reinterpret_cast<unsigned long long>(out), out_bytes);
        std::string wrong = sy::test::differences("out", each.expected, each.limit, a.dtype, found.data());
        if (wrong.empty()) {
          raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                    reinterpret_cast<unsigned long long>(lse), lse_bytes);
          wrong = sy::test::differences("lse", each.expected_lse, each.limit_lse, dtype::f32, found.data());
        }
        if (wrong.empty()) return;
        ++failures;
        UNSCOPED_INFO("seed " << seed + from + i << ": " << each.text() << ", " << id << ": " << wrong);
        if (failures < 50) CHECK(wrong.empty());
      };
      const std::vector<std::string> serving = variants.serving(a);
      INFO(each.text());
      REQUIRE(!serving.empty());
      for (const std::string& id : serving) check(id, variants.forced(id));
      check("the chosen", variants.free());
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
  REQUIRE(failures == 0);
}

// A cache of NaN but for one sequence's keys, which lie behind 2^31 elements: where an offset is cut to 32
// bits, NaN is read. All keys weigh the same, so that the result is the mean of the values.
TEST_CASE("decoding on the GPU: caches of more than 2^31 elements", "[decode]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_decode> variants{sy::device{sy::cuda::open(0)}};
  std::mt19937 random{number("SWITCHYARD_TEST_SEED", std::random_device{}())};
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
      REQUIRE(attention_decode::check(a) == "");
      for (const std::string& id : variants.serving(a)) {
        INFO(id << (paged ? ", paged" : ""));
        std::byte* const out = memory.poisoned(4096);
        raw::call("cuCtxSynchronize");
        a.out = out;
        variants.forced(id)(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        std::vector<std::byte> found(4096);
        raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                  reinterpret_cast<unsigned long long>(out), found.size());
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
