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

template <class Arguments>
void set_shape(Arguments& a, const shape& s, std::int64_t heads, std::int64_t batch, std::int64_t tokens) {
  a.batch = batch;
  a.heads = a.heads_kv = heads;
  a.seqlen_q = a.seqlen_k = tokens;
  a.head_dim = a.head_dim_v = s.dim;
  for (std::int64_t* each : {&a.q_stride_head, &a.k_stride_head, &a.v_stride_head, &a.out_stride_head})
    *each = s.dim;
  for (std::int64_t* each : {&a.q_stride_token, &a.k_stride_token, &a.v_stride_token, &a.out_stride_token}) {
    *each = heads * s.dim;
  }
  for (std::int64_t* each : {&a.q_stride_batch, &a.k_stride_batch, &a.v_stride_batch, &a.out_stride_batch}) {
    *each = tokens * heads * s.dim;
  }
  a.lse_stride_head = tokens;
  a.lse_stride_batch = heads * tokens;
  a.scale = 1.0F / std::sqrt(static_cast<float>(s.dim));
  a.dtype = dtype::f16;
  a.mask = attention_mask::causal_bottom_right;
  a.window_left = s.window;
}

void set_gradient_strides(attention_backward::arguments& a) {
  a.dout_stride_batch = a.dq_stride_batch = a.dk_stride_batch = a.dv_stride_batch = a.q_stride_batch;
  a.dout_stride_head = a.dq_stride_head = a.dk_stride_head = a.dv_stride_head = a.q_stride_head;
  a.dout_stride_token = a.dq_stride_token = a.dk_stride_token = a.dv_stride_token = a.q_stride_token;
}

void check_shape(const shape& s) {
  INFO("batch " << s.batch << " seqlen " << s.seqlen << " heads " << s.heads << " dim " << s.dim << " window "
                << s.window);
  REQUIRE(s.elements() > std::int64_t{1} << 31);
  device_memory memory;
  const std::array<pattern, 4> patterns{pattern{11}, pattern{12}, pattern{13}, pattern{14}};
  const auto rows = static_cast<std::size_t>(s.batch * s.heads * s.seqlen);
  arguments f;
  set_shape(f, s, s.heads, s.batch, s.seqlen);
  f.q = patterns[0].spread(memory, s.elements());
  f.k = patterns[1].spread(memory, s.elements());
  f.v = patterns[2].spread(memory, s.elements());
  auto* const dout = patterns[3].spread(memory, s.elements());
  auto* const out = memory.poisoned(static_cast<std::size_t>(s.elements()) * 2);
  f.out = out;
  auto* const lse = reinterpret_cast<float*>(memory.poisoned(rows * sizeof(float)));
  f.lse = lse;
  std::array<std::byte*, 3> gradients{};
  for (std::byte*& each : gradients) each = memory.poisoned(static_cast<std::size_t>(s.elements()) * 2);

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
    sample each;
    each.batch = n == 0 ? s.batch - 1 : std::uniform_int_distribution<std::int64_t>{0, s.batch - 1}(random);
    each.head = n == 0 ? s.heads - 1 : std::uniform_int_distribution<std::int64_t>{0, s.heads - 1}(random);
    std::int64_t token =
        n == 0 ? s.seqlen - 1 : std::uniform_int_distribution<std::int64_t>{0, s.seqlen - 1}(random);
    each.first = std::max<std::int64_t>(token - reach, 0);
    const std::int64_t last = std::min(token + reach, s.seqlen - 1);
    each.tokens = last - each.first + 1;
    each.at = token - each.first;
    set_shape(each.a, s, 1, 1, each.tokens);
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::int64_t i = each.first; i <= last; ++i) {
        const auto row = patterns[t].cut(((each.batch * s.seqlen + i) * s.heads + each.head) * s.dim, s.dim);
        each.inputs[t].insert(each.inputs[t].end(), row.begin(), row.end());
      }
    }
    each.a.q = each.inputs[0].data();
    each.a.k = each.inputs[1].data();
    each.a.v = each.inputs[2].data();
    sy::reference::attention_forward<double>(
        each.a, [&](std::int64_t at, std::int64_t, std::span<const double> values, double) {
          if (at == each.at * s.dim) each.out.assign(values.begin(), values.end());
        });
    attention_backward::arguments b;
    set_shape(b, s, 1, 1, each.tokens);
    set_gradient_strides(b);
    b.q = each.a.q;
    b.k = each.a.k;
    b.v = each.a.v;
    b.dout = each.inputs[3].data();
    const auto zeros = std::vector<double>(static_cast<std::size_t>(each.tokens * s.dim));
    sy::reference::attention_gradients<double> result{zeros, zeros, zeros, {}};
    sy::reference::attention_backward<double>(b, result);
    const std::array<const std::vector<double>*, 3> from{&result.dq, &result.dk, &result.dv};
    for (std::size_t t = 0; t < 3; ++t) {
      each.gradients[t].assign(from[t]->begin() + each.at * s.dim, from[t]->begin() + (each.at + 1) * s.dim);
    }
    samples.push_back(std::move(each));
  }
  // Values and gradients are of the size of 1; their weights, slopes and the output are rounded to half.
  const auto compare = [&](const char* name, const std::byte* tensor, const sample& each,
                           const std::vector<double>& expected) {
    const std::int64_t first = ((each.batch * s.seqlen + each.first + each.at) * s.heads + each.head) * s.dim;
    const std::string wrong =
        differences(name, expected, 0x1p-8, dtype::f16,
                    fetch(tensor + first * 2, static_cast<std::size_t>(s.dim) * 2).data());
    INFO(wrong);
    CHECK(wrong.empty());
  };

  const sy::device device{sy::cuda::open(0)};
  every_variant<attention_forward> forward{device};
  forward.skip_without_any(f);
  const std::vector<std::string> serving_forward = forward.serving(f);
  REQUIRE(!serving_forward.empty());
  for (const std::string& id : serving_forward) {
    INFO(id);
    poison(out, static_cast<std::size_t>(s.elements()) * 2);
    raw::call("cuCtxSynchronize");
    forward.forced(id)(sy::stream{}, f);
    raw::call("cuCtxSynchronize");
    for (const sample& each : samples) compare("out", out, each, each.out);
  }
  attention_backward::arguments b;
  set_shape(b, s, s.heads, s.batch, s.seqlen);
  set_gradient_strides(b);
  b.q = f.q;
  b.k = f.k;
  b.v = f.v;
  b.out = out;
  b.dout = dout;
  b.lse = lse;
  b.dq = gradients[0];
  b.dk = gradients[1];
  b.dv = gradients[2];
  every_variant<attention_backward> backward{device};
  backward.skip_without_any(b);
  const std::vector<std::string> serving_backward = backward.serving(b);
  REQUIRE(!serving_backward.empty());
  for (const std::string& id : serving_backward) {
    INFO(id);
    for (std::byte* each : gradients) poison(each, static_cast<std::size_t>(s.elements()) * 2);
    raw::call("cuCtxSynchronize");
    backward.forced(id)(sy::stream{}, b);
    raw::call("cuCtxSynchronize");
    for (const sample& each : samples) {
      for (std::size_t t = 0; t < 3; ++t) {
        compare(std::array{"dq", "dk", "dv"}[t], gradients[t], each, each.gradients[t]);
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
  SECTION("one long sequence") {
    check_shape({1, (std::int64_t{1} << 20) + 77, 16, 128, 63});
  }
  SECTION("many short sequences") {
    check_shape({2051, 129, 64, 128, -1});
  }
}
