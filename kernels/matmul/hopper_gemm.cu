// SPDX-License-Identifier: MIT
// A linear layer for many rows, for Hopper: out = x w^T + bias. Semantics: operators/matmul_quantized.hpp.
//
// x and w are both f16 or both bf16, with the summed dimension innermost. Where they are not,
// hopper_operands.cu has made them before, and the results are multiplied with the scales of its rows. An
// operand of more bits is the sum of two addends; the products of first with first, first with second and
// second with first are then summed.
//
// A block computes tiles of `BlockM` rows by `BlockN` outputs, one after the other. One warp copies 64 inputs
// of each row into a ring of `Stages` buffers with the 128-byte swizzle, boxes of a tensor or bytes of made
// operands, which lie as they are multiplied. Two warpgroups multiply (wgmma) and sum in f32. Two blocks of a
// cluster have neighbouring rows; each copies half of the weights to both. Results go through shared memory,
// in panels of 128 bytes a row, which the copy engine clips to the tensor.
//
// Few tiles do not fill a device: their inputs are shared among `splits` blocks, whose sums
// hopper_gemm_sum.cu adds.
#include "hopper_gemm.hpp"

namespace hopper::gemm {

template <class T, int BlockM, int BlockN, int Stages, int Cluster>
__device__ __forceinline__ void run(const tensor_map& x, const tensor_map& w, const tensor_map& out,
                                    const arguments& a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 rank = Cluster == 1 ? 0 : sy::ptx::cluster_rank();
  const multiplier<T, BlockM, BlockN, Stages, Cluster> block{a, shared_address(shared), rank,
                                                             schedule<BlockM * Cluster, BlockN>{a}};
  if (threadIdx.x == 0) {
    block.init();
    prefetch(x);
    prefetch(w);
    prefetch(out);
  }
  if constexpr (Cluster == 1) {
    __syncthreads();
  } else {
    cluster_sync();
  }
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group == 0) {
    give_registers<56>();  // 128 * 56 + 256 * 224 = 384 * 168, what the block has
    if (threadIdx.x / 32 == 0 && elect_one()) block.copy(x, w);
  } else {
    take_registers<224>();
    block.multiply(out, group - 1);
  }
  // The other block may still copy to this one, or arrive at its barriers.
  if constexpr (Cluster != 1) {
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM(NAME, T, BLOCK_M, BLOCK_N, STAGES, CLUSTER)                                            \
  extern "C" __global__ void __launch_bounds__(384, 1) NAME(                                               \
      const __grid_constant__ hopper::tensor_map x, const __grid_constant__ hopper::tensor_map w,          \
      const __grid_constant__ hopper::tensor_map out, const __grid_constant__ hopper::gemm::arguments a) { \
    hopper::gemm::run<T, BLOCK_M, BLOCK_N, STAGES, CLUSTER>(x, w, out, a);                                 \
  }
