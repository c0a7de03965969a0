// SPDX-License-Identifier: MIT
// The CPU's decoding kernels against the f64 reference, for every instruction set that runs here: random
// calls over all axes. SWITCHYARD_TEST_CALLS says how many.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <switchyard/operators/attention_decode.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "kernels/host_attention.hpp"
#include "random_decode.hpp"

namespace {

using namespace switchyard;
using arguments = operators::attention_decode::arguments;

std::vector<test::way<arguments>> ways() {
  const auto type = [](const arguments& a) {
    return test::type_name(a.dtype) + "_" + (a.k_rotary != nullptr ? "apart" : test::type_name(a.kv_dtype));
  };
  auto result = test::common_ways<arguments>("decode", {{4, 128}, {16, 512}}, 16, type);
  result.push_back({"tile 12x128", [=](const test::blob& blob, const arguments& a) {
                      constexpr std::int32_t m = 12;
                      constexpr std::int32_t n = 128;
                      const std::int64_t w = test::round_up(a.head_dim_v, 32);
                      const auto scratch =
                          4 * (m * (a.head_dim + n + w + 8) + n * (a.head_dim + w + 4)) + 1024;
                      const std::int64_t rows = a.seqlen_q * (a.heads / a.heads_kv);
                      test::launch(blob.find("decode_tile_" + type(a)),
                                   test::grid((rows + m - 1) / m, a.batch * a.heads_kv, 1),
                                   static_cast<std::size_t>(scratch), a, std::int32_t{m}, std::int32_t{n});
                    }});
  return result;
}

}  // namespace

TEST_CASE("decoding on the CPU: random calls", "[decode]") {
  const std::uint32_t calls = test::number("SWITCHYARD_TEST_CALLS", 150);
  const std::uint32_t seed = test::fresh_seed();
  std::size_t launches = 0;
  for (std::uint32_t n = 0; n < calls; ++n) {
    test::random_decode call{seed + n, 1023};
    INFO("seed " << seed + n << ": " << call.text());
    REQUIRE_THAT(operators::attention_decode::check(call.a), no_text());
    call.compute();
    for (const test::blob& blob : test::blobs("decode")) {
      for (const test::way<arguments>& way : ways()) {
        if (call.a.k_rotary != nullptr && way.name.starts_with("tile")) continue;  // prompts have none
        INFO(blob.name() << ", " << way.name);
        test::tensor out = test::tensor::poisoned(call.a.dtype, call.out_elements);
        test::tensor lse = test::tensor::poisoned(dtype::f32, call.lse_elements);
        arguments a = call.a;
        a.out = static_cast<std::byte*>(out.data()) + call.first * size_of(a.dtype);
        a.lse = call.with_lse ? static_cast<float*>(lse.data()) : nullptr;
        way.run(blob, a);
        ++launches;
        CHECK_THAT(test::differences("out", call.expected, call.limit, a.dtype, out.data()), no_text());
        CHECK_THAT(test::differences("lse", call.expected_lse, call.limit_lse, dtype::f32, lse.data()),
                   no_text());
      }
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
}
