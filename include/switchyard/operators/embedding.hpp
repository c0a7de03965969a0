// SPDX-License-Identifier: MIT
// Rows of a table, which may be quantised, by their numbers:
//
//   out[i] = table[ids[i]]
//
// A number outside the table gives a row of NaN: nothing else is read, and the mistake shows. Checked mode
// refuses it. Also gathers rows of activations, whose format is a plain one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/index_tensors.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/index_data.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct embedding {
  static constexpr std::string_view name = "embedding";

  struct arguments {
    const void* table = nullptr;        ///< [table_rows, columns] in `weights`
    const std::int32_t* ids = nullptr;  ///< [rows]
    void* out = nullptr;                ///< [rows, columns] of dtype, rows contiguous

    std::int64_t rows = 0;
    std::int64_t columns = 0;  ///< a multiple of the format's block
    std::int64_t table_rows = 0;
    std::int64_t out_stride_row = unset;   ///< in elements
    std::int64_t table_row_bytes = unset;  ///< from row to row of the table, in bytes

    switchyard::dtype dtype = switchyard::dtype::f32;  ///< f32, f16 or bf16
    weight_format weights = weight_format::f32;

    /// Bytes, 1 to 16, that divide every row's start of out; 0 when a tensor is null, a stride is not set,
    /// or the number of the table's rows is negative.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t stride = row_strides(rows, out_stride_row);
      return alignment_of_strided(
          dtype, stride,
          table_row_bytes | table_rows | count_null(table, ids) | mark_misaligned<alignof(std::int32_t)>(ids),
          out);
    }

    /// Bytes, 1 to 16, that divide every row's start of the table.
    [[nodiscard, gnu::always_inline]] inline std::int64_t table_alignment() const noexcept {
      const std::uintptr_t bits =
          reinterpret_cast<std::uintptr_t>(table) | static_cast<std::uintptr_t>(table_row_bytes) | 16U;
      return static_cast<std::int64_t>(bits & (~bits + 1));
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::table, &arguments::ids, &arguments::out, &arguments::rows,
                         &arguments::columns, &arguments::table_rows, &arguments::out_stride_row,
                         &arguments::table_row_bytes, &arguments::dtype, &arguments::weights>;

  static constexpr auto operands = switchyard::fields<&arguments::table, &arguments::ids, &arguments::out>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::weights>(),
      switchyard::type_axis<&arguments::alignment>(), switchyard::type_axis<&arguments::table_alignment>(),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  static constexpr std::array axis_defaults{axis_default{"table_alignment", "16"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.rows < 0 || a.table_rows < 0) return "rows and table_rows must not be negative";
    if (a.columns < 1) return "columns must be positive";
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16)
      return "dtype must be f32, f16 or bf16";
    if (!is_weight_format(a.weights)) return "weights is no weight_format";
    if (a.columns % block_elements(a.weights) != 0) {
      return "columns must be a multiple of " + std::to_string(block_elements(a.weights)) +
             ", the block of " +
             std::string{enumerator_names<weight_format>[static_cast<std::size_t>(a.weights)]} + ", not " +
             std::to_string(a.columns);
    }
    if (std::string wrong = wrong_addresses<&arguments::ids>(a); !wrong.empty()) return wrong;
    if (a.rows > 1) {
      if (std::string wrong = wrong_strides<&arguments::out_stride_row>(a); !wrong.empty()) return wrong;
    }
    if (std::string wrong = wrong_strides<&arguments::table_row_bytes>(a); !wrong.empty()) return wrong;
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "table, ids and out must not be null";
    if (aligned < size_of(a.dtype)) return "out must be aligned to its element size";
    if (a.table_alignment() < block_alignment(a.weights)) {
      return "table and table_row_bytes must be multiples of " + std::to_string(block_alignment(a.weights));
    }
    return {};
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is. Numbers outside the table are
  /// legal: see above.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_dimension({{"columns", a.columns},
                                   {"rows", a.rows},
                                   {"rows", a.rows, "out_stride_row", a.out_stride_row},
                                   {"table_rows", a.table_rows, "table_row_bytes", a.table_row_bytes}});
  }

  /// What checked mode says of numbers outside the table; empty when there are none.
  template <class = void>
  [[nodiscard]] static std::string check_indices(const arguments& a) {
    return indices::wrong_numbers("ids", a.ids, a.rows, {"rows of the table", a.table_rows});
  }
  static constexpr auto index_tensors = switchyard::index_tensors(
      switchyard::index_tensor<&arguments::ids>([](const arguments& a) { return a.rows; }));

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& /*a*/, Visitor& visit) {
    visit.template
    operator()<view<&arguments::out, &arguments::dtype, dim<&arguments::rows, &arguments::out_stride_row>,
                    dim<&arguments::columns>>>();
  }

  /// The arguments of a call: ids is i32 [rows], out is [rows, columns]. Throws call_error where they
  /// disagree.
  template <class = void>
  [[nodiscard, gnu::always_inline]] inline static arguments call(const weight_matrix& table,
                                                                 const const_tensor& ids, const tensor& out) {
    arguments a = default_arguments<arguments>(fields);
    bind_views(call_views{}, name, a, false, out, ids);
    a.table = table.data;
    a.weights = table.format;
    a.table_rows = table.rows;
    a.table_row_bytes = table.stride();
    if (table.columns != a.columns) [[unlikely]]
      fail_columns(table, a);
    return a;
  }

  /// A binding's call.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    return call(in.weights("table"), in.tensor("ids"), in.tensor("out"));
  }

 private:
  using call_views = views<view<&arguments::out, &arguments::dtype,
                                dim<&arguments::rows, &arguments::out_stride_row>, dim<&arguments::columns>>,
                           view<&arguments::ids, dtype::i32, dim<&arguments::rows>>>;

  [[noreturn, gnu::cold, gnu::noinline]] static void fail_columns(const weight_matrix& table,
                                                                  const arguments& a) {
    throw call_error{error_code::invalid_argument, "embedding: the table has " +
                                                       std::to_string(table.columns) +
                                                       " columns, but out has " + std::to_string(a.columns)};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
