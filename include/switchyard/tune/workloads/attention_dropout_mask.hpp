// SPDX-License-Identifier: MIT
// Calls of the attention dropout mask operator for measuring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <switchyard/base/philox.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_dropout_mask> {
  static constexpr variation variations[] = {// NOLINT(modernize-avoid-c-arrays)
                                             {1, 0, true},
                                             {1, 0, false, true}};

  [[nodiscard]] static prepared_call<operators::attention_dropout_mask> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_dropout_mask> out{{}, {driver, seed, want.varied()}};
    auto& a = out.arguments;
    a.batch = want.get("batch", 1);
    a.heads = want.get("heads", 32);
    a.seqlen_q = want.get("seqlen_q", 512);
    a.seqlen_k = want.get("seqlen_k", a.seqlen_q);
    out.memory.require_room(dtype::f32, {a.batch, a.heads, a.seqlen_q, a.seqlen_k});
    a.dropout_p = want.varied().options ? 0.35F : 0.1F;
    a.dropout_seed = seed * 0x9E37'79B9'7F4A'7C15;
    a.dropout_offset = seed;
    const std::int64_t elements = rows(a) * a.seqlen_k;
    a.mask = static_cast<float*>(out.memory.poisoned(dtype::f32, elements));
    out.bytes = 4 * static_cast<double>(elements);
    return out;
  }

  /// A row is a query of one head.
  [[nodiscard]] static std::int64_t rows(const operators::attention_dropout_mask::arguments& a) {
    return a.batch * a.heads * a.seqlen_q;
  }
  [[nodiscard]] static double row_work(const operators::attention_dropout_mask::arguments& a) {
    return 20 * static_cast<double>(a.seqlen_k);
  }
  static void expect(const operators::attention_dropout_mask::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("mask", a.mask, dtype::f32);
    for (const std::int64_t row : sample.rows()) {
      for (std::int64_t j = 0; j < a.seqlen_k; ++j) {
        const auto words =
            dropout_words(a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed,
                          a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset,
                          static_cast<std::uint32_t>(row / a.seqlen_q),
                          static_cast<std::uint32_t>(row % a.seqlen_q), static_cast<std::uint32_t>(j / 4));
        const bool dropped = words[static_cast<std::size_t>(j % 4)] < dropout_threshold(a.dropout_p);
        values.want(row * a.seqlen_k + j, dropped ? 0 : 1 / (1 - static_cast<double>(a.dropout_p)), 0x1p-20);
      }
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
