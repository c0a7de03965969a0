// SPDX-License-Identifier: MIT
// The functions of ggml_elements, told once for the host's and the GPUs' kernels.
//
// x is an element of a, y one of b, p and q are the call's; `slope` is ALiBi's, 1 without it. Functions of
// one tensor come first. The order gives the values of element_function, which are part of the kernel ABI.
#pragma once

// A list of entries cannot be anything but a macro: enumerators, names and cases are made of it.
// clang-format off
#define SWITCHYARD_GGML_UNARY_FUNCTIONS(entry)                                                                 \
  entry(copy, x)                                                                                               \
  entry(negate, -x)                                                                                            \
  entry(absolute, fabs(x))                                                                                     \
  entry(sign, x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F)                                                             \
  entry(step, x > 0 ? 1.0F : 0.0F)                                                                             \
  entry(relu, x > 0 ? x : 0.0F)                                                                                \
  entry(sigmoid, logistic(x))                                                                                  \
  entry(silu, x / (1.0F + exp(-x)))                                                                            \
  entry(gelu, tanh_gelu(x))                                                                                    \
  entry(gelu_erf, 0.5F * x * (1.0F + erf(x * 0.70710678118654752440F)))                                        \
  entry(gelu_quick, x * logistic(1.702F * x))                                                                  \
  entry(tanh, tanh(x))                                                                                         \
  entry(elu, x > 0 ? x : expm1(x))                                                                             \
  entry(exp, exp(x))                                                                                           \
  entry(softplus, x > 20.0F ? x : log1p(exp(x)))                                                               \
  entry(hard_swish, x * lesser(1.0F, greater(0.0F, (x + 3.0F) / 6.0F)))                                        \
  entry(hard_sigmoid, lesser(1.0F, greater(0.0F, (x + 3.0F) / 6.0F)))                                          \
  entry(square, x * x)                                                                                         \
  entry(square_root, sqrt(x))                                                                                  \
  entry(logarithm, log(x))                                                                                     \
  entry(sine, sin(x))                                                                                          \
  entry(cosine, cos(x))                                                                                        \
  entry(scale, x * p + q)                                                                                      \
  entry(clamp, lesser(greater(x, p), q))                                                                       \
  entry(leaky_relu, (x > 0 ? x : 0.0F) + p * (x < 0 ? x : 0.0F))

// masked_score is without a where p is 0. ALiBi's slope is the head's, the third index, for a largest bias of
// q. gated_oai is gpt-oss's.
#define SWITCHYARD_GGML_BINARY_FUNCTIONS(entry)                                                                \
  entry(add, x + y)                                                                                            \
  entry(subtract, x - y)                                                                                       \
  entry(multiply, x * y)                                                                                       \
  entry(divide, x / y)                                                                                         \
  entry(repeat, y)                                                                                             \
  entry(masked_score, p == 0 ? slope * y : x * p + slope * y)                                                  \
  entry(gated_relu, (x > 0 ? x : 0.0F) * y)                                                                    \
  entry(gated_quick, x * logistic(1.702F * x) * y)                                                             \
  entry(gated_oai, lesser(x, q) * logistic(p * lesser(x, q)) * (1.0F + lesser(greater(y, -q), q)))             \
  entry(gated_silu, x / (1.0F + exp(-x)) * y)                                                                  \
  entry(gated_gelu, tanh_gelu(x) * y)                                                                          \
  entry(gated_gelu_erf, 0.5F * x * (1.0F + erf(x * 0.70710678118654752440F)) * y)
// clang-format on
