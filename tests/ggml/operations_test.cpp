// SPDX-License-Identifier: MIT
// Nodes on the CPU device against double precision: operations that take several calls each.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "loaded_backend.hpp"
#include "tests/catch.hpp"
#include "tests/environment.hpp"

using switchyard::test::backend_pointer;
using switchyard::test::buffer_pointer;
using switchyard::test::captured_log;
using switchyard::test::context_pointer;
using switchyard::test::loaded;
using switchyard::test::make_context;

namespace {

using numbers = std::vector<double>;

[[nodiscard]] std::mt19937& random_source() {
  static std::mt19937 generator{switchyard::test::fresh_seed()};
  return generator;
}

/// A graph of one node on the CPU device.
class one_node {
 public:
  one_node() : backend_{ggml_backend_dev_init(library_.cpu(), nullptr)} {}

  [[nodiscard]] ggml_context* context() const { return context_.get(); }
  [[nodiscard]] bool is_supported(const ggml_tensor* node) const {
    return ggml_backend_dev_supports_op(library_.cpu(), node);
  }

  /// Memory for all tensors, full of NaN.
  void allocate() {
    buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend_.get()));
    REQUIRE(buffer_ != nullptr);
    ggml_backend_buffer_clear(buffer_.get(), 0xFF);
  }

  /// Random numbers for a tensor, quantised where it is, and what they are then.
  static numbers fill(ggml_tensor* tensor) {
    const auto count = static_cast<std::size_t>(ggml_nelements(tensor));
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_source());
    if (tensor->type == GGML_TYPE_F32) {
      ggml_backend_tensor_set(tensor, values.data(), 0, count * sizeof(float));
      return {values.begin(), values.end()};
    }
    std::vector<char> bytes(ggml_nbytes(tensor));
    ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, ggml_nrows(tensor), tensor->ne[0],
                        nullptr);
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    return as_numbers(tensor);
  }

  [[nodiscard]] ggml_status compute(ggml_tensor* node) {
    ggml_cgraph* const graph = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph, node);
    return ggml_backend_graph_compute(backend_.get(), graph);
  }

  [[nodiscard]] static numbers as_numbers(const ggml_tensor* tensor) {
    std::vector<char> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    if (tensor->type == GGML_TYPE_F32) {
      std::copy_n(reinterpret_cast<const float*>(bytes.data()), values.size(), values.data());
    } else {
      ggml_get_type_traits(tensor->type)->to_float(bytes.data(), values.data(), ggml_nelements(tensor));
    }
    return {values.begin(), values.end()};
  }

 private:
  loaded library_;
  backend_pointer backend_;
  context_pointer context_ = make_context();
  buffer_pointer buffer_;
};

/// The largest difference; infinite where there is a NaN.
[[nodiscard]] double worst_difference(const numbers& found, const numbers& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst;
}

struct sizes {
  std::int64_t columns, rows, experts, used, tokens;
};

/// Experts for each token, different ones, in rows that are longer than what is used of them.
[[nodiscard]] std::vector<std::int32_t> route(const sizes& of) {
  std::vector<std::int32_t> out;
  std::vector<std::int32_t> all;
  for (std::int64_t expert = 0; expert < of.experts; ++expert)
    all.push_back(static_cast<std::int32_t>(expert));
  for (std::int64_t token = 0; token < of.tokens; ++token) {
    std::shuffle(all.begin(), all.end(), random_source());
    out.insert(out.end(), all.begin(), all.end());
  }
  return out;
}

}  // namespace

TEST_CASE("tokens are multiplied with the matrices of their experts", "[ggml]") {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_Q8_0, GGML_TYPE_MXFP4, GGML_TYPE_Q5_K}) {
    for (const sizes of : {sizes{256, 40, 5, 3, 9}, sizes{256, 17, 4, 1, 1}, sizes{512, 33, 6, 6, 2}}) {
      for (const bool is_shared : {false, true}) {  // one row of x for all experts of a token
        CAPTURE(ggml_type_name(type), of.columns, of.used, is_shared);
        one_node graph;
        ggml_tensor* const w = ggml_new_tensor_3d(graph.context(), type, of.columns, of.rows, of.experts);
        const std::int64_t x_rows = is_shared ? 1 : of.used;
        ggml_tensor* const x =
            ggml_new_tensor_3d(graph.context(), GGML_TYPE_F32, of.columns, x_rows, of.tokens);
        ggml_tensor* const routes = ggml_new_tensor_2d(graph.context(), GGML_TYPE_I32, of.experts, of.tokens);
        ggml_tensor* const ids = ggml_view_2d(graph.context(), routes, of.used, of.tokens, routes->nb[1], 0);
        ggml_tensor* const node = ggml_mul_mat_id(graph.context(), w, x, ids);
        REQUIRE(graph.is_supported(node));
        graph.allocate();
        const numbers weights = one_node::fill(w);
        const numbers rows = one_node::fill(x);
        const std::vector<std::int32_t> experts = route(of);
        ggml_backend_tensor_set(routes, experts.data(), 0, experts.size() * sizeof(std::int32_t));
        REQUIRE(graph.compute(node) == GGML_STATUS_SUCCESS);
        numbers expected;
        for (std::int64_t token = 0; token < of.tokens; ++token) {
          for (std::int64_t slot = 0; slot < of.used; ++slot) {
            const std::int64_t expert = experts[static_cast<std::size_t>(token * of.experts + slot)];
            const std::int64_t from = (token * x_rows + slot % x_rows) * of.columns;
            for (std::int64_t row = 0; row < of.rows; ++row) {
              const std::int64_t with = (expert * of.rows + row) * of.columns;
              double sum = 0;
              for (std::int64_t i = 0; i < of.columns; ++i)
                sum += weights[static_cast<std::size_t>(with + i)] * rows[static_cast<std::size_t>(from + i)];
              expected.push_back(sum);
            }
          }
        }
        CHECK(worst_difference(one_node::as_numbers(node), expected) < 0.01);
      }
    }
  }
}

TEST_CASE("an expert that does not exist fails the graph", "[ggml]") {
  one_node graph;
  ggml_tensor* const w = ggml_new_tensor_3d(graph.context(), GGML_TYPE_Q8_0, 64, 8, 4);
  ggml_tensor* const x = ggml_new_tensor_3d(graph.context(), GGML_TYPE_F32, 64, 1, 2);
  ggml_tensor* const ids = ggml_new_tensor_2d(graph.context(), GGML_TYPE_I32, 2, 2);
  ggml_tensor* const node = ggml_mul_mat_id(graph.context(), w, x, ids);
  graph.allocate();
  const captured_log log;
  const std::array<std::int32_t, 4> wrong{0, 3, 4, 1};
  ggml_backend_tensor_set(ids, wrong.data(), 0, sizeof wrong);
  CHECK(graph.compute(node) == GGML_STATUS_FAILED);
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0].find("ids[1, 0] is 4: it must be at least 0 and below 4") != std::string::npos);
}

TEST_CASE("sinks take their share of a softmax", "[ggml]") {
  constexpr std::int64_t columns = 45;
  constexpr std::int64_t tokens = 5;
  constexpr std::int64_t heads = 3;
  constexpr float scale = 0.3F;
  for (const bool is_masked : {false, true}) {
    CAPTURE(is_masked);
    one_node graph;
    ggml_tensor* const x = ggml_new_tensor_4d(graph.context(), GGML_TYPE_F32, columns, tokens, heads, 2);
    ggml_tensor* const mask =
        is_masked ? ggml_new_tensor_2d(graph.context(), GGML_TYPE_F32, columns, tokens) : nullptr;
    ggml_tensor* const sinks = ggml_new_tensor_1d(graph.context(), GGML_TYPE_F32, heads);
    ggml_tensor* const node = ggml_soft_max_ext(graph.context(), x, mask, scale, 0);
    ggml_soft_max_add_sinks(node, sinks);
    REQUIRE(graph.is_supported(node));
    graph.allocate();
    const numbers scores = one_node::fill(x);
    const numbers added = is_masked ? one_node::fill(mask) : numbers(columns * tokens);
    const numbers by_head = one_node::fill(sinks);
    REQUIRE(graph.compute(node) == GGML_STATUS_SUCCESS);
    numbers expected;
    for (std::size_t row = 0; row < scores.size() / columns; ++row) {
      double total = std::exp(by_head[row / tokens % heads]);
      for (std::size_t i = 0; i < columns; ++i)
        expected.push_back(std::exp(static_cast<double>(scale) * scores[row * columns + i] +
                                    added[row % tokens * columns + i]));
      for (std::size_t i = 0; i < columns; ++i) total += expected[row * columns + i];
      for (std::size_t i = 0; i < columns; ++i) expected[row * columns + i] /= total;
    }
    CHECK(worst_difference(one_node::as_numbers(node), expected) < 1e-6);
  }
}

TEST_CASE("attention reads quantised caches", "[ggml]") {
  constexpr std::size_t dim = 64;
  constexpr std::size_t keys = 70;
  constexpr std::size_t tokens = 3;
  constexpr std::size_t heads = 4;
  constexpr std::size_t heads_kv = 2;
  constexpr float scale = 0.125F;
  const auto cache = [](one_node& graph, ggml_type type) {  // heads beside each other, as llama.cpp has them
    ggml_tensor* const all = ggml_new_tensor_3d(graph.context(), type, dim, heads_kv, keys);
    return std::pair{all, ggml_permute(graph.context(), all, 0, 2, 1, 3)};
  };
  for (const auto& [type_k, type_v] :
       {std::pair{GGML_TYPE_Q8_0, GGML_TYPE_Q8_0}, std::pair{GGML_TYPE_Q4_0, GGML_TYPE_Q8_0},
        std::pair{GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_1}}) {
    CAPTURE(ggml_type_name(type_k), ggml_type_name(type_v));
    one_node graph;
    ggml_tensor* const q = ggml_new_tensor_3d(graph.context(), GGML_TYPE_F32, dim, tokens, heads);
    const auto [k, k_by_head] = cache(graph, type_k);
    const auto [v, v_by_head] = cache(graph, type_v);
    ggml_tensor* const node =
        ggml_flash_attn_ext(graph.context(), q, k_by_head, v_by_head, nullptr, scale, 0, 0);
    REQUIRE(graph.is_supported(node));
    graph.allocate();
    const numbers queries = one_node::fill(q);
    const numbers key = one_node::fill(k);
    const numbers value = one_node::fill(v);
    REQUIRE(graph.compute(node) == GGML_STATUS_SUCCESS);
    numbers expected(dim * heads * tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t head = 0; head < heads; ++head) {
        double total = 0;
        double* const out = expected.data() + (token * heads + head) * dim;
        for (std::size_t at = 0; at < keys; ++at) {
          const std::size_t row = (at * heads_kv + head / (heads / heads_kv)) * dim;
          double score = 0;
          for (std::size_t i = 0; i < dim; ++i)
            score += queries[(head * tokens + token) * dim + i] * key[row + i];
          const double share = std::exp(static_cast<double>(scale) * score);
          total += share;
          for (std::size_t i = 0; i < dim; ++i) out[i] += share * value[row + i];
        }
        for (std::size_t i = 0; i < dim; ++i) out[i] /= total;
      }
    }
    CHECK(worst_difference(one_node::as_numbers(node), expected) < 0.01);
  }
  one_node graph;
  ggml_tensor* const q = ggml_new_tensor_3d(graph.context(), GGML_TYPE_F32, dim, tokens, heads);
  ggml_tensor* const node = ggml_flash_attn_ext(graph.context(), q, cache(graph, GGML_TYPE_BF16).second,
                                                cache(graph, GGML_TYPE_Q8_0).second, nullptr, scale, 0, 0);
  CHECK(!graph.is_supported(node));
}

TEST_CASE("rows are quantised into a cache", "[ggml]") {
  constexpr std::size_t columns = 96;
  constexpr std::size_t block = 32;
  one_node graph;
  ggml_tensor* const cache = ggml_new_tensor_2d(graph.context(), GGML_TYPE_Q8_0, columns, 8);
  ggml_tensor* const x = ggml_new_tensor_2d(graph.context(), GGML_TYPE_F32, columns, 3);
  ggml_tensor* const places = ggml_new_tensor_1d(graph.context(), GGML_TYPE_I64, 3);
  ggml_tensor* const node = ggml_set_rows(graph.context(), cache, x, places);
  REQUIRE(graph.is_supported(node));
  graph.allocate();
  numbers values = one_node::fill(x);
  const std::array<std::int64_t, 3> at{5, 0, 6};
  ggml_backend_tensor_set(places, at.data(), 0, sizeof at);
  const float broken = std::numeric_limits<float>::infinity();  // in the last block of row 1
  ggml_backend_tensor_set(x, &broken, (2 * columns - 1) * sizeof(float), sizeof broken);
  REQUIRE(graph.compute(node) == GGML_STATUS_SUCCESS);
  const numbers found = one_node::as_numbers(cache);
  for (std::size_t row = 0; row < at.size(); ++row) {
    const std::size_t place = static_cast<std::size_t>(at[row]) * columns;
    for (std::size_t first = 0; first < columns; first += block) {
      double largest = 0;
      for (std::size_t i = 0; i < block; ++i)
        largest = std::max(largest, std::fabs(values[row * columns + first + i]));
      for (std::size_t i = first; i < first + block; ++i) {
        CAPTURE(row, i);
        if (row == 1 && first + block == columns) {
          CHECK(std::isnan(found[place + i]));
        } else {  // half a step, and the rounding of the scale to f16
          CHECK(std::fabs(found[place + i] - values[row * columns + i]) < largest * (0.5001 / 127 + 0x1p-11));
        }
      }
    }
  }
  for (std::size_t i = columns; i < 5 * columns; ++i)
    CHECK(std::isnan(found[i]));  // nothing else was written
}
