// Calls of the rotary operator for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/rotary.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::rotary> {
  /// Dense [batch, seqlen, heads, head_dim] tensors; with variable_length, packed sequences of one length.
  [[nodiscard]] static prepared_call<operators::rotary> make(const std::shared_ptr<device_driver>& driver,
                                                             const request& want, std::uint64_t seed) {
    prepared_call<operators::rotary> out{{}, {driver, seed}};
    auto& a = out.arguments;
    a.dtype = want.as("dtype", dtype::bf16);
    a.style = want.as("style", operators::rotary_style::half);
    a.batch = want.get("batch", 1);
    a.seqlen = want.get("seqlen", 512);
    a.heads = want.get("heads", 32);
    a.heads_kv = want.get("heads_kv", 8);
    a.head_dim = want.get("head_dim", 128);
    a.rotary_dim = want.get("rotary_dim", a.head_dim);
    a.inverse = want.flag("inverse");
    for (const std::int64_t heads : {a.heads, a.heads_kv})
      out.memory.require_room(a.dtype, {a.batch, a.seqlen, heads, a.head_dim});
    out.memory.require_room(a.dtype, {a.seqlen, a.rotary_dim});
    const std::int64_t tokens = a.batch * a.seqlen;
    const bool in_place = want.flag("in_place");
    a.q_stride_head = a.q_out_stride_head = a.k_stride_head = a.k_out_stride_head = a.head_dim;
    a.q_stride_token = a.q_out_stride_token = a.heads * a.head_dim;
    a.k_stride_token = a.k_out_stride_token = a.heads_kv * a.head_dim;
    a.q_stride_batch = a.q_out_stride_batch = a.seqlen * a.q_stride_token;
    a.k_stride_batch = a.k_out_stride_batch = a.seqlen * a.k_stride_token;
    void* const q = out.memory.random(a.dtype, tokens * a.q_stride_token);
    a.q = q;
    a.q_out = in_place ? q : out.memory.poisoned(a.dtype, tokens * a.q_stride_token);
    if (a.heads_kv > 0) {
      void* const k = out.memory.random(a.dtype, tokens * a.k_stride_token);
      a.k = k;
      a.k_out = in_place ? k : out.memory.poisoned(a.dtype, tokens * a.k_stride_token);
    }
    a.table_dtype = want.as("table_dtype", dtype::f32);
    double table_bytes = 0;
    if (want.get("table", 1) != 0) {
      a.table_stride = a.rotary_dim / 2;
      // True angles: rotating in place over and over leaves the magnitudes alone.
      std::vector<double> cosines;
      std::vector<double> sines;
      for (std::int64_t position = 0; position < a.seqlen; ++position) {
        for (std::int64_t i = 0; i < a.table_stride; ++i) {
          const double angle = static_cast<double>(position) *
                               std::pow(1e4, -static_cast<double>(i) / static_cast<double>(a.table_stride));
          cosines.push_back(std::cos(angle));
          sines.push_back(std::sin(angle));
        }
      }
      a.cos = out.memory.copy(a.table_dtype, cosines);
      a.sin = out.memory.copy(a.table_dtype, sines);
      table_bytes = 2.0 * static_cast<double>(a.seqlen * a.table_stride * size_of(a.table_dtype));
    }
    const auto from = want.as("positions_from", operators::rotary_positions::offset);
    if (from == operators::rotary_positions::explicit_ids) {
      std::vector<std::int64_t> positions;
      for (std::int64_t i = 0; i < tokens; ++i) positions.push_back(i % a.seqlen);
      a.positions = out.memory.copy(positions);
    } else if (from == operators::rotary_positions::sequence_offsets) {
      a.sequence_offsets = out.memory.copy(std::vector<std::int32_t>(static_cast<std::size_t>(a.batch)));
    }
    if (want.flag("variable_length")) {
      std::vector<std::int32_t> starts;
      for (std::int64_t i = 0; i <= a.batch; ++i) starts.push_back(static_cast<std::int32_t>(i * a.seqlen));
      a.cu_seqlens = out.memory.copy(starts);
    }
    const double elements = static_cast<double>(tokens * (a.heads + a.heads_kv));
    out.bytes = 2 * elements * static_cast<double>(a.head_dim * size_of(a.dtype)) + table_bytes;
    out.flops = 3 * elements * static_cast<double>(a.rotary_dim);
    return out;
  }

  /// A row is a token of a sequence, with all its heads.
  [[nodiscard]] static std::int64_t rows(const operators::rotary::arguments& a) { return a.batch * a.seqlen; }
  [[nodiscard]] static double row_work(const operators::rotary::arguments& a) {
    return 20 * static_cast<double>((a.heads + a.heads_kv) * a.head_dim);
  }

  /// Twice the error of the plain formula in f32, rounded to the type, and a unit of f32.
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
    reference::rotary<double>(
        a,
        [&](bool is_key, std::int64_t offset, double value) {
          (is_key ? k : q).want(offset, value, 0);
          error = std::max(error, std::abs(value - rough[next++]));
        },
        wants);
    for (auto* each : {&q, &k}) {
      for (expectation::value& value : each->values) value.allowed = 2 * error + 0x1p-22;
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
