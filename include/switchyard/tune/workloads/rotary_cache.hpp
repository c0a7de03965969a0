// SPDX-License-Identifier: MIT
// Calls that turn queries and keys and fill a paged cache, for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/rotary_cache.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::rotary_cache> {
  static constexpr variation variations[] = {// NOLINT(modernize-avoid-c-arrays)
                                             {16, 64, true},
                                             {1e-2F, 64, true},
                                             {1, 8, false}};

  /// Queries, keys and values side by side, as one projection leaves them, and tokens at random positions
  /// with random slots of their own. With page_size 0, pages of 16.
  [[nodiscard]] static prepared_call<operators::rotary_cache> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::rotary_cache> out{{}, {driver, seed, want.varied()}};
    constexpr std::int64_t positions = 4096;
    const dtype type = want.as("dtype", dtype::f16);
    const dtype kv_type = want.as("kv_dtype", type == dtype::f32 ? dtype::f16 : type);
    const std::int64_t tokens = want.get("tokens", 1);
    const std::int64_t heads = want.get("heads", 32);
    const std::int64_t heads_kv = want.get("heads_kv", 8);
    const std::int64_t head_dim = want.get("head_dim", 128);
    const std::int64_t rotary_dim = want.get("rotary_dim", head_dim);
    const std::int64_t page_size = std::max<std::int64_t>(want.get("page_size", 16), 1);
    const std::int64_t pages = (tokens + page_size - 1) / page_size + 1;
    tensors& memory = out.memory;
    memory.require_room(type, {tokens, heads + 2 * heads_kv, head_dim});
    memory.require_room(kv_type, {pages, page_size, heads_kv, head_dim});
    const std::int64_t stride = (heads + 2 * heads_kv) * head_dim + want.varied().apart;
    const tensor whole = memory.input(type, {tokens, stride});
    const tensor qkv{whole.data(), type, {tokens, heads + 2 * heads_kv, head_dim}, {stride, head_dim, 1}};
    const tensor k_cache = memory.output(kv_type, {pages, page_size, heads_kv, head_dim});
    const tensor v_cache = memory.output(kv_type, {pages, page_size, heads_kv, head_dim});
    std::vector<float> cosines;
    std::vector<float> sines;
    for (std::int64_t position = 0; position < positions; ++position) {
      for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    std::mt19937_64 generator{seed};
    std::vector<std::int64_t> slots(static_cast<std::size_t>(pages * page_size));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), generator);
    slots.resize(static_cast<std::size_t>(tokens));
    if (want.varied().options && tokens > 1) slots[1] = -1;  // into no slot
    std::vector<std::int64_t> at;
    for (std::int64_t t = 0; t < tokens; ++t)
      at.push_back(static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(positions)));
    operators::rotary_cache::options with{.epsilon = want.varied().options ? 1e-3F : 1e-6F,
                                          .style = want.as("style", operators::rotary_style::half)};
    if (want.flag("q_norm")) with.q_gamma = memory.input(dtype::f32, {head_dim}, 1);
    if (want.flag("k_norm")) with.k_gamma = memory.input(dtype::f32, {head_dim}, 1);
    if (want.flag("scaled")) {
      std::uniform_real_distribution<float> scale{0.01F, 0.02F};
      std::vector<float> scales(static_cast<std::size_t>(heads_kv));
      for (float& value : scales) value = scale(generator);
      with.k_scale = memory.copied(scales, {heads_kv});
      with.v_scale = memory.copied(scales, {heads_kv});
    }
    out.arguments =
        operators::rotary_cache::call_packed(qkv, k_cache, v_cache,
                                             {memory.copied(cosines, {positions, rotary_dim / 2}),
                                              memory.copied(sines, {positions, rotary_dim / 2}),
                                              memory.copied(at, {tokens}), memory.copied(slots, {tokens})},
                                             with);
    const auto of_tokens = static_cast<double>(tokens * head_dim);
    out.bytes = of_tokens * static_cast<double>((2 * heads + 2 * heads_kv) * size_of(type) +
                                                2 * heads_kv * size_of(kv_type)) +
                static_cast<double>(tokens * rotary_dim * 4);
    out.flops = 3 * of_tokens * static_cast<double>(heads + heads_kv);
    return out;
  }

  /// A row is a token.
  [[nodiscard]] static std::int64_t rows(const operators::rotary_cache::arguments& a) { return a.tokens; }
  [[nodiscard]] static double row_work(const operators::rotary_cache::arguments& a) {
    return 20 * static_cast<double>((a.heads + 2 * a.heads_kv) * a.head_dim);
  }

  /// f32 arithmetic over a head, rounded once.
  static void expect(const operators::rotary_cache::arguments& a, const row_sample& sample,
                     expectation& out) {
    if (sample.rows().empty()) return;
    auto& q = out.of("q", a.q, a.dtype);
    auto& k = out.of("k_cache", a.k_cache, a.kv_dtype);
    auto& v = out.of("v_cache", a.v_cache, a.kv_dtype);
    for (const std::int64_t token : sample.rows()) {
      reference::rotary_cache(
          a, token,
          [&](reference::rotary_cache_result to, std::int64_t offset, double value, double magnitude) {
            auto& values = to == reference::rotary_cache_result::q         ? q
                           : to == reference::rotary_cache_result::k_cache ? k
                                                                           : v;
            const bool is_e4m3 = values.type == dtype::f8_e4m3;
            if (is_e4m3) value = std::clamp(value, -448.0, 448.0);
            values.want(offset, value,
                        arithmetic_error(a.head_dim, magnitude) +
                            (is_e4m3 ? 0x1p-3 : unit_of(values.type)) * std::abs(value) +
                            (is_e4m3 ? 0x1p-9 : smallest_of(values.type)));
          });
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
