// Calls of the operators that work on rows - gated activations, norms, softmax - for measuring. Tensors are
// dense.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <switchyard/driver.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard::inline v0::tune {

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

}  // namespace detail

template <>
struct workload<operators::rms_norm> {
  [[nodiscard]] static prepared_call<operators::rms_norm> make(const std::shared_ptr<device_driver>& driver,
                                                               const request& want, std::uint64_t seed) {
    return detail::make_norm<operators::rms_norm>(driver, want, seed);
  }
};

template <>
struct workload<operators::layer_norm> {
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
};

template <>
struct workload<operators::rms_norm_backward> {
  [[nodiscard]] static prepared_call<operators::rms_norm_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    return detail::make_norm_backward<operators::rms_norm_backward>(driver, want, seed);
  }
};

template <>
struct workload<operators::layer_norm_backward> {
  [[nodiscard]] static prepared_call<operators::layer_norm_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    auto out = detail::make_norm_backward<operators::layer_norm_backward>(driver, want, seed);
    auto& a = out.arguments;
    a.mean = static_cast<float*>(out.memory.random(dtype::f32, a.rows));
    if (a.grad_gamma != nullptr) a.grad_beta = out.memory.poisoned(a.gamma_dtype, a.columns);
    return out;
  }
};

template <>
struct workload<operators::softmax> {
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
};

template <>
struct workload<operators::softmax_backward> {
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
};

template <>
struct workload<operators::gated_activation> {
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
};

template <>
struct workload<operators::gated_activation_backward> {
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
};

}  // namespace switchyard::inline v0::tune
