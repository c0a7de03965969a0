// SPDX-License-Identifier: MIT
// Cosines and sines of rotary embeddings on GPUs. Semantics: rope_table.hpp. A thread computes one pair of
// one token, in f64 as on the CPU: angles of late positions have no bits to spare in f32.
#include "../../../kernels/gpu/split_index.hpp"

namespace sy {

struct rope_call {
  const i32* positions;
  const float* factors;
  float* cos;
  float* sin;
  i64 tokens, pairs;
  float base, scale, extrapolation, magnitude, low, high;
};

template <int Threads>
__device__ __forceinline__ void rope_table(const rope_call& of) {
  begin_kernel();
  const i64 index = static_cast<i64>(block_index()) * Threads + thread_index();
  if (index >= of.tokens * of.pairs) return;
  const split_index at{index, of.pairs};
  const auto pair = static_cast<double>(at.rest);
  const double factor = of.factors != nullptr ? static_cast<double>(of.factors[at.rest]) : 1.0;
  const double frequency = pow(static_cast<double>(of.base), -pair / static_cast<double>(of.pairs)) / factor;
  const double width = fmax(0.001, static_cast<double>(of.high) - static_cast<double>(of.low));
  const double ramp = fmin(1.0, fmax(0.0, (pair - static_cast<double>(of.low)) / width));
  const double mix = static_cast<double>(of.extrapolation) * (1.0 - ramp);
  const double turn = frequency * (static_cast<double>(of.scale) * (1.0 - mix) + mix);
  double sine;
  double cosine;
  sincos(static_cast<double>(of.positions[at.quotient]) * turn, &sine, &cosine);
  of.cos[index] = static_cast<float>(cosine) * of.magnitude;
  of.sin[index] = static_cast<float>(sine) * of.magnitude;
}

}  // namespace sy

#define SY_GGML_ROPE_TABLE(name, threads)                     \
  extern "C" SY_KERNEL(threads, 1) name(sy::rope_call call) { \
    sy::rope_table<threads>(call);                            \
  }
