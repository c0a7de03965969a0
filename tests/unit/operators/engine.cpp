// SPDX-License-Identifier: MIT
// Calls of the operators around attention in an engine: what they derive from tensors, and what they refuse.
#include <catch.hpp>
#include <cstddef>
#include <string>

#include <switchyard/error.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/weight_format.hpp>

#include "call_tensors.hpp"

using namespace switchyard;
using namespace switchyard::operators;

namespace engine_calls {

using switchyard::test::at;
using switchyard::test::call_memory;
using switchyard::test::refusal;

/// What the operator says to a legal call after a change.
template <class Arguments>
std::string after(Arguments arguments, std::string (*check)(const Arguments&), const auto& change) {
  change(arguments);
  return check(arguments);
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

matmul_quantized::arguments product() {
  return matmul_quantized::call(at(0, {3, 64}, dtype::f16), {call_memory.data(), weight_format::q4_1, 5, 64},
                                at(1, {3, 5}, dtype::f32), {.bias = at(2, {5}, dtype::f32)});
}

rotary_cache::arguments place() {
  rotary_cache::options with;
  with.k_scale = at(5, {2}, dtype::f32);
  return rotary_cache::call_packed(
      at(0, {3, 8, 16}, dtype::f16), at(1, {2, 4, 2, 16}, dtype::f8_e4m3),
      at(2, {2, 4, 2, 16}, dtype::f8_e4m3),
      {at(3, {9, 8}, dtype::f32), at(3, {9, 8}, dtype::f32), at(4, {3}, dtype::i64), at(4, {3}, dtype::i64)},
      with);
}

}  // namespace engine_calls

using engine_calls::after;
using engine_calls::at;
using engine_calls::has;
using engine_calls::refusal;

TEST_CASE("formats of weights have the blocks of their files") {
  STATIC_REQUIRE(row_bytes(weight_format::f32, 64) == 256);
  STATIC_REQUIRE(row_bytes(weight_format::bf16, 3) == 6);
  STATIC_REQUIRE(row_bytes(weight_format::q8_0, 64) == 68);
  STATIC_REQUIRE(row_bytes(weight_format::q4_0, 64) == 36);
  STATIC_REQUIRE(row_bytes(weight_format::q4_1, 64) == 40);
  STATIC_REQUIRE(row_bytes(weight_format::q4_k, 512) == 288);
  STATIC_REQUIRE(row_bytes(weight_format::q6_k, 512) == 420);
  STATIC_REQUIRE(row_bytes(weight_format::q5_k, 512) == 352);
  STATIC_REQUIRE(row_bytes(weight_format::iq4_nl, 64) == 36);
  STATIC_REQUIRE(row_bytes(weight_format::mxfp4, 96) == 51);
  STATIC_REQUIRE(row_bytes(weight_format::q5_0, 64) == 44);
  STATIC_REQUIRE(row_bytes(weight_format::q5_1, 64) == 48);
  STATIC_REQUIRE(is_weight_format(weight_format::q6_k));
  STATIC_REQUIRE_FALSE(is_weight_format(static_cast<weight_format>(13)));
  CHECK(weight_matrix{nullptr, weight_format::q8_0, 2, 64}.stride() == 68);
  CHECK(weight_matrix{nullptr, weight_format::q8_0, 2, 64, 100}.stride() == 100);
}

TEST_CASE("a product's arguments follow from its tensors") {
  const auto call = engine_calls::product();
  CHECK(matmul_quantized::check(call).empty());
  CHECK(call.rows == 3);
  CHECK(call.in_features == 64);
  CHECK(call.out_features == 5);
  CHECK(call.w_row_bytes == 40);
  CHECK(call.x_stride_row == 64);
  CHECK(call.out_stride_row == 5);
  CHECK(call.dtype == dtype::f16);
  CHECK(call.out_dtype == dtype::f32);
  CHECK(call.alignment() == 4);
  CHECK(call.weight_alignment() == 8);
  const weight_matrix w{engine_calls::call_memory.data(), weight_format::q4_1, 5, 64};
  CHECK(has(refusal([&] {
              return matmul_quantized::call(at(0, {3, 32}, dtype::f16), w, at(1, {3, 5}, dtype::f32));
            }),
            "w is [5, 64], but x and out ask for [5, 32]"));
  CHECK(has(refusal([&] {
              return matmul_quantized::call(at(0, {3, 64}, dtype::f16), w, at(1, {3, 6}, dtype::f32));
            }),
            "w is [5, 64], but x and out ask for [6, 64]"));
  CHECK(has(refusal([&] {
              return matmul_quantized::call(at(0, {3, 64}, dtype::f16), w, at(1, {2, 5}, dtype::f32));
            }),
            "rows"));
  CHECK(has(refusal([&] {
              return matmul_quantized::call(at(0, {3, 64}, dtype::f16), w, at(1, {3, 5}, dtype::f32),
                                            {.bias = at(2, {4}, dtype::f32)});
            }),
            "bias"));
}

TEST_CASE("a product refuses illegal calls in words") {
  const auto check = [](const auto& change) {
    return after(engine_calls::product(), &matmul_quantized::check, change);
  };
  CHECK(has(check([](auto& a) { a.rows = -1; }), "must not be negative"));
  CHECK(has(check([](auto& a) { a.out_features = -1; }), "must not be negative"));
  CHECK(has(check([](auto& a) { a.in_features = 0; }), "in_features must be positive"));
  CHECK(has(check([](auto& a) { a.in_features = 48; }), "multiple of 32, the block of q4_1, not 48"));
  CHECK(has(check([](auto& a) { a.dtype = dtype::f64; }), "dtype and out_dtype must be"));
  CHECK(has(check([](auto& a) { a.out_dtype = dtype::i8; }), "dtype and out_dtype must be"));
  CHECK(has(check([](auto& a) { a.weights = static_cast<weight_format>(13); }), "no weight_format"));
  CHECK(has(check([](auto& a) { a.x_stride_row = unset; }), "x_stride_row"));
  CHECK(has(check([](auto& a) { a.out_stride_row = unset; }), "out_stride_row"));
  CHECK(has(check([](auto& a) { a.w_row_bytes = unset; }), "w_row_bytes"));
  CHECK(has(check([](auto& a) { a.w = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.x = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.out = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.w_row_bytes = 41; }), "multiples of 2"));
  CHECK(check([](auto& a) {
          a.weights = weight_format::mxfp4;
          a.w_row_bytes = 51;
        }).empty());
  CHECK(has(check([](auto& a) { a.out = engine_calls::call_memory.data() + 2; }),
            "aligned to their element size"));
  CHECK(check([](auto& a) { a.x = engine_calls::call_memory.data() + 2; }).empty());  // aligned for f16
  CHECK(check([](auto& a) {
          a.rows = 1;  // no second row, no stride
          a.x_stride_row = a.out_stride_row = unset;
        }).empty());
}

TEST_CASE("rows of a table: arguments, and what is refused") {
  const weight_matrix table{engine_calls::call_memory.data(), weight_format::q6_k, 7, 256};
  const auto ids = at(1, {3}, dtype::i32);
  const auto call = embedding::call(table, ids, at(2, {3, 256}, dtype::bf16));
  CHECK(embedding::check(call).empty());
  CHECK(call.rows == 3);
  CHECK(call.columns == 256);
  CHECK(call.table_rows == 7);
  CHECK(call.table_row_bytes == 210);
  CHECK(has(refusal([&] {
              return embedding::call(table, ids, at(2, {3, 128}, dtype::bf16));
            }),
            "the table has 256 columns, but out has 128"));
  CHECK(has(refusal([&] { return embedding::call(table, ids, at(2, {4, 256}, dtype::bf16)); }), "ids"));
  const auto check = [&](const auto& change) { return after(call, &embedding::check, change); };
  CHECK(has(check([](auto& a) { a.rows = -1; }), "must not be negative"));
  CHECK(has(check([](auto& a) { a.table_rows = -1; }), "must not be negative"));
  embedding::arguments known = call;
  known.table_rows = -1;
  CHECK(known.alignment() == 0);  // so that every call is checked
  CHECK(has(check([](auto& a) { a.columns = 0; }), "columns must be positive"));
  CHECK(has(check([](auto& a) { a.columns = 128; }), "multiple of 256, the block of q6_k, not 128"));
  CHECK(has(check([](auto& a) { a.dtype = dtype::f64; }), "dtype must be"));
  CHECK(has(check([](auto& a) { a.weights = static_cast<weight_format>(-1); }), "no weight_format"));
  CHECK(has(check([](auto& a) { a.out_stride_row = unset; }), "out_stride_row"));
  CHECK(has(check([](auto& a) { a.table_row_bytes = unset; }), "table_row_bytes"));
  CHECK(has(check([](auto& a) { a.ids = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.table = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.out = engine_calls::call_memory.data() + 1; }),
            "aligned to its element size"));
  CHECK(has(check([](auto& a) { a.table = engine_calls::call_memory.data() + 1; }), "multiples of 2"));
}

TEST_CASE("rotary embedding into a cache: arguments from packed tensors, and what is refused") {
  const auto call = engine_calls::place();
  CHECK(rotary_cache::check(call).empty());
  CHECK(call.tokens == 3);
  CHECK(call.heads == 4);
  CHECK(call.heads_kv == 2);
  CHECK(call.rotary_dim == 16);
  CHECK(call.page_size == 4);
  CHECK(call.q_stride_token == 128);
  CHECK(call.k == static_cast<const std::byte*>(call.q) + 4 * 16 * 2);
  CHECK(call.v == static_cast<const std::byte*>(call.q) + 6 * 16 * 2);
  CHECK(call.k_cache_stride_page == 128);
  CHECK(call.k_scale_stride == 1);
  CHECK(call.v_scale_stride == 0);
  const auto check = [](const auto& change) {
    return after(engine_calls::place(), &rotary_cache::check, change);
  };
  CHECK(has(check([](auto& a) { a.tokens = -1; }), "must not be negative"));
  CHECK(has(check([](auto& a) { a.head_dim = 0; }), "head_dim must be positive"));
  CHECK(has(check([](auto& a) { a.page_size = 0; }), "page_size must be positive"));
  CHECK(has(check([](auto& a) { a.rotary_dim = 15; }), "rotary_dim must be even"));
  CHECK(has(check([](auto& a) { a.rotary_dim = 18; }), "at most head_dim"));
  CHECK(has(check([](auto& a) { a.dtype = dtype::f8_e4m3; }), "dtype must be f32, f16 or bf16"));
  CHECK(has(check([](auto& a) { a.kv_dtype = dtype::f32; }), "kv_dtype must be"));
  CHECK(has(check([](auto& a) { a.k_scale_stride = 2; }), "must be 0 or 1"));
  CHECK(has(check([](auto& a) { a.v_scale_stride = -1; }), "must be 0 or 1"));
  CHECK(has(check([](auto& a) { a.q_stride_token = unset; }), "q_stride_token"));
  CHECK(has(check([](auto& a) { a.v_cache_stride_page = unset; }), "v_cache_stride_page"));
  CHECK(has(check([](auto& a) { a.table_stride = unset; }), "table_stride"));
  CHECK(has(check([](auto& a) { a.slots = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.v_cache = nullptr; }), "must not be null"));
  CHECK(has(check([](auto& a) { a.q = engine_calls::call_memory.data() + 1; }),
            "aligned to their element size"));
  CHECK(check([](auto& a) {
          a.tokens = 1;  // no second token, no stride
          a.q_stride_token = a.k_stride_token = a.v_stride_token = unset;
        }).empty());
  CHECK(has(refusal([] {
              return rotary_cache::call_packed(at(0, {3, 3, 16}, dtype::f16),
                                               at(1, {2, 4, 2, 16}, dtype::f16),
                                               at(2, {2, 4, 2, 16}, dtype::f16), {}, {});
            }),
            "qkv must be [tokens, heads + 2 * heads_kv, head_dim]"));
  CHECK(has(refusal([] {
              return rotary_cache::call_packed(at(0, {3, 8, 16}, dtype::f16),
                                               at(1, {2, 4, 2, 32}, dtype::f16),
                                               at(2, {2, 4, 2, 32}, dtype::f16),
                                               {at(3, {9, 8}, dtype::f32), at(3, {9, 8}, dtype::f32),
                                                at(4, {3}, dtype::i64), at(4, {3}, dtype::i64)},
                                               {});
            }),
            "head_dim"));
}
