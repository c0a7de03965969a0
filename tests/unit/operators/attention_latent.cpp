// SPDX-License-Identifier: MIT
// Latent caches in e4m3 whose rotary columns lie apart: the arguments that follow from tensors, the problem,
// and the calls that are refused.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/problem/problem.hpp>

#include "call_tensors.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace latent_calls {

using operators::attention_decode;
using arguments = attention_decode::arguments;
using switchyard::test::at;
using switchyard::test::refusal;

/// A part of rows of 656 bytes, as FlashMLA's fp8_ds_mla has them: [entries, tokens, columns], of keys with a
/// dimension of one KV head.
const_tensor in_rows(std::int64_t first_byte, dtype type, std::int64_t entries, std::int64_t tokens,
                     std::int64_t columns) {
  const std::int64_t row = 656 / size_of(type);
  const auto* const data = static_cast<const std::byte*>(at(1, {1}).data()) + first_byte;
  if (type == dtype::f8_e4m3)
    return {data, type, {entries, tokens, 1, columns}, {tokens * row, row, columns, 1}};
  return {data, type, {entries, tokens, columns}, {tokens * row, row, 1}};
}

attention_decode::options with_rows(std::int64_t entries, std::int64_t tokens) {
  return {.k_scale = in_rows(512, dtype::f32, entries, tokens, 4),
          .k_rotary = in_rows(528, dtype::bf16, entries, tokens, 64)};
}

const tensor q = at(0, {3, 2, 16, 576});
const tensor out = at(2, {3, 2, 16, 512});

/// A dense call.
arguments legal() {
  const const_tensor k = in_rows(0, dtype::f8_e4m3, 3, 50, 512);
  return attention_decode::call(q, k, k, out, with_rows(3, 50));
}

TEST_CASE("rotary columns, scales and e4m3 columns may share rows of 656 bytes") {
  const arguments dense = legal();
  CHECK_THAT(attention_decode::check(dense), no_text());
  CHECK(dense.head_dim == 576);
  CHECK(dense.head_dim_v == 512);
  CHECK(dense.rotary_dim == 64);
  CHECK(dense.scale_groups == 4);
  CHECK(dense.k_stride_token == 656);
  CHECK(dense.k_rotary_stride_token == 328);
  CHECK(dense.k_scale_stride_token == 164);
  CHECK(dense.k_rotary_stride_batch == 50 * std::int64_t{328});
  CHECK(dense.k_scale_stride_batch == 50 * std::int64_t{164});
  CHECK(dense.k_scale != nullptr);
  CHECK(dense.alignment() == 16);
  const auto problem = make_problem<attention_decode>(dense);
  const auto axis = [&](std::string_view name) {
    return problem.at(find_axis(describe<attention_decode>(), name));
  };
  CHECK(axis("rotary_apart") == 1);
  CHECK(axis("latent") == 1);
  CHECK(axis("head_dim") == 576);

  const const_tensor pages = in_rows(0, dtype::f8_e4m3, 40, 64, 512);
  const const_tensor table = at(5, {3, 16}, dtype::i32);
  const const_tensor used = at(6, {3}, dtype::i32);
  const arguments paged =
      attention_decode::call(q, operators::paged{pages, pages, table, used}, out, with_rows(40, 64));
  CHECK_THAT(attention_decode::check(paged), no_text());
  CHECK(paged.pages == 40);
  CHECK(paged.page_size == 64);
  CHECK(paged.k_rotary_stride_batch == 64 * std::int64_t{328});
  CHECK(
      refusal([&] {
        return attention_decode::call(q, operators::paged{pages, pages, table, used}, out, with_rows(40, 32));
      }) == "attention_decode: k_rotary [40, 32, 64]: page_size is 32, but 64 in k [40, 64, 1, 512]");
}

TEST_CASE("calls whose rotary columns or scales disagree with the keys are refused by name") {
  const const_tensor k = in_rows(0, dtype::f8_e4m3, 3, 50, 512);
  const auto refused = [&](const attention_decode::options& with) {
    return refusal([&] { return attention_decode::call(q, k, k, out, with); });
  };
  auto with = with_rows(3, 50);
  with.k_scale = {};
  CHECK_THAT(refused(with), has_text("k_scale [] has 0 dimensions instead of 3"));
  with = with_rows(3, 50);
  with.k_scale = at(3, {1}, dtype::f32);
  CHECK_THAT(refused(with), has_text("k_scale [1] has 1 dimension"));
  with.k_scale = in_rows(512, dtype::f32, 3, 49, 4);
  CHECK(refused(with) == "attention_decode: k_scale [3, 49, 4]: seqlen_k is 49, but 50 in k [3, 50, 1, 512]");
  with = with_rows(3, 50);
  with.k_rotary = at(3, {3, 50, 64}, dtype::f16);
  CHECK_THAT(refused(with), has_text("k_rotary"));
  with = with_rows(3, 50);
  with.k_rotary = const_tensor{nullptr, dtype::bf16, {3, 50, 64}};
  CHECK(refused(with) == "attention_decode: k_rotary is given but its data is null: give its address");
  // Without k_rotary, scales are of KV heads, and the keys have all columns.
  with = with_rows(3, 50);
  with.k_rotary = {};
  CHECK_THAT(refused(with), has_text("head_dim is 512, but 576 in q"));
}

TEST_CASE("what rotary columns apart exclude is refused, whatever ran before") {
  const auto refused = [](auto&& change) {
    arguments call = legal();
    change(call);
    CHECK(call.alignment() == 0);  // so that it is checked, whatever ran before
    return attention_decode::check(call);
  };
  const auto* const floats = legal().k_scale;
  CHECK(refused([](arguments& a) { a.kv_dtype = a.dtype; }) ==
        "k_rotary is for keys in f8_e4m3, not in bf16");
  CHECK(refused([](arguments& a) { a.k_scale = nullptr; }) ==
        "k_scale must be given with k_rotary, for each token");
  CHECK(refused([&](arguments& a) { a.v_scale = floats; }) ==
        "v_scale and k_rotary exclude each other: k_scale holds for the values, too");
  CHECK(refused([](arguments& a) { a.heads_kv = 2; }) == "k_rotary is for one KV head, but heads_kv is 2");
  CHECK(refused([](arguments& a) { a.v = a.q; }) ==
        "v must be k with k_rotary: the values are the keys' columns in f8_e4m3");
  CHECK(refused([](arguments& a) { a.v_stride_token = 512; }) ==
        "v must be k with k_rotary: the values are the keys' columns in f8_e4m3");
  CHECK(refused([](arguments& a) { a.rotary_dim = 32; }) ==
        "head_dim must be head_dim_v + rotary_dim with k_rotary: it is 576, they are 512 and 32");
  CHECK(refused([](arguments& a) { a.head_dim = a.head_dim_v, a.rotary_dim = 0; }) ==
        "head_dim must be head_dim_v + rotary_dim with k_rotary: it is 512, they are 512 and 0");
  CHECK(refused([](arguments& a) { a.rotary_dim = INT64_MAX; }) ==
        "head_dim must be head_dim_v + rotary_dim with k_rotary: it is 576, they are 512 and "
        "9223372036854775807");
  for (const std::int64_t groups : {0, -4, 3, 5}) {
    CHECK(refused([&](arguments& a) { a.scale_groups = groups; }) ==
          "k_scale must have a column for each 128 of head_dim_v with k_rotary: scale_groups is " +
              std::to_string(groups) + ", head_dim_v 512");
  }
  CHECK(refused([](arguments& a) { a.k_rotary = static_cast<const std::byte*>(a.k_rotary) + 1; }) ==
        "k_rotary must be aligned to its element size");
  CHECK_THAT(refused([](arguments& a) {
               a.k_scale = reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(a.k_scale) + 2);
             }),
             has_text("k_scale must be aligned to its element size"));
  CHECK_THAT(refused([](arguments& a) { a.soft_cap = -1; }), has_text("soft_cap"));  // as ever
  CHECK(refused([](arguments& a) { a.lse = reinterpret_cast<float*>(a.out); }) ==
        "lse_stride_batch is not set");
}

TEST_CASE("strides of rotary columns and their scales must be set where they matter") {
  for (const auto& [stride, name] : {std::pair{&arguments::k_rotary_stride_batch, "k_rotary_stride_batch"},
                                     {&arguments::k_rotary_stride_token, "k_rotary_stride_token"},
                                     {&arguments::k_scale_stride_batch, "k_scale_stride_batch"},
                                     {&arguments::k_scale_stride_token, "k_scale_stride_token"}}) {
    arguments call = legal();
    call.*stride = unset;
    CHECK(call.alignment() == 0);
    CHECK(attention_decode::check(call) == std::string{name} + " is not set");
    call.*stride = -4096;
    CHECK(call.alignment() == 0);
    CHECK(attention_decode::check(call) == std::string{name} + " must not be negative: it is -4096");
  }
  arguments one = legal();
  one.batch = 1;
  one.k_rotary_stride_batch = one.k_scale_stride_batch = one.k_stride_batch = one.v_stride_batch = unset;
  CHECK_THAT(attention_decode::check(one), no_text());
  CHECK(one.alignment() == 16);
  arguments none = legal();  // of tensors that are not given
  none.k_rotary = nullptr, none.k_scale = nullptr;
  none.k_rotary_stride_token = none.k_scale_stride_token = unset;
  CHECK_THAT(attention_decode::check(none), no_text());
}

TEST_CASE("without their number, pages end where the farthest stride leaves all memory") {
  std::array<std::int32_t, 48> table{1000};
  const std::array<std::int32_t, 3> used{1, 0, 0};
  const const_tensor pages = in_rows(0, dtype::f8_e4m3, 2000, 64, 512);
  const operators::paged cache{pages, pages, const_tensor{table.data(), dtype::i32, {3, 16}},
                               const_tensor{used.data(), dtype::i32, {3}}};
  arguments call = attention_decode::call(q, cache, out, with_rows(2000, 64));
  CHECK_THAT(attention_decode::check_memory(call), no_text());
  call.pages = unset;
  CHECK_THAT(attention_decode::check_memory(call), no_text());
  for (const auto stride : {&arguments::k_rotary_stride_batch, &arguments::k_scale_stride_batch}) {
    arguments far = call;
    far.*stride = std::int64_t{1} << 40U;
    CHECK_THAT(attention_decode::check_memory(far), has_text("block_table[0][0] is 1000"));
  }
}

TEST_CASE("the address and the strides of rotary columns count for the alignment, those of scales do not") {
  arguments call = legal();
  call.k_rotary_stride_token = 4;
  CHECK(call.alignment() == 8);
  call = legal();
  call.k_rotary_stride_batch = 1;
  CHECK(call.alignment() == 2);
  call = legal();
  call.k_rotary = static_cast<const std::byte*>(call.k_rotary) + 4;
  CHECK(call.alignment() == 4);
  call = legal();
  call.k_stride_token = call.v_stride_token = 8;
  CHECK(call.alignment() == 8);
  call = legal();
  call.k_scale = call.k_scale + 1;
  call.k_scale_stride_token = 5;
  CHECK(call.alignment() == 16);
}

}  // namespace latent_calls
