// SPDX-License-Identifier: MIT
// A stride or a scale that is not set, or a value out of its range, is an error of every call, also of a
// problem that was called before.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>

#include "catch.hpp"
#include "every_argument.hpp"
#include "test_disk.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
using sy::operators::attention_forward;
using sy::operators::rotary;

/// What a call is refused with after it was made twice with all that it needs.
template <class Operator>
class known_call {
 public:
  explicit known_call(const typename Operator::arguments& complete) : complete_{complete} {
    run_(nullptr, complete_);
    run_(nullptr, complete_);
  }

  /// Empty where it is launched.
  template <class Change>
  [[nodiscard]] std::string refusal(const Change& change) {
    auto changed = complete_;
    change(changed);
    return sy::test::refusal_by<sy::call_error>(sy::error_code::invalid_argument,
                                                [&] { run_(nullptr, changed); });
  }

 private:
  struct files_of_one : disk {
    files_of_one() { put_manifest(Operator::name, {variant_of_all<Operator>()}); }
  };

  files_of_one files_;
  sy::catalog catalog_{files_.options()};
  sy::dispatcher<Operator> run_{catalog_, sy::device::host()};
  typename Operator::arguments complete_;
};

alignas(16) std::array<std::byte, 64> memory{};

}  // namespace

TEST_CASE("attention: what is not set is named at the second call as at the first") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 64, 4, 128}};
  const sy::tensor k{memory.data(), sy::dtype::bf16, {2, 96, 2, 128}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, k, k, q)};
  CHECK(known.refusal([](arguments&) {}).empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.k_stride_token = sy::unset; }),
             has_text("k_stride_token is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.out_stride_batch = sy::unset; }),
             has_text("out_stride_batch is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.scale = sy::unset_scale; }), has_text("scale is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.v = nullptr; }), has_text("null"));
  CHECK(known.refusal([](arguments& a) { a.k_stride_batch = a.v_stride_batch = 0; })
            .empty());  // shared by both
  CHECK(known.refusal([](arguments& a) { a.scale = 0; }).empty());
  CHECK(known.refusal([](arguments&) {}).empty());
}

TEST_CASE("attention: strides of tensors that may be absent are named where these are given") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 64, 4, 128}};
  const sy::tensor lse{memory.data(), sy::dtype::f32, {2, 4, 64}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, q, q, q, {.lse = lse})};
  CHECK_THAT(known.refusal([](arguments& a) { a.lse_stride_head = sy::unset; }),
             has_text("lse_stride_head is not set"));
  CHECK(known
            .refusal([](arguments& a) {
              a.lse = nullptr;
              a.lse_stride_head = a.lse_stride_batch = sy::unset;
            })
            .empty());
}

TEST_CASE("attention: a stride of a dimension with at most one element need not be set") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {1, 64, 1, 128}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, q, q, q)};
  CHECK(known
            .refusal([](arguments& a) {
              a.q_stride_batch = a.k_stride_batch = a.v_stride_batch = a.out_stride_batch = sy::unset;
              a.q_stride_head = a.k_stride_head = a.v_stride_head = a.out_stride_head = sy::unset;
            })
            .empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.q_stride_token = sy::unset; }),
             has_text("q_stride_token is not set"));
}

TEST_CASE("rotary: what is not set is named at the second call as at the first") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 16, 4, 128}};
  const sy::tensor k{memory.data(), sy::dtype::bf16, {2, 16, 2, 128}};
  const sy::const_tensor table{memory.data(), sy::dtype::f32, {64, 64}};
  using arguments = rotary::arguments;
  known_call<rotary> known{rotary::in_place(q, k, {.cos = table, .sin = table})};
  CHECK_THAT(known.refusal([](arguments& a) { a.table_stride = sy::unset; }),
             has_text("table_stride is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.k_out_stride_head = sy::unset; }),
             has_text("k_out_stride_head is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.k = a.k_out = nullptr; }), has_text("null"));
  CHECK(known.refusal([](arguments& a) { a.q_stride_batch = a.q_out_stride_batch = 0; }).empty());
  CHECK(known.refusal([](arguments& a) { a.offset = 3; }).empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.offset = -3; }),
             has_text("offset must not be negative: it is -3"));
  CHECK(known.refusal([](arguments& a) { a.offset = 48; }).empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.offset = 49; }),
             has_text("offset is 49 and seqlen 16, but cos and sin have rows for 64 positions"));
  CHECK_THAT(known.refusal([](arguments& a) { a.table_rows = 15; }), has_text("have rows for 15 positions"));
  CHECK(known.refusal([](arguments& a) { a.table_rows = sy::unset, a.offset = 1000; }).empty());  // not known
  CHECK_THAT(known.refusal([](arguments& a) { a.table_rows = -2; }),
             has_text("table_rows must not be negative: it is -2"));
  CHECK_THAT(known.refusal([](arguments& a) { a.q = a.q_out = nullptr; }), has_text("null"));
}

TEST_CASE("rotary: keys alone are served beside queries of no heads") {
  const sy::tensor q{nullptr, sy::dtype::bf16, {2, 16, 0, 128}};
  const sy::tensor k{memory.data(), sy::dtype::bf16, {2, 16, 2, 128}};
  using arguments = rotary::arguments;
  known_call<rotary> known{rotary::in_place(q, k)};
  CHECK(known.refusal([](arguments&) {}).empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.k = a.k_out = nullptr; }), has_text("must not be null"));
}

TEST_CASE(
    "attention: values and addresses that no axis holds are checked at the second call as at the first") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 64, 4, 128}};
  const sy::tensor lse{memory.data(), sy::dtype::f32, {2, 4, 64}};
  using arguments = attention_forward::arguments;
  const auto odd = []<class T>(T*& pointer) {
    pointer = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(memory.data()) + sizeof(T) / 2);
  };
  constexpr float nan = __builtin_nanf("");
  known_call<attention_forward> known{attention_forward::call(
      q, q, q, q, {.soft_cap = 30, .window_left = 16, .lse = lse, .dropout_p = 0.1F})};
  CHECK(known.refusal([](arguments&) {}).empty());
  for (const float wrong : {-30.0F, nan, -nan, __builtin_inff()}) {
    CHECK_THAT(known.refusal([&](arguments& a) { a.soft_cap = wrong; }), has_text("soft_cap must be finite"));
    CHECK_THAT(known.refusal([&](arguments& a) { a.dropout_p = wrong; }), has_text("dropout_p must be"));
  }
  CHECK_THAT(known.refusal([](arguments& a) { a.dropout_p = 1; }), has_text("dropout_p must be at least 0"));
  CHECK_THAT(known.refusal([](arguments& a) { a.scale = __builtin_inff(); }),
             has_text("scale must be finite"));
  CHECK_THAT(known.refusal([](arguments& a) { a.scale = nan; }), has_text("scale is not set"));
  CHECK_THAT(known.refusal([&](arguments& a) { odd(a.lse); }), has_text("lse must be aligned"));
  CHECK_THAT(known.refusal([&](arguments& a) { odd(a.dropout_state); }), has_text("dropout_state must be"));

  known_call<attention_forward> plain{attention_forward::call(q, q, q, q)};
  CHECK(plain.refusal([](arguments&) {}).empty());
  CHECK(plain.refusal([](arguments& a) { a.soft_cap = a.dropout_p = -0.0F; }).empty());
  CHECK(plain.refusal([](arguments& a) { a.scale = -0.5F; }).empty());
  CHECK_THAT(plain.refusal([](arguments& a) { a.window_left = -7; }),
             has_text("window_left must be -1 or more"));
  CHECK_THAT(plain.refusal([](arguments& a) { a.window_right = -2; }),
             has_text("window_right must be -1 or more"));

  const std::array<std::int32_t, 4> lengths{};
  known_call<attention_forward> used{attention_forward::call(q, q, q, q)};
  const auto refused = [&](auto member) {
    (void)used.refusal([&](arguments& a) { a.*member = lengths.data(); });
    return used.refusal([&](arguments& a) { odd(a.*member); });
  };
  CHECK_THAT(refused(&arguments::seqused_q), has_text("seqused_q must be aligned"));
  CHECK_THAT(refused(&arguments::seqused_k), has_text("seqused_k must be aligned"));
  CHECK_THAT(refused(&arguments::cu_seqlens_q), has_text("cu_seqlens_q must be aligned"));
  CHECK_THAT(refused(&arguments::cu_seqlens_k), has_text("cu_seqlens_k must be aligned"));
}

TEST_CASE("rows: epsilon, the scale, residual_out and statistics are checked at every call") {
  using sy::operators::rms_norm;
  using sy::operators::softmax;
  const sy::tensor x{memory.data(), sy::dtype::f32, {2, 4}};
  known_call<softmax> of{softmax::call(x, x)};
  CHECK(of.refusal([](softmax::arguments&) {}).empty());
  CHECK(of.refusal([](softmax::arguments& a) { a.scale = -2; }).empty());
  CHECK_THAT(of.refusal([](softmax::arguments& a) { a.scale = __builtin_nanf(""); }),
             has_text("scale must be finite"));

  using arguments = rms_norm::arguments;
  known_call<rms_norm> norm{rms_norm::call(x, x, {.rstd = {memory.data(), sy::dtype::f32, {2}}})};
  CHECK(norm.refusal([](arguments&) {}).empty());
  CHECK(norm.refusal([](arguments& a) { a.epsilon = 0; }).empty());
  for (const float wrong : {-1e-6F, __builtin_nanf(""), __builtin_inff()}) {
    CHECK_THAT(norm.refusal([&](arguments& a) { a.epsilon = wrong; }), has_text("epsilon must be finite"));
  }
  CHECK_THAT(norm.refusal([](arguments& a) { a.residual_out = memory.data(); }),
             has_text("residual_out is given without residual"));
  CHECK_THAT(norm.refusal([](arguments& a) { a.rstd = reinterpret_cast<float*>(memory.data() + 2); }),
             has_text("rstd must be aligned to its element size, 4 bytes: its address is 2 bytes past"));
}

TEST_CASE("embedding: numbers that are not aligned are named at the second call") {
  using sy::operators::embedding;
  const sy::operators::weight_matrix table{memory.data(), sy::operators::weight_format::f32, 2, 4};
  known_call<embedding> known{
      embedding::call(table, {memory.data(), sy::dtype::i32, {2}}, {memory.data(), sy::dtype::f32, {2, 4}})};
  CHECK(known.refusal([](embedding::arguments&) {}).empty());
  CHECK_THAT(known.refusal([](embedding::arguments& a) {
    a.ids = reinterpret_cast<const std::int32_t*>(memory.data() + 1);
  }),
             has_text("ids must be aligned to its element size"));
}
