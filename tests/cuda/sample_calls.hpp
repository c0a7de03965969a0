// SPDX-License-Identifier: MIT
// A call of each operator, as engines make them, for programs in which no kernel runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <switchyard/switchyard.hpp>

namespace sample_calls {

namespace sy = switchyard;
namespace operators = sy::operators;

/// What calls of attention have besides the usual.
struct call_kind {
  bool narrow_keys = false;   ///< keys and values are in e4m3
  bool block_masked = false;  ///< there is a block mask
  bool rotary_apart = false;  ///< a latent cache in e4m3 has its rotary columns apart
};

/// What calls point to. Aligned like allocations of a GPU.
alignas(4096) inline std::array<std::byte, 1 << 16> memory;

// Calls as engines make them: problem 0 to 3, strides 0 or 1. All tensors are at one address; calls place
// them.

template <std::size_t Rank>
sy::tensor dense(const std::int64_t (&extents)[Rank], sy::dtype type = sy::dtype::bf16) {
  return {memory.data(), type, extents};
}

inline sy::tensor rows_of(int problem, int strides) {
  return {memory.data(), sy::dtype::bf16, {64 << problem, 4096}, {4096 + 64 * strides, 1}};
}
inline sy::tensor row_values(int problem) {
  return dense({64 << problem}, sy::dtype::f32);
}

/// [batch, tokens, heads, 128], with a gap of a head for each stride.
inline sy::tensor tokens_of(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int strides,
                            sy::dtype type = sy::dtype::bf16) {
  const std::int64_t token = (heads + strides) * 128;
  return {memory.data(), type, {batch, tokens, heads, 128}, {tokens * token, token, 128, 1}};
}

template <class Operator>
struct sample;

template <>
struct sample<operators::softmax> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    return operators::softmax::call(rows, rows);
  }
};
template <>
struct sample<operators::softmax_backward> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    return operators::softmax_backward::call(rows, rows, rows);
  }
};
template <>
struct sample<operators::gated_activation> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    return operators::gated_activation::call(rows, rows, rows);
  }
};
template <>
struct sample<operators::gated_activation_backward> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    return operators::gated_activation_backward::call(rows, rows, rows, rows, rows);
  }
};
template <>
struct sample<operators::layer_norm> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    const sy::tensor weights = dense({4096});
    const sy::tensor values = row_values(problem);
    return operators::layer_norm::call(rows, rows,
                                       {.gamma = weights,
                                        .beta = weights,
                                        .residual = rows,
                                        .residual_out = rows,
                                        .mean = values,
                                        .rstd = values});
  }
};
template <>
struct sample<operators::layer_norm_backward> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    const sy::tensor weights = dense({4096});
    const sy::tensor values = row_values(problem);
    return operators::layer_norm_backward::call(
        rows, rows, values, values, rows,
        {.gamma = weights, .grad_residual = rows, .grad_gamma = weights, .grad_beta = weights});
  }
};
template <>
struct sample<operators::rms_norm> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    return operators::rms_norm::call(
        rows, rows,
        {.gamma = dense({4096}), .residual = rows, .residual_out = rows, .rstd = row_values(problem)});
  }
};
template <>
struct sample<operators::rms_norm_backward> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor rows = rows_of(problem, strides);
    const sy::tensor weights = dense({4096});
    return operators::rms_norm_backward::call(
        rows, rows, row_values(problem), rows,
        {.gamma = weights, .grad_residual = rows, .grad_gamma = weights});
  }
};
template <>
struct sample<operators::rotary> {
  static auto make(int problem, int strides, const call_kind& /*kind*/ = {}) {
    const sy::tensor q = tokens_of(1 << problem, 128, 32, strides);
    const sy::tensor k = tokens_of(1 << problem, 128, 8, strides);
    const sy::tensor table = dense({128, 64}, sy::dtype::f32);
    return operators::rotary::in_place(q, k, {.cos = table, .sin = table});
  }
};

/// A call with a mask of blocks of 128 queries and keys.
template <class Arguments>
Arguments block_masked(Arguments call) {
  const auto put = [](auto&... lists) {
    ((lists = reinterpret_cast<const std::int32_t*>(memory.data())), ...);
  };
  put(call.kv_num_blocks, call.kv_indices, call.kv_bits, call.full_kv_num_blocks, call.full_kv_indices);
  if constexpr (requires { call.q_num_blocks; })
    put(call.q_num_blocks, call.q_indices, call.q_bits, call.full_q_num_blocks, call.full_q_indices);
  call.mask_bits = reinterpret_cast<const std::uint32_t*>(memory.data());
  call.mask_batch = call.mask_heads = call.mask_tiles = 1;
  call.mask_query_blocks = static_cast<std::int32_t>((call.seqlen_q + 127) / 128);
  call.mask_key_blocks = static_cast<std::int32_t>((call.seqlen_k + 127) / 128);
  call.mask_block_q = 128;
  call.mask_words = 4;
  return call;
}

// Attention of 16 queries and 1024 keys.
struct attention_views {
  sy::tensor q, k, lse;
  attention_views(int problem, int strides)
      : q{tokens_of(1 << problem, 16, 32, strides)},
        k{tokens_of(1 << problem, 1024, 8, strides)},
        lse{dense({1 << problem, 32, 16}, sy::dtype::f32)} {}
};
template <>
struct sample<operators::attention_forward> {
  static auto make(int problem, int strides, const call_kind& kind = {}) {
    const attention_views of{problem, strides};
    operators::attention_forward::options with{.mask = operators::attention_mask::causal_bottom_right,
                                               .lse = of.lse};
    if (kind.block_masked)
      return block_masked(operators::attention_forward::call(of.q, of.k, of.k, of.q, {.lse = of.lse}));
    if (!kind.narrow_keys) return operators::attention_forward::call(of.q, of.k, of.k, of.q, with);
    const sy::tensor k = tokens_of(1 << problem, 1024, 8, strides, sy::dtype::f8_e4m3);
    with.k_scale = with.v_scale = dense({8}, sy::dtype::f32);
    return operators::attention_forward::call(of.q, k, k, of.q, with);
  }
};
template <>
struct sample<operators::attention_decode> {
  static auto make(int problem, int strides, const call_kind& kind = {}) {
    const attention_views of{problem, strides};
    const sy::tensor pages =
        tokens_of(1000, 64, 8, strides, kind.narrow_keys ? sy::dtype::f8_e4m3 : sy::dtype::bf16);
    const sy::tensor scale = kind.narrow_keys ? dense({8}, sy::dtype::f32) : sy::tensor{};
    const std::int64_t batch = 1 << problem;
    const sy::tensor table{memory.data(), sy::dtype::i32, {batch, 64}, {64 + strides, 1}};
    if (kind.rotary_apart) {  // in rows of 656 bytes and more
      const std::int64_t row = 656 + 16 * strides;
      const auto part = [&](sy::dtype type, std::int64_t columns) {
        const std::int64_t stride = row / sy::size_of(type);
        return sy::tensor{memory.data(), type, {1000, 64, columns}, {64 * stride, stride, 1}};
      };
      const sy::tensor k{memory.data(), sy::dtype::f8_e4m3, {1000, 64, 1, 512}, {64 * row, row, 512, 1}};
      return operators::attention_decode::call(
          dense({batch, 2, 16, 576}), operators::paged{k, k, table, dense({batch}, sy::dtype::i32), 1024},
          dense({batch, 2, 16, 512}),
          {.lse = dense({batch, 16, 2}, sy::dtype::f32),
           .k_scale = part(sy::dtype::f32, 4),
           .k_rotary = part(sy::dtype::bf16, 64)});
    }
    return operators::attention_decode::call(
        of.q, operators::paged{pages, pages, table, dense({batch}, sy::dtype::i32), 1024}, of.q,
        {.lse = of.lse, .k_scale = scale, .v_scale = scale});
  }
};
template <>
struct sample<operators::attention_backward> {
  static auto make(int problem, int strides, const call_kind& kind = {}) {
    const attention_views of{problem, strides};
    const operators::attention_backward::tensors all{.q = of.q,
                                                     .k = of.k,
                                                     .v = of.k,
                                                     .out = of.q,
                                                     .dout = of.q,
                                                     .lse = of.lse,
                                                     .dq = of.q,
                                                     .dk = of.k,
                                                     .dv = of.k};
    if (kind.block_masked) return block_masked(operators::attention_backward::call(all, {}));
    return operators::attention_backward::call(all, {.mask = operators::attention_mask::causal_bottom_right});
  }
};
template <>
struct sample<operators::attention_dropout_mask> {
  static auto make(int problem, int /*strides*/, const call_kind& /*kind*/ = {}) {
    const void* const state = memory.data();
    return operators::attention_dropout_mask::call(
        dense({1 << problem, 32, 128, 128}, sy::dtype::f32),
        {.dropout_state = static_cast<const std::uint64_t*>(state), .dropout_p = 0.5F});
  }
};

/// With rotary columns apart, values are columns of the keys.
void keep_latent(auto& call) {
  if constexpr (requires { call.k_rotary; }) {
    if (call.k_rotary == nullptr) return;
    call.v = call.k;
    call.v_stride_batch = call.k_stride_batch;
    call.v_stride_head = call.k_stride_head;
    call.v_stride_token = call.k_stride_token;
  }
}

/// Gives each tensor of a call a place of its own in memory, `step` bytes behind the one before; calls
/// `visit` with where its address lies in the arguments.
template <class Operator, class Visitor>
void place_tensors(typename Operator::arguments& call, std::byte* memory_begin, std::size_t step,
                   const Visitor& visit) {
  for (const auto& field : sy::describe<Operator>().fields) {
    if (field.kind != sy::value_kind::pointer) continue;
    auto* const at = reinterpret_cast<std::byte*>(&call) + field.offset;
    const void* address = nullptr;
    __builtin_memcpy(&address, at, sizeof address);
    if (address == nullptr) continue;
    visit(field.offset);
    __builtin_memcpy(at, &memory_begin, sizeof memory_begin);
    memory_begin += step;
  }
  keep_latent(call);
}

}  // namespace sample_calls
