// SPDX-License-Identifier: MIT
// The backend as ggml loads it: what it computes, what it declines, and what goes wrong.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
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

/// rms_norm(w x), on a backend of its own, against double precision.
class small_graph {
 public:
  small_graph(ggml_backend_dev_t on, std::uint32_t seed)
      : backend_{ggml_backend_dev_init(on, nullptr)}, context_{make_context()} {
    w_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, columns, rows);
    x_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, columns, tokens);
    out_ = ggml_rms_norm(context_.get(), ggml_mul_mat(context_.get(), w_, x_), 1e-5F);
    graph_ = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph_, out_);
    buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend_.get()));
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    for (float& value : w_values_) value = normal(random);
    for (float& value : x_values_) value = normal(random);
    ggml_backend_tensor_set(w_, w_values_.data(), 0, sizeof w_values_);
    ggml_backend_tensor_set(x_, x_values_.data(), 0, sizeof x_values_);
    ggml_backend_tensor_memset(out_, 0xFF, 0, ggml_nbytes(out_));
  }

  [[nodiscard]] ggml_status compute() { return ggml_backend_graph_compute(backend_.get(), graph_); }

  [[nodiscard]] double worst_difference() const {
    std::array<float, rows * tokens> found{};
    ggml_backend_tensor_get(out_, found.data(), 0, sizeof found);
    double worst = 0;
    for (std::size_t token = 0; token < tokens; ++token) {
      std::array<double, rows> products{};
      double squares = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < columns; ++i)
          products[row] += static_cast<double>(w_values_[row * columns + i]) *
                           static_cast<double>(x_values_[token * columns + i]);
        squares += products[row] * products[row];
      }
      for (std::size_t row = 0; row < rows; ++row) {
        const double expected = products[row] / std::sqrt(squares / rows + 1e-5);
        const double difference = std::fabs(static_cast<double>(found[token * rows + row]) - expected);
        if (!(difference <= worst)) worst = difference;  // NaN is the worst
      }
    }
    return worst;
  }

 private:
  static constexpr std::size_t columns = 96;
  static constexpr std::size_t rows = 64;
  static constexpr std::size_t tokens = 5;
  backend_pointer backend_;
  context_pointer context_;
  buffer_pointer buffer_;
  ggml_tensor* w_ = nullptr;
  ggml_tensor* x_ = nullptr;
  ggml_tensor* out_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  std::array<float, columns * rows> w_values_{};
  std::array<float, columns * tokens> x_values_{};
};

}  // namespace

TEST_CASE("a graph is computed, again after unloading and loading", "[ggml]") {
  const std::uint32_t seed = switchyard::test::fresh_seed();
  for (unsigned round = 0; round < 3; ++round) {
    const loaded library;
    small_graph graph{library.cpu(), seed + round};
    CHECK(graph.compute() == GGML_STATUS_SUCCESS);
    CHECK(graph.worst_difference() < 1e-4);
  }
}

// glibc keeps a library mapped whose threads have thread-local objects: loading it again finds it.
TEST_CASE("loading again starts no more threads", "[ggml]") {
  const auto threads_after = [](unsigned seed) {
    const loaded library;
    small_graph graph{library.cpu(), seed};
    CHECK(graph.compute() == GGML_STATUS_SUCCESS);
    return std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {});
  };
  const auto first = threads_after(1);
  for (unsigned round = 2; round < 5; ++round) CHECK(threads_after(round) == first);
}

TEST_CASE("without kernels there is no device and one message", "[ggml]") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ggml_switchyard_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "bin");
  const auto copy = folder / "bin/libggml-switchyard.so";
  std::filesystem::copy_file(SWITCHYARD_GGML_BACKEND, copy);
  {
    const captured_log log;
    const loaded library{copy.string()};
    CHECK(library.devices() == 0);
    REQUIRE(log.lines().size() == 1);
    CHECK(log.lines()[0].find("no device, because these folders have no kernels") != std::string::npos);
    CHECK(log.lines()[0].find("SWITCHYARD_PATH") != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("what has no kernel is declined", "[ggml]") {
  const loaded library;
  const context_pointer context = make_context();
  const auto product = [&](ggml_type type) {
    return ggml_mul_mat(context.get(), ggml_new_tensor_2d(context.get(), type, 256, 8),
                        ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 8));
  };
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                               GGML_TYPE_Q4_1, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q5_K,
                               GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
    CAPTURE(ggml_type_name(type));
    CHECK(ggml_backend_dev_supports_op(library.cpu(), product(type)));
  }
  for (const ggml_type type : {GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_IQ4_XS, GGML_TYPE_TQ1_0}) {
    CAPTURE(ggml_type_name(type));
    CHECK(!ggml_backend_dev_supports_op(library.cpu(), product(type)));
  }
  ggml_tensor* const any = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 8);
  CHECK(!ggml_backend_dev_supports_op(library.cpu(), ggml_argsort(context.get(), any, GGML_SORT_ORDER_ASC)));
}

TEST_CASE("a node that was declined fails its graph", "[ggml]") {
  const loaded library;
  const backend_pointer backend{ggml_backend_dev_init(library.cpu(), nullptr)};
  const context_pointer context = make_context();
  ggml_tensor* const x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 8);
  ggml_cgraph* const graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, ggml_argsort(context.get(), x, GGML_SORT_ORDER_ASC));
  const buffer_pointer buffer{ggml_backend_alloc_ctx_tensors(context.get(), backend.get())};
  const captured_log log;
  CHECK(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_FAILED);
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0].find("ARGSORT") != std::string::npos);
}

// A graph's allocator gives the memory of what is read no more to later nodes, at any offset.
TEST_CASE("nodes that one call could compute do not overwrite what it reads", "[ggml]") {
  constexpr std::int64_t columns = 96;
  constexpr std::int64_t rows = 512;
  constexpr std::size_t bytes = columns * rows * sizeof(float);
  constexpr std::size_t row_bytes = columns * sizeof(float);
  const loaded library;
  const backend_pointer backend{ggml_backend_dev_init(library.cpu(), nullptr)};
  const buffer_pointer buffer{ggml_backend_alloc_buffer(backend.get(), 8 * bytes)};
  const std::uint32_t seed = switchyard::test::fresh_seed();
  for (const bool with_sum : {false, true}) {
    for (const std::size_t distance : {std::size_t{0}, row_bytes, 64 * row_bytes}) {
      CAPTURE(with_sum, distance);
      const context_pointer context = make_context();
      ggml_tensor* const x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows);
      ggml_tensor* const y = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, columns, rows);
      ggml_tensor* const gamma = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, columns);
      ggml_tensor* const sum = with_sum ? ggml_add(context.get(), x, y) : x;
      ggml_tensor* const norm = ggml_rms_norm(context.get(), sum, 1e-5F);
      ggml_tensor* const product = ggml_mul(context.get(), norm, gamma);
      auto* const base = static_cast<char*>(ggml_backend_buffer_get_base(buffer.get()));
      const auto place = [&](ggml_tensor* tensor, std::size_t offset) {
        REQUIRE(ggml_backend_tensor_alloc(buffer.get(), tensor, base + offset) == GGML_STATUS_SUCCESS);
      };
      place(x, 0);
      place(product, distance);
      place(y, 3 * bytes);
      place(norm, 4 * bytes);
      place(gamma, 5 * bytes);
      if (with_sum) place(sum, 6 * bytes);
      ggml_cgraph* const graph = ggml_new_graph(context.get());
      ggml_build_forward_expand(graph, product);
      std::mt19937 random{seed};
      std::normal_distribution<float> normal;
      std::vector<float> values(3 * columns * rows);
      for (float& value : values) value = normal(random);
      const float* const x_values = values.data();
      const float* const y_values = x_values + columns * rows;
      const float* const factors = y_values + columns * rows;
      ggml_backend_tensor_set(x, x_values, 0, bytes);
      ggml_backend_tensor_set(y, y_values, 0, bytes);
      ggml_backend_tensor_set(gamma, factors, 0, row_bytes);
      REQUIRE(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_SUCCESS);
      std::vector<float> found(columns * rows);
      ggml_backend_tensor_get(product, found.data(), 0, bytes);
      double worst = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = [&](std::int64_t i) {
          const double value = static_cast<double>(x_values[row * columns + i]);
          return with_sum ? value + static_cast<double>(y_values[row * columns + i]) : value;
        };
        double squares = 0;
        for (std::int64_t i = 0; i < columns; ++i) squares += at(i) * at(i);
        for (std::int64_t i = 0; i < columns; ++i) {
          const double expected =
              at(i) / std::sqrt(squares / columns + 1e-5) * static_cast<double>(factors[i]);
          const double is = static_cast<double>(found[static_cast<std::size_t>(row * columns + i)]);
          if (!(std::fabs(is - expected) <= worst)) worst = std::fabs(is - expected);
        }
      }
      CHECK(worst < 1e-4);
    }
  }
}

TEST_CASE("two models are computed at once", "[ggml]") {
  const loaded library;
  const std::uint32_t seed = switchyard::test::fresh_seed();
  std::array<double, 2> worst{};
  std::array<std::thread, 2> both;
  for (std::size_t i = 0; i < both.size(); ++i) {
    both[i] = std::thread{[&, i] {
      small_graph graph{library.cpu(), seed + static_cast<unsigned>(i)};
      for (int round = 0; round < 200; ++round) {
        if (graph.compute() != GGML_STATUS_SUCCESS) worst[i] = 1;
      }
      worst[i] = std::max(worst[i], graph.worst_difference());
    }};
  }
  for (std::thread& thread : both) thread.join();
  CHECK(worst[0] < 1e-4);
  CHECK(worst[1] < 1e-4);
}

TEST_CASE("a place outside the tensor fails the graph", "[ggml]") {
  const loaded library;
  const backend_pointer backend{ggml_backend_dev_init(library.cpu(), nullptr)};
  const context_pointer context = make_context();
  ggml_tensor* const cache = ggml_new_tensor_2d(context.get(), GGML_TYPE_F16, 64, 8);
  ggml_tensor* const rows = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 64, 2);
  ggml_tensor* const places = ggml_new_tensor_1d(context.get(), GGML_TYPE_I64, 2);
  ggml_cgraph* const graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, ggml_set_rows(context.get(), cache, rows, places));
  const buffer_pointer buffer{ggml_backend_alloc_ctx_tensors(context.get(), backend.get())};
  const std::array<std::int64_t, 2> wrong{7, 8};
  ggml_backend_tensor_set(places, wrong.data(), 0, sizeof wrong);
  const captured_log log;
  CHECK(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_FAILED);
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0].find("ids[0, 0, 1] is 8: it must be at least 0 and below 8") != std::string::npos);
}

TEST_CASE("out of memory is a status, for buffers and for graphs", "[ggml]") {
  const loaded library;
  const captured_log log;
  ggml_backend_buffer_type_t const type = ggml_backend_dev_buffer_type(library.cpu());
  CHECK(ggml_backend_buft_alloc_buffer(type, std::size_t{1} << 60U) == nullptr);
  REQUIRE(!log.lines().empty());
  CHECK(log.lines()[0].find("bytes left") != std::string::npos);

  // Queries and results are converted: 64 MiB each, of which the process then may have no more.
  const backend_pointer backend{ggml_backend_dev_init(library.cpu(), nullptr)};
  const context_pointer context = make_context();
  constexpr std::int64_t tokens = 16384;
  ggml_tensor* const q = ggml_new_tensor_4d(context.get(), GGML_TYPE_F32, 64, tokens, 32, 1);
  ggml_tensor* const k = ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, 64, 16, 8, 1);
  ggml_tensor* const v = ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, 64, 16, 8, 1);
  ggml_cgraph* const graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, ggml_flash_attn_ext(context.get(), q, k, v, nullptr, 0.125F, 0, 0));
  const buffer_pointer buffer{ggml_backend_alloc_ctx_tensors(context.get(), backend.get())};
  REQUIRE(buffer != nullptr);
  ggml_backend_buffer_clear(buffer.get(), 0);
  std::size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  rlimit now = before;
  now.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (std::size_t{32} << 20U);
  REQUIRE(::setrlimit(RLIMIT_AS, &now) == 0);
  const ggml_status status = ggml_backend_graph_compute(backend.get(), graph);
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(status == GGML_STATUS_ALLOC_FAILED);
  CHECK(log.lines().back().find("FLASH_ATTN_EXT") != std::string::npos);
}
