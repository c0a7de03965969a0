// Calls of the operators that work on rows - gated activations, norms, softmax - for measuring. Tensors are
// dense.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/activation.hpp>
#include <switchyard/tune/reference/norm.hpp>
#include <switchyard/tune/reference/softmax.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

namespace detail {

/// What the row operators share: a type, rows x columns, and tensors of that shape.
template <class Operator>
class row_call {
 public:
  row_call(const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed)
      : call{{}, {driver, seed}} {
    call.arguments.dtype = want.as("dtype", dtype::bf16);
    call.arguments.rows = want.get("rows", 4096);
    call.arguments.columns = want.get("columns", 4096);
    call.memory.require_room(call.arguments.dtype, {call.arguments.rows, call.arguments.columns});
  }

  /// An input or an output of `factor` x columns a row; one full pass over it is counted.
  [[nodiscard]] void* input(std::int64_t factor = 1) {
    count(factor);
    return call.memory.random(call.arguments.dtype, elements() * factor);
  }
  [[nodiscard]] void* output(std::int64_t factor = 1) {
    count(factor);
    return call.memory.poisoned(call.arguments.dtype, elements() * factor);
  }
  /// A vector along the columns, too small to count.
  [[nodiscard]] void* weights(dtype type) { return call.memory.random(type, call.arguments.columns); }
  [[nodiscard]] void* weight_gradients(dtype type) {
    return call.memory.poisoned(type, call.arguments.columns);
  }
  [[nodiscard]] float* row_values() {
    return static_cast<float*>(call.memory.random(dtype::f32, call.arguments.rows));
  }
  [[nodiscard]] float* row_results() {
    return static_cast<float*>(call.memory.poisoned(dtype::f32, call.arguments.rows));
  }

  [[nodiscard]] std::int64_t elements() const { return call.arguments.rows * call.arguments.columns; }

  prepared_call<Operator> call;

 private:
  void count(std::int64_t factor) {
    call.bytes += static_cast<double>(elements() * factor * size_of(call.arguments.dtype));
  }
};

/// What all row operators say of their rows to the checks.
struct row_counts {
  template <class Arguments>
  [[nodiscard]] static std::int64_t rows(const Arguments& a) {
    return a.rows;
  }
  template <class Arguments>
  [[nodiscard]] static double row_work(const Arguments& a) {
    return 30 * static_cast<double>(a.columns);
  }
};

/// A pointer moved on by elements of a type; null stays.
template <class Pointer>
[[nodiscard]] Pointer moved(Pointer pointer, dtype type, std::int64_t elements) {
  using byte =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  if (pointer == nullptr) return nullptr;
  return static_cast<byte*>(
             static_cast<std::conditional_t<std::is_const_v<byte>, const void*, void*>>(pointer)) +
         elements * size_of(type);
}
[[nodiscard]] inline const float* moved(const float* pointer, std::int64_t elements) {
  return pointer == nullptr ? nullptr : pointer + elements;
}

[[nodiscard]] inline double largest(const std::vector<double>& values) {
  double out = 0;
  for (const double value : values) out = std::max(out, std::abs(value));
  return out;
}

/// A row's values: rounded to their type once, which may cost twice half a unit in the last place, after f32
/// arithmetic over the columns at a magnitude.
inline void want_row(expectation::result& out, std::int64_t first, std::span<const double> values,
                     double magnitude) {
  const double absolute =
      arithmetic_error(static_cast<std::int64_t>(values.size()), magnitude) + smallest_of(out.type);
  for (std::size_t c = 0; c < values.size(); ++c) {
    out.want(first + static_cast<std::int64_t>(c), values[c],
             unit_of(out.type) * std::abs(values[c]) + absolute);
  }
}

template <class Operator>
[[nodiscard]] prepared_call<Operator> make_norm(const std::shared_ptr<device_driver>& driver,
                                                const request& want, std::uint64_t seed) {
  row_call<Operator> made{driver, want, seed};
  auto& a = made.call.arguments;
  a.gamma_dtype = want.as("gamma_dtype", a.dtype);
  a.x = made.input();
  a.out = made.output();
  a.x_stride_row = a.out_stride_row = a.columns;
  if (want.get("with_gamma", 1) != 0) a.gamma = made.weights(a.gamma_dtype);
  if (want.flag("with_residual")) {
    a.residual = made.input();
    a.residual_out = made.output();
    a.residual_stride_row = a.residual_out_stride_row = a.columns;
  }
  if (want.flag("with_rstd")) a.rstd = made.row_results();
  made.call.flops = 4 * static_cast<double>(made.elements());
  return std::move(made.call);
}

/// Sampled rows of a norm. The magnitude follows from the largest factor that the row is scaled by.
template <class Arguments>
void expect_norm(const Arguments& a, const row_sample& sample, expectation& out) {
  constexpr bool centred = std::is_same_v<Arguments, operators::layer_norm::arguments>;
  auto& values = out.of("out", a.out, a.dtype);
  auto* const sums = a.residual != nullptr ? &out.of("residual_out", a.residual_out, a.dtype) : nullptr;
  auto* const rstds = a.rstd != nullptr ? &out.of("rstd", a.rstd, dtype::f32) : nullptr;
  expectation::result* means = nullptr;
  if constexpr (centred) means = a.mean != nullptr ? &out.of("mean", a.mean, dtype::f32) : nullptr;
  for (const std::int64_t row : sample.rows()) {
    Arguments one = a;
    one.rows = 1;
    one.x = moved(a.x, a.dtype, row * a.x_stride_row);
    one.residual = moved(a.residual, a.dtype, row * a.residual_stride_row);
    reference::norm_result wanted;
    if constexpr (centred) {
      wanted = reference::layer_norm(one);
    } else {
      wanted = reference::rms_norm(one);
    }
    const double magnitude = 2 * std::max(1.0, wanted.rstd[0]);
    want_row(values, row * a.out_stride_row, wanted.out, magnitude);
    if (sums != nullptr) want_row(*sums, row * a.residual_out_stride_row, wanted.h, 1);
    const auto want = [&](expectation::result* to, double value, double of) {
      if (to != nullptr) to->want(row, value, 0x1p-23 * std::abs(value) + arithmetic_error(a.columns, of));
    };
    want(rstds, wanted.rstd[0], magnitude * magnitude);
    want(means, wanted.mean[0], 1);
  }
}

template <class Operator>
[[nodiscard]] prepared_call<Operator> make_norm_backward(const std::shared_ptr<device_driver>& driver,
                                                         const request& want, std::uint64_t seed) {
  row_call<Operator> made{driver, want, seed};
  auto& a = made.call.arguments;
  a.gamma_dtype = want.as("gamma_dtype", a.dtype);
  a.grad_out = made.input();
  a.h = made.input();
  a.grad_x = made.output();
  a.grad_out_stride_row = a.h_stride_row = a.grad_x_stride_row = a.columns;
  a.rstd = made.row_values();
  if (want.get("with_gamma", 1) != 0) a.gamma = made.weights(a.gamma_dtype);
  if (want.get("with_weight_gradients", 1) != 0) a.grad_gamma = made.weight_gradients(a.gamma_dtype);
  if (want.flag("with_residual")) {
    a.grad_residual = made.input();
    a.grad_residual_stride_row = a.columns;
  }
  made.call.flops = 8 * static_cast<double>(made.elements());
  return std::move(made.call);
}

/// Sampled rows of grad_x; of the weights' gradients, which need every row, as many columns as the same work
/// allows.
template <class Arguments>
void expect_norm_backward(const Arguments& a, const row_sample& sample, expectation& out) {
  constexpr bool centred = std::is_same_v<Arguments, operators::layer_norm_backward::arguments>;
  const auto at = [&](std::int64_t row, std::int64_t column) {
    Arguments one = a;
    one.grad_out = moved(a.grad_out, a.dtype, row * a.grad_out_stride_row + column);
    one.h = moved(a.h, a.dtype, row * a.h_stride_row + column);
    one.grad_residual = moved(a.grad_residual, a.dtype, row * a.grad_residual_stride_row + column);
    one.gamma = moved(a.gamma, a.gamma_dtype, column);
    one.rstd = moved(a.rstd, row);
    if constexpr (centred) one.mean = moved(a.mean, row);
    return one;
  };
  const auto reference_of = [](const Arguments& one) {
    if constexpr (centred) {
      return reference::layer_norm_backward(one);
    } else {
      return reference::rms_norm_backward(one);
    }
  };
  auto& values = out.of("grad_x", a.grad_x, a.dtype);
  for (const std::int64_t row : sample.rows()) {
    Arguments one = at(row, 0);
    one.rows = 1;
    want_row(values, row * a.grad_x_stride_row, reference_of(one).x, 8);
  }
  auto* const gammas = a.grad_gamma != nullptr ? &out.of("grad_gamma", a.grad_gamma, a.gamma_dtype) : nullptr;
  expectation::result* betas = nullptr;
  if constexpr (centred)
    betas = a.grad_beta != nullptr ? &out.of("grad_beta", a.grad_beta, a.gamma_dtype) : nullptr;
  if (gammas == nullptr && betas == nullptr) return;
  const auto most = std::max<std::int64_t>(
      16, static_cast<std::int64_t>(sample.rows().size()) * a.columns / std::max<std::int64_t>(a.rows, 1));
  const double over_rows = arithmetic_error(a.rows, 2 * static_cast<double>(a.rows));
  const row_sample columns{a.columns, most, 7};
  for (const std::int64_t column : columns.rows()) {
    Arguments one = at(0, column);
    one.columns = 1;  // a column's sums read no other column
    const auto wanted = reference_of(one);
    const auto want = [&](expectation::result* to, double value) {
      if (to != nullptr) to->want(column, value, unit_of(a.gamma_dtype) * std::abs(value) + over_rows);
    };
    want(gammas, wanted.gamma[0]);
    want(betas, wanted.beta[0]);
  }
}

}  // namespace detail

template <>
struct workload<operators::rms_norm> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::rms_norm> make(const std::shared_ptr<device_driver>& driver,
                                                               const request& want, std::uint64_t seed) {
    return detail::make_norm<operators::rms_norm>(driver, want, seed);
  }

  static void expect(const operators::rms_norm::arguments& a, const row_sample& sample, expectation& out) {
    detail::expect_norm(a, sample, out);
  }
};

template <>
struct workload<operators::layer_norm> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::layer_norm> make(const std::shared_ptr<device_driver>& driver,
                                                                 const request& want, std::uint64_t seed) {
    auto out = detail::make_norm<operators::layer_norm>(driver, want, seed);
    auto& a = out.arguments;
    if (want.get("with_beta", a.gamma != nullptr ? 1 : 0) != 0)
      a.beta = out.memory.random(a.gamma_dtype, a.columns);
    if (want.flag("with_statistics")) {
      a.mean = static_cast<float*>(out.memory.poisoned(dtype::f32, a.rows));
      a.rstd = static_cast<float*>(out.memory.poisoned(dtype::f32, a.rows));
    }
    return out;
  }

  static void expect(const operators::layer_norm::arguments& a, const row_sample& sample, expectation& out) {
    detail::expect_norm(a, sample, out);
  }
};

template <>
struct workload<operators::rms_norm_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::rms_norm_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    return detail::make_norm_backward<operators::rms_norm_backward>(driver, want, seed);
  }

  static void expect(const operators::rms_norm_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    detail::expect_norm_backward(a, sample, out);
  }
};

template <>
struct workload<operators::layer_norm_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::layer_norm_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    auto out = detail::make_norm_backward<operators::layer_norm_backward>(driver, want, seed);
    auto& a = out.arguments;
    a.mean = static_cast<float*>(out.memory.random(dtype::f32, a.rows));
    if (a.grad_gamma != nullptr) a.grad_beta = out.memory.poisoned(a.gamma_dtype, a.columns);
    return out;
  }

  static void expect(const operators::layer_norm_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    detail::expect_norm_backward(a, sample, out);
  }
};

template <>
struct workload<operators::softmax> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::softmax> make(const std::shared_ptr<device_driver>& driver,
                                                              const request& want, std::uint64_t seed) {
    detail::row_call<operators::softmax> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.x = made.input();
    a.out = made.output();
    a.x_stride_row = a.out_stride_row = a.columns;
    made.call.flops = 4 * static_cast<double>(made.elements());
    return std::move(made.call);
  }

  static void expect(const operators::softmax::arguments& a, const row_sample& sample, expectation& out) {
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.x = detail::moved(a.x, a.dtype, row * a.x_stride_row);
      const auto wanted = reference::softmax(one);
      detail::want_row(values, row * a.out_stride_row, wanted, std::max(detail::largest(wanted), 1e-3));
    }
  }
};

template <>
struct workload<operators::softmax_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::softmax_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::softmax_backward> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.grad_out = made.input();
    a.out = made.input();
    a.grad_x = made.output();
    a.grad_out_stride_row = a.out_stride_row = a.grad_x_stride_row = a.columns;
    made.call.flops = 4 * static_cast<double>(made.elements());
    return std::move(made.call);
  }

  static void expect(const operators::softmax_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("grad_x", a.grad_x, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.grad_out = detail::moved(a.grad_out, a.dtype, row * a.grad_out_stride_row);
      one.out = detail::moved(a.out, a.dtype, row * a.out_stride_row);
      const auto wanted = reference::softmax_backward(one);
      const double least = 1e-3 * static_cast<double>(a.columns);
      detail::want_row(values, row * a.grad_x_stride_row, wanted, std::max(detail::largest(wanted), least));
    }
  }
};

template <>
struct workload<operators::gated_activation> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::gated_activation> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.function = want.as("function", operators::gated_function::silu);
    const bool packed = want.flag("packed");
    a.gate = made.input(packed ? 2 : 1);
    a.gate_stride_row = packed ? 2 * a.columns : a.columns;
    if (!packed) {
      a.up = made.input();
      a.up_stride_row = a.columns;
    }
    a.out = made.output();
    a.out_stride_row = a.columns;
    made.call.flops = 6 * static_cast<double>(made.elements());
    return std::move(made.call);
  }

  static void expect(const operators::gated_activation::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& values = out.of("out", a.out, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.gate = detail::moved(a.gate, a.dtype, row * a.gate_stride_row);
      one.up = detail::moved(a.up, a.dtype, row * a.up_stride_row);
      detail::want_row(values, row * a.out_stride_row, reference::gated_activation(one), 1);
    }
  }
};

template <>
struct workload<operators::gated_activation_backward> : detail::row_counts {
  [[nodiscard]] static prepared_call<operators::gated_activation_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    detail::row_call<operators::gated_activation_backward> made{driver, want, seed};
    auto& a = made.call.arguments;
    a.function = want.as("function", operators::gated_function::silu);
    const bool packed = want.flag("packed");
    a.grad_out = made.input();
    a.gate = made.input(packed ? 2 : 1);
    a.grad_gate = made.output(packed ? 2 : 1);
    a.grad_out_stride_row = a.columns;
    a.gate_stride_row = a.grad_gate_stride_row = packed ? 2 * a.columns : a.columns;
    if (!packed) {
      a.up = made.input();
      a.grad_up = made.output();
      a.up_stride_row = a.grad_up_stride_row = a.columns;
    }
    made.call.flops = 12 * static_cast<double>(made.elements());
    return std::move(made.call);
  }

  static void expect(const operators::gated_activation_backward::arguments& a, const row_sample& sample,
                     expectation& out) {
    auto& gates = out.of("grad_gate", a.grad_gate, a.dtype);
    auto& ups = a.packed() ? gates : out.of("grad_up", a.grad_up, a.dtype);
    for (const std::int64_t row : sample.rows()) {
      auto one = a;
      one.rows = 1;
      one.grad_out = detail::moved(a.grad_out, a.dtype, row * a.grad_out_stride_row);
      one.gate = detail::moved(a.gate, a.dtype, row * a.gate_stride_row);
      one.up = detail::moved(a.up, a.dtype, row * a.up_stride_row);
      const auto wanted = reference::gated_activation_backward(one);
      detail::want_row(gates, row * a.grad_gate_stride_row, wanted.gate, 1);
      const std::int64_t first =
          a.packed() ? row * a.grad_gate_stride_row + a.columns : row * a.grad_up_stride_row;
      detail::want_row(ups, first, wanted.up, 1);
    }
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
