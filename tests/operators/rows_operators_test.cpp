// SPDX-License-Identifier: MIT
// Gated activations, norms and softmax, forward and backward: every variant against f64.
//
// Allowance: results are rounded to their type once, which costs half a unit in the last place; twice that is
// allowed. Before it the arithmetic is f32, whose error over a row of n columns is allowed as 16 f32 units
// times the largest magnitude that enters, times 1 + log2(n) for sums in a tree. A column's sum over rows is
// held to the same rule with the sum of magnitudes.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/tune/reference/activation.hpp>
#include <switchyard/tune/reference/norm.hpp>
#include <switchyard/tune/reference/softmax.hpp>

#include "operator_test.hpp"

namespace sy = switchyard;
namespace ops = switchyard::operators;
using switchyard::test::side;
using switchyard::test::tensor;

namespace {

struct shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t gap;    ///< elements between rows
  std::int64_t first;  ///< elements before the tensor: breaks its alignment
};

std::vector<shape> shapes() {
  std::vector<shape> all{{1, 64, 0, 0},     {5, 128, 0, 0},   {3, 100, 0, 0},   {7, 1, 0, 0},
                         {2, 257, 3, 1},    {33, 768, 0, 0},  {9, 1000, 8, 0},  {4, 4096, 0, 0},
                         {3, 4100, 4, 0},   {2, 8192, 0, 0},  {130, 512, 0, 0}, {1, 12288, 0, 0},
                         {2, 16384, 16, 0}, {2, 32768, 0, 0}, {1, 65536, 0, 0}};
  if (sy::test::tested_device().properties().backend != "host") {
    all.insert(all.end(), {{1031, 2048, 0, 0},
                           {3, 131072, 0, 0},
                           {2, 262144, 0, 0},
                           {301, 5120, 0, 0},
                           {2, 65544, 8, 0},
                           {4099, 64, 0, 0}});
  }
  return all;
}

constexpr std::array<sy::dtype, 3> types{sy::dtype::f32, sy::dtype::f16, sy::dtype::bf16};

double arithmetic(std::int64_t count, double magnitude) {
  return 16 * 0x1p-24 * (1 + std::log2(static_cast<double>(count) + 1)) * magnitude;
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (const double value : values) out = std::max(out, std::abs(value));
  return out;
}

/// Compares rows; the gaps between them must still hold the poison.
void require_rows(tensor& found, const std::vector<double>& wanted, const shape& of, std::int64_t stride,
                  double magnitude, const std::string& description) {
  found.download();
  sy::test::worst_error error;
  std::size_t written_gaps = 0;
  for (std::int64_t row = 0; row < of.rows; ++row) {
    for (std::int64_t c = 0; c < of.columns; ++c) {
      error.add(found.at(row * stride + c), wanted[static_cast<std::size_t>(row * of.columns + c)],
                sy::test::epsilon(found.type()),
                arithmetic(of.columns, magnitude) + sy::test::smallest(found.type()));
    }
    for (std::int64_t c = of.columns; c < stride && row * stride + c < found.count(); ++c) {
      written_gaps += std::isnan(found.at(row * stride + c)) ? 0U : 1U;
    }
  }
  INFO(description << ": " << of.rows << " x " << of.columns << ", gap " << of.gap << ", first " << of.first);
  CHECK(error.share() <= 1);
  CHECK(written_gaps == 0);
}

void require_values(tensor& found, const std::vector<double>& wanted, double absolute,
                    const std::string& description) {
  found.download();
  sy::test::worst_error error;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error.add(found.at(static_cast<std::int64_t>(i)), wanted[i], sy::test::epsilon(found.type()), absolute);
  }
  INFO(description);
  CHECK(error.share() <= 1);
}

/// Elements that a tensor of this shape spans.
std::int64_t span_of(const shape& of, std::int64_t stride) {
  return of.rows * stride;
}

/// A tensor of this shape as a call takes it.
sy::tensor rows_of(tensor& memory, side at, const shape& of) {
  return memory.view(at, {of.rows, of.columns}, {of.columns + of.gap, 1});
}

template <class Operator>
void test_softmax(sy::dtype type, const shape& of) {
  const std::int64_t stride = of.columns + of.gap;
  tensor x = tensor::random(type, span_of(of, stride), of.first);
  tensor y = tensor::random(type, span_of(of, stride), of.first);
  tensor out = tensor::poisoned(type, span_of(of, stride), of.first);
  const auto call = [&](side at) {
    const auto view = [&](tensor& memory) { return rows_of(memory, at, of); };
    if constexpr (std::is_same_v<Operator, ops::softmax>) {
      return Operator::call(view(x), view(out), {.scale = 1.75F});
    } else {
      return Operator::call(view(x), view(y), view(out), {.scale = 1.75F});
    }
  };
  std::vector<double> wanted;
  if constexpr (std::is_same_v<Operator, ops::softmax>) {
    wanted = sy::reference::softmax(call(side::host));
  } else {
    wanted = sy::reference::softmax_backward(call(side::host));
  }
  const double magnitude = std::is_same_v<Operator, ops::softmax> ? 1 : static_cast<double>(of.columns);
  const std::size_t count =
      sy::test::for_each_variant<Operator>(call(side::device), [&](const std::string& id, const auto& run) {
        out.poison();
        run();
        require_rows(out, wanted, of, stride, std::max(largest(wanted), 1e-3 * magnitude), id);
      });
  INFO(Operator::name << " " << of.rows << " x " << of.columns);
  CHECK(count >= sy::test::least_variants());
}

template <class Operator>
void test_gated(sy::dtype type, const shape& of, ops::gated_function function, bool packed) {
  const std::int64_t width = packed ? 2 * of.columns : of.columns;
  const std::int64_t in_stride = width + of.gap;
  const std::int64_t stride = of.columns + of.gap;
  const typename Operator::arguments others{.function = function};
  tensor gate = tensor::random(type, span_of(of, in_stride), of.first);
  tensor up = tensor::random(type, span_of(of, stride), of.first);
  const shape gate_shape{of.rows, width, of.gap, of.first};
  std::size_t count = 0;
  if constexpr (std::is_same_v<Operator, ops::gated_activation>) {
    tensor out = tensor::poisoned(type, span_of(of, stride), of.first);
    const auto call = [&](side at) {
      const auto view = [&](tensor& memory) { return rows_of(memory, at, of); };
      const sy::tensor gates = rows_of(gate, at, gate_shape);
      return packed ? Operator::call_packed(view(out), gates, others)
                    : Operator::call(gates, view(up), view(out), others);
    };
    const auto wanted = sy::reference::gated_activation(call(side::host));
    const auto device = call(side::device);
    count = sy::test::for_each_variant<Operator>(device, [&](const std::string& id, const auto& run) {
      out.poison();
      run();
      require_rows(out, wanted, of, stride, 1, id);
    });
  } else {
    tensor grad = tensor::random(type, span_of(of, stride), of.first);
    tensor grad_gate = tensor::poisoned(type, span_of(of, in_stride), of.first);
    tensor grad_up = tensor::poisoned(type, span_of(of, stride), of.first);
    const auto call = [&](side at) {
      const auto view = [&](tensor& memory) { return rows_of(memory, at, of); };
      const sy::tensor gates = rows_of(gate, at, gate_shape);
      const sy::tensor grad_gates = rows_of(grad_gate, at, gate_shape);
      return packed ? Operator::call_packed(view(grad), gates, grad_gates, others)
                    : Operator::call(view(grad), gates, view(up), grad_gates, view(grad_up), others);
    };
    const auto wanted = sy::reference::gated_activation_backward(call(side::host));
    const auto device = call(side::device);
    std::vector<double> gates = wanted.gate;
    if (packed) {
      gates.clear();
      for (std::int64_t row = 0; row < of.rows; ++row) {
        const auto begin = static_cast<std::ptrdiff_t>(row * of.columns);
        const auto end = begin + static_cast<std::ptrdiff_t>(of.columns);
        gates.insert(gates.end(), wanted.gate.begin() + begin, wanted.gate.begin() + end);
        gates.insert(gates.end(), wanted.up.begin() + begin, wanted.up.begin() + end);
      }
    }
    count = sy::test::for_each_variant<Operator>(device, [&](const std::string& id, const auto& run) {
      grad_gate.poison();
      grad_up.poison();
      run();
      require_rows(grad_gate, gates, gate_shape, in_stride, 1, id);
      if (!packed) require_rows(grad_up, wanted.up, of, stride, 1, id);
    });
  }
  INFO(Operator::name << " " << of.rows << " x " << of.columns << (packed ? " packed" : ""));
  CHECK(count >= sy::test::least_variants());
}

struct norm_case {
  sy::dtype type;
  sy::dtype gamma_type;
  bool gamma;
  bool residual;
  bool statistics;
};

template <class Operator>
void test_norm(const norm_case& with, const shape& of) {
  constexpr bool centred = std::is_same_v<Operator, ops::layer_norm>;
  const std::int64_t stride = of.columns + of.gap;
  tensor x = tensor::random(with.type, span_of(of, stride), of.first);
  tensor residual = tensor::random(with.type, span_of(of, stride), of.first);
  tensor gamma = tensor::random(with.gamma_type, of.columns, of.first);
  tensor beta = tensor::random(with.gamma_type, of.columns, of.first);
  tensor out = tensor::poisoned(with.type, span_of(of, stride), of.first);
  tensor sum = tensor::poisoned(with.type, span_of(of, stride), of.first);
  tensor rstd = tensor::poisoned(sy::dtype::f32, of.rows);
  tensor mean = tensor::poisoned(sy::dtype::f32, of.rows);
  const auto call = [&](side at) {
    const auto view = [&](tensor& memory) { return rows_of(memory, at, of); };
    typename Operator::options more{.gamma_offset = with.gamma ? 1.0F : 0.0F};
    if (with.gamma) more.gamma = gamma.view(at, {of.columns});
    if (with.residual) {
      more.residual = view(residual);
      more.residual_out = view(sum);
    }
    if (with.statistics) more.rstd = rstd.view(at, {of.rows});
    if constexpr (centred) {
      if (with.gamma) more.beta = beta.view(at, {of.columns});
      if (with.statistics) more.mean = mean.view(at, {of.rows});
    }
    return Operator::call(view(x), view(out), more);
  };
  sy::reference::norm_result wanted;
  if constexpr (centred) {
    wanted = sy::reference::layer_norm(call(side::host));
  } else {
    wanted = sy::reference::rms_norm(call(side::host));
  }
  const std::size_t count =
      sy::test::for_each_variant<Operator>(call(side::device), [&](const std::string& id, const auto& run) {
        out.poison();
        sum.poison();
        rstd.poison();
        mean.poison();
        run();
        const double magnitude = std::max(1.0, largest(wanted.rstd)) * 2;
        require_rows(out, wanted.out, of, stride, magnitude, id);
        if (with.residual) require_rows(sum, wanted.h, of, stride, 1, id);
        if (with.statistics)
          require_values(rstd, wanted.rstd, arithmetic(of.columns, magnitude * magnitude), id + " rstd");
        if (with.statistics && centred)
          require_values(mean, wanted.mean, arithmetic(of.columns, 1), id + " mean");
      });
  INFO(Operator::name << " " << of.rows << " x " << of.columns << " gamma " << with.gamma << " residual "
                      << with.residual);
  CHECK(count >= sy::test::least_variants());
}

template <class Operator>
void test_norm_backward(const norm_case& with, const shape& of) {
  constexpr bool centred = std::is_same_v<Operator, ops::layer_norm_backward>;
  const std::int64_t stride = of.columns + of.gap;
  tensor grad = tensor::random(with.type, span_of(of, stride), of.first);
  tensor h = tensor::random(with.type, span_of(of, stride), of.first);
  tensor extra = tensor::random(with.type, span_of(of, stride), of.first);
  tensor gamma = tensor::random(with.gamma_type, of.columns, of.first);
  tensor rstd = tensor::random(sy::dtype::f32, of.rows);
  tensor mean = tensor::random(sy::dtype::f32, of.rows);
  tensor grad_x = tensor::poisoned(with.type, span_of(of, stride), of.first);
  tensor grad_gamma = tensor::poisoned(with.gamma_type, of.columns, of.first);
  tensor grad_beta = tensor::poisoned(with.gamma_type, of.columns, of.first);
  const auto call = [&](side at) {
    const auto view = [&](tensor& memory) { return rows_of(memory, at, of); };
    const auto row_values = [&](tensor& memory) { return memory.view(at, {of.rows}); };
    typename Operator::options more;
    if (with.gamma) more.gamma = gamma.view(at, {of.columns});
    if (with.residual) more.grad_residual = view(extra);
    if (with.statistics) more.grad_gamma = grad_gamma.view(at, {of.columns});
    if constexpr (centred) {
      if (with.statistics) more.grad_beta = grad_beta.view(at, {of.columns});
      return Operator::call(view(grad), view(h), row_values(mean), row_values(rstd), view(grad_x), more);
    } else {
      return Operator::call(view(grad), view(h), row_values(rstd), view(grad_x), more);
    }
  };
  sy::reference::norm_gradients wanted;
  if constexpr (centred) {
    wanted = sy::reference::layer_norm_backward(call(side::host));
  } else {
    wanted = sy::reference::rms_norm_backward(call(side::host));
  }
  const std::size_t count =
      sy::test::for_each_variant<Operator>(call(side::device), [&](const std::string& id, const auto& run) {
        grad_x.poison();
        grad_gamma.poison();
        grad_beta.poison();
        run();
        require_rows(grad_x, wanted.x, of, stride, 8, id);
        const double over_rows = arithmetic(of.rows, 2 * static_cast<double>(of.rows));
        if (with.statistics) require_values(grad_gamma, wanted.gamma, over_rows, id + " grad_gamma");
        if (with.statistics && centred) require_values(grad_beta, wanted.beta, over_rows, id + " grad_beta");
      });
  INFO(Operator::name << " " << of.rows << " x " << of.columns << " gamma " << with.gamma << " residual "
                      << with.residual);
  CHECK(count >= sy::test::least_variants());
}

std::vector<norm_case> norm_cases() {
  std::vector<norm_case> all;
  for (const sy::dtype type : types) {
    all.push_back({type, type, true, false, false});
    all.push_back({type, type, true, true, true});
    all.push_back({type, sy::dtype::f32, true, false, true});
    all.push_back({type, type, false, true, false});
    if (type != sy::dtype::f32) all.push_back({type, sy::dtype::f32, true, true, false});
  }
  return all;
}

// All calls of one operator.

template <class Operator>
void test_every_softmax() {
  sy::test::skip_without_variants<Operator>();
  for (const sy::dtype type : types) {
    for (const shape& of : shapes()) test_softmax<Operator>(type, of);
  }
}

template <class Operator>
void test_every_gated() {
  sy::test::skip_without_variants<Operator>();
  for (const sy::dtype type : types) {
    for (const auto function :
         {ops::gated_function::silu, ops::gated_function::gelu, ops::gated_function::gelu_tanh}) {
      for (const shape& of : shapes()) {
        if (function != ops::gated_function::silu && of.columns > 8192) continue;
        for (const bool packed : {false, true}) test_gated<Operator>(type, of, function, packed);
      }
    }
  }
}

template <class Operator>
void test_one_norm(const norm_case& with, const shape& of) {
  if constexpr (std::is_same_v<Operator, ops::rms_norm> || std::is_same_v<Operator, ops::layer_norm>) {
    test_norm<Operator>(with, of);
  } else {
    test_norm_backward<Operator>(with, of);
  }
}

template <class Operator>
void test_every_norm() {
  sy::test::skip_without_variants<Operator>();
  for (const norm_case& with : norm_cases()) {
    for (const shape& of : shapes()) test_one_norm<Operator>(with, of);
  }
  if (sy::test::tested_device().properties().backend == "host") return;
  // A kernel whose blocks or clusters have many rows uses the places of its exchanges again. Under a
  // sanitizer two or three rows must do for each.
  const norm_case with{sy::dtype::bf16, sy::dtype::bf16, true, false, true};
  const std::int64_t part = sy::test::number("SWITCHYARD_TEST_SHARE", 100) < 100 ? 4 : 1;
  for (const shape& of : {shape{800 / part, 32768, 0, 0}, shape{400 / part, 65536, 0, 0},
                          shape{200 / part, 131072, 0, 0}, shape{100 / part, 262144, 0, 0}}) {
    test_one_norm<Operator>(with, of);
  }
}

}  // namespace

TEST_CASE("softmax is right in every variant", "[softmax]") {
  test_every_softmax<ops::softmax>();
}
TEST_CASE("the gradient of softmax is right in every variant", "[softmax_backward]") {
  test_every_softmax<ops::softmax_backward>();
}
TEST_CASE("gated activations are right in every variant", "[gated_activation]") {
  test_every_gated<ops::gated_activation>();
}
TEST_CASE("the gradients of gated activations are right in every variant", "[gated_activation_backward]") {
  test_every_gated<ops::gated_activation_backward>();
}
TEST_CASE("RMSNorm is right in every variant", "[rms_norm]") {
  test_every_norm<ops::rms_norm>();
}
TEST_CASE("the gradients of RMSNorm are right in every variant", "[rms_norm_backward]") {
  test_every_norm<ops::rms_norm_backward>();
}
TEST_CASE("LayerNorm is right in every variant", "[layer_norm]") {
  test_every_norm<ops::layer_norm>();
}
TEST_CASE("the gradients of LayerNorm are right in every variant", "[layer_norm_backward]") {
  test_every_norm<ops::layer_norm_backward>();
}
