// SPDX-License-Identifier: MIT
// The tensors of operators on rows, and the arguments that follow from them, for those operators' `call`.
#pragma once

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
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

/// What norms and their backwards have: factors, which models may store around zero.
template <class O, class A>
inline constexpr auto gamma_option = describe_options(tensor_option<&O::gamma, weight_view<A, &A::gamma>>{
    "factors of the columns, of x's element type or f32; 1 without it"});

/// What norms have.
template <class O, class A>
inline constexpr auto norm_options = describe_options(
    tensor_option<&O::residual, optional_row_view<A, &A::residual, &A::residual_stride_row>>{
        "added to x first"},
    tensor_option<&O::residual_out, optional_row_view<A, &A::residual_out, &A::residual_out_stride_row>>{
        "written where residual is given: the sum"},
    option<&O::epsilon, &A::epsilon, legal_values::magnitude>{"added to the variance"},
    option<&O::gamma_offset, &A::gamma_offset>{"added to gamma: 1 where models store it around zero"},
    tensor_option<&O::rstd, optional_statistic_view<A, &A::rstd>>{"written for the backward"});

/// What backwards of norms have.
template <class O, class A>
inline constexpr auto norm_backward_options = describe_options(
    tensor_option<&O::grad_residual, optional_row_view<A, &A::grad_residual, &A::grad_residual_stride_row>>{
        "the gradient past the norm, added to grad_x"},
    option<&O::gamma_offset, &A::gamma_offset>{"the forward call's"},
    tensor_option<&O::grad_gamma, weight_view<A, &A::grad_gamma>>{"written: of gamma's element type"});

}  // namespace rows

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
