// SPDX-License-Identifier: MIT
// Sizes at the end of 64 bits: calls are refused by name, and nothing overflows (see -fsanitize=undefined).
#include <catch.hpp>
#include <cstdint>
#include <string>

#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/softmax.hpp>

#include "call_tensors.hpp"

using namespace switchyard;
using namespace switchyard::operators;

namespace limits {

using switchyard::test::at;
using switchyard::test::refusal;

constexpr std::int64_t huge = INT64_MAX;

/// What a call is refused with, when it is made or when it is checked.
template <class Operator>
std::string refused(const auto& make) {
  typename Operator::arguments call{};
  const std::string wrong = refusal([&] { return call = make(); });
  if (!wrong.empty()) return wrong;
  (void)call.alignment();  // as every call computes it
  return Operator::check(call);
}

TEST_CASE("dense tensors whose strides 64 bits do not hold are refused by name", "[operators]") {
  const tensor q = at(0, {2, 1 << 28, huge / 2, 64});
  CHECK(q.stride(0) == detail::too_large);
  CHECK(q.count() < 0);
  const auto forward = [&](const tensor& keys) {
    const tensor small = at(0, {2, 8, 4, keys.extent(3)});
    return refused<attention_forward>([&] { return attention_forward::call(small, keys, keys, small); });
  };
  CHECK_THAT(refused<attention_forward>([&] { return attention_forward::call(q, q, q, q); }),
             has_text("q_stride_batch is above what 64 bits hold"));
  CHECK_THAT(forward(at(1, {2, 1 << 28, 4, std::int64_t{1} << 40})),
             has_text("k_stride_batch is above what 64 bits hold"));
  CHECK_THAT(refused<softmax>([&] {
               return softmax::call(at(0, {2, huge}, dtype::f32), at(1, {2, huge}, dtype::f32));
             }),
             no_text());
  // Twice the columns of out, modulo 2^64.
  CHECK_THAT(refused<gated_activation>([&] {
               const tensor out = at(0, {1, (std::int64_t{1} << 62) + 4});
               return gated_activation::call_packed(out, at(1, {1, INT64_MIN + 8}));
             }),
             has_text("2 * columns"));
  const std::int64_t extents[] = {huge, huge, huge};
  CHECK(const_tensor::from_spans(nullptr, dtype::f32, extents).stride(0) == detail::too_large);
}

TEST_CASE("strides at the end of 64 bits do not overflow in an alignment", "[operators]") {
  const tensor small = at(0, {2, 1, 4, 64});
  const tensor far{small.data(), dtype::bf16, {2, 1, 4, 64}, {huge - 7, huge - 7, huge - 7, 1}};
  CHECK(attention_decode::call(small, far, far, small).alignment() == 16);
  CHECK(attention_forward::call(small, far, far, small).alignment() == 16);
  matmul_quantized::arguments call{};
  call.x = call.w = call.out = small.data();
  call.rows = 2;
  call.x_stride_row = call.out_stride_row = huge - 7;
  CHECK(call.alignment() == 16);
}

TEST_CASE("sequences whose positions 32 bits do not hold are refused by name", "[operators]") {
  constexpr std::int64_t most = std::int64_t{1} << 29U;
  const tensor small = at(0, {1, 1, 1, 64});
  const auto keys = [&](std::int64_t count) { return at(1, {1, count, 1, 64}); };
  const auto forward = [&](std::int64_t count) {
    return refused<attention_forward>(
        [&] { return attention_forward::call(small, keys(count), keys(count), small); });
  };
  const auto decode = [&](std::int64_t count) {
    return refused<attention_decode>(
        [&] { return attention_decode::call(small, keys(count), keys(count), small); });
  };
  CHECK_THAT(forward(most), no_text());
  CHECK_THAT(decode(most), no_text());
  const std::string wrong = "seqlen_q is 1 and seqlen_k 536870913: a sequence has at most 536870912 tokens";
  CHECK(forward(most + 1) == wrong);
  CHECK(decode(most + 1) == wrong);
  const tensor queries = at(0, {1, most + 1, 1, 64});
  CHECK_THAT(
      refused<attention_forward>([&] { return attention_forward::call(queries, keys(4), keys(4), queries); }),
      has_text("seqlen_q is 536870913 and seqlen_k 4: a sequence has at most"));
}

TEST_CASE("weights whose rows 64 bits do not hold are refused by name", "[operators]") {
  constexpr std::int64_t columns = huge / 256 * 256;
  const auto refused_rows = refused<matmul_quantized>([&] {
    const weight_matrix w{at(2, {1}).data(), weight_format::f32, 8, columns};
    return matmul_quantized::call(at(0, {1, columns}, dtype::f32), w, at(1, {1, 8}, dtype::f32));
  });
  CHECK_THAT(refused_rows, has_text("w_row_bytes is above what 64 bits hold"));
  CHECK(row_bytes(weight_format::q8_0, 64) == 68);
}

TEST_CASE("packed heads and tables at the end of 64 bits are refused", "[operators]") {
  rotary_cache::places places{at(3, {16, huge}, dtype::f32), at(4, {16, huge}, dtype::f32),
                              at(5, {4}, dtype::i64), at(6, {4}, dtype::i64)};
  const auto call = [&](std::int64_t heads, std::int64_t heads_kv) {
    return refused<rotary_cache>([&] {
      const tensor cache = at(1, {2, 16, heads_kv, 64});
      return rotary_cache::call_packed(at(0, {4, heads, 64}), cache, cache, places, {});
    });
  };
  CHECK_THAT(call(4, 1), has_text("rotary_dim"));
  CHECK_THAT(call(4, huge), has_text("heads_kv = " + std::to_string(huge)));
  CHECK_THAT(call(4, INT64_MIN), has_text("heads_kv = " + std::to_string(INT64_MIN)));
}

}  // namespace limits
