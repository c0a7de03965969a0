// SPDX-License-Identifier: MIT
// RMSNorm and LayerNorm, and RMSNorm's backward, for long rows in the software pipeline of row_pipeline.hpp:
// one block a multiprocessor, whose registers hold its columns' weights and sums of gradients over all of its
// rows. Semantics: operators/rms_norm.hpp, layer_norm.hpp, rms_norm_backward.hpp, without a residual.
#include "../gpu/row_pipeline.hpp"
#include "shared.hpp"

namespace sy {

template <bool Centred, class T, class G, class Shape>
__device__ __forceinline__ void norm_forward_pipelined(norm_call<T, G> call) {
  const auto rows = static_cast<i32>(call.rows);
  const auto columns = static_cast<i32>(call.columns);
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;
  constexpr int values = Centred ? 2 : 1;
  constexpr weights_held weights = weights_fit<G, Shape, (Centred ? 2 : 1), 40>;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename pipelined_exchange<Shape, values>::storage exchanged;

  const row_place<Shape> place;
  const int count = columns / width;
  const float inverse_columns = 1.0F / static_cast<float>(columns);

  row_pipeline<T, Shape, 1> pipeline{dynamic_shared, place, rows, count};
  pipeline.input(0, call.x, call.x_stride);
  pipeline.start();

  pipelined_exchange<Shape, values> exchange{exchanged};
  thread_weights<T, G, vectors, weights, true> scale{call.gamma, 1.0F, call.gamma_offset, place, count};
  thread_weights<T, G, Centred ? vectors : 1, Centred ? weights : weights_held::nowhere, false> shift{
      call.beta, 0.0F, 0.0F, place, count};
  const row_moments<Centred, Shape, vectors, width> moments{place, count};

  const i32 step = static_cast<i32>(place.group_step);
  i32 coming = static_cast<i32>(place.first_group);
  for (int iteration = 0; coming < rows + step; ++iteration, coming += step, pipeline.advance()) {
    if (coming < rows) {
      pipeline.wait();
      float sum = 0.0F;
      float square = 0.0F;
      float pivot = 0.0F;
      if constexpr (Centred) {
        if (pipeline.has(0)) pivot = leading_mean<T>(pipeline.coming(0, 0));
        pivot = shuffle_first<Shape::lanes>(pivot);
      }
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
        if (pipeline.has(j)) {
          float value[width];
          unpack<T>(pipeline.coming(0, j), value);
#pragma unroll
          for (int e = 0; e < width; ++e) {
            const float difference = value[e] - pivot;
            if constexpr (Centred) sum += difference;
            square += difference * difference;
          }
        }
      }
      if constexpr (Centred) {
        float mean;
        moments.close_warp(pivot, sum, square, mean);
        exchange.give(place, iteration, {mean, square});
      } else {
        exchange.give(place, iteration, {lane_sum<Shape::lanes>(square)});
      }
    }

    if (iteration == 0) continue;
    scale.stay_packed();
    shift.stay_packed();
    const i32 row = coming - step;
    const float* partials = exchange.take(iteration - 1);
    float mean = 0.0F;
    float square = 0.0F;
    if constexpr (Centred) {
      moments.merge(place, partials, inverse_columns, mean, square);
    } else {
      float sums[1];
      merge_partials<Shape>(place, partials, sums);
      square = sums[0];
    }
    const float rstd = reciprocal_square_root(square * inverse_columns + call.epsilon);
    const float start = -mean * rstd;

#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (pipeline.has(j)) {
        float value[width];
        float factor[width];
        unpack<T>(pipeline.leaving(0, j), value);
        scale.get(j, v, factor);
        if constexpr (Centred) {
          float term[width];
          shift.get(j, v, term);
#pragma unroll
          for (int e = 0; e < width; ++e) value[e] = (value[e] * rstd + start) * factor[e] + term[e];
        } else {
#pragma unroll
          for (int e = 0; e < width; ++e) value[e] = value[e] * rstd * factor[e];
        }
        store_streaming(call.out + row * call.out_stride + v * width, pack<T>(value));
      }
      pipeline.refill(j);
    }
    pipeline.refilled();
    if (place.lane_in_row == 0 && place.rank == 0) {
      if (Centred && call.mean != nullptr) call.mean[row] = mean;
      if (call.rstd != nullptr) call.rstd[row] = rstd;
    }
  }
}

/// `partial` as in norm_backward.
template <class T, class G, class Shape>
__device__ __forceinline__ void rms_norm_backward_pipelined(norm_backward_call<T, G> call) {
  const auto rows = static_cast<i32>(call.rows);
  const auto columns = static_cast<i32>(call.columns);
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;
  // Floats would leave too few registers to the loads from shared memory.
  constexpr weights_held weights = weights_fit<G, Shape, 1, Shape::elements + 46> == weights_held::nowhere
                                       ? weights_held::nowhere
                                       : weights_held::packed;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename pipelined_exchange<Shape, 1>::storage exchanged;

  const row_place<Shape> place;
  const int count = columns / width;
  const float inverse_columns = 1.0F / static_cast<float>(columns);

  row_pipeline<T, Shape, 2> pipeline{dynamic_shared, place, rows, count};
  pipeline.input(0, call.grad_out, call.grad_out_stride);
  pipeline.input(1, call.h, call.h_stride);
  pipeline.start();

  pipelined_exchange<Shape, 1> exchange{exchanged};
  thread_weights<T, G, vectors, weights, true> scale{call.gamma, 1.0F, call.gamma_offset, place, count};

  float gamma_sums[vectors * width];
#pragma unroll
  for (int i = 0; i < vectors * width; ++i) gamma_sums[i] = 0.0F;

  // Statistics are loaded a row ahead of their first use.
  const auto load = [&](i32 row) { return row < rows ? call.rstd[row] : 0.0F; };
  const i32 step = static_cast<i32>(place.group_step);
  float next = load(static_cast<i32>(place.first_group));
  float here = 0.0F;

  i32 coming = static_cast<i32>(place.first_group);
  for (int iteration = 0; coming < rows + step; ++iteration, coming += step, pipeline.advance()) {
    const float rstd = here;
    here = next;
    next = load(coming + step);
    scale.stay_packed();
    if (coming < rows) {
      pipeline.wait();
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
        const int v = place.template vector<vectors>(j);
        if (pipeline.has(j)) {
          float gradient[width];
          float value[width];
          float factor[width];
          unpack<T>(pipeline.coming(0, j), gradient);
          unpack<T>(pipeline.coming(1, j), value);
          scale.get(j, v, factor);
#pragma unroll
          for (int e = 0; e < width; ++e) sum += gradient[e] * factor[e] * value[e];
        }
      }
      exchange.give(place, iteration, {lane_sum<Shape::lanes>(sum)});
    }

    if (iteration == 0) continue;
    const i32 row = coming - step;
    float sums[1];
    merge_partials<Shape>(place, exchange.take(iteration - 1), sums);
    // As in norm_backward.
    const float slope = sums[0] * inverse_columns * rstd * rstd;
    scale.stay_packed();

#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (pipeline.has(j)) {
        float gradient[width];
        float value[width];
        float factor[width];
        unpack<T>(pipeline.leaving(0, j), gradient);
        unpack<T>(pipeline.leaving(1, j), value);
        scale.get(j, v, factor);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          const float normal = value[e] * rstd;
          gamma_sums[j * width + e] += gradient[e] * normal;
          value[e] = gradient[e] * factor[e] * rstd - normal * slope;
        }
        store_streaming(call.grad_x + row * call.grad_x_stride + v * width, pack<T>(value));
      }
    }
    pipeline.refill();
  }

  if (call.partial == nullptr) return;
  float* sums = call.partial + place.first_group * columns;
#pragma unroll
  for (int j = 0; j < vectors; ++j) {
    const int v = place.template vector<vectors>(j);
    if (pipeline.has(j)) {
#pragma unroll
      for (int e = 0; e < width; e += 4) {
        float four[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = gamma_sums[j * width + e + i];
        *reinterpret_cast<quad*>(sums + static_cast<i64>(v) * width + e) = pack<f32>(four);
      }
    }
  }
}

}  // namespace sy

#define SY_PIPELINED(threads, elements, stages, cluster, full) \
  sy::row_shape<threads, elements, 1, stages, cluster, 1, true, full>

#define SY_RMS_NORM_PIPELINED(name, T, G, threads, elements, stages, cluster, full)                          \
  extern "C" SY_KERNEL(threads, 1)                                                                           \
      name(const sy::T* x, const sy::G* gamma, sy::T* out, float* rstd, sy::i32 rows, sy::i32 columns,       \
           sy::i64 x_stride, sy::i64 out_stride, float epsilon, float gamma_offset) {                        \
    sy::norm_forward_pipelined<false, sy::T, sy::G, SY_PIPELINED(threads, elements, stages, cluster, full)>( \
        {.x = x,                                                                                             \
         .gamma = gamma,                                                                                     \
         .out = out,                                                                                         \
         .rstd = rstd,                                                                                       \
         .rows = rows,                                                                                       \
         .columns = columns,                                                                                 \
         .x_stride = x_stride,                                                                               \
         .out_stride = out_stride,                                                                           \
         .epsilon = epsilon,                                                                                 \
         .gamma_offset = gamma_offset});                                                                     \
  }

#define SY_LAYER_NORM_PIPELINED(name, T, G, threads, elements, stages, cluster, full)                       \
  extern "C" SY_KERNEL(threads, 1)                                                                          \
      name(const sy::T* x, const sy::G* gamma, const sy::G* beta, sy::T* out, float* mean, float* rstd,     \
           sy::i32 rows, sy::i32 columns, sy::i64 x_stride, sy::i64 out_stride, float epsilon,              \
           float gamma_offset) {                                                                            \
    sy::norm_forward_pipelined<true, sy::T, sy::G, SY_PIPELINED(threads, elements, stages, cluster, full)>( \
        {.x = x,                                                                                            \
         .gamma = gamma,                                                                                    \
         .beta = beta,                                                                                      \
         .out = out,                                                                                        \
         .mean = mean,                                                                                      \
         .rstd = rstd,                                                                                      \
         .rows = rows,                                                                                      \
         .columns = columns,                                                                                \
         .x_stride = x_stride,                                                                              \
         .out_stride = out_stride,                                                                          \
         .epsilon = epsilon,                                                                                \
         .gamma_offset = gamma_offset});                                                                    \
  }

#define SY_RMS_NORM_BACKWARD_PIPELINED(name, T, G, threads, elements, stages, cluster, full)               \
  extern "C" SY_KERNEL(threads, 1)                                                                         \
      name(const sy::T* grad_out, const sy::T* h, const sy::G* gamma, const float* rstd, sy::T* grad_x,    \
           float* partial, sy::i32 rows, sy::i32 columns, sy::i64 grad_out_stride, sy::i64 h_stride,       \
           sy::i64 grad_x_stride, float gamma_offset) {                                                    \
    sy::rms_norm_backward_pipelined<sy::T, sy::G, SY_PIPELINED(threads, elements, stages, cluster, full)>( \
        {.grad_out = grad_out,                                                                             \
         .h = h,                                                                                           \
         .gamma = gamma,                                                                                   \
         .rstd = rstd,                                                                                     \
         .grad_x = grad_x,                                                                                 \
         .partial = partial,                                                                               \
         .rows = rows,                                                                                     \
         .columns = columns,                                                                               \
         .grad_out_stride = grad_out_stride,                                                               \
         .h_stride = h_stride,                                                                             \
         .grad_x_stride = grad_x_stride,                                                                   \
         .gamma_offset = gamma_offset});                                                                   \
  }
