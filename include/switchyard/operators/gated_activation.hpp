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
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// The function that is applied to the gate. The values are part of the kernel ABI.
enum class gated_function : std::int32_t { silu = 0, gelu = 1, gelu_tanh = 2 };

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
    std::int64_t gate_stride_row = 0, up_stride_row = 0, out_stride_row = 0;

    switchyard::dtype dtype = switchyard::dtype::f32;
    gated_function function = gated_function::silu;

    [[nodiscard]] bool packed() const noexcept { return up == nullptr; }

    /// Bytes, 1 to 16, that divide every row's start of gate, up and out; 0 when a required pointer is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t offsets = gate_stride_row | out_stride_row | (packed() ? columns : up_stride_row);
      return alignment_of(gate, out,
                          reinterpret_cast<const void*>((offsets * detail::size_of_legal(dtype)) | 16),
                          packed() ? gate : up);
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

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::function>(),
      switchyard::type_axis("packed", [](const arguments& a) noexcept { return a.packed(); }),
      switchyard::type_axis("dense", [](const arguments& a) noexcept { return a.dense(); }),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.rows < 0 || a.columns < 0) return "rows and columns must not be negative";
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
      return "dtype must be f32, f16 or bf16";
    }
    if (a.function < gated_function::silu || a.function > gated_function::gelu_tanh) {
      return "function must be silu, gelu or gelu_tanh";
    }
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "gate and out must not be null";
    if (aligned < size_of(a.dtype)) return "gate, up and out must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

template <>
inline constexpr std::array<std::string_view, 3> enumerator_names<operators::gated_function>{"silu", "gelu",
                                                                                             "gelu_tanh"};

}  // namespace v0
}  // namespace switchyard
