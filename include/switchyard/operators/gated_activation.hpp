// SPDX-License-Identifier: MIT
// Gated activation, the middle of a transformer's feed-forward block:
//
//   out = activation(gate) * up
//
// SwiGLU with silu(x) = x / (1 + exp(-x)); GEGLU with gelu(x) = x/2 (1 + erf(x / sqrt 2)) or its tanh form
// x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Evaluated in f32 and rounded once. Sources: Shazeer, GLU
// Variants Improve Transformer, arXiv:2002.05202; Hendrycks and Gimpel, arXiv:1606.08415.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/row_checks.hpp>
#include <switchyard/operators/row_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// The function that is applied to the gate. The values are part of the kernel ABI.
enum class gated_function : std::int32_t { silu = 0, gelu = 1, gelu_tanh = 2 };

/// What is wrong with a function; empty where it is one of them.
[[nodiscard]] inline std::string wrong_function(gated_function function) {
  const bool is_known = function >= gated_function::silu && function <= gated_function::gelu_tanh;
  return is_known ? std::string{} : "function must be silu, gelu or gelu_tanh";
}

struct gated_activation {
  static constexpr std::string_view name = "gated_activation";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements. Packed input is one tensor
  /// [rows, 2 * columns], whose first half of a row is the gate and whose second half is up.
  struct arguments {
    const void* gate = nullptr;  ///< or the packed tensor
    const void* up = nullptr;    ///< null: `gate` is packed
    void* out = nullptr;         ///< may be gate or up, with the same stride: in place

    std::int64_t rows = 0;
    std::int64_t columns = 0;  ///< of out
    std::int64_t gate_stride_row = unset, up_stride_row = unset, out_stride_row = unset;

    switchyard::dtype dtype = switchyard::dtype::f32;
    gated_function function = gated_function::silu;

    [[nodiscard]] bool packed() const noexcept { return up == nullptr; }

    /// Bytes, 1 to 16, that divide every row's start of gate, up and out; 0 when a required pointer is null,
    /// or a stride is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t offsets =
          row_strides(rows, gate_stride_row | out_stride_row | (packed() ? columns : up_stride_row));
      return alignment_of_strided(dtype, offsets, 0, gate, out, packed() ? gate : up);
    }

    /// Whether rows follow each other without gaps, so that split tensors are one long row.
    [[nodiscard]] bool dense() const noexcept {
      return !packed() && gate_stride_row == columns && up_stride_row == columns && out_stride_row == columns;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::gate, &arguments::up, &arguments::out, &arguments::rows,
                         &arguments::columns, &arguments::gate_stride_row, &arguments::up_stride_row,
                         &arguments::out_stride_row, &arguments::dtype, &arguments::function>;

  static constexpr auto operands = switchyard::fields<&arguments::gate, &arguments::up, &arguments::out>;
  static constexpr auto described =
      describe_options(option<&arguments::function, &arguments::function>{"the activation"});

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(), type_axis<&arguments::function>(), type_axis<&arguments::packed>(),
      type_axis<&arguments::dense>(), type_axis<&arguments::alignment>(), size_axis<&arguments::rows>(),
      size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    return rows::first_wrong(
        [&] { return rows::wrong_shape(a, 0); }, [&] { return wrong_function(a.function); },
        [&] { return rows::wrong_row_strides<&arguments::gate_stride_row, &arguments::out_stride_row>(a); },
        [&] { return rows::wrong_row_strides<&arguments::up_stride_row>(a, !a.packed()); },
        [&] { return rows::wrong_alignment(a, "gate and out", "gate, up and out"); });
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_rows(a.rows, a.columns,
                             {{"gate_stride_row", a.gate_stride_row},
                              {"up_stride_row", a.up_stride_row, a.up != nullptr},
                              {"out_stride_row", a.out_stride_row}});
  }

  /// The arguments of a call: gate, up and out are [rows, columns]. What else a call has, `function`,
  /// follows: `gated_activation::call(gate, up, out, {.function = gated_function::gelu})`. Throws call_error
  /// where tensors disagree.
  static constexpr tensor_call<arguments,
                               rows::row_view<arguments, &arguments::gate, &arguments::gate_stride_row>,
                               rows::row_view<arguments, &arguments::up, &arguments::up_stride_row>,
                               rows::row_view<arguments, &arguments::out, &arguments::out_stride_row>>
      call{name};

  /// The same for one tensor of both, and out: `gated_activation::call_packed(out, gate_and_up)`, where
  /// gate_and_up is [rows, 2 * columns].
  static constexpr tensor_call<
      arguments, rows::row_view<arguments, &arguments::out, &arguments::out_stride_row>,
      rows::double_row_view<arguments, &arguments::gate, &arguments::gate_stride_row>>
      call_packed{name};

  /// A binding's call: packed without up.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    if (in.has("up")) return detail::call_operands<gated_activation>(in, operands);
    const arguments with = read_options(described, in);
    return call_packed(in.tensor("out"), in.tensor("gate"), with);
  }
};

}  // namespace operators

template <>
inline constexpr std::array<std::string_view, 3> enumerator_names<operators::gated_function>{"silu", "gelu",
                                                                                             "gelu_tanh"};

}  // namespace v0
}  // namespace switchyard
