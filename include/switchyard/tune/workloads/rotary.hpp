// SPDX-License-Identifier: MIT
// Calls of the rotary operator for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/rotary.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::rotary> {
  static constexpr variation variations[] = {// NOLINT(modernize-avoid-c-arrays)
                                             {100, 64, true},
                                             {1, 1, false, true}};

  /// Dense [batch, seqlen, heads, head_dim] tensors; with variable_length, packed sequences of one length.
  /// With heads_first, or where a manifest's condition asks for it, the tokens of a head lie together in
  /// memory.
  [[nodiscard]] static prepared_call<operators::rotary> make(const std::shared_ptr<device_driver>& driver,
                                                             const request& want, std::uint64_t seed) {
    prepared_call<operators::rotary> out{{}, {driver, seed, want.varied()}};
    using operators::rotary_positions;
    const dtype type = want.as("dtype", dtype::bf16);
    const std::int64_t batch = want.get("batch", 1);
    const std::int64_t seqlen = want.get("seqlen", 512);
    const std::int64_t heads_q = want.get("heads", 32);
    const std::int64_t heads_kv = want.get("heads_kv", 8);
    const std::int64_t head_dim = want.get("head_dim", 128);
    const std::int64_t rotary_dim = want.get("rotary_dim", head_dim);
    tensors& memory = out.memory;
    for (const std::int64_t heads : {heads_q, heads_kv})
      memory.require_room(type, {batch, seqlen, heads, head_dim});
    memory.require_room(type, {seqlen, rotary_dim});
    const bool is_varied = want.varied().options;
    const std::int64_t first = is_varied ? 5 : 0;  // position
    const std::int64_t positions = seqlen + first + (is_varied ? batch : 0);
    const std::int64_t apart = want.varied().apart;
    // With variable_length: sequences of one length, or shorter and shorter ones.
    std::vector<std::int32_t> starts{0};
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t length = is_varied && b > 0 ? seqlen - (7 * b) % (seqlen + 1) : seqlen;
      starts.push_back(starts.back() + static_cast<std::int32_t>(length));
    }
    const std::int64_t tokens = want.flag("variable_length") ? starts.back() : batch * seqlen;
    const bool packed = want.flag("variable_length");
    const bool heads_first = is_heads_first(want);
    const auto view = [&](void* of, std::int64_t heads) -> tensor {
      const std::int64_t together = packed ? tokens : seqlen;
      const std::int64_t in_head = (heads_first ? head_dim : heads * head_dim) + apart;  // to the next token
      const std::int64_t to_head = heads_first ? together * in_head : head_dim;
      if (packed) return {of, type, {tokens, heads, head_dim}, {in_head, to_head, 1}};
      const std::int64_t to_next = heads_first ? heads * to_head : seqlen * in_head;
      return {of, type, {batch, seqlen, heads, head_dim}, {to_next, in_head, to_head, 1}};
    };
    const auto elements_of = [&](std::int64_t heads) {
      return tokens * (heads * head_dim + (heads_first ? heads : 1) * apart);
    };
    const auto input = [&](std::int64_t heads) {
      return view(memory.random(type, elements_of(heads)), heads);
    };
    const auto output = [&](const tensor& of, std::int64_t heads) {
      if (want.flag("in_place")) return of;
      return view(memory.poisoned(type, elements_of(heads)), heads);
    };
    const tensor q = input(heads_q);
    const tensor q_out = output(q, heads_q);
    tensor k;
    tensor k_out;
    if (heads_kv > 0) {
      k = input(heads_kv);
      k_out = output(k, heads_kv);
    }
    operators::rotary::options with{.rotary_dim = rotary_dim,
                                    .offset = first,
                                    .base = is_varied ? 5e5F : 1e4F,
                                    .scaling = is_varied ? 0.25F : 1.0F,
                                    .style = want.as("style", operators::rotary_style::half),
                                    .inverse = want.flag("inverse")};
    const dtype table_type = want.as("table_dtype", dtype::f32);
    double table_bytes = 0;
    if (want.get("table", 1) != 0) {
      const std::int64_t pairs = rotary_dim / 2;
      // True angles: rotating in place over and over leaves the magnitudes alone.
      std::vector<double> cosines;
      std::vector<double> sines;
      for (std::int64_t position = 0; position < positions; ++position) {
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double angle = static_cast<double>(position) *
                               std::pow(1e4, -static_cast<double>(i) / static_cast<double>(pairs));
          cosines.push_back(std::cos(angle));
          sines.push_back(std::sin(angle));
        }
      }
      with.cos = const_tensor{memory.copy(table_type, cosines), table_type, {positions, pairs}};
      with.sin = const_tensor{memory.copy(table_type, sines), table_type, {positions, pairs}};
      table_bytes = 2.0 * static_cast<double>(seqlen * pairs * size_of(table_type));
    }
    const auto from = want.as("positions_from", rotary_positions::offset);
    if (from == rotary_positions::explicit_ids) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < tokens; ++i) ids.push_back((is_varied ? 3 * i + 1 : i) % seqlen);
      with.positions = packed ? memory.copied(ids, {tokens}) : memory.copied(ids, {batch, seqlen});
    } else if (from == rotary_positions::sequence_offsets) {
      std::vector<std::int32_t> offsets(static_cast<std::size_t>(batch));
      if (is_varied) std::iota(offsets.begin(), offsets.end(), static_cast<std::int32_t>(first));
      with.sequence_offsets = memory.copied(offsets, {batch});
    }
    if (packed) {
      with.cu_seqlens = memory.copied(starts, {batch + 1});
      with.longest = seqlen;
    }
    out.arguments = operators::rotary::call(q, k, q_out, k_out, with);
    const double elements = static_cast<double>(tokens * (heads_q + heads_kv));
    out.bytes = 2 * elements * static_cast<double>(head_dim * size_of(type)) + table_bytes;
    out.flops = 3 * elements * static_cast<double>(rotary_dim);
    return out;
  }

  /// Conditions on strides that only this layout can fail.
  [[nodiscard]] static bool is_heads_first(const request& want) {
    return want.flag("heads_first") || want.get("q_stride_head==head_dim", 1) == 0 ||
           want.get("k_stride_head==head_dim", 1) == 0;
  }

  /// A row is a token of a sequence, with all its heads.
  [[nodiscard]] static std::int64_t rows(const operators::rotary::arguments& a) { return a.batch * a.seqlen; }
  [[nodiscard]] static double row_work(const operators::rotary::arguments& a) {
    return 20 * static_cast<double>((a.heads + a.heads_kv) * a.head_dim);
  }

  /// Twice the error of the plain formula in f32, rounded to the type, and a unit of f32 at the values' size.
  static void expect(const operators::rotary::arguments& a, const row_sample& sample, expectation& out) {
    const auto wants = [&](std::int64_t b, std::int64_t t) { return sample.has(b * a.seqlen + t); };
    std::vector<double> rough;
    reference::rotary<float>(
        a, [&](bool, std::int64_t, double value) { rough.push_back(reference::rounded(a.dtype, value)); },
        wants);
    auto& q = out.of("q_out", a.q_out, a.dtype);
    auto& k = a.heads_kv > 0 ? out.of("k_out", a.k_out, a.dtype) : q;
    std::size_t next = 0;
    double error = 0;
    double size = 1;
    reference::rotary<double>(
        a,
        [&](bool is_key, std::int64_t offset, double value) {
          (is_key ? k : q).want(offset, value, 0);
          size = std::max(size, std::abs(value));
          error = std::max(error, std::abs(value - rough[next++]));
        },
        wants);
    for (auto* rotated : {&q, &k}) {
      for (expectation::value& value : rotated->values) value.allowed = 2 * error + 0x1p-22 * size;
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
