// SPDX-License-Identifier: MIT
// Rotary position embedding on the CPU.
//
// A block turns block_tokens tokens of one sequence (grid.y) for the heads_per_block heads of grid.z: cosines
// and sines are read, or computed, once a token and used for all of the block's heads. Compiled once for each
// instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/rotary.hpp>

#include "turn_host.hpp"

namespace {

using switchyard::dtype;
using switchyard::host::block;
using rotary_arguments = switchyard::operators::rotary::arguments;
using switchyard::operators::rotary_style;

/// Tokens of one sequence.
struct sequence {
  std::int64_t first = 0;  ///< its first token in packed tensors
  std::int64_t length = 0;
};

sequence sequence_of(const rotary_arguments& a, std::int64_t b) {
  if (a.cu_seqlens == nullptr) return {0, a.seqlen};
  return {a.cu_seqlens[b], std::int64_t{a.cu_seqlens[b + 1]} - a.cu_seqlens[b]};
}

std::int64_t position_of(const rotary_arguments& a, const sequence& s, std::int64_t b, std::int64_t t) {
  if (a.positions != nullptr) return a.positions[a.cu_seqlens != nullptr ? s.first + t : b * a.seqlen + t];
  return (a.sequence_offsets != nullptr ? a.sequence_offsets[b] : a.offset) + t;
}

/// Angles of the pairs, advanced from token to token: cos and sin of the next position follow from those of
/// this one by one complex product, whose error in double is far below a float's for a block of tokens.
class angles {
 public:
  angles(std::byte* memory, const rotary_arguments& a)
      : half_{a.rotary_dim / 2},
        step_{reinterpret_cast<double*>(memory)},
        cos_step_{step_ + half_},
        sin_step_{cos_step_ + half_},
        cos_{sin_step_ + half_},
        sin_{cos_ + half_} {
    const double ratio = std::pow(static_cast<double>(a.base), -2.0 / static_cast<double>(a.rotary_dim));
    double step = static_cast<double>(a.scaling);
    for (std::int64_t i = 0; i < half_; ++i, step *= ratio) step_[i] = step;
  }

  void move_to(std::int64_t position) {
    if (known_ && position == next_) {
      if (!steps_known_) {
        for (std::int64_t i = 0; i < half_; ++i) {
          cos_step_[i] = std::cos(step_[i]);
          sin_step_[i] = std::sin(step_[i]);
        }
        steps_known_ = true;
      }
      for (std::int64_t i = 0; i < half_; ++i) {
        const double c = cos_[i] * cos_step_[i] - sin_[i] * sin_step_[i];
        sin_[i] = cos_[i] * sin_step_[i] + sin_[i] * cos_step_[i];
        cos_[i] = c;
      }
    } else if (!known_ || position != position_) {
      for (std::int64_t i = 0; i < half_; ++i) {
        cos_[i] = std::cos(static_cast<double>(position) * step_[i]);
        sin_[i] = std::sin(static_cast<double>(position) * step_[i]);
      }
    }
    known_ = true;
    position_ = position;
    next_ = position == INT64_MAX ? position : position + 1;
  }

  void write(float* cosine, float* sine, float sign) const {
    for (std::int64_t i = 0; i < half_; ++i) {
      cosine[i] = static_cast<float>(cos_[i]);
      sine[i] = sign * static_cast<float>(sin_[i]);
    }
  }

 private:
  std::int64_t half_;
  double* step_;
  double* cos_step_;
  double* sin_step_;
  double* cos_;
  double* sin_;
  std::int64_t position_ = 0;
  std::int64_t next_ = 0;  ///< the position behind it
  bool known_ = false;
  bool steps_known_ = false;
};

template <class Element>
void read_table(const rotary_arguments& a, std::int64_t position, float* cosine, float* sine, float sign) {
  const std::int64_t half = a.rotary_dim / 2;
  const auto* from_cos = static_cast<const Element*>(a.cos) + position * a.table_stride;
  const auto* from_sin = static_cast<const Element*>(a.sin) + position * a.table_stride;
  const auto width = static_cast<std::int64_t>(lanes);
  std::int64_t i = 0;
  for (; i + width <= half; i += width) {
    store(cosine + i, load(from_cos + i));
    store(sine + i, load(from_sin + i) * sign);
  }
  for (; i < half; ++i) {
    cosine[i] = to_float(from_cos[i]);
    sine[i] = to_float(from_sin[i]) * sign;
  }
}

void read_table(const rotary_arguments& a, std::int64_t position, float* cosine, float* sine, float sign) {
  switch (a.table_dtype) {
    case dtype::f16:
      return read_table<half>(a, position, cosine, sine, sign);
    case dtype::bf16:
      return read_table<bfloat>(a, position, cosine, sine, sign);
    case dtype::f64:
      return read_table<double>(a, position, cosine, sine, sign);
    default:
      return read_table<float>(a, position, cosine, sine, sign);
  }
}

/// One of the two tensors.
template <class Element>
struct tensor {
  const Element* in = nullptr;
  Element* out = nullptr;
  std::int64_t stride_head = 0;
  std::int64_t out_stride_head = 0;
};

template <class Element>
tensor<Element> rows_of(const rotary_arguments& a, bool keys, std::int64_t b, std::int64_t token) {
  const bool packed = a.cu_seqlens != nullptr;
  const auto* in = static_cast<const Element*>(keys ? a.k : a.q);
  auto* out = static_cast<Element*>(keys ? a.k_out : a.q_out);
  const std::int64_t batch = packed ? 0 : b;
  return {in + batch * (keys ? a.k_stride_batch : a.q_stride_batch) +
              token * (keys ? a.k_stride_token : a.q_stride_token),
          out + batch * (keys ? a.k_out_stride_batch : a.q_out_stride_batch) +
              token * (keys ? a.k_out_stride_token : a.q_out_stride_token),
          keys ? a.k_stride_head : a.q_stride_head, keys ? a.k_out_stride_head : a.q_out_stride_head};
}

template <class Element, bool Interleaved>
void turn_heads(const tensor<Element>& t, std::int64_t begin, std::int64_t end, const rotary_arguments& a,
                const float* cosine, const float* sine) {
  for (std::int64_t h = begin; h < end; ++h) {
    const Element* in = t.in + h * t.stride_head;
    Element* out = t.out + h * t.out_stride_head;
    if constexpr (Interleaved) {
      turn_neighbours(in, out, cosine, sine, a.rotary_dim / 2);
    } else {
      turn_halves(in, out, cosine, sine, a.rotary_dim / 2);
    }
    if (a.head_dim > a.rotary_dim && in != out) {
      std::memcpy(out + a.rotary_dim, in + a.rotary_dim,
                  static_cast<std::size_t>(a.head_dim - a.rotary_dim) * sizeof(Element));
    }
  }
}

template <class Element, bool Interleaved>
void turn_block(const block& this_block, const rotary_arguments& a, std::int64_t block_tokens,
                std::int64_t heads_per_block) {
  const std::int64_t b = this_block.index.y;
  const sequence s = sequence_of(a, b);
  const std::int64_t begin = this_block.index.x * block_tokens;
  const std::int64_t end = std::min(begin + block_tokens, s.length);
  if (begin >= end) return;
  const std::int64_t head_begin = this_block.index.z * heads_per_block;
  const std::int64_t head_end = std::min(head_begin + heads_per_block, a.heads + a.heads_kv);

  // Scratch: cosines and sines of a token as floats, then the angles' five tables in double.
  auto* cosine = reinterpret_cast<float*>(this_block.scratch.data());
  float* sine = cosine + a.rotary_dim / 2;
  const float sign = a.inverse ? -1.0F : 1.0F;
  const auto run = [&](auto&& next_token) {
    for (std::int64_t t = begin; t < end; ++t) {
      next_token(position_of(a, s, b, t));
      turn_heads<Element, Interleaved>(rows_of<Element>(a, false, b, s.first + t), head_begin,
                                       std::min(head_end, a.heads), a, cosine, sine);
      if (head_end > a.heads) {
        turn_heads<Element, Interleaved>(rows_of<Element>(a, true, b, s.first + t),
                                         std::max<std::int64_t>(head_begin - a.heads, 0), head_end - a.heads,
                                         a, cosine, sine);
      }
    }
  };
  if (a.cos != nullptr) {
    run([&](std::int64_t position) { read_table(a, position, cosine, sine, sign); });
  } else {
    angles turning{this_block.scratch.data() + a.rotary_dim * static_cast<std::int64_t>(sizeof(float)), a};
    run([&](std::int64_t position) {
      turning.move_to(position);
      turning.write(cosine, sine, sign);
    });
  }
}

/// Scratch: 24 * rotary_dim bytes.
template <class Element>
void rotary(const block& this_block, rotary_arguments a, std::int32_t block_tokens,
            std::int32_t heads_per_block) {
  if (a.style == rotary_style::interleaved) {
    turn_block<Element, true>(this_block, a, block_tokens, heads_per_block);
  } else {
    turn_block<Element, false>(this_block, a, block_tokens, heads_per_block);
  }
}

double table_value(dtype type, const void* table, std::int64_t index) {
  if (type == dtype::f64) return static_cast<const double*>(table)[index];
  if (type == dtype::f32) return static_cast<double>(static_cast<const float*>(table)[index]);
  if (type == dtype::f16) return static_cast<double>(to_float(static_cast<const half*>(table)[index]));
  return static_cast<double>(to_float(static_cast<const bfloat*>(table)[index]));
}

/// The definition, in double, a token a block.
template <class Element>
void rotary_reference(const block& this_block, rotary_arguments a) {
  const std::int64_t b = this_block.index.y;
  const sequence s = sequence_of(a, b);
  const std::int64_t t = this_block.index.x;
  if (t >= s.length) return;
  const std::int64_t position = position_of(a, s, b, t);
  const std::int64_t half = a.rotary_dim / 2;
  const bool interleaved = a.style == rotary_style::interleaved;
  for (std::int64_t i = 0; i < half; ++i) {
    double c = 0;
    double s_i = 0;
    if (a.cos != nullptr) {
      c = table_value(a.table_dtype, a.cos, position * a.table_stride + i);
      s_i = table_value(a.table_dtype, a.sin, position * a.table_stride + i);
    } else {
      const double frequency = std::pow(static_cast<double>(a.base),
                                        -2.0 * static_cast<double>(i) / static_cast<double>(a.rotary_dim));
      const double angle = static_cast<double>(position) * static_cast<double>(a.scaling) * frequency;
      c = std::cos(angle);
      s_i = std::sin(angle);
    }
    if (a.inverse) s_i = -s_i;
    const std::int64_t i0 = interleaved ? 2 * i : i;
    const std::int64_t i1 = interleaved ? 2 * i + 1 : i + half;
    for (std::int64_t h = 0; h < a.heads + a.heads_kv; ++h) {
      const bool keys = h >= a.heads;
      const tensor<Element> rows = rows_of<Element>(a, keys, b, s.first + t);
      const std::int64_t head = keys ? h - a.heads : h;
      const Element* in = rows.in + head * rows.stride_head;
      Element* out = rows.out + head * rows.out_stride_head;
      const double x0 = static_cast<double>(to_float(in[i0]));
      const double x1 = static_cast<double>(to_float(in[i1]));
      out[i0] = from_double<Element>(x0 * c - x1 * s_i);
      out[i1] = from_double<Element>(x0 * s_i + x1 * c);
      if (i == 0 && in != out) std::copy(in + a.rotary_dim, in + a.head_dim, out + a.rotary_dim);
    }
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel rotary_f32;
extern const kernel rotary_f16;
extern const kernel rotary_bf16;
extern const kernel rotary_reference_f32;
extern const kernel rotary_reference_f16;
extern const kernel rotary_reference_bf16;

const kernel rotary_f32 = make_kernel<&rotary<float>>();
const kernel rotary_f16 = make_kernel<&rotary<half>>();
const kernel rotary_bf16 = make_kernel<&rotary<bfloat>>();
const kernel rotary_reference_f32 = make_kernel<&rotary_reference<float>>();
const kernel rotary_reference_f16 = make_kernel<&rotary_reference<half>>();
const kernel rotary_reference_bf16 = make_kernel<&rotary_reference<bfloat>>();
}
#pragma GCC visibility pop
