// SPDX-License-Identifier: MIT
// Calls made from tensors: what they derive, and what they refuse at every call.
#include <catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>

#include <switchyard/error.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

#include "call_tensors.hpp"
#include "thrown.hpp"

using namespace switchyard;
using namespace switchyard::operators;

namespace calls {

using switchyard::test::at;
using switchyard::test::refusal;

/// What the operator says to a call; no field may be unset.
template <class Operator>
void check_legal(const typename Operator::arguments& call) {
  CHECK_THAT(Operator::check(call), no_text());
}

template <class Operator>
void check_field_order() {
  std::uint32_t before = 0;
  for (const field_description& field : describe<Operator>().fields) {
    INFO(Operator::name << " " << field.name);
    CHECK((field.offset > before || &field == describe<Operator>().fields.data()));
    before = field.offset;
  }
}

TEST_CASE("fields list members in order, as default_arguments needs") {
  check_field_order<attention_forward>();
  check_field_order<attention_decode>();
  check_field_order<attention_backward>();
  check_field_order<rotary>();
  check_field_order<rms_norm>();
  check_field_order<rms_norm_backward>();
  check_field_order<layer_norm>();
  check_field_order<layer_norm_backward>();
}

TEST_CASE("attention is called with dense tensors") {
  const tensor q = at(0, {2, 16, 32, 128});
  const tensor k = at(1, {2, 100, 8, 128});
  const tensor v{at(2, {1}).data(), dtype::bf16, {2, 100, 8, 64}, {80000, 800, 100, 1}};
  const tensor out = at(3, {2, 16, 32, 64});
  const tensor lse = at(4, {2, 32, 16}, dtype::f32);
  const auto call =
      attention_forward::call(q, k, v, out, {.mask = attention_mask::causal_bottom_right, .lse = lse});
  check_legal<attention_forward>(call);
  CHECK(call.q == q.data());
  CHECK(call.k == k.data());
  CHECK(call.v == v.data());
  CHECK(call.out == out.data());
  CHECK(call.lse == lse.data());
  CHECK(call.batch == 2);
  CHECK(call.heads == 32);
  CHECK(call.heads_kv == 8);
  CHECK(call.seqlen_q == 16);
  CHECK(call.seqlen_k == 100);
  CHECK(call.head_dim == 128);
  CHECK(call.head_dim_v == 64);
  CHECK(call.q_stride_batch == std::int64_t{16} * 32 * 128);
  CHECK(call.q_stride_token == std::int64_t{32} * 128);
  CHECK(call.q_stride_head == 128);
  CHECK(call.v_stride_batch == 80000);
  CHECK(call.v_stride_token == 800);
  CHECK(call.v_stride_head == 100);
  CHECK(call.lse_stride_batch == 512);
  CHECK(call.lse_stride_head == 16);
  CHECK(call.scale == Approx(1 / std::sqrt(128.0)));
  CHECK(call.dtype == dtype::bf16);
  CHECK(call.mask == attention_mask::causal_bottom_right);
  CHECK(call.window_left == -1);
  CHECK(call.block_table == nullptr);
  CHECK(attention_forward::call(q, k, v, out, {.scale = 0.0F}).scale == 0.0F);
}

TEST_CASE("attention is called with packed tensors and pages") {
  const tensor q = at(0, {50, 32, 128});
  const tensor k = at(1, {90, 8, 128});
  const tensor cu = at(2, {4}, dtype::i32);
  const tensor lse = at(4, {32, 50}, dtype::f32);
  const attention_forward::options packed{
      .lse = lse, .cu_seqlens_q = cu, .cu_seqlens_k = cu, .longest_q = 20, .longest_k = 40};
  const auto call = attention_forward::call(q, k, k, q, packed);
  CHECK(call.tokens_q == q.extent(0));
  CHECK(call.tokens_k == k.extent(0));
  check_legal<attention_forward>(call);
  CHECK(call.batch == 3);
  CHECK(call.seqlen_q == 20);
  CHECK(call.seqlen_k == 40);
  CHECK(call.q_stride_token == std::int64_t{32} * 128);
  CHECK(call.q_stride_batch == 0);
  CHECK(call.k_stride_batch == 0);
  CHECK(call.lse_stride_head == 50);
  CHECK(call.cu_seqlens_q == cu.data());
  CHECK(call.cu_seqlens_k == cu.data());

  const tensor cache = at(1, {40, 64, 8, 128});
  const tensor table = at(5, {3, 16}, dtype::i32);
  const tensor used = at(6, {3}, dtype::i32);
  const auto mixed =
      attention_forward::call(q, paged{cache, cache, table, used}, q, {.cu_seqlens_q = cu, .longest_q = 20});
  check_legal<attention_forward>(mixed);
  CHECK(mixed.page_size == 64);
  CHECK(mixed.seqlen_k == std::int64_t{16} * 64);
  CHECK(mixed.block_table_stride == 16);
  CHECK(mixed.seqused_k == used.data());
  CHECK(mixed.k_stride_batch == std::int64_t{64} * 8 * 128);

  const tensor q4 = at(0, {3, 4, 32, 128});
  const auto paged_only = attention_forward::call(q4, paged{cache, cache, table, used, 700}, q4);
  check_legal<attention_forward>(paged_only);
  CHECK(paged_only.batch == 3);
  CHECK(paged_only.seqlen_k == 700);

  CHECK(refusal([&] {
          return attention_forward::call(q4, paged{cache, cache, table, used}, q4, {.seqused_k = used});
        }) ==
        "attention_forward: the option seqused_k is given with pages, whose `used` are the keys in use");
  CHECK(refusal([&] {
          return attention_forward::call(q4, paged{cache, cache, table}, q4, {.seqused_k = used});
        }) ==
        "attention_forward: the option seqused_k is given with pages, whose `used` are the keys in use");

  CHECK_THAT(refusal([&] {
               return attention_forward::call(q, k, k, q,
                                              {.cu_seqlens_q = cu, .cu_seqlens_k = cu, .longest_q = 5});
             }),
             Catch::Matchers::Equals(
                 "attention_forward: longest_k, the length of the longest sequence, must be given with "
                 "cu_seqlens_k"));
  CHECK_THAT(refusal([&] {
               return attention_forward::call(q, k, k, q,
                                              {.cu_seqlens_q = cu, .cu_seqlens_k = cu, .longest_k = 5});
             }),
             has_text("longest_q"));
  CHECK_THAT(
      refusal([&] {
        return attention_forward::call(
            q, k, k, q,
            {.cu_seqlens_q = cu, .cu_seqlens_k = at(2, {5}, dtype::i32), .longest_q = 5, .longest_k = 5});
      }),
      Catch::Matchers::Equals(
          "attention_forward: cu_seqlens_k [5]: batch + 1 is 5, but batch is 3 in cu_seqlens_q [4]"));
}

TEST_CASE("tensors of an attention call that disagree are named") {
  const tensor q = at(0, {2, 16, 32, 128});
  const tensor k = at(1, {2, 100, 8, 128});
  const auto with = [&](const const_tensor& keys, const const_tensor& values, const tensor& out,
                        const attention_forward::options& more = {}) {
    return refusal([&] { return attention_forward::call(q, keys, values, out, more); });
  };
  CHECK_THAT(with(k, k, q), no_text());
  CHECK(with(at(1, {2, 100, 8, 64}), k, q) ==
        "attention_forward: k [2, 100, 8, 64]: head_dim is 64, but 128 in q [2, 16, 32, 128]");
  CHECK(with(k, at(1, {2, 99, 8, 128}), q) ==
        "attention_forward: v [2, 99, 8, 128]: seqlen_k is 99, but 100 in k [2, 100, 8, 128]");
  CHECK(with(k, at(1, {2, 100, 8, 64}), q) ==
        "attention_forward: v [2, 100, 8, 64]: head_dim_v is 64, but 128 in out [2, 16, 32, 128]");
  CHECK(with(k, k, at(3, {1, 16, 32, 128})) ==
        "attention_forward: out [1, 16, 32, 128]: batch is 1, but 2 in q [2, 16, 32, 128]");
  CHECK(with(at(1, {100, 8, 128}), k, q) ==
        "attention_forward: k [100, 8, 128] has 3 dimensions instead of 4: [batch, seqlen_k, heads_kv, "
        "head_dim]");
  CHECK(with(at(1, {2, 100, 8, 128}, dtype::f16), k, q) == "attention_forward: v is bf16, but k is f16");
  CHECK(with(k, k, q, {.k_scale = at(5, {4}, dtype::f32)}) ==
        "attention_forward: k_scale [4]: heads_kv is 4, but 8 in k [2, 100, 8, 128]");
  CHECK(with(const_tensor{k.data(), dtype::bf16, {2, 100, 8, 128}, {204800, 2048, 256, 2}}, k, q) ==
        "attention_forward: k [2, 100, 8, 128]: the stride of head_dim must be 1, not 2");
  CHECK(with(k, k, q, {.lse = at(4, {2, 32, 16})}) == "attention_forward: lse is bf16, but must be f32");
  CHECK(with(k, k, q, {.lse = at(4, {2, 32, 15}, dtype::f32)}) ==
        "attention_forward: lse [2, 32, 15]: seqlen_q is 15, but 16 in q [2, 16, 32, 128]");
  CHECK(with(k, k, q, {.alibi_slopes = at(4, {8}, dtype::f32)}) ==
        "attention_forward: alibi_slopes [8]: heads is 8, but 32 in q [2, 16, 32, 128]");
  CHECK(with(k, k, q, {.bias = at(5, {2, 32, 16, 99})}) ==
        "attention_forward: bias [2, 32, 16, 99]: seqlen_k is 99, but 100 in k [2, 100, 8, 128]");
}

TEST_CASE("keys and values in e4m3 of a prompt have scales for each KV head, or one for all") {
  const tensor q = at(0, {2, 16, 32, 128});
  const tensor k = at(1, {2, 100, 8, 128}, dtype::f8_e4m3);
  const tensor of_heads = at(2, {8}, dtype::f32);
  const tensor of_all = at(3, {1}, dtype::f32);
  const auto call = attention_forward::call(q, k, k, q, {.k_scale = of_heads, .v_scale = of_all});
  CHECK(call.dtype == dtype::bf16);
  CHECK(call.kv_dtype == dtype::f8_e4m3);
  CHECK(call.k_scale == of_heads.data());
  CHECK(call.k_scale_stride == 1);
  CHECK(call.v_scale == of_all.data());
  CHECK(call.v_scale_stride == 0);
  check_legal<attention_forward>(call);

  const tensor pages = at(1, {9, 64, 8, 128}, dtype::f8_e4m3);
  const paged cache{pages, pages, at(4, {2, 4}, dtype::i32), at(5, {2}, dtype::i32)};
  const auto of_pages = attention_forward::call(q, cache, q, {.k_scale = of_heads});
  CHECK(of_pages.kv_dtype == dtype::f8_e4m3);
  CHECK(of_pages.k_scale_stride == 1);
  CHECK(of_pages.v_scale == nullptr);
  check_legal<attention_forward>(of_pages);

  const tensor narrow = at(6, {2, 16, 32, 128}, dtype::f8_e4m3);
  const tensor of_queries = at(7, {32}, dtype::f32);
  const auto all = attention_forward::call(narrow, k, k, q, {.q_scale = of_queries, .k_scale = of_all});
  CHECK(all.dtype == dtype::bf16);
  CHECK(all.q_dtype == dtype::f8_e4m3);
  CHECK(all.q_scale == of_queries.data());
  CHECK(all.q_scale_stride == 1);
  CHECK(all.k_scale_stride == 0);
  check_legal<attention_forward>(all);

  const tensor tokens = at(1, {200, 8, 128}, dtype::f8_e4m3);
  const auto packed = attention_forward::call(q, tokens, tokens, q,
                                              {.cu_seqlens_k = at(4, {3}, dtype::i32), .longest_k = 100});
  CHECK(packed.kv_dtype == dtype::f8_e4m3);
  check_legal<attention_forward>(packed);
}

TEST_CASE("an extent of 1 of a bias is shared, and its stride does not matter elsewhere") {
  const tensor q = at(0, {2, 16, 4, 64});
  const auto call = attention_forward::call(q, q, q, q, {.bias = at(1, {1, 4, 16, 16})});
  CHECK(call.bias_stride_batch == 0);
  CHECK(call.bias_stride_head == 256);
  CHECK(call.bias_stride_row == 16);
  check_legal<attention_forward>(call);
  // The innermost extent is 1, so that its stride is free; everything is bound all the same.
  const tensor thin{switchyard::test::call_memory.data(), dtype::f32, {3, 1}, {7, 5}};
  const auto rows = softmax::call(thin, thin, {.scale = 2});
  CHECK(rows.rows == 3);
  CHECK(rows.columns == 1);
  CHECK(rows.x_stride_row == 7);
  CHECK(rows.scale == 2.0F);
}

TEST_CASE("a packed bias is compared with the longest sequences") {
  const tensor q = at(0, {50, 4, 64});
  const tensor cu = at(2, {4}, dtype::i32);
  const auto with = [&](const tensor& bias) {
    return refusal([&] {
      return attention_forward::call(
          q, q, q, q,
          {.bias = bias, .cu_seqlens_q = cu, .cu_seqlens_k = cu, .longest_q = 20, .longest_k = 30});
    });
  };
  CHECK_THAT(with(at(3, {3, 4, 20, 30})), no_text());
  CHECK(with(at(3, {3, 4, 20, 31})) ==
        "attention_forward: bias [3, 4, 20, 31]: seqlen_k is 31, but must be 30");
}

TEST_CASE("decode is called with a cache of its own type") {
  const tensor q = at(0, {3, 2, 32, 128});
  const tensor k = at(1, {3, 500, 8, 128}, dtype::f8_e4m3);
  const tensor scales = at(2, {8}, dtype::f32);
  const tensor one = at(3, {1}, dtype::f32);
  const auto call = attention_decode::call(q, k, k, q, {.k_scale = scales, .v_scale = one});
  check_legal<attention_decode>(call);
  CHECK(call.kv_dtype == dtype::f8_e4m3);
  CHECK(call.k_scale_stride == 1);
  CHECK(call.v_scale_stride == 0);
  CHECK(call.seqlen_q == 2);
  CHECK(call.seqlen_k == 500);
  CHECK(call.mask == attention_mask::causal_bottom_right);
  const tensor cache = at(1, {40, 64, 8, 128});
  const auto pages =
      attention_decode::call(q, paged{cache, cache, at(5, {3, 16}, dtype::i32), at(6, {3}, dtype::i32)}, q);
  check_legal<attention_decode>(pages);
  CHECK(pages.page_size == 64);
  CHECK(pages.kv_dtype == dtype::bf16);
  CHECK(refusal([&] {
          return attention_decode::call(
              q, paged{cache, cache, at(5, {4, 16}, dtype::i32), at(6, {3}, dtype::i32)}, q);
        }) == "attention_decode: block_table [4, 16]: batch is 4, but 3 in q [3, 2, 32, 128]");
  CHECK(refusal([&] {
          const tensor used = at(6, {3}, dtype::i32);
          return attention_decode::call(q, paged{cache, cache, at(5, {3, 16}, dtype::i32), used}, q,
                                        {.seqused_k = used});
        }) == "attention_decode: the option seqused_k is given with pages, whose `used` are the keys in use");
  CHECK(refusal([&] { return attention_decode::call(q, k, k, q, {.k_scale = at(2, {4}, dtype::f32)}); }) ==
        "attention_decode: k_scale [4]: heads_kv is 4, but 8 in k [3, 500, 8, 128]");
}

TEST_CASE("the backward of attention takes the forward call's tensors") {
  const tensor q = at(0, {2, 16, 4, 64});
  const tensor k = at(1, {2, 30, 2, 64});
  const tensor lse = at(2, {2, 4, 16}, dtype::f32);
  attention_backward::tensors all{
      .q = q, .k = k, .v = k, .out = q, .dout = q, .lse = lse, .dq = q, .dk = k, .dv = k};
  const tensor bias = at(3, {1, 4, 16, 30});
  const tensor dlse{lse.data(), dtype::f32, {2, 4, 16}, {100, 20, 1}};
  const auto call =
      attention_backward::call(all, {.bias = bias, .dbias = bias, .dlse = dlse, .deterministic = true});
  check_legal<attention_backward>(call);
  CHECK(call.dk_stride_token == 128);
  CHECK(call.dv_stride_batch == std::int64_t{30} * 128);
  CHECK(call.dbias_stride_batch == 0);
  CHECK(call.dlse_stride_batch == 100);
  CHECK(call.dlse_stride_head == 20);
  CHECK(call.deterministic);
  CHECK(call.heads_kv == 2);
  CHECK(refusal([&] {
          return attention_backward::call(all, {.dlse = at(2, {2, 4, 15}, dtype::f32)});
        }) == "attention_backward: dlse [2, 4, 15]: seqlen_q is 15, but 16 in q [2, 16, 4, 64]");
  all.dv = q;
  CHECK(refusal([&] { return attention_backward::call(all); }) ==
        "attention_backward: dv [2, 16, 4, 64]: seqlen_k is 16, but 30 in k [2, 30, 2, 64]");

  const tensor q3 = at(0, {40, 4, 64});
  const tensor k3 = at(1, {50, 2, 64});
  const tensor cu = at(5, {3}, dtype::i32);
  const auto packed = attention_backward::call({.q = q3,
                                                .k = k3,
                                                .v = k3,
                                                .out = q3,
                                                .dout = q3,
                                                .lse = at(2, {4, 40}, dtype::f32),
                                                .dq = q3,
                                                .dk = k3,
                                                .dv = k3},
                                               {.dlse = at(3, {4, 40}, dtype::f32),
                                                .cu_seqlens_q = cu,
                                                .cu_seqlens_k = cu,
                                                .longest_q = 30,
                                                .longest_k = 31});
  check_legal<attention_backward>(packed);
  CHECK(packed.dlse_stride_head == 40);
  CHECK(packed.dlse_stride_batch == 0);
  CHECK(packed.batch == 2);
  CHECK(packed.seqlen_q == 30);
  CHECK(packed.seqlen_k == 31);
  CHECK(packed.dq_stride_token == 256);
}

TEST_CASE("rotary is called in place, for queries alone and with tables") {
  const tensor q = at(0, {2, 7, 32, 128});
  const tensor k = at(1, {2, 7, 8, 128});
  const tensor cos = at(2, {4096, 64}, dtype::f32);
  const auto call = rotary::in_place(q, k, {.cos = cos, .sin = cos});
  check_legal<rotary>(call);
  CHECK(call.q == call.q_out);
  CHECK(call.heads_kv == 8);
  CHECK(call.rotary_dim == 128);
  CHECK(call.table_stride == 64);
  CHECK(call.table_dtype == dtype::f32);
  CHECK(call.k_stride_token == 1024);

  // So that a call with one table is checked, also where calls without tables ran before.
  for (const auto table : {&rotary::arguments::cos, &rotary::arguments::sin}) {
    auto one_table = call;
    one_table.*table = nullptr;
    CHECK(one_table.alignment() == 0);
    CHECK_THAT(rotary::check(one_table), has_text("cos and sin must be given together"));
  }

  const auto alone = rotary::in_place(q, {}, {.rotary_dim = 64, .offset = 5});
  check_legal<rotary>(alone);
  CHECK(alone.heads_kv == 0);
  CHECK(alone.k == nullptr);
  CHECK(alone.rotary_dim == 64);
  CHECK(alone.offset == 5);

  const tensor q3 = at(0, {40, 32, 128});
  const auto packed = rotary::in_place(q3, {}, {.cu_seqlens = at(3, {5}, dtype::i32), .longest = 20});
  check_legal<rotary>(packed);
  CHECK(packed.batch == 4);
  CHECK(packed.seqlen == 20);

  const tensor ids = at(4, {2, 7}, dtype::i64);
  const auto placed = rotary::in_place(q, k, {.positions = ids});
  check_legal<rotary>(placed);
  CHECK(placed.positions == ids.data());
  const tensor packed_ids = at(4, {40}, dtype::i64);
  const tensor cu = at(3, {5}, dtype::i32);
  CHECK(rotary::in_place(q3, {}, {.positions = packed_ids, .cu_seqlens = cu, .longest = 20}).positions ==
        packed_ids.data());

  const auto with_ids = [&](const const_tensor& given) {
    return refusal([&] { return rotary::in_place(q, k, {.positions = given}); });
  };
  CHECK_THAT(with_ids(ids), no_text());
  CHECK(with_ids(at(4, {2, 7}, dtype::i32)) == "rotary: positions is i32, but must be i64");
  CHECK(with_ids(at(4, {2, 8}, dtype::i64)) ==
        "rotary: positions [2, 8]: seqlen is 8, but 7 in q [2, 7, 32, 128]");
  CHECK(with_ids(at(4, {1, 7}, dtype::i64)) ==
        "rotary: positions [1, 7]: batch is 1, but 2 in q [2, 7, 32, 128]");
  CHECK(with_ids(at(4, {14}, dtype::i64)) ==
        "rotary: positions [14] has 1 dimensions instead of 2: [batch, seqlen]");
  CHECK(with_ids(const_tensor{ids.data(), dtype::i64, {2, 7}, {8, 1}}) ==
        "rotary: positions [2, 7]: the stride of batch must be 7, not 8");
  CHECK(refusal([&] {
          return rotary::in_place(q3, {},
                                  {.positions = at(4, {41}, dtype::i64), .cu_seqlens = cu, .longest = 20});
        }) == "rotary: positions [41]: tokens is 41, but 40 in q [40, 32, 128]");
  CHECK(refusal([&] { return rotary::in_place(q, k, {.cos = cos, .sin = cos, .rotary_dim = 64}); }) ==
        "rotary: rotary_dim is 64, but cos has columns for 128");
  CHECK(refusal([&] { return rotary::in_place(q3, {}, {.cu_seqlens = at(3, {5}, dtype::i32)}); }) ==
        "rotary: longest, the length of the longest sequence, must be given with cu_seqlens");
  CHECK(refusal([&] {
          return rotary::in_place(q, at(1, {2, 6, 8, 128}));
        }) == "rotary: k [2, 6, 8, 128]: seqlen is 6, but 7 in q [2, 7, 32, 128]");
  const tensor wide{cos.data(), dtype::f32, {4096, 64}, {128, 1}};
  CHECK(refusal([&] { return rotary::in_place(q, k, {.cos = cos, .sin = wide}); }) ==
        "rotary: sin [4096, 64]: the stride of positions must be 64, not 128, as in cos");
}

TEST_CASE("operators on rows are called with tensors") {
  const tensor x = at(0, {6, 64});
  const tensor gamma = at(1, {64}, dtype::f32);
  const tensor rows = at(2, {6}, dtype::f32);
  check_legal<softmax>(softmax::call(x, x));
  check_legal<softmax_backward>(softmax_backward::call(x, x, x, {.scale = 3}));
  check_legal<gated_activation>(gated_activation::call(x, x, x, {.function = gated_function::gelu}));
  check_legal<gated_activation_backward>(gated_activation_backward::call(x, x, x, x, x));

  const tensor both = at(3, {6, 128});
  const auto packed = gated_activation::call_packed(x, both);
  check_legal<gated_activation>(packed);
  CHECK(packed.packed());
  CHECK(packed.gate_stride_row == 128);
  CHECK(packed.columns == 64);
  CHECK(refusal([&] {
          return gated_activation::call_packed(x, at(3, {6, 127}));
        }) == "gated_activation: gate [6, 127]: 2 * columns is 127, but columns is 64 in out [6, 64]");
  check_legal<gated_activation_backward>(gated_activation_backward::call_packed(x, both, both));

  const auto norm = rms_norm::call(
      x, x, {.gamma = gamma, .residual = x, .residual_out = at(4, {6, 64}), .rstd = rows, .epsilon = 0.5F});
  check_legal<rms_norm>(norm);
  CHECK(norm.gamma_dtype == dtype::f32);
  CHECK(norm.epsilon == 0.5F);
  CHECK(norm.residual_stride_row == 64);
  check_legal<rms_norm>(rms_norm::call(x, x));
  check_legal<rms_norm_backward>(rms_norm_backward::call(x, x, rows, x, {.gamma = gamma}));
  const auto layer = layer_norm::call(x, x, {.beta = gamma, .mean = rows});
  check_legal<layer_norm>(layer);
  CHECK(layer.gamma_dtype == dtype::f32);
  CHECK(layer.gamma == nullptr);
  check_legal<layer_norm_backward>(
      layer_norm_backward::call(x, x, rows, rows, x, {.grad_gamma = gamma, .grad_beta = gamma}));
  const tensor mask = at(5, {2, 3, 4, 5}, dtype::f32);
  const auto dropout = attention_dropout_mask::call(mask, {.dropout_p = 0.25F});
  check_legal<attention_dropout_mask>(dropout);
  CHECK(dropout.seqlen_k == 5);

  CHECK(refusal([&] { return layer_norm::call(x, x, {.gamma = gamma, .beta = at(1, {64})}); }) ==
        "layer_norm: beta is bf16, but gamma is f32");
  CHECK(refusal([&] {
          return softmax::call(x, at(1, {6, 63}));
        }) == "softmax: out [6, 63]: columns is 63, but 64 in x [6, 64]");
  CHECK(refusal([&] { return softmax::call(x, {}); }) ==
        "softmax: out [] has 0 dimensions instead of 2: [rows, columns]");
  CHECK(refusal([&] {
          return softmax::call(x, tensor{nullptr, dtype::bf16, {6, 64}});
        }) == "softmax: out is null");
  const tensor gap{x.data(), dtype::f32, {2, 3, 4, 5}, {61, 20, 5, 1}};
  CHECK(refusal([&] { return attention_dropout_mask::call(gap); }) ==
        "attention_dropout_mask: mask [2, 3, 4, 5]: the stride of batch must be 60, not 61");
}

TEST_CASE("rotary refuses positions that its tables do not have", "[operators]") {
  namespace sy = switchyard;
  alignas(16) static float memory[64];
  const auto message = [](std::int64_t tokens, std::int64_t rows, std::int64_t offset) -> std::string {
    const sy::tensor q{memory, sy::dtype::f32, {1, tokens, 1, 4}};
    sy::operators::rotary::options with{.offset = offset};
    with.cos = with.sin = sy::const_tensor{memory, sy::dtype::f32, {rows, 2}};
    return sy::test::refusal_by<sy::call_error>([&] { return sy::operators::rotary::in_place(q, {}, with); });
  };
  CHECK(message(16, 16, 0).empty());
  CHECK(message(8, 16, 8).empty());
  CHECK(message(16, 8, 0).find("cos and sin have rows for 8 positions") != std::string::npos);
  CHECK(message(8, 16, 10).find("offset is 10 and seqlen 8") != std::string::npos);
  CHECK(message(8, 16, -3).find("offset must not be negative") != std::string::npos);
  CHECK(message(8, 16, 100'000).find("offset is 100000") != std::string::npos);
  CHECK(message(8, 16, INT64_MAX).find("positions") != std::string::npos);
}

}  // namespace calls
