// SPDX-License-Identifier: MIT
// What a softmax sums.
#pragma once

#include "../gpu/row.hpp"

namespace sy {

inline constexpr float log2_e = 1.4426950408889634F;
inline constexpr float infinity = __builtin_huge_valf();

/// A maximum and the sum of 2^(t - maximum), as Milakov and Gimelshein, arXiv:1805.02867, merge them.
struct exponential_sum {
  float maximum;
  float sum;

  __device__ __forceinline__ void merge(float other_maximum, float other_sum) {
    const float both = sy::maximum(maximum, other_maximum);
    const float anchor = both == -infinity ? 0.0F : both;
    sum = sum * exp2_approximate(maximum - anchor) + other_sum * exp2_approximate(other_maximum - anchor);
    maximum = both;
  }
};

/// The merge of all lanes' sums; every lane gets it.
template <int Lanes>
__device__ __forceinline__ exponential_sum lane_merge(exponential_sum total) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) {
    const float other_maximum = shuffle_xor(total.maximum, mask);
    const float other_sum = shuffle_xor(total.sum, mask);
    total.merge(other_maximum, other_sum);
  }
  return total;
}

}  // namespace sy
