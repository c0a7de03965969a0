// SPDX-License-Identifier: MIT
// hopper_latent for keys in e4m3: products are in f16, in which every number of e4m3 is exact, and queries in
// bf16 are divided by a power of two of their row and become f16 too.
//
// Each of the four warps that copy keys also makes f16 of them, so that what multiplies is the same. Few
// query rows leave shared memory for a ring of bytes, which are asked for well before their block is free;
// with 64 rows they come into the upper half of the place of their numbers, when that is free.
#include "hopper_latent_consumer.hpp"
#include "hopper_latent_plan.hpp"

namespace hopper {

namespace latent {

/// Four numbers of e4m3 as two pairs of f16.
__device__ __forceinline__ void widen(u32 four, u32& low, u32& high) {
  asm("{\n.reg .b16 a, b;\n"
      "mov.b32 {a, b}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, a;\n"
      "cvt.rn.f16x2.e4m3x2 %1, b;\n}\n"
      : "=r"(low), "=r"(high)
      : "r"(four));
}

__device__ __forceinline__ void store_four(u32 to, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
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

inline constexpr u32 raw_bytes = 64 * 64;  ///< of a panel of keys in e4m3

/// One of four warps that copy keys: a part of one of the two blocks of a pair, panel by panel. `Slots`:
/// panels in the ring; 0: they come to where their numbers will be.
template <class Out, int Rows, int Slots>
struct copier {
  static constexpr bool in_place = Slots == 0;
  static constexpr int slots = in_place ? half_panels + 1 : Slots;

  const tensor_map& map;
  const call& c;
  deal dealt;
  int block, part;
  i32 box_rows, boxes;  ///< boxes of a panel
  u32 to;               ///< block of keys
  u32 ring;             ///< of the warp
  u32 raw_barriers;     ///< of its slots
  u32 raw_phases = 0;   ///< a bit for each

  __device__ __forceinline__ copier(const tensor_map& m, const call& of, u32 shared, int warp)
      : map{m},
        c{of},
        dealt{of},
        block{warp / 2},
        part{warp % 2},
        box_rows{min(of.page_size, keys)},
        boxes{keys / box_rows},
        to{shared + layout<Rows>::at_keys + static_cast<u32>(block) * tile_bytes},
        ring{shared + layout<Rows>::at_ring + static_cast<u32>(warp * Slots) * raw_bytes},
        raw_barriers{shared + layout<Rows>::at_raw_barriers +
                     static_cast<u32>(warp * (half_panels + 1)) * 8} {}

  [[nodiscard]] __device__ __forceinline__ int count() const {
    return part == own ? half_panels : half_panels + 1;
  }
  /// The panel of the block that is number `n` of the part.
  [[nodiscard]] __device__ __forceinline__ int panel_of(int n) const {
    const bool low = (block == 0) == (part == own);  // which half of the values
    return n == half_panels ? panels - 1 : n + (low ? 0 : half_panels);
  }
  /// Where its bytes come to. In place, what is written over them until they are read are others' bytes that
  /// have been.
  [[nodiscard]] __device__ __forceinline__ u32 raw_of(int n, int slot) const {
    if constexpr (!in_place) return ring + static_cast<u32>(slot) * raw_bytes;
    return n == half_panels ? to + last_panel + raw_bytes
                            : to + static_cast<u32>(panel_of(0)) * panel_bytes +
                                  static_cast<u32>(half_panels + n) * raw_bytes;
  }

  /// What is asked for next.
  struct cursor {
    i32 pair;
    int n;
    i32 pages, next_pages;  ///< where box row `lane` of the pair's block lies, and of the next pair's
  };
  [[nodiscard]] __device__ __forceinline__ i32 page_of(const share& work, i32 pair) const {
    if (c.block_table == nullptr) return work.b;
    const i32 inside = dealt.lane * box_rows;
    const i32 key = (2 * pair + block) * keys + inside;
    return inside < keys && key < work.keys
               ? __ldg(c.block_table + work.b * c.block_table_stride + key / c.page_size)
               : 0;
  }
  __device__ __forceinline__ void advance(const share& work, cursor& next) const {
    if (++next.n < count()) return;
    next.n = 0;
    ++next.pair;
    next.pages = next.next_pages;
    next.next_pages = next.pair + 1 < work.end ? page_of(work, next.pair + 1) : 0;
  }
  __device__ __forceinline__ void ask(const share& work, const cursor& next, int slot) const {
    if (next.pair >= work.end) return;
    const i32 first = (2 * next.pair + block) * keys;
    const i32 there = min((max(work.keys - first, 0) + box_rows - 1) / box_rows, boxes);
    const u32 barrier = raw_barriers + static_cast<u32>(slot) * 8;
    if (dealt.lane == 0) arrive_expecting(barrier, static_cast<u32>(there * box_rows) * 64);
    __syncwarp();
    if (dealt.lane >= there) return;
    copy_box(raw_of(next.n, slot) + static_cast<u32>(dealt.lane * box_rows) * 64, map, barrier,
             panel_of(next.n) * 64, c.page_size <= keys ? 0 : first % c.page_size, 0, next.pages);
  }

  __device__ __forceinline__ void run(barriers bars, int warp) {
    // Four lanes have a key's 64 bytes in a panel, and the next four the next key's: their 16-bit numbers
    // fall into all banks.
    const u32 lane = static_cast<u32>(dealt.lane);
    const u32 row = to + lane / 4 * 128;
    const u32 at[2] = {row + (lane % 4 * 2 ^ lane / 4) * 16, row + ((lane % 4 * 2 + 1) ^ lane / 4) * 16};
    u32 phase = 1;
    share work{dealt, static_cast<i32>(blockIdx.x)};
    const bool plans = warp == 0 && blockIdx.y == 0;
    if (plans && dealt.lane < 2) c.plan[2 * blockIdx.x + lane] = make_int4(-1, 0, 0, 0);
    int slot = 0;
    for (; work.left(); work.advance(dealt)) {
      cursor next{work.begin, 0, page_of(work, work.begin),
                  work.begin + 1 < work.end ? page_of(work, work.begin + 1) : 0};
      if constexpr (!in_place) {
#pragma unroll 1
        for (int n = 0; n < slots; ++n) {
          ask(work, next, (slot + n) % slots);
          advance(work, next);
        }
      }
#pragma unroll 1
      for (i32 pair = work.begin; pair < work.end; ++pair) {
        wait(bars.empty(block, part), phase);
        phase ^= 1;
        if constexpr (in_place) {
#pragma unroll 1
          for (int n = 0; n < count(); ++n) {
            ask(work, next, n);
            advance(work, next);
          }
        }
#pragma unroll 1
        for (int n = 0; n < count(); ++n) {
          if constexpr (in_place) slot = n;
          wait(raw_barriers + static_cast<u32>(slot) * 8, raw_phases >> slot & 1);
          raw_phases ^= 1U << slot;
          const u32 from = raw_of(n, slot) + lane * 16;
          const u32 panel = static_cast<u32>(panel_of(n)) * panel_bytes;
          constexpr u32 at_once = in_place ? 8 : 4;
#pragma unroll
          for (u32 begin = 0; begin < 8; begin += at_once) {
            uint4 held[at_once];
#pragma unroll
            for (u32 j = 0; j < at_once; ++j) held[j] = load_four(from + (begin + j) * 512);
            if constexpr (in_place) __syncwarp();  // all have read before numbers take the place
#pragma unroll
            for (u32 j = 0; j < at_once; ++j) {
              u32 words[4];
              widen(held[j].x, words[0], words[1]);
              widen(held[j].y, words[2], words[3]);
              store_four(at[0] + panel + (begin + j) * 1024, words);
              widen(held[j].z, words[0], words[1]);
              widen(held[j].w, words[2], words[3]);
              store_four(at[1] + panel + (begin + j) * 1024, words);
            }
          }
          __syncwarp();  // all have read, before bytes take the place
          if constexpr (!in_place) {
            ask(work, next, slot);
            advance(work, next);
            slot = slot + 1 == slots ? 0 : slot + 1;
          }
        }
        fence_async_proxy();
        __syncwarp();
        if (dealt.lane == 0) arrive(bars.full(block, part));
      }
      if (plans && !work.whole()) plan_join(dealt, work);
    }
    if (warp == 3 && (c.seqused_k != nullptr || c.seqlen_k == 0)) clear_empty<Out>(dealt);
  }
};

/// The grid is [blocks, row tiles].
template <class Out, int Rows, int Slots>
__device__ __forceinline__ void decode(const tensor_map& map, const call& c) {
  extern __shared__ __align__(1024) char memory[];
  using place = layout<Rows>;
  const u32 shared = shared_address(memory);
  const barriers bars{shared + place::at_barriers};
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
    prefetch(map);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int part = own; part <= other; ++part) {
        init_barrier(bars.full(block, part), 1);
        init_barrier(bars.empty(block, part), 4);
      }
    }
    for (u32 n = 0; n < 4 * (half_panels + 1); ++n) init_barrier(shared + place::at_raw_barriers + n * 8, 1);
    fence_barrier_init();
  }
  __syncthreads();
  sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  if (warpgroup == 2) {
    give_registers<Rows == rows ? 72 : 56>();
    const int warp = static_cast<int>(threadIdx.x) / 32 - 8;
    copier<Out, Rows, Slots>{map, c, shared, warp}.run(bars, warp);
  } else if (warpgroup == 0) {
    take_registers<Rows == rows ? 216 : 224>();
    consumer<__half, Out, 0, Rows>{c, bars, shared}.run();
  } else {
    take_registers<Rows == rows ? 216 : 224>();
    consumer<__half, Out, 1, Rows>{c, bars, shared}.run();
  }
}

}  // namespace latent

}  // namespace hopper

/// Shared memory: layout<rows>::at_ring + 16384 * slots bytes.
#define LATENT_DECODE_NARROW(name, Out, rows, slots)                                                         \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                       \
      name(const __grid_constant__ hopper::tensor_map map, const __grid_constant__ hopper::latent::call c) { \
    hopper::latent::decode<Out, rows, slots>(map, c);                                                        \
  }
