// SPDX-License-Identifier: MIT
// Tensors of more than 2^31 elements on the GPU: offsets of 64 bits. Every variant that may serve computes
// all of it; sampled rows are compared with the f64 reference of the tokens that they depend on.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/tune/reference/attention_backward.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "environment.hpp"
#include "every_variant.hpp"
#include "random_call.hpp"

namespace {

using sy::operators::attention_backward;

/// A prime, so that an offset that lost its upper bits meets other numbers.
constexpr std::int64_t period = 8'388'593;

/// Random halves that repeat with the period.
struct pattern {
  std::vector<std::byte> values;

  explicit pattern(std::uint32_t seed) : values(static_cast<std::size_t>(period) * 2) {
    std::mt19937 random{seed};
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < period; ++i)
      sy::reference::store(dtype::f16, values.data(), i, normal(random));
  }

  /// Device memory of `elements` halves.
  [[nodiscard]] std::byte* spread(device_memory& memory, std::int64_t elements) const {
    const std::size_t bytes = static_cast<std::size_t>(elements) * 2;
    std::byte* const to = memory.poisoned(bytes);
    const auto address = reinterpret_cast<unsigned long long>(to);
    std::size_t done = std::min(bytes, values.size());
    raw::call("cuMemcpyHtoD_v2", address, static_cast<const void*>(values.data()), done);
    while (done < bytes) {
      const std::size_t part = std::min(done, bytes - done);
      raw::call("cuMemcpyDtoD_v2", address + done, address, part);
      done += part;
    }
    return to;
  }

  /// `count` elements from `first` on.
  [[nodiscard]] std::vector<std::byte> cut(std::int64_t first, std::int64_t count) const {
    std::vector<std::byte> result(static_cast<std::size_t>(count) * 2);
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(result.data() + i * 2, values.data() + (first + i) % period * 2, 2);
    }
    return result;
  }
};

struct shape {
  std::int64_t batch, seqlen, heads, dim;
  std::int32_t window;  ///< -1: none

  [[nodiscard]] std::int64_t elements() const { return batch * seqlen * heads * dim; }
};

sy::tensor tensor_of(const shape& s, void* at) {
  return {at, dtype::f16, {s.batch, s.seqlen, s.heads, s.dim}};
}
sy::const_tensor tensor_of(const shape& s, const void* at) {
  return {at, dtype::f16, {s.batch, s.seqlen, s.heads, s.dim}};
}
sy::tensor lse_of(const shape& s, float* at) {
  return {at, dtype::f32, {s.batch, s.heads, s.seqlen}};
}

arguments forward_of(const shape& s, const void* q, const void* k, const void* v, void* out, float* lse) {
  return attention_forward::call(
      tensor_of(s, q), tensor_of(s, k), tensor_of(s, v), tensor_of(s, out),
      {.mask = attention_mask::causal_bottom_right, .window_left = s.window, .lse = lse_of(s, lse)});
}

/// The call after a forward call.
attention_backward::arguments backward_of(const shape& s, const arguments& forward, const void* dout,
                                          const std::array<std::byte*, 3>& gradients) {
  return attention_backward::call({.q = tensor_of(s, forward.q),
                                   .k = tensor_of(s, forward.k),
                                   .v = tensor_of(s, forward.v),
                                   .out = tensor_of(s, forward.out),
                                   .dout = tensor_of(s, dout),
                                   .lse = lse_of(s, forward.lse),
                                   .dq = tensor_of(s, gradients[0]),
                                   .dk = tensor_of(s, gradients[1]),
                                   .dv = tensor_of(s, gradients[2])},
                                  {.mask = forward.mask, .window_left = forward.window_left});
}

/// Nothing where no kernel of a smaller set serves the shape.
void check_shape(const shape& s) {
  INFO("batch " << s.batch << " seqlen " << s.seqlen << " heads " << s.heads << " dim " << s.dim << " window "
                << s.window);
  REQUIRE(s.elements() > std::int64_t{1} << 31);
  device_memory memory;
  const std::array<pattern, 4> patterns{pattern{11}, pattern{12}, pattern{13}, pattern{14}};
  const auto rows = static_cast<std::size_t>(s.batch * s.heads * s.seqlen);
  auto* const q = patterns[0].spread(memory, s.elements());
  auto* const k = patterns[1].spread(memory, s.elements());
  auto* const v = patterns[2].spread(memory, s.elements());
  auto* const dout = patterns[3].spread(memory, s.elements());
  auto* const out = memory.poisoned(static_cast<std::size_t>(s.elements()) * 2);
  auto* const lse = reinterpret_cast<float*>(memory.poisoned(rows * sizeof(float)));
  const arguments f = forward_of(s, q, k, v, out, lse);
  std::array<std::byte*, 3> gradients{};
  for (std::byte*& gradient : gradients)
    gradient = memory.poisoned(static_cast<std::size_t>(s.elements()) * 2);

  const sy::device device{sy::cuda::open(0)};
  every_variant<attention_forward> forward{device};
  forward.skip_without_any(f);
  const std::vector<std::string> serving_forward = forward.serving(f);
  if (serving_forward.empty() && !full_kernels) {
    std::printf("no kernel of this build serves head dim %lld\n", static_cast<long long>(s.dim));
    return;
  }
  REQUIRE(!serving_forward.empty());

  // Sampled: a token of the last batch entry and head, far from its sequence's ends where there is a window,
  // and what is needed for its gradients around it.
  const std::int64_t reach = s.window < 0 ? s.seqlen : 2 * static_cast<std::int64_t>(s.window) + 2;
  struct sample {
    std::int64_t batch, head, first, tokens, at;
    arguments a;
    std::array<std::vector<std::byte>, 4> inputs;
    std::vector<double> out;
    std::array<std::vector<double>, 3> gradients;
  };
  std::vector<sample> samples;
  std::mt19937 random{sy::test::fresh_seed()};
  for (int n = 0; n < 6; ++n) {
    sample spot;
    spot.batch = n == 0 ? s.batch - 1 : std::uniform_int_distribution<std::int64_t>{0, s.batch - 1}(random);
    spot.head = n == 0 ? s.heads - 1 : std::uniform_int_distribution<std::int64_t>{0, s.heads - 1}(random);
    std::int64_t token =
        n == 0 ? s.seqlen - 1 : std::uniform_int_distribution<std::int64_t>{0, s.seqlen - 1}(random);
    spot.first = std::max<std::int64_t>(token - reach, 0);
    const std::int64_t last = std::min(token + reach, s.seqlen - 1);
    spot.tokens = last - spot.first + 1;
    spot.at = token - spot.first;
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::int64_t i = spot.first; i <= last; ++i) {
        const auto row = patterns[t].cut(((spot.batch * s.seqlen + i) * s.heads + spot.head) * s.dim, s.dim);
        spot.inputs[t].insert(spot.inputs[t].end(), row.begin(), row.end());
      }
    }
    const shape cut{1, spot.tokens, 1, s.dim, s.window};
    spot.a = forward_of(cut, spot.inputs[0].data(), spot.inputs[1].data(), spot.inputs[2].data(), nullptr,
                        nullptr);
    sy::reference::attention_forward<double>(
        spot.a, [&](std::int64_t at, std::int64_t, std::span<const double> values, double) {
          if (at == spot.at * s.dim) spot.out.assign(values.begin(), values.end());
        });
    const auto b = backward_of(cut, spot.a, spot.inputs[3].data(), {});
    const auto zeros = std::vector<double>(static_cast<std::size_t>(spot.tokens * s.dim));
    sy::reference::attention_gradients<double> result{zeros, zeros, zeros, {}};
    sy::reference::attention_backward<double>(b, result);
    const std::array<const std::vector<double>*, 3> from{&result.dq, &result.dk, &result.dv};
    for (std::size_t t = 0; t < 3; ++t) {
      spot.gradients[t].assign(from[t]->begin() + spot.at * s.dim, from[t]->begin() + (spot.at + 1) * s.dim);
    }
    samples.push_back(std::move(spot));
  }
  // Values and gradients are of the size of 1; their weights, slopes and the output are rounded to half.
  const auto compare = [&](const char* name, const std::byte* tensor, const sample& spot,
                           const std::vector<double>& expected) {
    const std::int64_t first = ((spot.batch * s.seqlen + spot.first + spot.at) * s.heads + spot.head) * s.dim;
    const std::string wrong =
        differences(name, expected, 0x1p-8, dtype::f16,
                    fetch(tensor + first * 2, static_cast<std::size_t>(s.dim) * 2).data());
    INFO(wrong);
    CHECK(wrong.empty());
  };

  for (const std::string& id : serving_forward) {
    INFO(id);
    poison(out, static_cast<std::size_t>(s.elements()) * 2);
    raw::call("cuCtxSynchronize");
    forward.forced(id)(sy::stream{}, f);
    raw::call("cuCtxSynchronize");
    for (const sample& spot : samples) compare("out", out, spot, spot.out);
  }
  const auto b = backward_of(s, f, dout, gradients);
  every_variant<attention_backward> backward{device};
  backward.skip_without_any(b);
  const std::vector<std::string> serving_backward = backward.serving(b);
  REQUIRE((!serving_backward.empty() || !full_kernels));
  for (const std::string& id : serving_backward) {
    INFO(id);
    for (std::byte* gradient : gradients) poison(gradient, static_cast<std::size_t>(s.elements()) * 2);
    raw::call("cuCtxSynchronize");
    backward.forced(id)(sy::stream{}, b);
    raw::call("cuCtxSynchronize");
    for (const sample& spot : samples) {
      for (std::size_t t = 0; t < 3; ++t) {
        compare(std::array{"dq", "dk", "dv"}[t], gradients[t], spot, spot.gradients[t]);
      }
    }
  }
  std::printf("%zu variants forward, %zu backward\n", serving_forward.size(), serving_backward.size());
}

}  // namespace

TEST_CASE("attention on the GPU: more than 2^31 elements", "[attention]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  std::size_t free = 0;
  std::size_t total = 0;
  raw::call("cuMemGetInfo_v2", &free, &total);
  if (free < std::size_t{64} << 30) skip_program("less than 64 GiB of device memory are free");
  // A smaller set of kernels may serve the one head dim or the other.
  for (const std::int64_t dim : {64, 128}) {
    if (full_kernels && dim == 64) continue;
    check_shape({1, (std::int64_t{1} << 20) + 77, 16 * 128 / dim, dim, 63});
    check_shape({2051, 129, 64 * 128 / dim, dim, -1});
  }
}
