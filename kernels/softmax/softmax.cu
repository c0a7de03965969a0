// SPDX-License-Identifier: MIT
// Softmax of rows, forward and backward, for rows that a block or a cluster of blocks holds, and for rows of
// any length and alignment. Semantics: operators/softmax.hpp and softmax_backward.hpp.
#include "../gpu/row.hpp"
#include "exponential_sum.hpp"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 549  // rows in registers are set under the same conditions as they are used
#endif

namespace sy {

template <class T, class Shape>
__device__ __forceinline__ void softmax_forward(const T* x, T* out, i64 rows, i32 columns, i64 x_stride,
                                                i64 out_stride, float scale) {
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename row_exchange<Shape, 2>::storage exchanged;

  const row_place<Shape> place;
  row_exchange<Shape, 2> exchange{exchanged};
  const float factor = scale * log2_e;

  row_reader<T, Shape, 1> reader{dynamic_shared, place, rows, columns / width};
  reader.input(0, x, x_stride);
  reader.start();

  for (; reader.more(); reader.next()) {
    const i64 row = reader.row();
    reader.take();
    float value[Shape::in_shared ? 1 : vectors * width];  // held rows take their powers of two twice instead
    float top = -infinity;
    float sum = 0.0F;
    if constexpr (Shape::in_shared) {
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
        if (reader.has(j)) {
          float part[width];
          unpack<T>(reader.get(0, j), part);
          float higher = top;
#pragma unroll
          for (int e = 0; e < width; ++e) {
            part[e] *= factor;
            higher = maximum(higher, part[e]);
          }
          const float anchor = higher == -infinity ? 0.0F : higher;
          sum *= exp2_approximate(top - anchor);
          top = higher;
#pragma unroll
          for (int e = 0; e < width; ++e) sum += exp2_approximate(part[e] - anchor);
        }
      }
      const float highest = lane_max<Shape::lanes>(top);
      sum *= exp2_approximate(top - (highest == -infinity ? 0.0F : highest));
      top = highest;
    } else {
#pragma unroll
      for (int j = 0; j < vectors; ++j) {
        float part[width];
        unpack<T>(reader.get(0, j), part);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          value[j * width + e] = reader.has(j) ? part[e] * factor : -infinity;
          top = maximum(top, value[j * width + e]);
        }
      }
      reader.refill();
      // One maximum for the lanes of a warp, so that each element's power of two is taken once.
      top = lane_max<Shape::lanes>(top);
      const float anchor = top == -infinity ? 0.0F : top;
#pragma unroll
      for (int i = 0; i < vectors * width; ++i) {
        value[i] = exp2_approximate(value[i] - anchor);
        sum += value[i];
      }
    }
    exponential_sum total{top, lane_sum<Shape::lanes>(sum)};
    if constexpr (Shape::partials > 1) {
      exchange.give(place, {total.maximum, total.sum});
      const int lane = place.lane_in_row % Shape::merge_lanes;
      total = {-infinity, 0.0F};
#pragma unroll
      for (int partial = 0; partial < Shape::partials; partial += Shape::merge_lanes) {
        if (partial + lane < Shape::partials) {
          total.merge(exchange.mine[2 * (partial + lane)], exchange.mine[2 * (partial + lane) + 1]);
        }
      }
      total = lane_merge<Shape::merge_lanes>(total);
    }
    // An empty sum makes this infinite and the row NaN.
    const float share =
        (Shape::in_shared ? 1.0F : exp2_approximate(top - total.maximum)) * (1.0F / total.sum);
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float part[width];
        if constexpr (Shape::in_shared) {
          unpack<T>(reader.get(0, j), part);
#pragma unroll
          for (int e = 0; e < width; ++e)
            part[e] = exp2_approximate(part[e] * factor - total.maximum) * share;
        } else {
#pragma unroll
          for (int e = 0; e < width; ++e) part[e] = value[j * width + e] * share;
        }
        store_streaming(out + row * out_stride + v * width, pack<T>(part));
      }
      // The slot is free: what was read from it has been stored.
      if constexpr (Shape::in_shared) reader.refill(j);
    }
    if constexpr (Shape::in_shared) reader.refilled();
  }
}

template <class T, class Shape>
__device__ __forceinline__ void softmax_backward(const T* grad_out, const T* out, T* grad_x, i64 rows,
                                                 i32 columns, i64 grad_out_stride, i64 out_stride,
                                                 i64 grad_x_stride, float scale) {
  constexpr int width = width_of<T>;
  constexpr int vectors = Shape::elements / width;

  begin_kernel();
  extern __shared__ quad dynamic_shared[];
  __shared__ typename row_exchange<Shape, 1>::storage exchanged;

  const row_place<Shape> place;
  row_exchange<Shape, 1> exchange{exchanged};

  row_reader<T, Shape, 2> reader{dynamic_shared, place, rows, columns / width};
  reader.input(0, grad_out, grad_out_stride);
  reader.input(1, out, out_stride);
  reader.start();

  for (; reader.more(); reader.next()) {
    const i64 row = reader.row();
    reader.take();
    float sums[1] = {0.0F};
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      if (reader.has(j)) {
        float gradient[width];
        float value[width];
        unpack<T>(reader.get(0, j), gradient);
        unpack<T>(reader.get(1, j), value);
#pragma unroll
        for (int e = 0; e < width; ++e) sums[0] += gradient[e] * value[e];
      }
    }
    if constexpr (!Shape::in_shared) reader.refill();
    row_sum(exchange, place, sums);
#pragma unroll
    for (int j = 0; j < vectors; ++j) {
      const int v = place.template vector<vectors>(j);
      if (reader.has(j)) {
        float gradient[width];
        float value[width];
        unpack<T>(reader.get(0, j), gradient);
        unpack<T>(reader.get(1, j), value);
#pragma unroll
        for (int e = 0; e < width; ++e) value[e] = scale * value[e] * (gradient[e] - sums[0]);
        store_streaming(grad_x + row * grad_x_stride + v * width, pack<T>(value));
      }
      // The slots are free: what was read from them has been stored.
      if constexpr (Shape::in_shared) reader.refill(j);
    }
    if constexpr (Shape::in_shared) reader.refilled();
  }
}

/// Rows of any number of whole vectors, read a second time from the caches. See norm_forward_stream.
template <class T, int Threads, int Unroll>
__device__ __forceinline__ void softmax_forward_stream(const T* x, T* out, i64 rows, i32 columns,
                                                       i64 x_stride, i64 out_stride, float scale) {
  using shape = row_shape<Threads, width_of<T>, 1, 0, 1, 1, false, false>;
  constexpr int width = width_of<T>;
  begin_kernel();
  __shared__ typename row_exchange<shape, 2>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, 2> exchange{exchanged};
  const int count = columns / width;
  const float factor = scale * log2_e;
  for (i64 row = block_index(); row < rows; row += block_count()) {
    const T* from = x + row * x_stride;
    float top = -infinity;
    float sum = 0.0F;
    for (int first = place.lane_in_row; first < count; first += Threads * Unroll) {
      quad packed[Unroll];
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count)
          packed[u] = load_quad(from + static_cast<i64>(first + u * Threads) * width);
      }
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count) {
          float part[width];
          unpack<T>(packed[u], part);
          float higher = top;
#pragma unroll
          for (int e = 0; e < width; ++e) {
            part[e] *= factor;
            higher = maximum(higher, part[e]);
          }
          const float anchor = higher == -infinity ? 0.0F : higher;
          sum *= exp2_approximate(top - anchor);
          top = higher;
#pragma unroll
          for (int e = 0; e < width; ++e) sum += exp2_approximate(part[e] - anchor);
        }
      }
    }
    const float highest = lane_max<shape::lanes>(top);
    sum = lane_sum<shape::lanes>(sum * exp2_approximate(top - (highest == -infinity ? 0.0F : highest)));
    exchange.give(place, {highest, sum});
    const int lane = place.lane_in_row % shape::merge_lanes;
    exponential_sum total{-infinity, 0.0F};
    if (lane < shape::partials) total = {exchange.mine[2 * lane], exchange.mine[2 * lane + 1]};
    total = lane_merge<shape::merge_lanes>(total);
    const float share = 1.0F / total.sum;
    for (int first = place.lane_in_row; first < count; first += Threads * Unroll) {
      quad packed[Unroll];
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count) {
          packed[u] = load_streaming(from + static_cast<i64>(first + u * Threads) * width);
        }
      }
#pragma unroll
      for (int u = 0; u < Unroll; ++u) {
        if (first + u * Threads < count) {
          float part[width];
          unpack<T>(packed[u], part);
#pragma unroll
          for (int e = 0; e < width; ++e)
            part[e] = exp2_approximate(part[e] * factor - total.maximum) * share;
          store_streaming(out + row * out_stride + static_cast<i64>(first + u * Threads) * width,
                          pack<T>(part));
        }
      }
    }
  }
}

/// Any length, any alignment: rows are read twice.
template <class T, int Threads>
__device__ __forceinline__ void softmax_forward_any(const T* x, T* out, i64 rows, i64 columns, i64 x_stride,
                                                    i64 out_stride, float scale) {
  using shape = row_shape<Threads, 1, 1, 0, 1, 1, false, false>;
  __shared__ typename row_exchange<shape, 2>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, 2> exchange{exchanged};
  const float factor = scale * log2_e;
  for (i64 row = block_index(); row < rows; row += block_count()) {
    const T* from = x + row * x_stride;
    exponential_sum total{-infinity, 0.0F};
    for (i64 c = place.lane_in_row; c < columns; c += Threads) total.merge(to_float(from[c]) * factor, 1.0F);
    total = lane_merge<32>(total);
    exchange.give(place, {total.maximum, total.sum});
    total = {-infinity, 0.0F};
    for (int partial = 0; partial < shape::partials; ++partial) {
      total.merge(exchange.mine[2 * partial], exchange.mine[2 * partial + 1]);
    }
    const float share = 1.0F / total.sum;
    T* to = out + row * out_stride;
    for (i64 c = place.lane_in_row; c < columns; c += Threads) {
      from_float(exp2_approximate(to_float(from[c]) * factor - total.maximum) * share, to[c]);
    }
  }
}

template <class T, int Threads>
__device__ __forceinline__ void softmax_backward_any(const T* grad_out, const T* out, T* grad_x, i64 rows,
                                                     i64 columns, i64 grad_out_stride, i64 out_stride,
                                                     i64 grad_x_stride, float scale) {
  using shape = row_shape<Threads, 1, 1, 0, 1, 1, false, false>;
  __shared__ typename row_exchange<shape, 1>::storage exchanged;
  const row_place<shape> place;
  row_exchange<shape, 1> exchange{exchanged};
  for (i64 row = block_index(); row < rows; row += block_count()) {
    const T* gradient = grad_out + row * grad_out_stride;
    const T* value = out + row * out_stride;
    float sums[1] = {0.0F};
    for (i64 c = place.lane_in_row; c < columns; c += Threads)
      sums[0] += to_float(gradient[c]) * to_float(value[c]);
    row_sum(exchange, place, sums);
    T* to = grad_x + row * grad_x_stride;
    for (i64 c = place.lane_in_row; c < columns; c += Threads) {
      from_float(scale * to_float(value[c]) * (to_float(gradient[c]) - sums[0]), to[c]);
    }
  }
}

}  // namespace sy

#define SY_SHAPE(threads, elements, rows, stages, cluster, blocks, in_shared, full) \
  sy::row_shape<threads, elements, rows, stages, cluster, blocks, in_shared, full>

#define SY_SOFTMAX(name, T, threads, elements, rows, stages, cluster, blocks, in_shared, full)               \
  extern "C" SY_KERNEL((threads) * (rows), blocks)                                                           \
      name(const sy::T* x, sy::T* out, sy::i64 row_count, sy::i32 columns, sy::i64 x_stride,                 \
           sy::i64 out_stride, float scale) {                                                                \
    sy::softmax_forward<sy::T, SY_SHAPE(threads, elements, rows, stages, cluster, blocks, in_shared, full)>( \
        x, out, row_count, columns, x_stride, out_stride, scale);                                            \
  }

#define SY_SOFTMAX_BACKWARD(name, T, threads, elements, rows, stages, cluster, blocks, in_shared, full) \
  extern "C" SY_KERNEL((threads) * (rows), blocks)                                                      \
      name(const sy::T* grad_out, const sy::T* out, sy::T* grad_x, sy::i64 row_count, sy::i32 columns,  \
           sy::i64 grad_out_stride, sy::i64 out_stride, sy::i64 grad_x_stride, float scale) {           \
    sy::softmax_backward<sy::T,                                                                         \
                         SY_SHAPE(threads, elements, rows, stages, cluster, blocks, in_shared, full)>(  \
        grad_out, out, grad_x, row_count, columns, grad_out_stride, out_stride, grad_x_stride, scale);  \
  }

#define SY_SOFTMAX_ANY(name, T, threads)                                                           \
  extern "C" SY_KERNEL(threads, 1) name(const sy::T* x, sy::T* out, sy::i64 rows, sy::i64 columns, \
                                        sy::i64 x_stride, sy::i64 out_stride, float scale) {       \
    sy::softmax_forward_any<sy::T, threads>(x, out, rows, columns, x_stride, out_stride, scale);   \
  }

#define SY_SOFTMAX_BACKWARD_ANY(name, T, threads)                                                   \
  extern "C" SY_KERNEL(threads, 1)                                                                  \
      name(const sy::T* grad_out, const sy::T* out, sy::T* grad_x, sy::i64 rows, sy::i64 columns,   \
           sy::i64 grad_out_stride, sy::i64 out_stride, sy::i64 grad_x_stride, float scale) {       \
    sy::softmax_backward_any<sy::T, threads>(grad_out, out, grad_x, rows, columns, grad_out_stride, \
                                             out_stride, grad_x_stride, scale);                     \
  }

#define SY_SOFTMAX_STREAM(name, T, threads, unroll, blocks)                                                 \
  extern "C" SY_KERNEL(threads, blocks) name(const sy::T* x, sy::T* out, sy::i64 rows, sy::i32 columns,     \
                                             sy::i64 x_stride, sy::i64 out_stride, float scale) {           \
    sy::softmax_forward_stream<sy::T, threads, unroll>(x, out, rows, columns, x_stride, out_stride, scale); \
  }
