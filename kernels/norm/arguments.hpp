// The arguments of the norm kernels, as their device functions take them. Strides are in elements.
#pragma once

#include "../gpu/portable.hpp"

namespace sy {

/// Pointers that may be null: residual and residual_out (together), gamma, beta, mean, rstd.
template <class T, class G, class Rows = i64, class Columns = i32>
struct norm_forward_arguments {
  const T* x;
  const T* residual = nullptr;
  const G* gamma;
  const G* beta = nullptr;
  T* out;
  T* residual_out = nullptr;
  float* mean = nullptr;
  float* rstd;
  Rows rows;
  Columns columns;
  i64 x_stride;
  i64 residual_stride = 0;
  i64 out_stride;
  i64 residual_out_stride = 0;
  float epsilon;
  float gamma_offset;
};

/// Pointers that may be null: gamma, grad_residual, partial. `partial` receives a block's (or cluster's) sums
/// for the gradients of gamma and, of LayerNorm, of beta: [1 or 2][clusters][columns].
template <class T, class G, class Rows = i64, class Columns = i32>
struct norm_backward_arguments {
  const T* grad_out;
  const T* h;
  const G* gamma;
  const float* mean = nullptr;
  const float* rstd;
  const T* grad_residual = nullptr;
  T* grad_x;
  float* partial = nullptr;
  Rows rows;
  Columns columns;
  i64 grad_out_stride;
  i64 h_stride;
  i64 grad_residual_stride = 0;
  i64 grad_x_stride;
  float gamma_offset;
};

}  // namespace sy
