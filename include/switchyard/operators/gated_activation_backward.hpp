// SPDX-License-Identifier: MIT
// Gradient of the gated activation: for out = activation(gate) * up,
//
//   grad_gate = grad_out * up * activation'(gate)
//   grad_up = grad_out * activation(gate)
//
// Evaluated in f32 from the saved inputs and rounded once; nothing else of the forward need be kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/row_checks.hpp>
#include <switchyard/operators/row_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct gated_activation_backward {
  static constexpr std::string_view name = "gated_activation_backward";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements. Packed, gate with up and
  /// grad_gate with grad_up are each one tensor [rows, 2 * columns], halves in this order.
  struct arguments {
    const void* grad_out = nullptr;
    const void* gate = nullptr;  ///< or the packed tensor
    const void* up = nullptr;    ///< null: `gate` is packed, and `grad_gate` too
    void* grad_gate = nullptr;   ///< or the packed gradient; may be gate, with the same stride
    void* grad_up = nullptr;     ///< null exactly when up is; may be up or grad_out, with the same stride

    std::int64_t rows = 0;
    std::int64_t columns = 0;  ///< of grad_out
    std::int64_t grad_out_stride_row = unset;
    std::int64_t gate_stride_row = unset, up_stride_row = unset;
    std::int64_t grad_gate_stride_row = unset, grad_up_stride_row = unset;

    switchyard::dtype dtype = switchyard::dtype::f32;
    gated_function function = gated_function::silu;

    [[nodiscard]] bool packed() const noexcept { return up == nullptr; }

    /// Bytes, 1 to 16, that divide every row's start of all tensors; 0 when a required pointer is null, or a
    /// stride is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t offsets =
          row_strides(rows, grad_out_stride_row | gate_stride_row | grad_gate_stride_row |
                                (packed() ? columns : up_stride_row | grad_up_stride_row));
      return alignment_of_strided(dtype, offsets, 0, grad_out, gate, grad_gate, packed() ? gate : up,
                                  packed() ? grad_gate : grad_up);
    }

    /// Whether rows follow each other without gaps, so that split tensors are one long row.
    [[nodiscard]] bool dense() const noexcept {
      return !packed() && grad_out_stride_row == columns && gate_stride_row == columns &&
             up_stride_row == columns && grad_gate_stride_row == columns && grad_up_stride_row == columns;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::grad_out, &arguments::gate, &arguments::up, &arguments::grad_gate,
                         &arguments::grad_up, &arguments::rows, &arguments::columns,
                         &arguments::grad_out_stride_row, &arguments::gate_stride_row,
                         &arguments::up_stride_row, &arguments::grad_gate_stride_row,
                         &arguments::grad_up_stride_row, &arguments::dtype, &arguments::function>;

  static constexpr auto operands = switchyard::fields<&arguments::grad_out, &arguments::gate, &arguments::up,
                                                      &arguments::grad_gate, &arguments::grad_up>;
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
        [&] {
          return rows::wrong_row_strides<&arguments::grad_out_stride_row, &arguments::gate_stride_row,
                                         &arguments::grad_gate_stride_row>(a);
        },
        [&] {
          return rows::wrong_row_strides<&arguments::up_stride_row, &arguments::grad_up_stride_row>(
              a, !a.packed());
        },
        [&] {
          return rows::wrong_alignment(a, "grad_out, gate and grad_gate, and grad_up where up is given,");
        });
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_rows(a.rows, a.columns,
                             {{"grad_out_stride_row", a.grad_out_stride_row},
                              {"gate_stride_row", a.gate_stride_row},
                              {"up_stride_row", a.up_stride_row, a.up != nullptr},
                              {"grad_gate_stride_row", a.grad_gate_stride_row},
                              {"grad_up_stride_row", a.grad_up_stride_row, a.grad_up != nullptr}});
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& a, Visitor& visit) {
    if (a.grad_up == nullptr) {
      visit.template
      operator()<rows::double_row_view<arguments, &arguments::grad_gate, &arguments::grad_gate_stride_row>>();
    } else {
      visit.template
      operator()<rows::row_view<arguments, &arguments::grad_gate, &arguments::grad_gate_stride_row>>();
      visit.template
      operator()<rows::row_view<arguments, &arguments::grad_up, &arguments::grad_up_stride_row>>();
    }
  }

  /// The arguments of a call: grad_out, gate, up, grad_gate and grad_up, each [rows, columns], and
  /// `function`. Throws call_error where tensors disagree.
  static constexpr tensor_call<
      arguments, rows::row_view<arguments, &arguments::grad_out, &arguments::grad_out_stride_row>,
      rows::row_view<arguments, &arguments::gate, &arguments::gate_stride_row>,
      rows::row_view<arguments, &arguments::up, &arguments::up_stride_row>,
      rows::row_view<arguments, &arguments::grad_gate, &arguments::grad_gate_stride_row>,
      rows::row_view<arguments, &arguments::grad_up, &arguments::grad_up_stride_row>>
      call{name};

  /// The same for grad_out [rows, columns], gate with up, and their gradients, each [rows, 2 * columns].
  static constexpr tensor_call<
      arguments, rows::row_view<arguments, &arguments::grad_out, &arguments::grad_out_stride_row>,
      rows::double_row_view<arguments, &arguments::gate, &arguments::gate_stride_row>,
      rows::double_row_view<arguments, &arguments::grad_gate, &arguments::grad_gate_stride_row>>
      call_packed{name};

  /// A binding's call: packed without up.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    if (in.has("up")) return detail::call_operands<gated_activation_backward>(in, operands);
    const arguments with = read_options(described, in);
    return call_packed(in.tensor("grad_out"), in.tensor("gate"), in.tensor("grad_gate"), with);
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
