// SPDX-License-Identifier: MIT
// Calls of the attention decode operator for measuring.
#pragma once

#include <cstdint>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention_decode.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_decode> : attention_rows, attention_variations {
  /// A cache of [batch, seqlen_k, heads_kv, dim], or of shuffled pages of [page_size, heads_kv, dim], all of
  /// it in use; e4m3 with a scale for each KV head. Where it is latent, the values are the keys' first
  /// columns; with rotary columns apart, there is a scale for each 128 of the others. A window is a quarter
  /// of the keys. `length_kind` says how many keys each sequence has, where lengths are given.
  [[nodiscard]] static prepared_call<operators::attention_decode> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_decode> out{{}, {driver, seed, want.varied()}};
    const dtype type = want.as("dtype", dtype::bf16);
    const dtype kv_type = want.as("kv_dtype", type);
    const attention_sizes sizes{want, 8, 1, 4096};
    attention_memory memory{out.memory, sizes, type, kv_type, want};
    operators::attention_decode::options with{
        .mask = want.as("mask", operators::attention_mask::causal_bottom_right), .scale = memory.scale()};
    const bool is_paged = want.as("kv", operators::attention_kv::dense) == operators::attention_kv::paged;
    const std::int64_t page_size = want.get("page_size", 16);
    const tensor table = is_paged ? memory.block_table(page_size, seed) : tensor{};
    const bool with_lengths = is_paged || want.flag("seqused");
    const cache_lengths lengths = with_lengths ? cache_lengths_of(want) : cache_lengths::equal;
    const tensor used = with_lengths ? memory.used(lengths) : tensor{};
    const auto keys = [&](std::int64_t dim) {
      return is_paged ? memory.page_input(table, page_size, dim) : memory.key_input(dim);
    };
    const tensor q = memory.query_input(sizes.head_dim);
    const bool apart = want.flag("rotary_apart");
    const std::int64_t rotary_dim = apart ? sizes.head_dim - sizes.head_dim_v : 0;
    const std::int64_t groups = apart ? (sizes.head_dim_v + 127) / 128 : 0;
    if (apart && rotary_dim < 1)
      throw call_error{error_code::invalid_argument, "rotary_apart=true needs a head_dim_v below head_dim"};
    const tensor k = keys(sizes.head_dim - rotary_dim);
    const bool latent = want.flag("latent");
    const tensor v = latent ? first_columns(k, sizes.head_dim_v) : keys(sizes.head_dim_v);
    const tensor result = memory.query_output(sizes.head_dim_v);
    set_options(with, memory, sizes, want, seed);
    if (apart) {
      with.k_rotary = memory.token_input(type, k.extent(0), k.extent(1), rotary_dim, want.varied().spread);
      with.k_scale = memory.token_input(dtype::f32, k.extent(0), k.extent(1), groups, 1);
    }
    if (!is_paged) with.seqused_k = used;
    out.arguments = is_paged ? operators::attention_decode::call(
                                   q, operators::paged{k, v, table, used, sizes.seqlen_k}, result, with)
                             : operators::attention_decode::call(q, k, v, result, with);
    const std::int64_t dims = sizes.head_dim + sizes.head_dim_v;
    std::int64_t keys_used = 0;
    for (std::int64_t b = 0; b < sizes.batch; ++b) keys_used += keys_in_use(lengths, sizes, b);
    out.flops = 2 * static_cast<double>(sizes.seqlen_q * sizes.heads) * static_cast<double>(keys_used) *
                static_cast<double>(dims);
    out.bytes = static_cast<double>(sizes.queries() * size_of(type) * dims +
                                    keys_used * sizes.heads_kv *
                                        (size_of(kv_type) * ((latent ? sizes.head_dim : dims) - rotary_dim) +
                                         size_of(type) * rotary_dim + 4 * groups));
    return out;
  }

  /// Keys seen with fewer columns.
  [[nodiscard]] static tensor first_columns(const tensor& k, std::int64_t columns) {
    return {k.data(),
            k.dtype(),
            {k.extent(0), k.extent(1), k.extent(2), columns},
            {k.stride(0), k.stride(1), k.stride(2), 1}};
  }

  /// Half a unit for the weights, which are rounded as the output is, and eight units of f32.
  static void expect(const operators::attention_decode::arguments& a, const row_sample& sample,
                     expectation& out) {
    const double unit = unit_of(a.dtype) / 2;
    expect_attention(a, sample, out, 0x1p-20 + unit / 2, unit, [](auto real, const auto&... call) {
      reference::attention_decode<decltype(real)>(call...);
    });
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
