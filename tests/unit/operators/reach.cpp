// SPDX-License-Identifier: MIT
// Strides and extents that lead beyond all memory are refused by name on a CPU.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

using namespace switchyard;
using namespace switchyard::operators;

namespace far_calls {

alignas(64) std::array<std::byte, 4096> memory{};

/// A call that gives every tensor, with two of everything, strides of 16 and no sequence lengths.
template <class Operator>
typename Operator::arguments small_call() {
  typename Operator::arguments out;
  for (const field_description& field : describe<Operator>().fields) {
    std::byte* const at = reinterpret_cast<std::byte*>(&out) + field.offset;
    const bool is_stride = field.name.find("stride") != std::string_view::npos ||
                           field.name.find("row_bytes") != std::string_view::npos;
    if (field.kind == value_kind::pointer) {
      void* const address = memory.data();
      std::memcpy(at, &address, sizeof address);
    } else if (field.kind == value_kind::i64) {
      const std::int64_t value = is_stride ? 16 : 2;
      std::memcpy(at, &value, sizeof value);
    }
  }
  if constexpr (requires { out.cu_seqlens_q; }) {
    out.cu_seqlens_q = out.cu_seqlens_k = out.seqused_q = out.seqused_k = nullptr;
    out.tokens_q = out.tokens_k = 0;
  }
  if constexpr (requires { out.seqused_k; }) out.seqused_k = nullptr;
  if constexpr (requires { out.block_table; }) out.block_table = nullptr;
  if constexpr (requires { out.cu_seqlens; }) out.cu_seqlens = nullptr;
  if constexpr (requires { out.sequence_offsets; }) out.sequence_offsets = nullptr, out.positions = nullptr;
  if constexpr (requires { out.offset; }) out.offset = 0;
  return out;
}

/// Sets each integer of a call to values of its own, and says whether it is refused by name.
template <class Operator>
std::size_t check_far() {
  const auto legal = small_call<Operator>();
  INFO(Operator::name);
  REQUIRE_THAT(Operator::check_memory(legal), no_text());
  std::size_t strides = 0;
  for (const field_description& field : describe<Operator>().fields) {
    if (field.kind != value_kind::i64) continue;
    INFO(field.name);
    const auto with = [&](std::int64_t value) {
      auto call = legal;
      std::memcpy(reinterpret_cast<std::byte*>(&call) + field.offset, &value, sizeof value);
      return Operator::check_memory(call);
    };
    const bool is_stride = field.name.find("stride") != std::string_view::npos ||
                           field.name.find("row_bytes") != std::string_view::npos;
    if (!is_stride || field.name.ends_with("_scale_stride")) {
      // A number of tensors that are not given does not matter: nothing overflows.
      (void)with(INT64_MAX);
      (void)with(std::int64_t{1} << 62U);
      continue;
    }
    if (field.name == "block_table_stride") continue;  // below
    ++strides;
    CHECK_THAT(with(std::int64_t{1} << 32U), no_text());
    CHECK_THAT(with(unset), no_text());  // check() refuses it
    for (const std::int64_t far : {std::int64_t{1} << 47U, std::int64_t{1} << 62U, INT64_MAX})
      CHECK_THAT(with(far), has_text(std::string{field.name} + " " + std::to_string(far) +
                                     ": no memory reaches as far"));
  }
  return strides;
}

TEST_CASE("a stride that leads beyond all memory is named", "[operators]") {
  CHECK(check_far<attention_forward>() == 17);
  CHECK(check_far<attention_decode>() == 18);
  CHECK(check_far<attention_backward>() == 34);
  CHECK(check_far<attention_dropout_mask>() == 0);
  CHECK(check_far<embedding>() == 2);
  CHECK(check_far<matmul_quantized>() == 3);
  CHECK(check_far<rotary>() == 13);
  CHECK(check_far<rotary_cache>() == 13);
  CHECK(check_far<softmax>() == 2);
  CHECK(check_far<softmax_backward>() == 3);
  CHECK(check_far<gated_activation>() == 3);
  CHECK(check_far<gated_activation_backward>() == 5);
  CHECK(check_far<rms_norm>() == 4);
  CHECK(check_far<rms_norm_backward>() == 4);
  CHECK(check_far<layer_norm>() == 4);
  CHECK(check_far<layer_norm_backward>() == 4);
}

TEST_CASE("strides of what a call does not use may be anything", "[operators]") {
  constexpr std::int64_t far = std::int64_t{1} << 62U;
  auto rows = small_call<rms_norm>();
  rows.residual = nullptr;
  rows.residual_stride_row = far;
  CHECK_THAT(rms_norm::check_memory(rows), no_text());
  rows.rows = 1;
  rows.x_stride_row = far;
  CHECK_THAT(rms_norm::check_memory(rows), no_text());
  auto forward = small_call<attention_forward>();
  forward.bias = nullptr;
  forward.lse = nullptr;
  forward.bias_stride_batch = forward.lse_stride_head = far;
  CHECK_THAT(attention_forward::check_memory(forward), no_text());
  forward.heads_kv = 1;
  forward.k_stride_head = far;
  CHECK_THAT(attention_forward::check_memory(forward), no_text());
}

TEST_CASE("extents that no memory holds are named", "[operators]") {
  constexpr std::int64_t many = std::int64_t{1} << 62U;
  auto rows = small_call<softmax>();
  rows.columns = many;
  CHECK(softmax::check_memory(rows) == "columns is 4611686018427387904: no memory reaches as far");
  rows.columns = 2;
  rows.rows = many;
  CHECK(softmax::check_memory(rows) == "rows is 4611686018427387904: no memory reaches as far");
  attention_dropout_mask::arguments mask{
      .batch = 1 << 20, .heads = 1 << 10, .seqlen_q = 1 << 10, .seqlen_k = 64};
  CHECK_THAT(attention_dropout_mask::check_memory(mask), no_text());
  mask.seqlen_k = 128;
  CHECK(attention_dropout_mask::check_memory(mask) ==
        "mask [1048576, 1024, 1024, 128]: no memory holds as much");
  mask.seqlen_k = many;
  CHECK_THAT(attention_dropout_mask::check_memory(mask), has_text("no memory holds as much"));
  mask.heads = 0;
  CHECK_THAT(attention_dropout_mask::check_memory(mask), no_text());
  auto placed = small_call<rotary>();
  placed.positions = reinterpret_cast<const std::int64_t*>(memory.data());
  placed.table_stride = many;
  CHECK(rotary::check_memory(placed) ==
        "the number of positions is 2 and table_stride 4611686018427387904: no memory "
        "reaches as far");
  auto turned = small_call<rotary>();
  turned.cos = turned.sin = nullptr;
  turned.offset = INT64_MAX;
  CHECK(rotary::check_memory(turned) == "offset + seqlen is 9223372036854775807: no memory reaches as far");
}

}  // namespace far_calls
