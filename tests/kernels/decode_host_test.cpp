// The CPU's decoding kernels against the f64 reference, for every instruction set that runs here: random
// calls over all axes. SWITCHYARD_TEST_CALLS says how many.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <switchyard/operators/attention_decode.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "kernels/host_blobs.hpp"
#include "random_decode.hpp"

namespace {

using namespace switchyard;
using arguments = operators::attention_decode::arguments;

struct way {
  std::string name;
  std::function<void(const test::blob&, const arguments&)> run;
};

std::int64_t up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

dim3 grid(std::int64_t x, std::int64_t y, std::int64_t z) {
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
}

std::string types(const arguments& a) {
  return test::type_name(a.dtype) + "_" + test::type_name(a.kv_dtype);
}

/// The launches of the variants, as the space file has them.
std::vector<way> ways() {
  std::vector<way> result;
  const auto tiles = [](const arguments& a, std::int64_t m) {
    return (a.seqlen_q * (a.heads / a.heads_kv) + m - 1) / m;
  };
  const auto scratch = [](const arguments& a, std::int64_t m, std::int64_t n) {
    return static_cast<std::size_t>(4 * (m * (up(a.head_dim, 32) + up(a.head_dim_v, 32) + n + 4) + 4 * n) +
                                    512);
  };
  for (const auto& tile : {std::pair{4, 128}, {16, 512}}) {
    const std::int32_t m = tile.first;
    const std::int32_t n = tile.second;
    result.push_back({"rows " + std::to_string(m) + "x" + std::to_string(n),
                      [=](const test::blob& blob, const arguments& a) {
                        test::launch(blob.find("decode_rows_" + types(a)),
                                     grid(tiles(a, m), a.batch * a.heads_kv, 1), scratch(a, m, n), a, m, n);
                      }});
  }
  for (const int splits : {2, 7}) {
    result.push_back({"split " + std::to_string(splits), [=](const test::blob& blob, const arguments& a) {
                        constexpr std::int32_t m = 16;
                        constexpr std::int32_t n = 32;
                        const auto parts = static_cast<std::size_t>(splits * a.batch * a.heads * a.seqlen_q);
                        test::exact_array<float> partial(parts * static_cast<std::size_t>(a.head_dim_v));
                        test::exact_array<float> states(parts * 2);
                        std::fill_n(partial.data(), partial.size(), std::numeric_limits<float>::quiet_NaN());
                        std::fill_n(states.data(), states.size(), std::numeric_limits<float>::quiet_NaN());
                        float* partial_pointer = partial.data();
                        float* states_pointer = states.data();
                        test::launch(blob.find("decode_split_" + types(a)),
                                     grid(splits, tiles(a, m), a.batch * a.heads_kv), scratch(a, m, n), a, m,
                                     n, partial_pointer, states_pointer);
                        test::launch(blob.find("decode_combine_" + test::type_name(a.dtype)),
                                     grid(a.seqlen_q, a.heads, a.batch),
                                     static_cast<std::size_t>(4 * up(a.head_dim_v, 32) + 64), a,
                                     std::int32_t{splits}, static_cast<const float*>(partial_pointer),
                                     static_cast<const float*>(states_pointer));
                      }});
  }
  result.push_back({"reference", [](const test::blob& blob, const arguments& a) {
                      test::launch(blob.find("decode_reference_" + types(a)),
                                   grid(a.seqlen_q, a.heads, a.batch),
                                   static_cast<std::size_t>(8 * a.head_dim_v + 64), a);
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
      for (const way& each : ways()) {
        INFO(blob.name() << ", " << each.name);
        test::tensor out = test::tensor::poisoned(call.a.dtype, call.out_elements);
        test::tensor lse = test::tensor::poisoned(dtype::f32, call.lse_elements);
        arguments a = call.a;
        a.out = static_cast<std::byte*>(out.data()) + call.first * size_of(a.dtype);
        a.lse = call.with_lse ? static_cast<float*>(lse.data()) : nullptr;
        each.run(blob, a);
        ++launches;
        CHECK_THAT(test::differences("out", call.expected, call.limit, a.dtype, out.data()), no_text());
        CHECK_THAT(test::differences("lse", call.expected_lse, call.limit_lse, dtype::f32, lse.data()),
                   no_text());
      }
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
}
