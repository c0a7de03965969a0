// SPDX-License-Identifier: MIT
// The backend on the first GPU that it has kernels for: graphs that come again, transfers, events, memory.
// Results are compared with the backend's CPU device, which tests of its own compare with double precision.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "loaded_backend.hpp"
#include "tests/catch.hpp"
#include "tests/environment.hpp"

using switchyard::test::backend_pointer;
using switchyard::test::buffer_pointer;
using switchyard::test::context_pointer;
using switchyard::test::loaded;
using switchyard::test::make_context;

namespace {

[[nodiscard]] ggml_backend_dev_t first_gpu(const loaded& library) {
  ggml_backend_dev_t const device = library.first();
  if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU) skip_program("no GPU with kernels");
  return device;
}

[[nodiscard]] std::vector<float> random_values(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

/// A step of a small model with one layer: norm, queries, keys and values of one token, a cache, attention
/// with a mask, and a gated activation.
class step {
 public:
  explicit step(ggml_backend_dev_t on) : backend{ggml_backend_dev_init(on, nullptr)} {
    ggml_context* const c = context.get();
    x = ggml_new_tensor_2d(c, GGML_TYPE_F32, width, 1);
    gamma = ggml_new_tensor_1d(c, GGML_TYPE_F32, width);
    w = ggml_new_tensor_2d(c, GGML_TYPE_Q8_0, width, width);
    positions = ggml_new_tensor_1d(c, GGML_TYPE_I32, 1);
    slots = ggml_new_tensor_1d(c, GGML_TYPE_I64, 1);
    mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, keys, 1);
    k = ggml_new_tensor_2d(c, GGML_TYPE_F16, width, keys);
    v = ggml_new_tensor_2d(c, GGML_TYPE_F16, width, keys);
    ggml_tensor* const normed = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), gamma);
    ggml_tensor* const projected = ggml_reshape_3d(c, ggml_mul_mat(c, w, normed), dim, heads, 1);
    ggml_tensor* const turned =
        ggml_rope_ext(c, projected, positions, nullptr, dim, GGML_ROPE_TYPE_NEOX, 0, 10000, 1, 0, 1, 32, 1);
    ggml_tensor* const row = ggml_reshape_2d(c, turned, width, 1);
    ggml_tensor* const k_now = ggml_set_rows(c, k, row, slots);
    ggml_tensor* const v_now = ggml_set_rows(c, v, ggml_reshape_2d(c, projected, width, 1), slots);
    const auto cached = [&](ggml_tensor* of) {
      return ggml_permute(c, ggml_reshape_3d(c, of, dim, heads, keys), 0, 2, 1, 3);
    };
    ggml_tensor* const seen =
        ggml_flash_attn_ext(c, ggml_permute(c, turned, 0, 2, 1, 3), cached(k_now), cached(v_now), mask,
                            1.0F / std::sqrt(static_cast<float>(dim)), 0, 0);
    ggml_tensor* const gate = ggml_mul_mat(c, w, ggml_reshape_2d(c, seen, width, 1));
    out = ggml_add(c, ggml_mul_mat(c, w, ggml_swiglu_split(c, gate, row)), x);
    graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, out);
    buffer.reset(ggml_backend_alloc_ctx_tensors(c, backend.get()));
    ggml_backend_buffer_clear(buffer.get(), 0);
    REQUIRE(ggml_backend_supports_op(backend.get(), seen));
  }

  void set_weights(std::mt19937 random) {
    auto values = random_values(static_cast<std::size_t>(width * width), random);
    for (float& value : values) value /= std::sqrt(static_cast<float>(width));
    std::vector<std::uint8_t> packed(ggml_nbytes(w));
    ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), packed.data(), 0, width, width, nullptr);
    ggml_backend_tensor_set(w, packed.data(), 0, packed.size());
    const auto factors = random_values(static_cast<std::size_t>(width), random);
    ggml_backend_tensor_set(gamma, factors.data(), 0, ggml_nbytes(gamma));
  }

  /// Computes the token at a position, which sees those before it.
  [[nodiscard]] std::vector<float> run(std::int32_t position, std::mt19937 random) {
    const auto values = random_values(static_cast<std::size_t>(width), random);
    const std::int64_t slot = position;
    std::vector<ggml_fp16_t> bias(static_cast<std::size_t>(keys), ggml_fp32_to_fp16(-INFINITY));
    for (std::int32_t i = 0; i <= position; ++i) bias[static_cast<std::size_t>(i)] = ggml_fp32_to_fp16(0);
    ggml_backend_tensor_set_async(backend.get(), x, values.data(), 0, ggml_nbytes(x));
    ggml_backend_tensor_set_async(backend.get(), positions, &position, 0, sizeof position);
    ggml_backend_tensor_set_async(backend.get(), slots, &slot, 0, sizeof slot);
    ggml_backend_tensor_set_async(backend.get(), mask, bias.data(), 0, ggml_nbytes(mask));
    REQUIRE(ggml_backend_graph_compute_async(backend.get(), graph) == GGML_STATUS_SUCCESS);
    std::vector<float> result(static_cast<std::size_t>(width));
    ggml_backend_tensor_get_async(backend.get(), out, result.data(), 0, ggml_nbytes(out));
    ggml_backend_synchronize(backend.get());
    return result;
  }

  static constexpr std::int64_t dim = 64;
  static constexpr std::int64_t heads = 4;
  static constexpr std::int64_t width = dim * heads;
  static constexpr std::int64_t keys = 512;
  backend_pointer backend;
  context_pointer context = make_context();
  buffer_pointer buffer;
  ggml_cgraph* graph = nullptr;
  ggml_tensor *x, *gamma, *w, *positions, *slots, *mask, *k, *v, *out;
};

[[nodiscard]] double relative_error(std::span<const float> found, std::span<const float> expected) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    const double difference = static_cast<double>(found[i]) - wanted;
    error += difference * difference;
    size += wanted * wanted;
  }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("steps that are captured and replayed compute what the CPU computes", "[gpu]") {
  const loaded library;
  step gpu{first_gpu(library)};
  step cpu{library.cpu()};
  const std::uint32_t seed = switchyard::test::fresh_seed();
  gpu.set_weights(std::mt19937{seed});
  cpu.set_weights(std::mt19937{seed});
  for (std::int32_t position = 0; position < 40; ++position) {
    CAPTURE(position);
    const std::mt19937 random{seed + 1 + static_cast<std::uint32_t>(position)};
    CHECK(relative_error(gpu.run(position, random), cpu.run(position, random)) < 0.02);
  }
}

TEST_CASE("a GPU's memory is what its driver says", "[gpu]") {
  const loaded library;
  ggml_backend_dev_t const device = first_gpu(library);
  std::size_t free = 0;
  std::size_t total = 0;
  ggml_backend_dev_memory(device, &free, &total);
  CHECK(total > 0);
  CHECK(free < total);  // the context has some
  const backend_pointer backend{ggml_backend_dev_init(device, nullptr)};
  constexpr std::size_t bytes = std::size_t{1} << 30U;
  const buffer_pointer buffer{ggml_backend_alloc_buffer(backend.get(), bytes)};
  REQUIRE(buffer != nullptr);
  std::size_t left = 0;
  ggml_backend_dev_memory(device, &left, &total);
  CHECK(left < free);
}

TEST_CASE("backends of one GPU wait for each other's events", "[gpu]") {
  const loaded library;
  ggml_backend_dev_t const device = first_gpu(library);
  const backend_pointer first{ggml_backend_dev_init(device, nullptr)};
  const backend_pointer second{ggml_backend_dev_init(device, nullptr)};
  ggml_backend_event_t const event = ggml_backend_event_new(device);
  REQUIRE(event != nullptr);
  const context_pointer context = make_context();
  constexpr std::int64_t count = std::int64_t{1} << 22U;
  ggml_tensor* const from = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count);
  ggml_tensor* const to = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count);
  const buffer_pointer buffer{ggml_backend_alloc_ctx_tensors(context.get(), first.get())};
  // In pinned memory, so that the first copy is under way when the second is asked for.
  const buffer_pointer host{ggml_backend_buft_alloc_buffer(ggml_backend_dev_host_buffer_type(device),
                                                           static_cast<std::size_t>(count) * sizeof(float))};
  REQUIRE(ggml_backend_buffer_is_host(host.get()));
  const std::span values{static_cast<float*>(ggml_backend_buffer_get_base(host.get())),
                         static_cast<std::size_t>(count)};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ggml_backend_tensor_set_async(first.get(), from, values.data(), 0, ggml_nbytes(from));
  SECTION("of a copy between them") {
    ggml_backend_tensor_copy_async(first.get(), second.get(), from, to);
  }
  SECTION("of their own") {
    ggml_backend_event_record(event, first.get());
    ggml_backend_event_wait(second.get(), event);
    ggml_backend_tensor_copy_async(second.get(), second.get(), from, to);
    ggml_backend_event_synchronize(event);
  }
  std::vector<float> found(values.size());
  ggml_backend_tensor_get_async(second.get(), to, found.data(), 0, ggml_nbytes(to));
  ggml_backend_synchronize(second.get());
  CHECK(std::equal(found.begin(), found.end(), values.begin()));
  ggml_backend_synchronize(first.get());
  ggml_backend_event_free(event);
}
