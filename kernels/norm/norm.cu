// SPDX-License-Identifier: MIT
// RMSNorm and LayerNorm, forward and backward, for rows that a block or a cluster of blocks holds. Semantics:
// operators/rms_norm.hpp, layer_norm.hpp and their backwards. What other shapes need is in norm_any.cu.
#include "../gpu/row.hpp"
#include "shared.hpp"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 549  // rows in registers are set under the same conditions as they are used
#endif

namespace sy {

template <bool Centred, bool Residual, class T, class G, class Shape>
__device__ __forceinline__ void norm_forward(norm_call<T, G> call) {
  const auto columns = static_cast<i32>(call.columns);
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;
  constexpr int inputs = Residual ? 2 : 1;
  constexpr bool ringed = Shape::stages > 0;
  constexpr int row_registers = Shape::in_shared ? 0 : Shape::elements * static_cast<int>(sizeof(T)) / 4;
  constexpr weights_held weights =
      weights_fit<G, Shape, (Centred ? 2 : 1), row_registers + (ringed ? 34 : 44)>;
  constexpr int values = Centred ? 2 : 1;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename row_exchange<Shape, values>::storage exchanged;

  const row_place<Shape> place;
  row_exchange<Shape, values> exchange{exchanged};
  const int count = columns / width;
  const float inverse_columns = 1.0F / static_cast<float>(columns);
  const thread_weights<T, G, vectors, weights, true> scale{call.gamma, 1.0F, call.gamma_offset, place, count};
  const thread_weights<T, G, Centred ? vectors : 1, Centred ? weights : weights_held::nowhere, false> shift{
      call.beta, 0.0F, 0.0F, place, count};

  row_moments<Centred, Shape, vectors, width> moments{place, count};

  row_reader<T, Shape, inputs> reader{dynamic_shared, place, call.rows, count};
  reader.input(0, call.x, call.x_stride);
  if constexpr (Residual) reader.input(1, call.residual, call.residual_stride);
  reader.start();

  for (; reader.more(); reader.next()) {
    const i64 row = reader.row();
    reader.take();
    float sum = 0.0F;
    float square = 0.0F;
    float pivot = 0.0F;
    if constexpr (Centred) {
      if (reader.has(0)) {
        pivot = leading_mean<T>(reader.get(0, 0));
        if constexpr (Residual) pivot += leading_mean<T>(reader.get(1, 0));
      }
      pivot = shuffle_first<Shape::lanes>(pivot);
    }
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float value[width];
        unpack<T>(reader.get(0, j), value);
        if constexpr (Residual) {
          float more[width];
          unpack<T>(reader.get(1, j), more);
#pragma unroll
          for (int e = 0; e < width; ++e) value[e] += more[e];
          const quad rounded = pack<T>(value);
          store_streaming(call.residual_out + row * call.residual_out_stride + v * width, rounded);
          reader.put(j, rounded);
          unpack<T>(rounded, value);
        }
#pragma unroll
        for (int e = 0; e < width; ++e) {
          const float difference = value[e] - pivot;
          if constexpr (Centred) sum += difference;
          square += difference * difference;
        }
      }
    }
    if constexpr (!Shape::in_shared) reader.refill();

    float mean = 0.0F;
    if constexpr (Centred) {
      moments.close_warp(pivot, sum, square, mean);
      if constexpr (Shape::partials > 1) {
        exchange.give(place, {mean, square});
        moments.merge(place, exchange.mine, inverse_columns, mean, square);
      }
    } else {
      float sums[1] = {square};
      row_sum(exchange, place, sums);
      square = sums[0];
    }
    const float rstd = reciprocal_square_root(square * inverse_columns + call.epsilon);
    const float start = -mean * rstd;

#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float value[width];
        float factor[width];
        unpack<T>(reader.get(0, j), value);
        scale.get(j, v, factor);
        if constexpr (Centred) {
          float term[width];
          shift.get(j, v, term);
#pragma unroll
          for (int e = 0; e < width; ++e) {
            value[e] = (value[e] * rstd + start) * factor[e] + term[e];
          }
        } else {
#pragma unroll
          for (int e = 0; e < width; ++e) value[e] = value[e] * rstd * factor[e];
        }
        store_streaming(call.out + row * call.out_stride + v * width, pack<T>(value));
      }
      // The slot is free: what was read from it has been stored.
      if constexpr (Shape::in_shared) reader.refill(j);
    }
    if constexpr (Shape::in_shared) reader.refilled();
    if (reader.exists() && place.lane_in_row == 0 && place.rank == 0) {
      if (Centred && call.mean != nullptr) call.mean[row] = mean;
      if (call.rstd != nullptr) call.rstd[row] = rstd;
    }
  }
}

/// A row of any number of whole vectors, which is read a second time, from the caches, when it is written: it
/// takes few registers, so that many blocks share a multiprocessor. `Unroll` vectors are under way at once.
template <bool Centred, class T, class G, int Threads, int Unroll>
__device__ __forceinline__ void norm_forward_stream(norm_call<T, G> call) {
  const auto columns = static_cast<i32>(call.columns);
  using shape = row_shape<Threads, width_of<T>, 1, 0, 1, 1, false, false>;
  constexpr int width = width_of<T>;
  constexpr int values = Centred ? 3 : 1;
  begin_kernel();
  __shared__ typename row_exchange<shape, values>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, values> exchange{exchanged};
  const int count = columns / width;
  const float inverse_columns = 1.0F / static_cast<float>(columns);
  if (call.gamma == nullptr) call.gamma_offset = 0.0F;

  for (i64 row = block_index(); row < call.rows; row += block_count()) {
    const T* h = call.x + row * call.x_stride;
    float sum = 0.0F;
    float square = 0.0F;
    float pivot = 0.0F;
    float held = 0.0F;
    for (int first = place.lane_in_row; first < count; first += Threads * Unroll) {
      quad packed[Unroll];
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count)
          packed[u] = load_quad(h + static_cast<i64>(first + u * Threads) * width);
      }
      if (call.residual != nullptr) {
        quad added[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
          const i64 at = static_cast<i64>(first + u * Threads) * width;
          if (first + u * Threads < count)
            added[u] = load_streaming(call.residual + row * call.residual_stride + at);
        }
#pragma unroll
        for (int u = 0; u < Unroll; ++u) {
          if (first + u * Threads < count) {
            float value[width];
            float more[width];
            unpack<T>(packed[u], value);
            unpack<T>(added[u], more);
#pragma unroll
            for (int e = 0; e < width; ++e) value[e] += more[e];
            packed[u] = pack<T>(value);
            store_quad(call.residual_out + row * call.residual_out_stride +
                           static_cast<i64>(first + u * Threads) * width,
                       packed[u]);
          }
        }
      }
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count) {
          float value[width];
          unpack<T>(packed[u], value);
          if (Centred && held == 0.0F) pivot = value[0];
          held += static_cast<float>(width);
#pragma unroll
          for (int e = 0; e < width; ++e) {
            const float difference = value[e] - pivot;
            if constexpr (Centred) sum += difference;
            square += difference * difference;
          }
        }
      }
    }

    float mean = 0.0F;
    if constexpr (Centred) {
      // Merged as in row_moments; here the warps' element counts travel with their means.
      const float warp_held = lane_sum<shape::lanes>(held);
      const float offset = held > 0.0F ? sum / held : 0.0F;
      const float warp_mean =
          warp_held > 0.0F ? lane_sum<shape::lanes>(held * (pivot + offset)) / warp_held : 0.0F;
      const float apart = pivot + offset - warp_mean;
      const float warp_square = lane_sum<shape::lanes>(square - sum * offset + held * apart * apart);
      exchange.give(place, {warp_held, warp_mean, warp_square});
      const int lane = place.lane_in_row % shape::merge_lanes;
      const bool present = lane < shape::partials;
      const float elements = present ? exchange.mine[3 * lane] : 0.0F;
      const float other_mean = present ? exchange.mine[3 * lane + 1] : 0.0F;
      mean = lane_sum<shape::merge_lanes>(elements * other_mean) * inverse_columns;
      const float distance = other_mean - mean;
      square = lane_sum<shape::merge_lanes>((present ? exchange.mine[3 * lane + 2] : 0.0F) +
                                            elements * distance * distance);
    } else {
      float sums[1] = {square};
      row_sum(exchange, place, sums);
      square = sums[0];
    }
    const float rstd = reciprocal_square_root(square * inverse_columns + call.epsilon);
    const float start = -mean * rstd;
    if (call.residual != nullptr) h = call.residual_out + row * call.residual_out_stride;

    for (int first = place.lane_in_row; first < count; first += Threads * Unroll) {
      quad packed[Unroll];
      weight_vector<T, G> factors[Unroll];
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        const int v = first + u * Threads;
        if (v < count) {
          packed[u] = load_streaming(h + static_cast<i64>(v) * width);
          factors[u].load(call.gamma, v, 1.0F);
        }
      }
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        const int v = first + u * Threads;
        if (v < count) {
          float value[width];
          float factor[width];
          unpack<T>(packed[u], value);
          factors[u].get(factor);
          if constexpr (Centred) {
            weight_vector<T, G> terms;
            terms.load(call.beta, v, 0.0F);
            float term[width];
            terms.get(term);
#pragma unroll
            for (int e = 0; e < width; ++e) {
              value[e] = (value[e] * rstd + start) * (factor[e] + call.gamma_offset) + term[e];
            }
          } else {
#pragma unroll
            for (int e = 0; e < width; ++e) value[e] = value[e] * rstd * (factor[e] + call.gamma_offset);
          }
          store_streaming(call.out + row * call.out_stride + static_cast<i64>(v) * width, pack<T>(value));
        }
      }
    }
    if (place.lane_in_row == 0) {
      if (Centred && call.mean != nullptr) call.mean[row] = mean;
      if (call.rstd != nullptr) call.rstd[row] = rstd;
    }
  }
}

/// `partial` receives this block's (or cluster's) sums for the gradients of gamma and, Centred, of beta:
/// [1 or 2][clusters][columns]. Null: not wanted.
template <bool Centred, bool Residual, class T, class G, class Shape>
__device__ __forceinline__ void norm_backward(norm_backward_call<T, G> call) {
  const auto columns = static_cast<i32>(call.columns);
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;
  constexpr int inputs = Residual ? 3 : 2;
  constexpr int values = Centred ? 2 : 1;
  constexpr int other_registers =
      values * Shape::elements +
      (Shape::in_shared ? 0 : inputs * Shape::elements * static_cast<int>(sizeof(T)) / 4) + 40;
  constexpr weights_held weights = weights_fit<G, Shape, 1, other_registers>;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename row_exchange<Shape, values>::storage exchanged;

  const row_place<Shape> place;
  row_exchange<Shape, values> exchange{exchanged};
  const int count = columns / width;
  const float inverse_columns = 1.0F / static_cast<float>(columns);
  const thread_weights<T, G, vectors, weights, true> scale{call.gamma, 1.0F, call.gamma_offset, place, count};

  float gamma_sums[vectors * width];
  float beta_sums[Centred ? vectors * width : 1];
#pragma unroll
  for (int i = 0; i < vectors * width; ++i) gamma_sums[i] = 0.0F;
  if constexpr (Centred) {
#pragma unroll
    for (int i = 0; i < vectors * width; ++i) beta_sums[i] = 0.0F;
  }

  row_reader<T, Shape, inputs> reader{dynamic_shared, place, call.rows, count};
  reader.input(0, call.grad_out, call.grad_out_stride);
  reader.input(1, call.h, call.h_stride);
  if constexpr (Residual) reader.input(2, call.grad_residual, call.grad_residual_stride);
  reader.start();

  // The statistics of the next row are loaded a row ahead.
  float next_mean = 0.0F;
  float next_rstd = 0.0F;
  const auto prefetch = [&](i64 row) {
    if (row < call.rows) {
      next_rstd = call.rstd[row];
      if constexpr (Centred) next_mean = call.mean[row];
    }
  };
  prefetch(reader.row());

  for (; reader.more(); reader.next()) {
    const i64 row = reader.row();
    const float mean = next_mean;
    const float rstd = next_rstd;
    prefetch(reader.next_row());
    reader.take();

    float sums[values];
#pragma unroll
    for (int i = 0; i < values; ++i) sums[i] = 0.0F;
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float gradient[width];
        float value[width];
        float factor[width];
        unpack<T>(reader.get(0, j), gradient);
        unpack<T>(reader.get(1, j), value);
        scale.get(j, v, factor);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          const float weighted = gradient[e] * factor[e];
          sums[0] += weighted * (Centred ? value[e] - mean : value[e]);
          if constexpr (Centred) sums[1] += weighted;
        }
      }
    }
    if constexpr (!Shape::in_shared) reader.refill();
    row_sum(exchange, place, sums);
    // grad_x is rstd x (weighted gradient - its mean - normalised value x mean of their product).
    const float slope = sums[0] * inverse_columns * rstd * rstd;
    const float level = Centred ? sums[values - 1] * inverse_columns * rstd : 0.0F;
    const float start = -mean * rstd;

#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float gradient[width];
        float value[width];
        float factor[width];
        unpack<T>(reader.get(0, j), gradient);
        unpack<T>(reader.get(1, j), value);
        scale.get(j, v, factor);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          const float normal = Centred ? value[e] * rstd + start : value[e] * rstd;
          gamma_sums[j * width + e] += gradient[e] * normal;
          if constexpr (Centred) beta_sums[j * width + e] += gradient[e];
          value[e] = gradient[e] * factor[e] * rstd - (Centred ? normal * slope + level : normal * slope);
        }
        if constexpr (Residual) {
          float past[width];
          unpack<T>(reader.get(2, j), past);
#pragma unroll
          for (int e = 0; e < width; ++e) value[e] += past[e];
        }
        store_streaming(call.grad_x + row * call.grad_x_stride + v * width, pack<T>(value));
      }
    }
    // Not vector by vector as in the forward: the addresses would take the registers of the sums.
    if constexpr (Shape::in_shared) reader.refill();
  }

  if (call.partial == nullptr) return;
  const i64 clusters = place.group_step;
#pragma unroll
  for (int plane = 0; plane < values; ++plane) {
    float* sums = call.partial + (plane * clusters + place.first_group) * columns;
    const auto sum = [&](int i) { return plane == 0 ? gamma_sums[i] : beta_sums[Centred ? i : 0]; };
    if constexpr (Shape::rows == 1) {
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
        const int v = place.template vector<vectors>(j);
        if (place.inside(v, count)) {
#pragma unroll
          for (int e = 0; e < width; e += 4) {
            float four[4] = {sum(j * width + e), sum(j * width + e + 1), sum(j * width + e + 2),
                             sum(j * width + e + 3)};
            *reinterpret_cast<quad*>(sums + static_cast<i64>(v) * width + e) = pack<f32>(four);
          }
        }
      }
    } else {
      wait_for_copies<0>();
      block_barrier();
      float* shared = reinterpret_cast<float*>(dynamic_shared);
      constexpr int row_floats = Shape::threads * Shape::elements;
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
#pragma unroll
        for (int e = 0; e < width; ++e) {
          shared[place.row_in_block * row_floats + (j * Shape::threads + place.lane_in_row) * width + e] =
              sum(j * width + e);
        }
      }
      block_barrier();
      for (int c = thread_index(); c < columns; c += Shape::block_threads) {
        float total = 0.0F;
#pragma unroll
        for (int r = 0; r < Shape::rows; ++r) total += shared[r * row_floats + c];
        sums[c] = total;
      }
    }
  }
}

}  // namespace sy

#define SY_SHAPE(threads, elements, rows, stages, cluster, blocks, in_shared, full) \
  sy::row_shape<threads, elements, rows, stages, cluster, blocks, in_shared, full>

#define SY_RMS_NORM(name, T, G, with_residual, threads, elements, block_rows, stages, cluster, blocks,   \
                    in_shared, full)                                                                     \
  extern "C" SY_KERNEL((threads) * (block_rows), blocks) name(SY_RMS_NORM_PARAMETERS(T, G, i32)) {       \
    sy::norm_forward<false, with_residual, sy::T, sy::G,                                                 \
                     SY_SHAPE(threads, elements, block_rows, stages, cluster, blocks, in_shared, full)>( \
        SY_NORM_CALL(T, G, nullptr, nullptr));                                                           \
  }

#define SY_LAYER_NORM(name, T, G, with_residual, threads, elements, block_rows, stages, cluster, blocks, \
                      in_shared, full)                                                                   \
  extern "C" SY_KERNEL((threads) * (block_rows), blocks) name(SY_LAYER_NORM_PARAMETERS(T, G, i32)) {     \
    sy::norm_forward<true, with_residual, sy::T, sy::G,                                                  \
                     SY_SHAPE(threads, elements, block_rows, stages, cluster, blocks, in_shared, full)>( \
        SY_NORM_CALL(T, G, beta, mean));                                                                 \
  }

#define SY_RMS_NORM_BACKWARD(name, T, G, with_residual, threads, elements, block_rows, stages, cluster,    \
                             blocks, in_shared, full)                                                      \
  extern "C" SY_KERNEL((threads) * (block_rows), blocks)                                                   \
      name(const sy::T* grad_out, const sy::T* h, const sy::G* gamma, const float* rstd,                   \
           const sy::T* grad_residual, sy::T* grad_x, float* partial, sy::i64 rows, sy::i32 columns,       \
           sy::i64 grad_out_stride, sy::i64 h_stride, sy::i64 grad_residual_stride, sy::i64 grad_x_stride, \
           float gamma_offset) {                                                                           \
    sy::norm_backward<false, with_residual, sy::T, sy::G,                                                  \
                      SY_SHAPE(threads, elements, block_rows, stages, cluster, blocks, in_shared, full)>(  \
        SY_NORM_BACKWARD_CALL(T, G, nullptr, partial));                                                    \
  }

#define SY_LAYER_NORM_BACKWARD(name, T, G, with_residual, threads, elements, block_rows, stages, cluster,   \
                               blocks, in_shared, full)                                                     \
  extern "C" SY_KERNEL((threads) * (block_rows), blocks)                                                    \
      name(const sy::T* grad_out, const sy::T* h, const sy::G* gamma, const float* mean, const float* rstd, \
           const sy::T* grad_residual, sy::T* grad_x, float* partial, sy::i64 rows, sy::i32 columns,        \
           sy::i64 grad_out_stride, sy::i64 h_stride, sy::i64 grad_residual_stride, sy::i64 grad_x_stride,  \
           float gamma_offset) {                                                                            \
    sy::norm_backward<true, with_residual, sy::T, sy::G,                                                    \
                      SY_SHAPE(threads, elements, block_rows, stages, cluster, blocks, in_shared, full)>(   \
        SY_NORM_BACKWARD_CALL(T, G, mean, partial));                                                        \
  }

#define SY_RMS_NORM_STREAM(name, T, G, threads, unroll, blocks)                                          \
  extern "C" SY_KERNEL(threads, blocks) name(SY_RMS_NORM_PARAMETERS(T, G, i32)) {                        \
    sy::norm_forward_stream<false, sy::T, sy::G, threads, unroll>(SY_NORM_CALL(T, G, nullptr, nullptr)); \
  }

#define SY_LAYER_NORM_STREAM(name, T, G, threads, unroll, blocks)                                 \
  extern "C" SY_KERNEL(threads, blocks) name(SY_LAYER_NORM_PARAMETERS(T, G, i32)) {               \
    sy::norm_forward_stream<true, sy::T, sy::G, threads, unroll>(SY_NORM_CALL(T, G, beta, mean)); \
  }
