// SPDX-License-Identifier: MIT
// CPU kernels of several operators, in f32: a right one each, ones that are right on usual calls
// alone, and ones that are fast at some calls.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels_for_tests/export.hpp"

namespace {

using switchyard::host::block;

enum class fault { none, dense, options, overflow, aligned };

/// The address that a kernel reads which counts on 16 bytes.
const float* rounded_down(const float* address) {
  return reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(address) / 16 * 16);
}

template <fault Fault>
void rms_norm(const block&, const float* x, const float* gamma, float* out, std::int64_t rows,
              std::int64_t columns, std::int64_t x_stride, std::int64_t out_stride, float epsilon,
              float gamma_offset) {
  if (Fault == fault::dense) x_stride = out_stride = columns;
  if (Fault == fault::options) {
    epsilon = 1e-6F;
    gamma_offset = 0;
  }
  if (Fault == fault::aligned) x = rounded_down(x);
  for (std::int64_t row = 0; row < rows; ++row, x += x_stride, out += out_stride) {
    float sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += x[c] * x[c];
    if (Fault == fault::overflow) sum = std::min(sum, 65504.0F);  // as in f16
    const float rstd = 1 / std::sqrt(sum / static_cast<float>(columns) + epsilon);
    for (std::int64_t c = 0; c < columns; ++c) out[c] = x[c] * rstd * (gamma[c] + gamma_offset);
  }
}

/// gelu_tanh(gate) * up.
template <fault Fault>
void gated_activation(const block&, const float* gate, const float* up, float* out, std::int64_t rows,
                      std::int64_t columns, std::int64_t gate_stride, std::int64_t up_stride,
                      std::int64_t out_stride) {
  if (Fault == fault::dense) gate_stride = up_stride = out_stride = columns;
  if (Fault == fault::aligned) up = rounded_down(up);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const float x = gate[c];
      const float inner = 0.7978845608F * (x + 0.044715F * x * x * x);
      const float power = std::exp(2 * inner);
      const float tanh = Fault == fault::overflow ? (power - 1) / (power + 1) : std::tanh(inner);
      out[c] = x / 2 * (1 + tanh) * up[c];
    }
    gate += gate_stride;
    up += up_stride;
    out += out_stride;
  }
}

/// After as many milliseconds as a call of split tensors takes, or of a packed one.
template <int Split, int Packed, fault Fault = fault::none>
void timed_activation(const block& at, const float* gate, const float* up, float* out, std::int64_t rows,
                      std::int64_t columns, std::int64_t gate_stride, std::int64_t up_stride,
                      std::int64_t out_stride) {
  const bool is_packed = up == nullptr;
  std::this_thread::sleep_for(std::chrono::milliseconds{is_packed ? Packed : Split});
  gated_activation<Fault>(at, gate, is_packed ? gate + columns : up, out, rows, columns, gate_stride,
                          is_packed ? gate_stride : up_stride, out_stride);
}

/// After as many milliseconds as a call of few rows takes, or of 32 and more.
template <int Few, int Many>
void sized_activation(const block& at, const float* gate, const float* up, float* out, std::int64_t rows,
                      std::int64_t columns, std::int64_t gate_stride, std::int64_t up_stride,
                      std::int64_t out_stride) {
  std::this_thread::sleep_for(std::chrono::milliseconds{rows < 32 ? Few : Many});
  gated_activation<fault::none>(at, gate, up, out, rows, columns, gate_stride, up_stride, out_stride);
}

/// Queries alone, in the half style, with angles that are computed.
template <fault Fault>
void rotary(const block&, const float* q, float* out, std::int64_t batch, std::int64_t seqlen,
            std::int64_t heads, std::int64_t head_dim, std::int64_t offset, float base, float scaling,
            std::int64_t stride_batch, std::int64_t stride_token, std::int64_t stride_head,
            std::int64_t out_batch, std::int64_t out_token, std::int64_t out_head) {
  if (Fault == fault::dense) {
    stride_token = out_token = heads * head_dim;
    stride_batch = out_batch = seqlen * heads * head_dim;
  }
  if (Fault == fault::options) offset = 0;
  if (Fault == fault::aligned) q = rounded_down(q);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < seqlen; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* const from = q + b * stride_batch + t * stride_token + h * stride_head;
        float* const to = out + b * out_batch + t * out_token + h * out_head;
        for (std::int64_t i = 0; i < head_dim / 2; ++i) {
          const double angle = static_cast<double>(offset + t) * static_cast<double>(scaling) *
                               std::pow(static_cast<double>(base),
                                        -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
          const auto cosine = static_cast<float>(std::cos(angle));
          const auto sine = static_cast<float>(std::sin(angle));
          const float x0 = from[i];
          const float x1 = from[i + head_dim / 2];
          to[i] = x0 * cosine - x1 * sine;
          to[i + head_dim / 2] = x0 * sine + x1 * cosine;
        }
      }
    }
  }
}

/// Without a mask, and as many KV heads as heads.
template <fault Fault>
void attention_forward(const block&, const float* q, const float* k, const float* v, float* out,
                       std::int64_t batch, std::int64_t heads, std::int64_t seqlen_q, std::int64_t seqlen_k,
                       std::int64_t head_dim, float scale, std::int64_t q_token, std::int64_t k_token,
                       std::int64_t v_token, std::int64_t out_token) {
  if (Fault == fault::dense) q_token = k_token = v_token = out_token = heads * head_dim;
  if (Fault == fault::options) scale = 1 / std::sqrt(static_cast<float>(head_dim));
  if (Fault == fault::aligned) k = rounded_down(k);
  std::vector<float> weights(static_cast<std::size_t>(seqlen_k));
  for (std::int64_t at = 0; at < batch * heads * seqlen_q; ++at) {
    const std::int64_t b = at / (heads * seqlen_q);
    const std::int64_t h = at / seqlen_q % heads;
    const std::int64_t i = at % seqlen_q;
    const float* const query = q + (b * seqlen_q + i) * q_token + h * head_dim;
    float* const to = out + (b * seqlen_q + i) * out_token + h * head_dim;
    const auto key = [&](std::int64_t j, std::int64_t token) {
      return (b * seqlen_k + j) * token + h * head_dim;
    };
    for (std::int64_t j = 0; j < seqlen_k; ++j) {
      float score = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) score += query[d] * k[key(j, k_token) + d];
      weights[static_cast<std::size_t>(j)] = score * scale;
    }
    const float top = Fault == fault::overflow ? 0 : *std::max_element(weights.begin(), weights.end());
    float sum = 0;
    for (float& weight : weights) sum += weight = std::exp(weight - top);
    for (std::int64_t d = 0; d < head_dim; ++d) {
      float value = 0;
      for (std::int64_t j = 0; j < seqlen_k; ++j)
        value += weights[static_cast<std::size_t>(j)] / sum * v[key(j, v_token) + d];
      to[d] = value;
    }
  }
}

}  // namespace

EXPORT_KERNEL(rms_norm_right, rms_norm<fault::none>);
EXPORT_KERNEL(rms_norm_dense, rms_norm<fault::dense>);
EXPORT_KERNEL(rms_norm_options, rms_norm<fault::options>);
EXPORT_KERNEL(rms_norm_overflow, rms_norm<fault::overflow>);
EXPORT_KERNEL(rms_norm_aligned, rms_norm<fault::aligned>);
EXPORT_KERNEL(gated_activation_right, gated_activation<fault::none>);
EXPORT_KERNEL(gated_activation_dense, gated_activation<fault::dense>);
EXPORT_KERNEL(gated_activation_overflow, gated_activation<fault::overflow>);
EXPORT_KERNEL(gated_activation_aligned, gated_activation<fault::aligned>);
EXPORT_KERNEL(gated_activation_for_split, (timed_activation<2, 20>));
EXPORT_KERNEL(gated_activation_for_few, (sized_activation<2, 30>));
EXPORT_KERNEL(gated_activation_for_many, (sized_activation<14, 3>));
EXPORT_KERNEL(gated_activation_for_both, (timed_activation<4, 6>));
EXPORT_KERNEL(gated_activation_for_packed, (timed_activation<60, 2>));
EXPORT_KERNEL(gated_activation_for_both_but_wrong, (timed_activation<3, 4, fault::overflow>));
EXPORT_KERNEL(rotary_right, rotary<fault::none>);
EXPORT_KERNEL(rotary_dense, rotary<fault::dense>);
EXPORT_KERNEL(rotary_options, rotary<fault::options>);
EXPORT_KERNEL(rotary_aligned, rotary<fault::aligned>);
EXPORT_KERNEL(attention_forward_right, attention_forward<fault::none>);
EXPORT_KERNEL(attention_forward_dense, attention_forward<fault::dense>);
EXPORT_KERNEL(attention_forward_options, attention_forward<fault::options>);
EXPORT_KERNEL(attention_forward_overflow, attention_forward<fault::overflow>);
EXPORT_KERNEL(attention_forward_aligned, attention_forward<fault::aligned>);
