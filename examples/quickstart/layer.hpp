// SPDX-License-Identifier: MIT
// The rotary and attention calls of one layer of Llama-3.1-8B, with their tensors on the device and in host
// memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/device.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/tune/memory.hpp>

namespace quickstart {

namespace sy = switchyard;

inline constexpr std::int64_t heads = 32;
inline constexpr std::int64_t heads_kv = 8;
inline constexpr std::int64_t head_dim = 128;
inline constexpr std::int64_t context = 2048;

/// A tensor in host memory and its twin on the device.
class tensor {
 public:
  tensor(const sy::device& device, std::vector<std::byte> values)
      : host_{std::move(values)}, device_{device.driver(), host_.size()} {}

  /// Brings the device's copy back to the host's values.
  void reset() { device_.upload(host_.data(), host_.size()); }
  /// The device's values, once the stream is through.
  [[nodiscard]] std::vector<std::byte> download() const {
    std::vector<std::byte> out(host_.size());
    device_.download(out.data(), out.size());
    return out;
  }
  void poison() { device_.fill(0xff); }

  [[nodiscard]] void* device() const { return device_.data(); }
  [[nodiscard]] const std::byte* host() const { return host_.data(); }

 private:
  std::vector<std::byte> host_;
  sy::tune::device_buffer device_;
};

[[nodiscard]] inline tensor random_tensor(const sy::device& device, std::int64_t count, std::uint64_t seed) {
  return {device, sy::tune::random_elements(sy::dtype::bf16, static_cast<std::size_t>(count), seed)};
}

/// cos and sin of every position below `context`, with Llama 3.1's stretching of the low frequencies: base
/// 500,000, factor 8 past a wavelength of 8192, a ramp between there and 2048.
[[nodiscard]] inline std::pair<std::vector<std::byte>, std::vector<std::byte>> rotary_tables() {
  constexpr std::int64_t half = head_dim / 2;
  std::vector<float> cos(static_cast<std::size_t>(context * half));
  std::vector<float> sin(cos.size());
  for (std::int64_t i = 0; i < half; ++i) {
    double frequency = std::pow(500'000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double turns = 8192.0 * frequency / (2 * std::numbers::pi);  // within the original context
    const double ramp = std::fmin(std::fmax((turns - 1) / 3, 0), 1);
    frequency *= ramp + (1 - ramp) / 8;
    for (std::int64_t position = 0; position < context; ++position) {
      const auto at = static_cast<std::size_t>(position * half + i);
      cos[at] = static_cast<float>(std::cos(static_cast<double>(position) * frequency));
      sin[at] = static_cast<float>(std::sin(static_cast<double>(position) * frequency));
    }
  }
  const auto bytes = [](const std::vector<float>& values) {
    std::vector<std::byte> out(values.size() * sizeof(float));
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  };
  return {bytes(cos), bytes(sin)};
}

/// Turns q and k in place, as engines do before attention.
struct rotary_call {
  using operator_type = sy::operators::rotary;

  std::string name;
  operator_type::arguments arguments;  ///< with device pointers
  operator_type::arguments on_host;    ///< with host pointers: what the reference reads
  tensor q, k, cos, sin;

  rotary_call(const sy::device& device, std::string call_name, std::int64_t seqlen,
              std::int64_t first_position)
      : name{std::move(call_name)},
        q{random_tensor(device, seqlen * heads * head_dim, 1)},
        k{random_tensor(device, seqlen * heads_kv * head_dim, 2)},
        cos{device, rotary_tables().first},
        sin{device, rotary_tables().second} {
    const sy::const_tensor table{cos.device(), sy::dtype::f32, {context, head_dim / 2}};
    const sy::const_tensor sines{sin.device(), sy::dtype::f32, {context, head_dim / 2}};
    arguments = operator_type::in_place({q.device(), sy::dtype::bf16, {1, seqlen, heads, head_dim}},
                                        {k.device(), sy::dtype::bf16, {1, seqlen, heads_kv, head_dim}},
                                        {.cos = table, .sin = sines, .offset = first_position});
    on_host = arguments;
    on_host.q = q.host();
    on_host.k = k.host();
    on_host.q_out = on_host.k_out = nullptr;
    on_host.cos = cos.host();
    on_host.sin = sin.host();
  }

  void reset() {
    q.reset();
    k.reset();
    cos.reset();
    sin.reset();
  }

  /// Bytes that must move: q and k in and out, and the rows of cos and sin.
  [[nodiscard]] double work() const {
    const auto tokens = static_cast<double>(arguments.seqlen);
    const std::int64_t table_bytes = 2 * (head_dim / 2) * 4;
    return tokens * static_cast<double>((heads + heads_kv) * head_dim * 2 * 2 + table_bytes);
  }
  static constexpr const char* work_unit = "GB/s";
  static constexpr bool moves_memory = true;
};

/// Causal attention of `seqlen_q` queries, the last of `seqlen_k` tokens.
struct attention_call {
  using operator_type = sy::operators::attention_forward;

  std::string name;
  operator_type::arguments arguments;
  operator_type::arguments on_host;
  tensor q, k, v, out;

  attention_call(const sy::device& device, std::string call_name, std::int64_t seqlen_q,
                 std::int64_t seqlen_k)
      : name{std::move(call_name)},
        q{random_tensor(device, seqlen_q * heads * head_dim, 3)},
        k{random_tensor(device, seqlen_k * heads_kv * head_dim, 4)},
        v{random_tensor(device, seqlen_k * heads_kv * head_dim, 5)},
        out{device, std::vector<std::byte>(static_cast<std::size_t>(seqlen_q * heads * head_dim * 2))} {
    using sy::dtype;
    arguments = operator_type::call({q.device(), dtype::bf16, {1, seqlen_q, heads, head_dim}},
                                    {k.device(), dtype::bf16, {1, seqlen_k, heads_kv, head_dim}},
                                    {v.device(), dtype::bf16, {1, seqlen_k, heads_kv, head_dim}},
                                    {out.device(), dtype::bf16, {1, seqlen_q, heads, head_dim}},
                                    {.mask = sy::operators::attention_mask::causal_bottom_right});
    on_host = arguments;
    on_host.q = q.host();
    on_host.k = k.host();
    on_host.v = v.host();
    on_host.out = nullptr;
  }

  void reset() {
    q.reset();
    k.reset();
    v.reset();
    out.poison();  // what a kernel leaves out shows as NaN
  }

  /// Floating-point operations of both products, over the keys that the mask leaves.
  [[nodiscard]] double work() const {
    const auto queries = static_cast<double>(arguments.seqlen_q);
    const auto keys = static_cast<double>(arguments.seqlen_k);
    const double seen = queries * keys - queries * (queries - 1) / 2;
    return 4 * seen * static_cast<double>(heads * head_dim);
  }
  static constexpr const char* work_unit = "GFLOP/s";
  static constexpr bool moves_memory = false;
};

}  // namespace quickstart
