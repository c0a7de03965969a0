// SPDX-License-Identifier: MIT
// Attention forward on the GPU, through catalog and dispatcher: random calls over all axes, each run by every
// variant that may serve it, against the f64 reference; and NaN among keys and values in e4m3.
// SWITCHYARD_TEST_CALLS says how many calls, SWITCHYARD_TEST_SEED from which seed on.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "random_call.hpp"
#include "run_random_calls.hpp"

TEST_CASE("attention forward on the GPU: random calls by every variant", "[attention]") {
  const auto put = [](device_memory& memory, const call& given) {
    attention_on_gpu<arguments> result{memory, given};
    arguments& a = result.a;
    if (a.bias != nullptr) a.bias = memory.copy(given.bias) + given.first_bias * sy::size_of(a.dtype);
    if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(given.cu_q);
    if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(given.cu_k);
    if (a.seqused_q != nullptr) a.seqused_q = memory.copy(given.used_q);
    if (a.seqused_k != nullptr) a.seqused_k = memory.copy(given.used_k);
    if (a.dropout_state != nullptr) a.dropout_state = memory.copy(given.state);
    given.block_mask.set(a, [&](const auto& of) { return memory.copy(of); });
    if (a.q_scale != nullptr) a.q_scale = memory.copy(given.q_scales);
    if (a.k_scale != nullptr) a.k_scale = memory.copy(given.k_scales);
    if (a.v_scale != nullptr) a.v_scale = memory.copy(given.v_scales);
    return result;
  };
  run_random_calls<attention_forward, call>(300, put);
}

// The largest pattern of e4m3, of either sign, where only the last queries see it.
TEST_CASE("attention forward on the GPU: NaN in e4m3 reaches the rows that see it", "[attention]") {
  every_variant<attention_forward> variants{tested_gpu()};
  std::mt19937 random{sy::test::fresh_seed()};
  std::normal_distribution<double> normal;
  constexpr std::int64_t tokens = 300;
  constexpr std::int64_t at = 270;  // behind the others' last block of 128 keys
  constexpr std::int64_t dim = 128;
  std::size_t launches = 0;
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    for (const bool of_values : {false, true}) {
      for (const int pattern : {0x7f, 0xff}) {
        device_memory memory;
        const auto made = [&](dtype of) {
          std::vector<std::byte> out(static_cast<std::size_t>(tokens * dim * sy::size_of(of)));
          for (std::int64_t n = 0; n < tokens * dim; ++n)
            sy::reference::store(of, out.data(), n, normal(random));
          return out;
        };
        std::vector<std::byte> k = made(dtype::f8_e4m3);
        std::vector<std::byte> v = made(dtype::f8_e4m3);
        (of_values ? v : k)[static_cast<std::size_t>(at * dim + 5)] = static_cast<std::byte>(pattern);
        const sy::tensor q{memory.copy(made(type)), type, {1, tokens, 1, dim}};
        const sy::const_tensor keys{memory.copy(k), dtype::f8_e4m3, {1, tokens, 1, dim}};
        const sy::const_tensor values{memory.copy(v), dtype::f8_e4m3, {1, tokens, 1, dim}};
        arguments a =
            attention_forward::call(q, keys, values, q, {.mask = attention_mask::causal_bottom_right});
        variants.skip_without_any(a);
        const auto bytes = static_cast<std::size_t>(tokens * dim * sy::size_of(type));
        for (const std::string& id : variants.serving(a)) {
          INFO(id << ' ' << sy::name_of(type) << (of_values ? " values" : " keys") << ", pattern "
                  << pattern);
          std::byte* const out = memory.poisoned(bytes);
          wait_for_gpu();
          a.out = out;
          variants.forced(id)(sy::stream{}, a);
          wait_for_gpu();
          ++launches;
          const std::vector<std::byte> found = fetch(out, bytes);
          const auto is_nan = [&](std::int64_t row, std::int64_t d) {
            return std::isnan(sy::reference::load(type, found.data(), row * dim + d));
          };
          std::int64_t wrong = 0;
          for (std::int64_t row = 0; row < tokens; ++row) {
            for (std::int64_t d = 0; d < dim; ++d) {
              // A weight of zero times NaN is NaN: what lies in one tile with the key may be either.
              if (row >= at && (d == 5 || !of_values)) wrong += is_nan(row, d) ? 0 : 1;
              if (row < 128 || (row < at && !of_values)) wrong += is_nan(row, d) ? 1 : 0;
            }
          }
          CHECK(wrong == 0);
        }
      }
    }
  }
  std::printf("%zu launches with NaN\n", launches);
  REQUIRE((launches > 0 || !full_kernels));
}
