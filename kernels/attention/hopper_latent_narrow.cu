// SPDX-License-Identifier: MIT
// hopper_latent for keys in e4m3: products are in f16, in which every number of e4m3 is exact. Four warps
// copy keys through registers, in which they become f16, so that what multiplies is the same. Queries in bf16
// are divided by a power of two of their row and become f16 too.
#include "hopper_latent_consumer.hpp"
#include "hopper_latent_plan.hpp"

namespace hopper {

namespace latent {

struct narrow_call {
  call c;
  const unsigned char* k;
  i64 k_stride_batch, k_stride_token;
};

/// Four numbers of e4m3 as two pairs of f16.
__device__ __forceinline__ void widen(u32 four, u32& low, u32& high) {
  asm("{\n.reg .b16 a, b;\n"
      "mov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\n"
      "cvt.rn.f16x2.e4m3x2 %1, b;\n}\n"
      : "=r"(low), "=r"(high)
      : "r"(four));
}

/// 16 bytes that are read once.
__device__ __forceinline__ uint4 load_once(const unsigned char* from, u64 policy) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from), "l"(policy));
  return value;
}

__device__ __forceinline__ void store_four(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ __forceinline__ uint4 load_four(u32 from) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(from)
               : "memory");
  return value;
}

/// One of four warps that copy keys. It has a part of one of the two blocks of a pair, in steps of `loads` of
/// 16 bytes a lane. Bytes wait in a ring of `Steps` steps in shared memory, where each lane has its own, or
/// of one step in registers.
template <class Out, int Rows, int Steps>
struct copier {
  static constexpr int loads = 8;       ///< of a step
  static constexpr int half_steps = 4;  ///< of the values; one more for the last panel
  static constexpr bool in_registers = Steps == 0;

  const narrow_call& n;
  deal dealt;
  int block, part;
  i32 box_rows;
  int shift;  ///< of keys in a box
  u32 to;     ///< block of keys
  u32 ring;   ///< of this lane

  __device__ __forceinline__ copier(const narrow_call& of, u32 shared, int warp)
      : n{of},
        dealt{of.c},
        block{warp / 2},
        part{warp % 2},
        box_rows{min(of.c.page_size, keys)},
        shift{sy::ptx::floor_log2(box_rows)},
        to{shared + layout<Rows>::at_keys + static_cast<u32>(warp / 2) * tile_bytes},
        ring{shared + layout<Rows>::at_ring +
             static_cast<u32>((warp * Steps * loads * 32 + dealt.lane) * 16)} {}

  [[nodiscard]] __device__ __forceinline__ int steps() const {
    return part == own ? half_steps : half_steps + 1;
  }

  /// A load's key in the block, and its panel. Four lanes have a key's 64 bytes in a panel, and the next four
  /// the same of the next key, so that their 16-bit numbers fall into all banks.
  struct place {
    int key, panel;
  };
  [[nodiscard]] __device__ __forceinline__ place place_of(int step, int j) const {
    const int lane = static_cast<int>(lane_now());
    if (step == half_steps) return {8 * j + lane / 4, panels - 1};
    const bool low = (block == 0) == (part == own);  // which half of the values
    return {4 * (step % 2 * loads + j) + lane / 4 % 2 + lane / 16 * 2,
            (low ? 0 : half_panels) + step / 2 * 2 + lane / 8 % 2};
  }

  /// What is asked for next.
  struct cursor {
    i32 pair;
    int step = 0;
    i32 pages, next_pages;  ///< where box row `lane` of the pair's block lies, and of the next pair's
    i32 token;              ///< the block's first in its page
  };
  [[nodiscard]] __device__ __forceinline__ i32 page_of(const share& work, i32 pair) const {
    const call& c = n.c;
    if (c.block_table == nullptr) return work.b;
    const i32 inside = dealt.lane * box_rows;
    const i32 key = (2 * pair + block) * keys + inside;
    return inside < keys && key < work.keys
               ? __ldg(c.block_table + work.b * c.block_table_stride + key / c.page_size)
               : 0;
  }
  [[nodiscard]] __device__ __forceinline__ i32 token_of(i32 pair) const {
    return n.c.page_size <= keys ? 0 : (2 * pair + block) * keys % n.c.page_size;
  }
  [[nodiscard]] __device__ __forceinline__ cursor start(const share& work) const {
    return {work.begin, 0, page_of(work, work.begin), page_of(work, work.begin + 1), token_of(work.begin)};
  }
  __device__ __forceinline__ void advance(const share& work, cursor& next) const {
    if (++next.step < steps()) return;
    next.step = 0;
    ++next.pair;
    next.pages = next.next_pages;
    next.next_pages = page_of(work, next.pair + 1);
    next.token = token_of(next.pair);
  }

  [[nodiscard]] __device__ __forceinline__ const unsigned char* address(place at, const cursor& next) const {
    const i32 page = __shfl_sync(~0U, next.pages, at.key >> shift);
    return n.k + page * n.k_stride_batch + (next.token + (at.key & (box_rows - 1))) * n.k_stride_token +
           at.panel * 64 + lane_now() % 4 * 16;
  }
  [[nodiscard]] __device__ __forceinline__ bool exists(const share& work, place at,
                                                       const cursor& next) const {
    return next.pair < work.end && (2 * next.pair + block) * keys + at.key < work.keys;
  }

  /// Zeros behind the sequence.
  [[nodiscard]] __device__ __forceinline__ uint4 load(const share& work, const cursor& next, int j,
                                                      u64 policy) const {
    const place at = place_of(next.step, j);
    const unsigned char* const from = address(at, next);
    return exists(work, at, next) ? load_once(from, policy) : make_uint4(0, 0, 0, 0);
  }
  __device__ __forceinline__ void ask(const share& work, const cursor& next, int slot, u64 policy) const {
#pragma unroll
    for (int j = 0; j < loads; ++j) {
      const place at = place_of(next.step, j);
      const unsigned char* const from = address(at, next);
      sy::ptx::copy_async(ring + static_cast<u32>((slot * loads + j) * 512), from, exists(work, at, next),
                          policy);
    }
  }

  __device__ __forceinline__ void store(const uint4& held, int step, int j) const {
    const place at = place_of(step, j);
    const u32 row = to + static_cast<u32>(at.panel) * panel_bytes + static_cast<u32>(at.key) * 128;
    const u32 chunk = (lane_now() % 4 * 2) ^ static_cast<u32>(at.key % 8);
    u32 pair[4];
    widen(held.x, pair[0], pair[1]);
    widen(held.y, pair[2], pair[3]);
    store_four(row + chunk * 16, pair[0], pair[1], pair[2], pair[3]);
    widen(held.z, pair[0], pair[1]);
    widen(held.w, pair[2], pair[3]);
    store_four(row + (chunk ^ 1) * 16, pair[0], pair[1], pair[2], pair[3]);
  }

  __device__ __forceinline__ void run(barriers bars, int warp) {
    const u64 policy = sy::ptx::evict_first_policy();
    u32 phase = 1;
    share work{dealt, static_cast<i32>(blockIdx.x)};
    const bool plans = warp == 0 && blockIdx.y == 0;
    if (plans && dealt.lane < 2) n.c.plan[2 * blockIdx.x + dealt.lane] = make_int4(-1, 0, 0, 0);
    for (; work.left(); work.advance(dealt)) {
      cursor next = start(work);
      uint4 held[loads];
      if constexpr (in_registers) {
#pragma unroll
        for (int j = 0; j < loads; ++j) held[j] = load(work, next, j, policy);
        advance(work, next);
      } else {
#pragma unroll 1
        for (int slot = 0; slot < Steps; ++slot) {
          ask(work, next, slot, policy);
          sy::ptx::commit_copies();
          advance(work, next);
        }
      }
      int slot = 0;
      for (i32 pair = work.begin; pair < work.end; ++pair) {
        wait(bars.empty(block, part), phase);
        phase ^= 1;
#pragma unroll 1
        for (int step = 0; step < steps(); ++step) {
          if constexpr (in_registers) {
#pragma unroll
            for (int j = 0; j < loads; ++j) {
              store(held[j], step, j);
              held[j] = load(work, next, j, policy);
            }
          } else {
            sy::ptx::wait_for_copies<(in_registers ? 0 : Steps - 1)>();
#pragma unroll
            for (int j = 0; j < loads; ++j)
              store(load_four(ring + static_cast<u32>((slot * loads + j) * 512)), step, j);
            ask(work, next, slot, policy);
            sy::ptx::commit_copies();
            slot = slot + 1 == Steps ? 0 : slot + 1;
          }
          advance(work, next);
        }
        fence_async_proxy();
        __syncwarp();
        if (dealt.lane == 0) arrive(bars.full(block, part));
      }
      if (plans && !work.whole()) plan_join(dealt, work);
    }
    if (warp == 3 && (n.c.seqused_k != nullptr || n.c.seqlen_k == 0)) clear_empty<Out>(dealt);
  }
};

/// The grid is [blocks, row tiles].
template <class Out, int Rows, int Steps>
__device__ __forceinline__ void decode(const narrow_call& n) {
  extern __shared__ __align__(1024) char memory[];
  const u32 shared = shared_address(memory);
  const barriers bars{shared + layout<Rows>::at_barriers};
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int part = own; part <= other; ++part) {
        init_barrier(bars.full(block, part), 1);
        init_barrier(bars.empty(block, part), 4);
      }
    }
    fence_barrier_init();
  }
  __syncthreads();
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  if (warpgroup == 2) {
    give_registers<Steps == 0 ? 72 : 56>();
    const int warp = static_cast<int>(threadIdx.x) / 32 - 8;
    copier<Out, Rows, Steps>{n, shared, warp}.run(bars, warp);
  } else if (warpgroup == 0) {
    take_registers<Steps == 0 ? 216 : 224>();
    consumer<__half, Out, 0, true, Rows>{n.c, bars, shared}.run();
  } else {
    take_registers<Steps == 0 ? 216 : 224>();
    consumer<__half, Out, 1, true, Rows>{n.c, bars, shared}.run();
  }
}

}  // namespace latent

}  // namespace hopper

/// Shared memory: layout<rows>::at_ring + 16384 * steps bytes.
#define LATENT_DECODE_NARROW(name, Out, rows, steps)                \
  extern "C" __global__ void __launch_bounds__(384, 1)              \
      name(const __grid_constant__ hopper::latent::narrow_call n) { \
    hopper::latent::decode<Out, rows, steps>(n);                    \
  }
