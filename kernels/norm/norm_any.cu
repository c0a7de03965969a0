// SPDX-License-Identifier: MIT
// Norms for rows of any length and alignment, and the second launch of the weights' gradients. The forward
// reads a row twice or, Centred, three times; the backward takes one pass for the weights and one for the
// rows.
#include "shared.hpp"

namespace sy {

/// Sums partial [planes][parts][columns] over the parts into one row of each plane: grid (columns / 32,
/// planes).
template <class G>
__device__ __forceinline__ void sum_partials(const float* partial, G* first, G* second, i32 parts,
                                             i32 columns) {
  begin_kernel();
  constexpr int lanes = 32;
  constexpr int groups = 32;
  __shared__ float sums[groups][lanes + 1];
  G* out = block_index_y() == 0 ? first : second;
  if (out == nullptr) return;
  const int lane = thread_index() % lanes;
  const int group = thread_index() / lanes;
  const i64 column = static_cast<i64>(block_index()) * lanes + lane;
  const float* plane = partial + static_cast<i64>(block_index_y()) * parts * columns;
  // Loads of one turn are under way together: enough for the 528 parts of four blocks on each of 132
  // multiprocessors, so that the launch lasts hardly longer than one load.
  constexpr int unroll = 17;
  float sum = 0.0F;
  if (column < columns) {
    const i64 step = static_cast<i64>(groups) * columns;
    const float* from = plane + static_cast<i64>(group) * columns + column;
    for (int left = parts - group; left > 0; left -= groups * unroll) {
      float loaded[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        loaded[u] = u * groups < left ? *from : 0.0F;
        from += step;
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u) sum += loaded[u];
    }
  }
  sums[group][lane] = sum;
  block_barrier();
  float total = sums[lane][group];
  total = lane_sum<32>(total);
  const i64 written = static_cast<i64>(block_index()) * lanes + group;
  if (lane == 0 && written < columns) from_float(total, out[written]);
}

/// The same for long rows, with few parts of each column, whose number is a multiple of 4: grid (columns /
/// 128, planes), 256 threads. A block a column group of 32 would spend most of its time on being launched.
template <class G>
__device__ __forceinline__ void sum_partials_wide(const float* partial, G* first, G* second, i32 parts,
                                                  i32 columns) {
  begin_kernel();
  constexpr int lanes = 32;
  constexpr int groups = 8;
  constexpr int unroll = 8;
  constexpr int block_columns = 4 * lanes;
  __shared__ quad sums[groups][lanes];
  G* out = block_index_y() == 0 ? first : second;
  if (out == nullptr) return;
  const int lane = thread_index() % lanes;
  const int group = thread_index() / lanes;
  const i64 column = static_cast<i64>(block_index()) * block_columns + 4 * lane;
  float sum[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  if (column < columns) {
    const i64 step = static_cast<i64>(groups) * columns;
    const float* from = partial + (static_cast<i64>(block_index_y()) * parts + group) * columns + column;
    for (int left = parts - group; left > 0; left -= groups * unroll) {
      quad loaded[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        loaded[u] = u * groups < left ? load_quad(from) : quad{};
        from += step;
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        float part[4];
        unpack<f32>(loaded[u], part);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += part[e];
      }
    }
  }
  sums[group][lane] = pack<f32>(sum);
  block_barrier();
  const i64 written = static_cast<i64>(block_index()) * block_columns + thread_index();
  if (thread_index() < block_columns && written < columns) {
    float total = 0.0F;
#pragma unroll
    for (int g = 0; g < groups; ++g) total += reinterpret_cast<const float*>(sums[g])[thread_index()];
    from_float(total, out[written]);
  }
}

template <bool Centred, class T, class G, int Threads>
__device__ __forceinline__ void norm_forward_any(norm_call<T, G> call) {
  using shape = row_shape<Threads, 1, 1, 0, 1, 1, false, false>;
  __shared__ typename row_exchange<shape, 1>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, 1> exchange{exchanged};
  const float inverse_columns = 1.0F / static_cast<float>(call.columns);
  for (i64 row = block_index(); row < call.rows; row += block_count()) {
    const T* h = call.residual == nullptr ? call.x + row * call.x_stride
                                          : call.residual_out + row * call.residual_out_stride;
    float sums[1] = {0.0F};
    for (i64 c = place.lane_in_row; c < call.columns; c += Threads) {
      float value = to_float(call.x[row * call.x_stride + c]);
      if (call.residual != nullptr) {
        T rounded;
        from_float(value + to_float(call.residual[row * call.residual_stride + c]), rounded);
        call.residual_out[row * call.residual_out_stride + c] = rounded;
        value = to_float(rounded);
      }
      sums[0] += Centred ? value : value * value;
    }
    row_sum(exchange, place, sums);
    float mean = 0.0F;
    if constexpr (Centred) {
      mean = sums[0] * inverse_columns;
      sums[0] = 0.0F;
      for (i64 c = place.lane_in_row; c < call.columns; c += Threads) {
        const float centred = to_float(h[c]) - mean;
        sums[0] += centred * centred;
      }
      row_sum(exchange, place, sums);
    }
    const float rstd = reciprocal_square_root(sums[0] * inverse_columns + call.epsilon);
    for (i64 c = place.lane_in_row; c < call.columns; c += Threads) {
      const float factor = call.gamma == nullptr ? 1.0F : to_float(call.gamma[c]) + call.gamma_offset;
      const float term = call.beta == nullptr ? 0.0F : to_float(call.beta[c]);
      from_float((to_float(h[c]) - mean) * rstd * factor + term, call.out[row * call.out_stride + c]);
    }
    if (place.lane_in_row == 0) {
      if (Centred && call.mean != nullptr) call.mean[row] = mean;
      if (call.rstd != nullptr) call.rstd[row] = rstd;
    }
  }
}

/// The weights' gradients: each block sums 32 columns over its share of the rows into partial
/// [2][parts][columns], grid (columns / 32, parts). It runs before the rows' gradients, which may be written
/// over its inputs.
template <bool Centred, class T>
__device__ __forceinline__ void weight_gradients_any(norm_backward_call<T, T> call, i32 parts) {
  constexpr int lanes = 32;
  constexpr int groups = 32;
  __shared__ float gamma_sums[groups][lanes + 1];
  __shared__ float beta_sums[Centred ? groups : 1][lanes + 1];
  const int lane = thread_index() % lanes;
  const int group = thread_index() / lanes;
  const i64 column = static_cast<i64>(block_index()) * lanes + lane;
  const i64 part = block_index_y();
  float gamma_sum = 0.0F;
  float beta_sum = 0.0F;
  if (column < call.columns) {
    for (i64 row = part * groups + group; row < call.rows; row += static_cast<i64>(parts) * groups) {
      const float gradient = to_float(call.grad_out[row * call.grad_out_stride + column]);
      const float value = to_float(call.h[row * call.h_stride + column]);
      gamma_sum += gradient * (Centred ? value - call.mean[row] : value) * call.rstd[row];
      beta_sum += gradient;
    }
  }
  gamma_sums[group][lane] = gamma_sum;
  if constexpr (Centred) beta_sums[group][lane] = beta_sum;
  block_barrier();
  const i64 written = static_cast<i64>(block_index()) * lanes + group;
  const float gamma_total = lane_sum<32>(gamma_sums[lane][group]);
  float beta_total = 0.0F;
  if constexpr (Centred) beta_total = lane_sum<32>(beta_sums[lane][group]);
  if (lane == 0 && written < call.columns) {
    call.partial[part * call.columns + written] = gamma_total;
    if constexpr (Centred) call.partial[(parts + part) * call.columns + written] = beta_total;
  }
}

template <bool Centred, class T, class G, int Threads>
__device__ __forceinline__ void norm_backward_any(norm_backward_call<T, G> call) {
  using shape = row_shape<Threads, 1, 1, 0, 1, 1, false, false>;
  __shared__ typename row_exchange<shape, 2>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, 2> exchange{exchanged};
  const float inverse_columns = 1.0F / static_cast<float>(call.columns);
  for (i64 row = block_index(); row < call.rows; row += block_count()) {
    const T* gradient = call.grad_out + row * call.grad_out_stride;
    const T* value = call.h + row * call.h_stride;
    const float rstd = call.rstd[row];
    const float mean = Centred ? call.mean[row] : 0.0F;
    float sums[2] = {0.0F, 0.0F};
    for (i64 c = place.lane_in_row; c < call.columns; c += Threads) {
      const float weighted = to_float(gradient[c]) *
                             (call.gamma == nullptr ? 1.0F : to_float(call.gamma[c]) + call.gamma_offset);
      sums[0] += weighted * (to_float(value[c]) - mean) * rstd;
      sums[1] += weighted;
    }
    row_sum(exchange, place, sums);
    const float slope = sums[0] * inverse_columns;
    const float level = Centred ? sums[1] * inverse_columns : 0.0F;
    for (i64 c = place.lane_in_row; c < call.columns; c += Threads) {
      const float weighted = to_float(gradient[c]) *
                             (call.gamma == nullptr ? 1.0F : to_float(call.gamma[c]) + call.gamma_offset);
      float result = rstd * (weighted - level - (to_float(value[c]) - mean) * rstd * slope);
      if (call.grad_residual != nullptr)
        result += to_float(call.grad_residual[row * call.grad_residual_stride + c]);
      from_float(result, call.grad_x[row * call.grad_x_stride + c]);
    }
  }
}

}  // namespace sy

#define SY_SUM_PARTIALS(name, G)                                                                        \
  extern "C" SY_KERNEL(1024, 1)                                                                         \
      name(const float* partial, sy::G* grad_gamma, sy::G* grad_beta, sy::i32 parts, sy::i32 columns) { \
    sy::sum_partials<sy::G>(partial, grad_gamma, grad_beta, parts, columns);                            \
  }

#define SY_SUM_PARTIALS_WIDE(name, G)                                                                   \
  extern "C" SY_KERNEL(256, 1)                                                                          \
      name(const float* partial, sy::G* grad_gamma, sy::G* grad_beta, sy::i32 parts, sy::i32 columns) { \
    sy::sum_partials_wide<sy::G>(partial, grad_gamma, grad_beta, parts, columns);                       \
  }

#define SY_RMS_NORM_ANY(name, T, G, threads)                                                  \
  extern "C" SY_KERNEL(threads, 1) name(SY_RMS_NORM_PARAMETERS(T, G, i64)) {                  \
    sy::norm_forward_any<false, sy::T, sy::G, threads>(SY_NORM_CALL(T, G, nullptr, nullptr)); \
  }

#define SY_LAYER_NORM_ANY(name, T, G, threads)                                         \
  extern "C" SY_KERNEL(threads, 1) name(SY_LAYER_NORM_PARAMETERS(T, G, i64)) {         \
    sy::norm_forward_any<true, sy::T, sy::G, threads>(SY_NORM_CALL(T, G, beta, mean)); \
  }

#define SY_RMS_NORM_WEIGHT_GRADIENTS_ANY(name, T)                                                  \
  extern "C" SY_KERNEL(1024, 1)                                                                    \
      name(const sy::T* grad_out, const sy::T* h, const float* rstd, float* partial, sy::i64 rows, \
           sy::i64 columns, sy::i32 parts, sy::i64 grad_out_stride, sy::i64 h_stride) {            \
    sy::weight_gradients_any<false, sy::T>({.grad_out = grad_out,                                  \
                                            .h = h,                                                \
                                            .rstd = rstd,                                          \
                                            .partial = partial,                                    \
                                            .rows = rows,                                          \
                                            .columns = columns,                                    \
                                            .grad_out_stride = grad_out_stride,                    \
                                            .h_stride = h_stride},                                 \
                                           parts);                                                 \
  }

#define SY_LAYER_NORM_WEIGHT_GRADIENTS_ANY(name, T)                                                     \
  extern "C" SY_KERNEL(1024, 1)                                                                         \
      name(const sy::T* grad_out, const sy::T* h, const float* mean, const float* rstd, float* partial, \
           sy::i64 rows, sy::i64 columns, sy::i32 parts, sy::i64 grad_out_stride, sy::i64 h_stride) {   \
    sy::weight_gradients_any<true, sy::T>({.grad_out = grad_out,                                        \
                                           .h = h,                                                      \
                                           .mean = mean,                                                \
                                           .rstd = rstd,                                                \
                                           .partial = partial,                                          \
                                           .rows = rows,                                                \
                                           .columns = columns,                                          \
                                           .grad_out_stride = grad_out_stride,                          \
                                           .h_stride = h_stride},                                       \
                                          parts);                                                       \
  }

#define SY_RMS_NORM_BACKWARD_ANY(name, T, G, threads)                                                    \
  extern "C" SY_KERNEL(threads, 1) name(                                                                 \
      const sy::T* grad_out, const sy::T* h, const sy::G* gamma, const float* rstd,                      \
      const sy::T* grad_residual, sy::T* grad_x, sy::i64 rows, sy::i64 columns, sy::i64 grad_out_stride, \
      sy::i64 h_stride, sy::i64 grad_residual_stride, sy::i64 grad_x_stride, float gamma_offset) {       \
    sy::norm_backward_any<false, sy::T, sy::G, threads>(SY_NORM_BACKWARD_CALL(T, G, nullptr, nullptr));  \
  }

#define SY_LAYER_NORM_BACKWARD_ANY(name, T, G, threads)                                                  \
  extern "C" SY_KERNEL(threads, 1) name(                                                                 \
      const sy::T* grad_out, const sy::T* h, const sy::G* gamma, const float* mean, const float* rstd,   \
      const sy::T* grad_residual, sy::T* grad_x, sy::i64 rows, sy::i64 columns, sy::i64 grad_out_stride, \
      sy::i64 h_stride, sy::i64 grad_residual_stride, sy::i64 grad_x_stride, float gamma_offset) {       \
    sy::norm_backward_any<true, sy::T, sy::G, threads>(SY_NORM_BACKWARD_CALL(T, G, mean, nullptr));      \
  }
