// SPDX-License-Identifier: MIT
#include "step_inputs.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace llm {

namespace sy = switchyard;

namespace {

[[nodiscard]] std::size_t aligned(std::size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

/// Bytes of a batch of this size, packed.
[[nodiscard]] std::size_t max_bytes(const step_limits& limits) {
  const auto elements = [](std::int64_t count, std::size_t bytes) {
    return aligned(static_cast<std::size_t>(count) * bytes);
  };
  return elements(limits.tokens, sizeof(std::int32_t)) + 2 * elements(limits.tokens, sizeof(std::int64_t)) +
         elements(limits.sequences + 1, sizeof(std::int32_t)) +
         2 * elements(limits.sequences, sizeof(std::int32_t)) +
         elements(limits.sequences * limits.pages, sizeof(std::int32_t));
}

}  // namespace

step_inputs::step_inputs(const sy::device& device, const std::shared_ptr<const device_api>& api,
                         const step_limits& limits)
    : packed_{api, max_bytes(limits)} {
  if (api != nullptr) copied_ = device_memory{device, max_bytes(limits)};
}

void step_inputs::upload(const batch& step, const device_stream& on) {
  const std::byte* const read = copied_.data() != nullptr ? copied_.data() : packed_.data();
  std::size_t at = 0;
  const auto pack = [&]<class Value>(const std::vector<Value>& values) {
    const std::size_t bytes = values.size() * sizeof(Value);
    if (bytes > 0) std::memcpy(packed_.data() + at, values.data(), bytes);
    const void* const out = read + at;
    at += aligned(bytes);
    return out;
  };
  const auto vector = [&](const auto& values, sy::dtype type) -> sy::const_tensor {
    return {pack(values), type, {static_cast<std::int64_t>(values.size())}};
  };
  ids = vector(step.ids, sy::dtype::i32);
  positions = vector(step.positions, sy::dtype::i64);
  slots = vector(step.slots, sy::dtype::i64);
  starts = vector(step.starts, sy::dtype::i32);
  used = vector(step.used, sy::dtype::i32);
  wanted = vector(step.wanted, sy::dtype::i32);
  pages = {pack(step.pages), sy::dtype::i32, {step.sequences(), step.pages_stride}};
  if (copied_.data() != nullptr) on.copy(copied_.data(), packed_.data(), at);
}

}  // namespace llm
