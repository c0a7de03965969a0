// The tensors of operators on rows, and which arguments they decide: shared by those operators' `call`.
#pragma once

#include <switchyard/base/dtype.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

namespace rows {

/// [rows, columns] of dtype, rows with any stride.
template <class A, auto Tensor, auto StrideRow>
using row_view = view<Tensor, &A::dtype, dim<&A::rows, StrideRow>, dim<&A::columns>>;
template <class A, auto Tensor, auto StrideRow>
using optional_row_view = optional_view<Tensor, &A::dtype, dim<&A::rows, StrideRow>, dim<&A::columns>>;

/// [rows, 2 * columns]: two tensors side by side.
template <class A, auto Tensor, auto StrideRow>
using double_row_view =
    view<Tensor, &A::dtype, dim<&A::rows, StrideRow>,
         dim<&A::columns, dense_stride{}, dim_form{.factor = 2, .more = 0, .may_be_one = false}>>;

/// [columns] of gamma_dtype.
template <class A, auto Tensor>
using weight_view = optional_view<Tensor, &A::gamma_dtype, dim<&A::columns>>;

/// f32 [rows].
template <class A, auto Tensor>
using statistic_view = view<Tensor, dtype::f32, dim<&A::rows>>;
template <class A, auto Tensor>
using optional_statistic_view = optional_view<Tensor, dtype::f32, dim<&A::rows>>;

}  // namespace rows

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
