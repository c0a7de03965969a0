// SPDX-License-Identifier: MIT
// Calls of the attention forward operator for measuring.
#pragma once

#include <cstdint>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>
#include <switchyard/tune/workloads/block_mask.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_forward> : attention_rows, attention_variations {
  /// [batch, seqlen, heads, dim] tensors; packed ones hold sequences of one length, pages are shuffled. A
  /// window is a quarter of the keys. e4m3 has a scale for each KV head. `mask_kind` says which block mask.
  [[nodiscard]] static prepared_call<operators::attention_forward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_forward> out{{}, {driver, seed, want.varied()}};
    using operators::attention_kv;
    const dtype type = want.as("dtype", dtype::bf16);
    const dtype kv_type = want.as("kv_dtype", type);
    const attention_sizes sizes{want, 0, 512, 0};
    attention_memory memory{out.memory, sizes, type, kv_type, want};
    operators::attention_forward::options with{.mask = attention_mask_of(want), .scale = memory.scale()};
    const auto layout = want.as("kv", attention_kv::dense);
    const std::int64_t page_size = want.get("page_size", 16);
    if (layout == attention_kv::packed) {
      with.cu_seqlens_k = memory.pack_keys();
      with.longest_k = sizes.seqlen_k;
    }
    if (want.flag("packed_q")) {
      with.cu_seqlens_q = memory.pack_queries();
      with.longest_q = sizes.seqlen_q;
    }
    const bool is_paged = layout == attention_kv::paged;
    const tensor table = is_paged ? memory.block_table(page_size, seed) : tensor{};
    const tensor used = is_paged || want.flag("seqused") ? memory.used() : tensor{};
    const auto keys = [&](std::int64_t dim) {
      return is_paged ? memory.page_input(table, page_size, dim) : memory.key_input(dim);
    };
    const tensor q = memory.query_input(sizes.head_dim);
    const tensor k = keys(sizes.head_dim);
    const tensor v = keys(sizes.head_dim_v);
    const tensor result = memory.query_output(sizes.head_dim_v);
    set_options(with, memory, sizes, want, seed);
    if (!is_paged) with.seqused_k = used;
    const double masked_pairs = add_block_mask(want, sizes.seqlen_q, sizes.seqlen_k, out.memory, with);
    out.arguments = is_paged ? operators::attention_forward::call(
                                   q, operators::paged{k, v, table, used, sizes.seqlen_k}, result, with)
                             : operators::attention_forward::call(q, k, v, result, with);
    const std::int64_t dims = sizes.head_dim + sizes.head_dim_v;
    const double pairs = masked_pairs >= 0 ? masked_pairs : attention_pairs(out.arguments);
    out.flops = 2 * static_cast<double>(sizes.batch * sizes.heads) * pairs * static_cast<double>(dims);
    out.bytes =
        static_cast<double>((sizes.queries() * size_of(type) + sizes.keys() * size_of(kv_type)) * dims);
    return out;
  }

  /// Half a unit for the weights, which are rounded as the output is; for f32 eight units of it instead. Of
  /// queries in e4m3, whose weights may be rounded to that, a unit of it.
  static void expect(const operators::attention_forward::arguments& a, const row_sample& sample,
                     expectation& out) {
    const double unit = a.dtype == dtype::f32 ? 0x1p-22 : unit_of(a.dtype) / 2;
    const bool is_narrow = a.type_of_q() == dtype::f8_e4m3;
    expect_attention(
        a, sample, out,
        is_narrow               ? 0x1p-3
        : a.dtype == dtype::f32 ? 0x1p-20
                                : unit / 2,
        unit, [](auto real, const auto&... call) { reference::attention_forward<decltype(real)>(call...); });
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
