// SPDX-License-Identifier: MIT
// The operators around attention in an engine - products with quantised weights, rows of a table, rotary
// embedding into a cache - through manifest and launch path: every variant against f64 on random problems, as
// the tuner checks them, and calls whose tensors have gaps, which the tuner does not make.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/tune/measuring/operator_bench.hpp>
#include <switchyard/tune/workloads/embedding.hpp>
#include <switchyard/tune/workloads/matmul_quantized.hpp>
#include <switchyard/tune/workloads/rotary_cache.hpp>

#include "operator_test.hpp"

namespace sy = switchyard;
namespace ops = switchyard::operators;
using ops::weight_format;
using switchyard::dtype;
using switchyard::test::side;
using switchyard::test::tensor;

namespace {

constexpr std::array<dtype, 3> types{dtype::f32, dtype::f16, dtype::bf16};
constexpr std::array formats{weight_format::f32,    weight_format::f16,   weight_format::bf16,
                             weight_format::q8_0,   weight_format::q4_0,  weight_format::q4_1,
                             weight_format::q4_k,   weight_format::q6_k,  weight_format::q5_k,
                             weight_format::iq4_nl, weight_format::mxfp4, weight_format::q5_0,
                             weight_format::q5_1};
constexpr std::size_t plain_formats = 3;

template <class Values>
[[nodiscard]] auto any_of(const Values& values) {
  return values[sy::test::random_source()() % std::size(values)];
}
[[nodiscard]] std::int64_t up_to(std::int64_t most) {
  return static_cast<std::int64_t>(sy::test::random_source()() % static_cast<std::uint64_t>(most)) + 1;
}

template <class Value>
void want(sy::tune::request& to, std::string_view axis, Value value) {
  to.set(axis, static_cast<std::int64_t>(value));
}

/// Every variant that may serve the problem, in memory that was full of NaN, with margins that must stay.
template <class Operator>
void check_variants(const sy::tune::request& wanted) {
  static sy::tune::operator_bench<Operator> bench{sy::test::tested_catalog(), sy::test::tested_device()};
  const auto set_up = bench.set_up(wanted, sy::tune::cache_state::warm, sy::test::random_source()(), true);
  INFO(sy::format_problem(sy::describe<Operator>(), set_up.problem));
  CHECK(set_up.variants.size() >= sy::test::least_variants());
  static std::set<std::pair<std::string, std::vector<std::int64_t>>> met;  // by id and types
  for (const auto& variant : set_up.variants) {
    std::vector<std::int64_t> types_of_variant;
    for (const auto& [axis, value] : variant.type) types_of_variant.push_back(value);
    if (!met.emplace(variant.id, std::move(types_of_variant)).second && !sy::test::sampled()) continue;
    sy::test::record_variant(Operator::name, variant.id);
    INFO(variant.id);
    CHECK_THAT(bench.check(variant.id, 1), no_text());
  }
}

/// Weights in rows with a gap, on the host and the device.
struct strided_weights {
  std::vector<std::byte> host;
  sy::tune::device_buffer device;
  std::int64_t stride;

  strided_weights(weight_format format, std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : host(static_cast<std::size_t>(rows * (ops::row_bytes(format, columns) + gap)), std::byte{0xff}),
        device{sy::test::tested_device().driver(), host.size()},
        stride{ops::row_bytes(format, columns) + gap} {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto blocks = sy::tune::random_blocks(format, columns, sy::test::random_source()());
      std::memcpy(host.data() + row * stride, blocks.data(), blocks.size());
    }
    device.upload(host.data(), host.size());
  }

  [[nodiscard]] ops::weight_matrix view(side of, weight_format format, std::int64_t rows,
                                        std::int64_t columns) const {
    return {of == side::host ? host.data() : device.data(), format, rows, columns, stride};
  }
};

}  // namespace

TEST_CASE("products with quantised weights of every variant", "[matmul_quantized]") {
  sy::test::skip_without_variants<ops::matmul_quantized>();
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", 60);
  for (std::uint32_t i = 0; i < calls; ++i) {
    sy::tune::request wanted;
    want(wanted, "dtype", any_of(types));
    want(wanted, "out_dtype", any_of(types));
    want(wanted, "weights", any_of(formats));
    want(wanted, "int8_activations", up_to(2) - 1);
    want(wanted, "with_bias", up_to(2) - 1);
    want(wanted, "rows", any_of(std::array<std::int64_t, 12>{0, 1, 2, 3, 4, 7, 13, 20, 40, 70, 130, 300}));
    // Kernels that read whole vectors take multiples of a block; of Q6_K rows of 16 bytes have eight.
    want(wanted, "in_features",
         i % 2 == 0 ? up_to(600) : any_of(std::array<std::int64_t, 4>{512, 1280, 2048, 4096}));
    want(wanted, "out_features", up_to(i % 4 == 0 ? 600 : 150));
    check_variants<ops::matmul_quantized>(wanted);
  }
}

TEST_CASE("products of rows with gaps", "[matmul_quantized]") {
  sy::test::skip_without_variants<ops::matmul_quantized>();
  for (const weight_format format : std::span{formats}.subspan(plain_formats)) {
    for (const bool int8_activations : {false, true}) {
      const std::int64_t rows = 11;
      const std::int64_t in = 512;
      const std::int64_t outputs = 37;
      const std::int64_t gap = up_to(3);
      tensor x = tensor::random(dtype::f16, rows * (in + gap), 1);
      tensor out = tensor::poisoned(dtype::f32, rows * (outputs + gap), 1);
      tensor bias = tensor::random(dtype::f32, outputs);
      const strided_weights weights{format, outputs, in, ops::block_alignment(format) * (2 * up_to(3) - 1)};
      const auto call = [&](side at) {
        return ops::matmul_quantized::call(
            x.view(at, {rows, in}, {in + gap, 1}), weights.view(at, format, outputs, in),
            out.view(at, {rows, outputs}, {outputs + gap, 1}),
            {.bias = bias.view(at, {outputs}), .int8_activations = int8_activations});
      };
      std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
      std::iota(all.begin(), all.end(), std::int64_t{0});
      const auto wanted = sy::reference::matmul_quantized(call(side::host), all, 0, outputs);
      const std::size_t count = sy::test::for_each_variant<ops::matmul_quantized>(
          call(side::device), [&](const std::string& id, const auto& run) {
            out.poison();
            run();
            out.download();
            sy::test::worst_error error;
            std::size_t written_gaps = 0;
            for (std::int64_t row = 0; row < rows; ++row) {
              for (std::int64_t n = 0; n < outputs; ++n) {
                const auto& value = wanted[static_cast<std::size_t>(row)][static_cast<std::size_t>(n)];
                error.add(out.at(row * (outputs + gap) + n), value.value, sy::test::epsilon(dtype::f32),
                          sy::tune::arithmetic_error(in, value.magnitude) + 8 * value.deviation);
              }
              for (std::int64_t n = outputs; n < outputs + gap; ++n)
                written_gaps += std::isnan(out.at(row * (outputs + gap) + n)) ? 0U : 1U;
            }
            INFO(id << " " << sy::enumerator_names<weight_format>[static_cast<std::size_t>(format)]);
            CHECK(error.share() <= 1);
            CHECK(written_gaps == 0);
          });
      CHECK(count >= sy::test::least_variants());
    }
  }
}

TEST_CASE("a NaN among activations reaches every output of its row, and no other", "[matmul_quantized]") {
  sy::test::skip_without_variants<ops::matmul_quantized>();
  const auto check = [](weight_format format, std::int64_t in, float broken) {
    const std::int64_t rows = 6;
    const std::int64_t outputs = 40;
    tensor x = tensor::random(dtype::f32, rows * in);
    static_cast<float*>(x.host())[2 * in + up_to(in) - 1] = broken;
    x.upload();
    tensor out = tensor::poisoned(dtype::f32, rows * outputs);
    const strided_weights weights{format, outputs, in, 0};
    const auto call = ops::matmul_quantized::call(
        x.view(side::device, {rows, in}), weights.view(side::device, format, outputs, in),
        out.view(side::device, {rows, outputs}), {.bias = {}, .int8_activations = true});
    sy::test::for_each_variant<ops::matmul_quantized>(call, [&](const std::string& id, const auto& run) {
      out.poison();
      run();
      out.download();
      INFO(id << " " << sy::enumerator_names<weight_format>[static_cast<std::size_t>(format)]
              << ", in_features " << in << ", " << broken);
      std::size_t wrong = 0;
      for (std::int64_t i = 0; i < rows * outputs; ++i)
        wrong += std::isfinite(out.at(i)) == (i / outputs == 2) ? 1U : 0U;
      CHECK(wrong == 0);
    });
  };
  // Kernels read several blocks of 32 weights at a time: each number of blocks that may be left over.
  for (const weight_format format : {weight_format::q4_0, weight_format::q4_1, weight_format::q8_0}) {
    for (const std::int64_t blocks : {1, 2, 3, 4, 5}) {
      check(format, 32 * blocks, std::numeric_limits<float>::quiet_NaN());
      check(format, 32 * blocks, std::numeric_limits<float>::infinity());
    }
  }
}

TEST_CASE("infinities and tiny numbers among activations on the CPU", "[matmul_quantized]") {
  sy::test::skip_without_variants<ops::matmul_quantized>();
  if (sy::test::tested_kind() != "host") return;
  const std::int64_t rows = 3;
  const std::int64_t in = 64;
  const std::int64_t outputs = 5;
  strided_weights weights{weight_format::q8_0, outputs, in, 0};
  for (std::size_t i = 0; i < weights.host.size(); ++i)  // integers above 0, behind a scale of two bytes
    if (i % 34 > 1) weights.host[i] = (weights.host[i] & std::byte{0x7f}) | std::byte{1};
  weights.device.upload(weights.host.data(), weights.host.size());
  tensor x = tensor::random(dtype::f32, rows * in);
  auto* const values = static_cast<float*>(x.host());
  std::fill_n(values + in, in, std::numeric_limits<float>::infinity());
  for (std::int64_t i = 2 * in; i < 3 * in; ++i) values[i] *= 0x1p-114F;  // 16 bits' scale is subnormal
  x.upload();
  tensor out = tensor::poisoned(dtype::f32, rows * outputs);
  const auto call = [&](side at) {
    return ops::matmul_quantized::call(x.view(at, {rows, in}),
                                       weights.view(at, weight_format::q8_0, outputs, in),
                                       out.view(at, {rows, outputs}));
  };
  const std::vector<std::int64_t> tiny{2};
  const auto wanted = sy::reference::matmul_quantized(call(side::host), tiny, 0, outputs)[0];
  sy::test::for_each_variant<ops::matmul_quantized>(
      call(side::device), [&](const std::string& id, const auto& run) {
        out.poison();
        run();
        out.download();
        INFO(id);
        sy::test::worst_error error;
        for (std::int64_t n = 0; n < outputs; ++n) {
          CHECK_FALSE(out.at(outputs + n) < std::numeric_limits<double>::infinity());  // or NaN
          const auto& [value, magnitude, deviation] = wanted[static_cast<std::size_t>(n)];
          error.add(out.at(2 * outputs + n), value, sy::test::epsilon(dtype::f32),
                    sy::tune::arithmetic_error(in, magnitude) + 8 * deviation + 0x1p-10 * magnitude);
        }
        CHECK(error.share() <= 1);
      });
}

TEST_CASE("rows of a table of every variant", "[embedding]") {
  sy::test::skip_without_variants<ops::embedding>();
  for (const weight_format format : formats) {
    for (const dtype type : types) {
      // Kernels that read whole vectors take multiples of one.
      for (const std::int64_t columns : {up_to(300), 64 * up_to(5)}) {
        sy::tune::request wanted;
        want(wanted, "dtype", type);
        want(wanted, "weights", format);
        want(wanted, "rows", columns % 64 == 0 ? up_to(20) : up_to(20) - 1);
        want(wanted, "columns", columns);
        check_variants<ops::embedding>(wanted);
      }
    }
  }
}

TEST_CASE("numbers outside the table give rows of NaN", "[embedding]") {
  sy::test::skip_without_variants<ops::embedding>();
  const std::int64_t columns = 64;
  const std::vector<std::int32_t> ids{3, -1, 0, 4, 2};
  const strided_weights table{weight_format::q8_0, 4, columns, 2};
  tensor out = tensor::poisoned(dtype::f16, 5 * columns);
  sy::tune::device_buffer numbers{sy::test::tested_device().driver(), ids.size() * sizeof(std::int32_t)};
  numbers.upload(ids.data(), ids.size() * sizeof(std::int32_t));
  const auto call =
      ops::embedding::call(table.view(side::device, weight_format::q8_0, 4, columns),
                           {numbers.data(), dtype::i32, {5}}, out.view(side::device, {5, columns}));
  sy::test::for_each_variant<ops::embedding>(call, [&](const std::string& id, const auto& run) {
    out.poison();
    run();
    out.download();
    INFO(id);
    std::size_t wrong = 0;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double found = out.at(static_cast<std::int64_t>(row) * columns + c);
        if (ids[row] < 0 || ids[row] >= 4) {
          wrong += std::isnan(found) ? 0U : 1U;
        } else {
          const double value =
              sy::reference::weight_at(weight_format::q8_0, table.host.data() + ids[row] * table.stride, c);
          wrong += std::abs(found - value) <= 0x1p-10 * std::abs(value) + 0x1p-20 ? 0U : 1U;
        }
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("rotary embedding into a cache of every variant", "[rotary_cache]") {
  sy::test::skip_without_variants<ops::rotary_cache>();
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", 60);
  for (std::uint32_t i = 0; i < calls; ++i) {
    sy::tune::request wanted;
    const std::int64_t head_dim = any_of(std::array<std::int64_t, 5>{64, 128, 80, 6, 33});
    const bool is_whole = up_to(3) == 1;  // which the fastest kernels take
    want(wanted, "dtype", any_of(types));
    want(wanted, "kv_dtype", any_of(std::array{dtype::f16, dtype::bf16, dtype::f8_e4m3}));
    want(wanted, "style", up_to(2) - 1);
    want(wanted, "head_dim", head_dim);
    want(wanted, "rotary_dim", is_whole ? head_dim / 2 * 2 : 2 * up_to(head_dim / 2));
    want(wanted, "q_norm", up_to(2) - 1);
    want(wanted, "k_norm", up_to(2) - 1);
    want(wanted, "scaled", up_to(2) - 1);
    want(wanted, "page_size", any_of(std::array<std::int64_t, 3>{1, 16, 60}));
    want(wanted, "tokens", up_to(30) - 1);
    want(wanted, "heads", up_to(9));
    want(wanted, "heads_kv", up_to(4));
    check_variants<ops::rotary_cache>(wanted);
  }
}

TEST_CASE("only the slots of tokens are written, and none for a negative one", "[rotary_cache]") {
  sy::test::skip_without_variants<ops::rotary_cache>();
  const std::int64_t tokens = 5;
  const std::int64_t heads_kv = 2;
  const std::int64_t dim = 16;
  const std::int64_t page = 4;
  const std::int64_t pages = 3;
  const std::vector<std::int64_t> slots{5, -1, 0, 11, 6};
  const std::vector<std::int64_t> positions{0, 1, 2, 3, 4};
  tensor qkv = tensor::random(dtype::f16, tokens * (3 + 2 * heads_kv) * dim);
  tensor k_cache = tensor::poisoned(dtype::f16, pages * page * heads_kv * dim);
  tensor v_cache = tensor::poisoned(dtype::f16, pages * page * heads_kv * dim);
  tensor cos = tensor::random(dtype::f32, 8 * dim / 2);
  tensor sin = tensor::random(dtype::f32, 8 * dim / 2);
  const auto upload = [](const std::vector<std::int64_t>& values) {
    sy::tune::device_buffer out{sy::test::tested_device().driver(), values.size() * sizeof(std::int64_t)};
    out.upload(values.data(), values.size() * sizeof(std::int64_t));
    return out;
  };
  const auto device_slots = upload(slots);
  const auto device_positions = upload(positions);
  const auto call = ops::rotary_cache::call_packed(qkv.view(side::device, {tokens, 3 + 2 * heads_kv, dim}),
                                                   k_cache.view(side::device, {pages, page, heads_kv, dim}),
                                                   v_cache.view(side::device, {pages, page, heads_kv, dim}),
                                                   {cos.view(side::device, {8, dim / 2}),
                                                    sin.view(side::device, {8, dim / 2}),
                                                    {device_positions.data(), dtype::i64, {tokens}},
                                                    {device_slots.data(), dtype::i64, {tokens}}},
                                                   {});
  sy::test::for_each_variant<ops::rotary_cache>(call, [&](const std::string& id, const auto& run) {
    k_cache.poison();
    v_cache.poison();
    run();
    INFO(id);
    for (tensor* const cache : {&k_cache, &v_cache}) {
      cache->download();
      std::size_t wrong = 0;
      for (std::int64_t i = 0; i < cache->count(); ++i) {
        const bool is_used = std::find(slots.begin(), slots.end(), i / (heads_kv * dim)) != slots.end();
        wrong += std::isnan(cache->at(i)) == is_used ? 1U : 0U;
      }
      CHECK(wrong == 0);
    }
  });
}
