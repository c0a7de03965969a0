// SPDX-License-Identifier: MIT
// What calls of the operators that work on rows - gated activations, norms, softmax - share when they are
// measured.
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

#include <switchyard/base/dtype.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
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
      : call{{}, {driver, seed, want.varied()}},
        type{want.as("dtype", dtype::bf16)},
        rows{want.get("rows", 4096)},
        columns{want.get("columns", 4096)},
        varied{want.varied()} {
    call.memory.require_room(type, {rows, columns});
  }

  /// An input or an output of `factor` x columns a row; one full pass over it is counted.
  [[nodiscard]] tensor input(std::int64_t factor = 1) { return input_of(varied.spread, factor); }
  /// An input whose values do not grow: a result of the forward, a gradient.
  [[nodiscard]] tensor usual_input() { return input_of(1, 1); }
  [[nodiscard]] tensor output(std::int64_t factor = 1) {
    count(factor);
    return spaced(call.memory.output(type, {rows, factor * columns + varied.apart}), factor);
  }
  /// A vector along the columns, too small to count.
  [[nodiscard]] tensor weights(dtype of) { return call.memory.input(of, {columns}, 1); }
  [[nodiscard]] tensor weight_gradients(dtype of) { return call.memory.output(of, {columns}); }
  [[nodiscard]] tensor row_values(float spread) { return call.memory.input(dtype::f32, {rows}, spread); }
  [[nodiscard]] tensor row_results() { return call.memory.output(dtype::f32, {rows}); }

  /// The call, at so many multiplications and additions for an element.
  [[nodiscard]] prepared_call<Operator> finish(const typename Operator::arguments& arguments, double flops) {
    call.arguments = arguments;
    call.flops = flops * static_cast<double>(rows * columns);
    return std::move(call);
  }

  prepared_call<Operator> call;
  const dtype type;
  const std::int64_t rows;
  const std::int64_t columns;
  const variation varied;

 private:
  /// A tensor without what lies between its rows.
  [[nodiscard]] tensor spaced(const tensor& whole, std::int64_t factor) const {
    return {whole.data(), type, {rows, factor * columns}, {factor * columns + varied.apart, 1}};
  }
  [[nodiscard]] tensor input_of(float spread, std::int64_t factor) {
    count(factor);
    return spaced(call.memory.input(type, {rows, factor * columns + varied.apart}, spread), factor);
  }

  void count(std::int64_t factor) {
    call.bytes += static_cast<double>(rows * columns * factor * size_of(type));
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

/// What the winners among row operators are judged by too. 64 elements between rows leave the alignment.
struct row_variations {
  static constexpr variation variations[] = {  // NOLINT(modernize-avoid-c-arrays)
      {1000, 64, true},
      {1e-3F, 64, true},
      {8, 1, false, true}};
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
[[nodiscard]] inline double largest(const void* row, dtype type, std::int64_t columns) {
  double out = 0;
  for (std::int64_t c = 0; c < columns; ++c) out = std::max(out, std::abs(reference::load(type, row, c)));
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

}  // namespace detail

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
