// Attention forward on Hopper: one warp feeds tiles of keys and values through the copy engine, two or three
// warpgroups multiply. Semantics: operators/attention_forward.hpp. What was tried: NOTES-hopper.md.
//
// Within a warpgroup the scores of the next block of keys and the weighted values of the current one are in
// the tensor cores while it takes exponentials, and warpgroups take turns to issue products, as in
// FlashAttention-3 (Shah et al., arXiv:2407.08608). The running maximum is kept while the true one exceeds it
// by less than 2^8, which spares most corrections of the output, as in FlashAttention-4.
//
// A block of keys, or a tile of queries, that would reach over the end of its sequence is moved back to end
// there, and what it repeats is masked: copies then never read behind a sequence, and what they read before
// the tensor is zero.
#include "hopper_parts.hpp"

namespace hopper {

/// What a launch computes; operators/attention_forward.hpp has the meaning of most.
struct problem {
  void* out;
  float* lse;
  const i32* cu_seqlens_q;
  const i32* cu_seqlens_k;
  const i32* seqused_q;
  const i32* seqused_k;
  i32* tile_counter;  ///< starts at zero; null: tiles are assigned to blocks statically
  i64 out_stride_batch;
  i64 out_stride_head;
  i64 out_stride_token;
  i64 lse_stride_batch;
  i64 lse_stride_head;
  i32 batch;
  i32 heads;
  i32 heads_kv;
  i32 seqlen_q;
  i32 seqlen_k;
  i32 left;   ///< 2^29 or more: no limit
  i32 right;  ///< likewise
  i32 bottom_right;
  i32 has;    ///< bits: lse, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k
  i32 group;  ///< heads whose tiles are scheduled together
  float scale;
  float soft_cap;
};

enum : i32 { has_lse = 1, has_cu_q = 2, has_cu_k = 4, has_used_q = 8, has_used_k = 16 };

/// Sizes of a kernel. `Masked`: keys are limited by more than the end of the sequence. `Capped`: scores are.
/// `PingPong`: warpgroups take turns to issue products (FlashAttention-3: ping-pong scheduling).
template <class Type, int Dim, int Warpgroups, int Keys, int Stages, bool Masked, bool Capped, bool PingPong,
          int QueryStages>
struct shape {
  using type = Type;
  static constexpr int dim = Dim;
  static constexpr int groups = Warpgroups;
  static constexpr int rows = 64 * Warpgroups;
  static constexpr int keys = Keys;
  static constexpr int stages = Stages;
  static constexpr int query_stages = QueryStages;
  static constexpr bool masked = Masked;
  static constexpr bool capped = Capped;
  static constexpr bool ping_pong = PingPong;
  // Blocks that a warpgroup does not see before those that it sees, or behind them; the first of two and the
  // last have but one side. A block of values that waits to be multiplied and those left out behind it hold
  // their stages until the next tile's first keys have come, which come after the values left out before.
  static constexpr int unseen = (rows - 64 + Keys - 1) / Keys;
  static constexpr bool skips = Masked && 1 + (Warpgroups == 2 ? 1 : 2) * unseen <= Stages;
  static constexpr int panels = (Dim + 63) / 64;
  static constexpr int threads = 128 * (Warpgroups + 1);
  // Of a thread of the consumers, and of the producer.
  static constexpr bool tight = Warpgroups == 2 && Dim / 2 + Keys * 3 / 4 > 190;
  static constexpr u32 registers = Warpgroups == 3 ? 160 : tight ? 240 : 232;
  static constexpr u32 producer_registers = Warpgroups == 3 ? 32 : tight ? 24 : 40;
  static constexpr u32 panel_q = rows * 128;
  static constexpr u32 panel_k = Keys * 128;
  static constexpr u32 bytes_q = panels * panel_q;
  static constexpr u32 bytes_k = panels * panel_k;
  static constexpr u32 at_k = QueryStages * bytes_q;
  static constexpr u32 at_v = at_k + Stages * bytes_k;
  static constexpr u32 at_barriers = at_v + Stages * bytes_k;
  static constexpr u32 at_tiles = at_barriers + 64 * ((QueryStages + 2 * Stages + 3) / 4);
  // A tile's is read until its result is written, when the next one's queries have been multiplied.
  static constexpr int tile_slots = 4;
  static constexpr u32 shared_bytes = at_tiles + tile_slots * 64;
  static_assert(QueryStages + 2 <= tile_slots);
};

/// Addresses of the barriers.
template <class Shape>
struct barriers {
  u32 base;
  __device__ u32 full_q(int s) const { return base + 16 * static_cast<u32>(s); }
  __device__ u32 empty_q(int s) const { return full_q(s) + 8; }
  __device__ u32 full_k(int s) const { return full_q(Shape::query_stages + s); }
  __device__ u32 empty_k(int s) const { return full_k(s) + 8; }
  __device__ u32 full_v(int s) const { return full_q(Shape::query_stages + Shape::stages + s); }
  __device__ u32 empty_v(int s) const { return full_v(s) + 8; }
};

/// One tile of queries and the keys that it sees.
struct alignas(64) tile {
  i32 first_block, last_block;  ///< blocks of keys, [first, last), one or more; -1: no tile is left
  i32 full_begin, full_end;     ///< those that need no mask
  i32 keys;
  i32 begin;       ///< the first row in memory, counted in the sequence; may be negative
  i32 first, end;  ///< the rows to write
  i32 diagonal;    ///< the key on the diagonal of row 0
  i32 foreign;     ///< rows of a lone block that belong to other sequences, and may hold anything
  i64 out;         ///< element of row 0
  i64 lse;         ///< likewise
};

/// What the copies of a tile need besides.
struct tile_source {
  i32 head, head_kv, entry_q, entry_k, token_q, token_k;
};

/// The blocks of keys that the rows [first, end) of the tile see; when that is none, an empty range.
template <class Shape>
__device__ __forceinline__ void see(const problem& p, i32 first, i32 end, tile& t) {
  t.first_block = 0;
  t.last_block = (t.keys + Shape::keys - 1) / Shape::keys;
  t.full_begin = 0;
  t.full_end = t.keys / Shape::keys;
  if constexpr (Shape::masked) {
    const i32 high = max(min(t.keys, end + t.diagonal + p.right), 0);
    const i32 low = max(first + t.diagonal - p.left, 0);
    t.last_block = low < high ? (high + Shape::keys - 1) / Shape::keys : 0;
    t.first_block = low < high ? low / Shape::keys : 0;
    t.full_end = max(min(t.keys, first + t.diagonal + p.right + 1), 0) / Shape::keys;
    t.full_begin = (max(end - 1 + t.diagonal - p.left, 0) + Shape::keys - 1) / Shape::keys;
  }
  if (!(p.scale > 0.0F)) t.full_end = 0;
}

/// Where a block of keys starts in its sequence.
template <class Shape>
[[nodiscard]] __device__ __forceinline__ i32 start_of(i32 block, i32 keys) {
  return min(block * Shape::keys, keys - Shape::keys);
}

/// Tile `at` of head `item` of all batch entries' heads. False when there is no such tile.
template <class Shape>
__device__ __forceinline__ bool locate(const problem& p, i32 item, i32 at, tile& t, tile_source& from) {
  const i32 entry = item / p.heads;
  from.head = item - entry * p.heads;
  from.head_kv = from.head / (p.heads / p.heads_kv);
  from.entry_q = entry;
  from.entry_k = entry;
  from.token_q = 0;
  from.token_k = 0;
  i32 queries = p.seqlen_q;
  t.keys = p.seqlen_k;
  t.foreign = 0;
  if (p.has & has_cu_q) {
    from.token_q = __ldg(p.cu_seqlens_q + entry);
    queries = __ldg(p.cu_seqlens_q + entry + 1) - from.token_q;
    from.entry_q = 0;
  }
  if (p.has & has_cu_k) {
    from.token_k = __ldg(p.cu_seqlens_k + entry);
    t.keys = __ldg(p.cu_seqlens_k + entry + 1) - from.token_k;
    from.entry_k = 0;
  }
  if (p.has & has_used_q) queries = __ldg(p.seqused_q + entry);
  if (p.has & has_used_k) t.keys = __ldg(p.seqused_k + entry);
  if (p.has & has_cu_k) t.foreign = max(Shape::keys - t.keys, 0);
  t.first = at * Shape::rows;
  if (t.first >= queries) return false;
  t.end = min(t.first + Shape::rows, queries);
  t.begin = min(t.first, queries - Shape::rows);
  t.diagonal = p.bottom_right ? t.keys - queries : 0;
  see<Shape>(p, t.first, t.end, t);
  // A block that is masked as a whole makes the result of rows that see nothing.
  if (t.first_block == t.last_block) t.last_block = 1;
  t.out =
      from.entry_q * p.out_stride_batch + from.head * p.out_stride_head + from.token_q * p.out_stride_token;
  t.lse = from.entry_q * p.lse_stride_batch + from.head * p.lse_stride_head + from.token_q;
  return true;
}

/// Assigns tiles to the blocks of threads. Without a counter, one a round; under a mask pairs of the first
/// and the last that are left of a head, which together see as many keys as any other pair. With a counter,
/// to who asks, heads in groups whose keys stay in the L2 cache, and those tiles first that see most.
template <class Shape>
struct tile_scheduler {
  const problem& p;
  i32 next_unit;
  i32 item = 0;
  i32 mirrored = -1;  ///< the other tile of a pair, in `item`

  __device__ __forceinline__ explicit tile_scheduler(const problem& call)
      : p{call},
        next_unit{call.tile_counter ? atomicAdd(call.tile_counter, 1) : static_cast<i32>(blockIdx.x)} {}

  __device__ __forceinline__ bool next(tile& t, tile_source& from) {
    const i32 tiles = (p.seqlen_q + Shape::rows - 1) / Shape::rows;
    const i32 items = p.heads * p.batch;
    while (true) {
      i32 at;
      if (mirrored >= 0) {
        at = mirrored;
        mirrored = -1;
      } else if (p.tile_counter) {
        if (next_unit >= tiles * items) return false;
        const i32 per_group = p.group * tiles;
        const i32 group = next_unit / per_group;
        const i32 inside = next_unit - group * per_group;
        const i32 here = min(items - group * p.group, p.group);
        at = tiles - 1 - inside / here;
        item = group * p.group + inside % here;
        next_unit = atomicAdd(p.tile_counter, 1);
      } else {
        const i32 units = Shape::masked ? tiles / 2 : tiles;
        const i32 unit = next_unit;
        next_unit += static_cast<i32>(gridDim.x);
        if (unit < units * items) {
          item = unit / units;
          at = unit - item * units;
          if constexpr (Shape::masked) {
            mirrored = at;
            at = tiles - 1 - at;
          }
        } else {  // the middle tiles of odd numbers
          item = unit - units * items;
          at = units;
          if (!Shape::masked || tiles % 2 == 0 || item >= items) return false;
        }
      }
      if (locate<Shape>(p, item, at, t, from)) return true;
    }
  }
};

/// The rows of one thread: r and r + 8 of its warp.
struct row_state {
  float maximum[2] = {-infinity, -infinity};  ///< of raw scores, or less by up to 2^8 once scaled
  float sum[2] = {0.0F, 0.0F};                ///< of this thread's columns
  float rescale[2];                           ///< what the output is to be multiplied by
  bool needs_rescale = false;                 ///< whether a row of the warp needs it
};

/// Scores to weights; `factor` brings scores to units of log2.
template <int Count>
__device__ __forceinline__ void weigh(float (&scores)[Count], row_state& rows, float factor) {
  float most[2][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r][0] = fmaxf(scores[2 * r], scores[2 * r + 4]);
    most[r][1] = fmaxf(scores[2 * r + 1], scores[2 * r + 5]);
  }
#pragma unroll
  for (int j = 8; j < Count; j += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r][0] = fmaxf(most[r][0], scores[j + 2 * r]);
      most[r][1] = fmaxf(most[r][1], scores[j + 2 * r + 1]);
    }
  }
  float now[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    now[r] = fmaxf(most[r][0], most[r][1]);
    now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 1));
    now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffff, now[r], 2));
  }
  constexpr float tolerated = 8.0F;
  const bool exceeds = fmaf(rows.maximum[0], factor, tolerated) < now[0] * factor ||
                       fmaf(rows.maximum[1], factor, tolerated) < now[1] * factor;
  rows.needs_rescale = __any_sync(0xffffffff, exceeds);
  if (rows.needs_rescale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float next = fmaxf(rows.maximum[r], now[r]);
      const float anchor = next == -infinity ? 0.0F : next;
      rows.rescale[r] = exp2_approximate((rows.maximum[r] - anchor) * factor);
      rows.sum[r] *= rows.rescale[r];
      rows.maximum[r] = next;
    }
  }
  float shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) shift[r] = rows.maximum[r] == -infinity ? 0.0F : rows.maximum[r] * factor;
  float sum[2][2] = {};
#pragma unroll
  for (int j = 0; j < Count; j += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& score = scores[j + 2 * r + c];
        score = exp2_approximate(fmaf(score, factor, -shift[r]));
        sum[r][c] += score;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sum[r][0] + sum[r][1];
}

/// What a consumer warpgroup does with the tiles that it shares with the others.
template <class Shape>
struct consumer {
  using type = typename Shape::type;
  static constexpr int score_count = Shape::keys / 2;
  static constexpr int out_count = Shape::dim / 2;
  static constexpr int weight_count = Shape::keys / 4;

  const problem& p;
  barriers<Shape> bars;
  u32 shared;
  const tile* places;    ///< what the producer says of tiles
  int group, lane, row;  ///< row: this thread's first, within the tile
  ring<Shape::stages> at_k, at_v;
  ring<2> at_q;  // of one stage it counts the phases
  ring<Shape::tile_slots> at_tile;
  float factor;  ///< of scores that have not been scaled
  bool plain_scale;
  i32 before = 0;       ///< blocks of keys that come before the first that this warpgroup's rows see
  i32 behind = 0;       ///< and behind the last
  i32 left_values = 0;  ///< blocks of values to leave out once the one that waits is multiplied

  float out[out_count];
  u32 weights[weight_count];

  __device__ consumer(const problem& call, barriers<Shape> b, u32 memory, const tile* tiles, int warpgroup)
      : p{call}, bars{b}, shared{memory}, places{tiles}, group{warpgroup} {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    lane = thread % 32;
    row = 64 * group + thread / 32 * 16 + lane / 4;
    plain_scale = p.scale > 0.0F;
    factor = Shape::capped || !plain_scale ? 1.0F : p.scale * log2_e;
  }

  __device__ __forceinline__ void arrive_once(u32 barrier) {
    if (lane == 0) arrive(barrier);
  }

  /// Starts scores = queries keys^T for the stage.
  __device__ __forceinline__ void start_scores(float (&scores)[score_count], int stage) {
    const u64 a = swizzled_operand(
        shared + static_cast<u32>(stage_q()) * Shape::bytes_q + static_cast<u32>(group) * 64 * 128, 0);
    const u64 b = swizzled_operand(shared + Shape::at_k + static_cast<u32>(stage) * Shape::bytes_k, 0);
#pragma unroll
    for (int d = 0; d < Shape::dim / 16; ++d) {
      const u64 inside = static_cast<u64>(d % 4) * (32 >> 4);
      shared_product<type, Shape::keys>::run(scores, a + (d / 4) * (Shape::panel_q >> 4) + inside,
                                             b + (d / 4) * (Shape::panel_k >> 4) + inside, d > 0);
    }
    product_commit();
  }

  /// Starts out += weights values for the stage.
  __device__ __forceinline__ void start_values(int stage) {
    const u64 b =
        swizzled_operand(shared + Shape::at_v + static_cast<u32>(stage) * Shape::bytes_k, Shape::panel_k);
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      register_product<type, Shape::dim>::run(out, weights + 4 * k,
                                              b + static_cast<u64>(k) * (16 * 128 >> 4));
    }
    product_commit();
  }

  __device__ __forceinline__ void rescale(const row_state& rows) {
    if (!rows.needs_rescale) return;
#pragma unroll
    for (int i = 0; i < out_count; ++i) out[i] *= rows.rescale[i / 2 % 2];
  }

  __device__ __forceinline__ void round_weights(const float (&scores)[score_count]) {
#pragma unroll
    for (int i = 0; i < weight_count; ++i) weights[i] = pack<type>(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ __forceinline__ void prepare_scores(float (&scores)[score_count], const tile& t, i32 n) {
    if constexpr (Shape::capped) {
      const float inside = __fdividef(p.scale, p.soft_cap);
      const float outside = p.soft_cap * log2_e;
#pragma unroll
      for (int i = 0; i < score_count; ++i) scores[i] = tangent_hyperbolic(scores[i] * inside) * outside;
    }
    if (n >= t.full_begin && n < t.full_end) return;
    if constexpr (!Shape::capped) {
      if (!plain_scale) {
        const float scale = p.scale * log2_e;
#pragma unroll
        for (int i = 0; i < score_count; ++i) scores[i] *= scale;
      }
    }
    const i32 start = start_of<Shape>(n, t.keys);
    const i32 mine = start + 2 * (lane % 4);  // key of this thread's first column
    if constexpr (Shape::masked) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const i32 last = t.begin + row + 8 * r + t.diagonal + p.right - mine;
#pragma unroll
        for (int j = 0; j < score_count; j += 4) {
#pragma unroll
          for (int c = 0; c < 2; ++c)
            if (2 * j + c > last) scores[j + 2 * r + c] = -infinity;
        }
      }
    }
    const bool repeats = start < n * Shape::keys;
    if (repeats || (Shape::masked && n < t.full_begin)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        i32 least = n * Shape::keys - mine;
        if constexpr (Shape::masked) least = max(least, t.begin + row + 8 * r + t.diagonal - p.left - mine);
#pragma unroll
        for (int j = 0; j < score_count; j += 4) {
#pragma unroll
          for (int c = 0; c < 2; ++c)
            if (2 * j + c < least) scores[j + 2 * r + c] = -infinity;
        }
      }
    }
  }

  /// Clears the first rows of a block of values.
  __device__ __forceinline__ void clear_values(i32 count, int stage) {
    const u32 base = shared + Shape::at_v + static_cast<u32>(stage) * Shape::bytes_k;
    for (i32 i = static_cast<i32>(threadIdx.x) % 128; i < count * 8; i += 128) {
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                         base + static_cast<u32>(d) * Shape::panel_k + static_cast<u32>(i) * 16),
                     "r"(0)
                     : "memory");
      }
    }
    fence_async_proxy();
    named_sync(8 + static_cast<u32>(group), 128);
  }

  __device__ __forceinline__ void take_turn() {
    if constexpr (Shape::ping_pong) named_sync(1 + static_cast<u32>(group), 256);
  }
  __device__ __forceinline__ void pass_turn() {
    if constexpr (Shape::ping_pong)
      named_arrive(1 + (group + 1 == Shape::groups ? 0U : static_cast<u32>(group) + 1), 256);
  }

  [[nodiscard]] __device__ __forceinline__ int stage_q() const {
    return Shape::query_stages == 2 ? at_q.stage : 0;
  }
  [[nodiscard]] __device__ __forceinline__ u32 phase_q() const {
    return Shape::query_stages == 2 ? at_q.phase : static_cast<u32>(at_q.stage);
  }

  __device__ __forceinline__ void leave_queries() {
    arrive_once(bars.empty_q(stage_q()));
    at_q.advance();
  }

  /// Leaves out blocks of keys. They are waited for, since what is let go must have come.
  __device__ __forceinline__ void skip_keys(i32 count, bool started = true) {
#pragma unroll 1
    for (; count > 0; --count) {
      if (started) {
        take_turn();
        pass_turn();
      }
      started = true;
      wait(bars.full_k(at_k.stage), at_k.phase);
      arrive_once(bars.empty_k(at_k.stage));
      at_k.advance();
      ++left_values;
    }
  }

  __device__ __forceinline__ void skip_values() {
#pragma unroll 1
    for (; left_values > 0; --left_values) {
      wait(bars.full_v(at_v.stage), at_v.phase);
      arrive_once(bars.empty_v(at_v.stage));
      at_v.advance();
    }
  }

  /// Waits for the next tile. False when there is none.
  __device__ __forceinline__ bool next_tile(tile& t) {
    wait(bars.full_q(stage_q()), phase_q());
    at_tile.advance();
    const tile& given = places[at_tile.stage];
    t.keys = uniform(given.keys);
    t.begin = uniform(given.begin);
    t.diagonal = uniform(given.diagonal);
    t.foreign = uniform(given.foreign);
    tile seen;
    seen.first_block = given.first_block;
    seen.last_block = given.last_block;
    seen.full_begin = given.full_begin;
    seen.full_end = given.full_end;
    if constexpr (Shape::skips) {
      tile mine;
      mine.keys = given.keys;
      mine.diagonal = given.diagonal;
      const i32 from = given.begin + 64 * group;
      see<Shape>(p, max(from, given.first), min(from + 64, given.end), mine);
      if (seen.first_block >= 0 && mine.first_block < mine.last_block) seen = mine;
      before = uniform(given.last_block - seen.last_block);
      behind = uniform(seen.first_block - given.first_block);
    }
    t.first_block = uniform(seen.first_block);
    t.last_block = uniform(seen.last_block);
    t.full_begin = uniform(seen.full_begin);
    t.full_end = uniform(seen.full_end);
    return t.first_block >= 0;
  }

  /// The scores of block n become weights while the block before it is multiplied. With `Crosses` that is the
  /// last one of the tile before, whose result is in `slot`: it is written, and t and n are the next tile's.
  template <bool Crosses>
  __device__ __forceinline__ void step(const tile& t, i32 n, row_state& rows, int slot) {
    float scores[score_count];
    if constexpr (Crosses) wait(bars.full_k(at_k.stage), at_k.phase);
    take_turn();
    product_fence();
    start_scores(scores, at_k.stage);
    rescale(rows);
    wait(bars.full_v(at_v.stage), at_v.phase);
    pin(out);
    product_fence();
    start_values(at_v.stage);
    pass_turn();
    product_wait<1>();
    pin(scores);
    arrive_once(bars.empty_k(at_k.stage));
    at_k.advance();
    float share[2];
    if constexpr (Crosses) {
      finish_rows(places[slot], rows, share);
      rows = row_state{};
    }
    prepare_scores(scores, t, n);
    weigh(scores, rows, factor);
    pin(scores);
    // The sums are in the condition for the assembler, which otherwise puts them and the exponentials behind
    // the wait for the products that they should run beside: it does not know that none is negative.
    if (n > t.first_block || rows.sum[0] + rows.sum[1] < 0.0F) wait(bars.full_k(at_k.stage), at_k.phase);
    product_wait<0>();
    pin(out);
    pin(weights);
    arrive_once(bars.empty_v(at_v.stage));
    at_v.advance();
    if constexpr (Crosses) {
      if constexpr (Shape::skips) skip_values();
      write(places[slot], share);
      clear(rows);
    }
    round_weights(scores);
  }

  __device__ __forceinline__ void clear(row_state& rows) {
    rows.needs_rescale = false;
#pragma unroll
    for (int i = 0; i < out_count; ++i) out[i] = 0.0F;
  }

  /// All tiles. The blocks of keys of all of them are one sequence: what follows a tile's last block starts
  /// before its result is written.
  __device__ __forceinline__ void run() {
    tile t;
    if (!next_tile(t)) return;
    i32 n = t.last_block - 1;
    row_state rows;
    {
      float scores[score_count];
      const bool started = Shape::skips && before > 0;
      if constexpr (Shape::skips) {
        skip_keys(before, false);
        if (started) take_turn();
      }
      wait(bars.full_k(at_k.stage), at_k.phase);
      product_fence();
      start_scores(scores, at_k.stage);
      if (started) pass_turn();
      if constexpr (Shape::skips) skip_values();
      product_wait<0>();
      pin(scores);
      arrive_once(bars.empty_k(at_k.stage));
      at_k.advance();
      prepare_scores(scores, t, n);
      weigh(scores, rows, factor);
      clear(rows);
      round_weights(scores);
      if (n > t.first_block) wait(bars.full_k(at_k.stage), at_k.phase);
    }
    int slot = at_tile.stage;  // of the tile that `out` belongs to
#pragma unroll 1
    while (true) {
#pragma unroll 1
      for (--n; n >= t.first_block; --n) step<false>(t, n, rows, slot);
      if (t.foreign > 0) {
        wait(bars.full_v(at_v.stage), at_v.phase);
        clear_values(t.foreign, at_v.stage);
      }
      if constexpr (Shape::skips) skip_keys(behind);
      leave_queries();
      if (!next_tile(t)) break;
      if constexpr (Shape::skips) skip_keys(before);
      n = t.last_block - 1;
      step<true>(t, n, rows, slot);
      slot = at_tile.stage;
    }
    rescale(rows);
    wait(bars.full_v(at_v.stage), at_v.phase);
    pin(out);
    product_fence();
    start_values(at_v.stage);
    product_wait<0>();
    pin(out);
    pin(weights);
    if constexpr (Shape::skips) {
      arrive_once(bars.empty_v(at_v.stage));
      at_v.advance();
      skip_values();
    }
    float share[2];
    finish_rows(places[slot], rows, share);
    write(places[slot], share);
  }

  /// Writes the LSE; `share` is what makes an output of a sum.
  __device__ __forceinline__ void finish_rows(const tile& t, const row_state& rows, float (&share)[2]) {
    const i32 here = t.begin + row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      share[r] = sum > 0.0F ? __fdividef(1.0F, sum) : 0.0F;
      if ((p.has & has_lse) && lane % 4 == 0 && here + 8 * r >= t.first && here + 8 * r < t.end) {
        p.lse[t.lse + here + 8 * r] =
            sum > 0.0F ? fmaf(rows.maximum[r], factor, log2f(sum)) * ln_2 : -infinity;
      }
    }
  }

  __device__ __forceinline__ void write(const tile& t, const float (&share)[2]) {
    const i32 here = t.begin + row;
    const i32 least = t.first - here;
    const i32 most = t.end - here;
    auto* const to = static_cast<type*>(p.out) + t.out + here * p.out_stride_token;
    const int quad = lane % 4;
    // Four threads hold 32 columns of a row as 4 x 4 pairs; transposed, each has 8 columns in a row.
#pragma unroll
    for (int j = 0; j < out_count / 16; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        u32 word[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = 16 * j + 4 * k + 2 * r;
          word[k] = pack<type>(out[i] * share[r], out[i + 1] * share[r]);
        }
        transpose_words(word, quad);
        if (8 * r >= least && 8 * r < most) {
          *reinterpret_cast<uint4*>(to + 8 * r * p.out_stride_token + 32 * j + 8 * quad) =
              make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    }
  }
};

/// What feeds the others, one thread.
template <class Shape>
__device__ __forceinline__ void produce(const tensor_map& q_map, const tensor_map& k_map,
                                        const tensor_map& v_map, const problem& p, barriers<Shape> bars,
                                        u32 shared, tile* places) {
  ring<Shape::stages> at_k, at_v;
  ring<Shape::query_stages> at_q;
  ring<Shape::tile_slots> at_tile;
  tile_scheduler<Shape> tiles{p};
  tile t;
  tile_source from;
  while (tiles.next(t, from)) {
    at_tile.advance();
    places[at_tile.stage] = t;
    const auto load = [&](const tensor_map& map, u32 to, u32 barrier, i32 n) {
      arrive_expecting(barrier, Shape::bytes_k);
#pragma unroll
      for (int d = 0; d < Shape::panels; ++d) {
        copy_box(to + static_cast<u32>(d) * Shape::panel_k, map, barrier, 64 * d,
                 from.token_k + start_of<Shape>(n, t.keys), from.head_kv, from.entry_k);
      }
    };
    const auto load_k = [&](i32 n) {
      wait(bars.empty_k(at_k.stage), at_k.phase ^ 1);
      load(k_map, shared + Shape::at_k + static_cast<u32>(at_k.stage) * Shape::bytes_k,
           bars.full_k(at_k.stage), n);
      at_k.advance();
    };
    const auto load_v = [&](i32 n) {
      wait(bars.empty_v(at_v.stage), at_v.phase ^ 1);
      load(v_map, shared + Shape::at_v + static_cast<u32>(at_v.stage) * Shape::bytes_k,
           bars.full_v(at_v.stage), n);
      at_v.advance();
    };
    i32 n = t.last_block - 1;
    load_k(n);
    wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
    const u32 full_q = bars.full_q(at_q.stage);
    arrive_expecting(full_q, Shape::bytes_q);
#pragma unroll
    for (int d = 0; d < Shape::panels; ++d) {
      copy_box(shared + static_cast<u32>(at_q.stage) * Shape::bytes_q + static_cast<u32>(d) * Shape::panel_q,
               q_map, full_q, 64 * d, from.token_q + t.begin, from.head, from.entry_q);
    }
    at_q.advance();
    for (; n > t.first_block; --n) {
      load_k(n - 1);
      load_v(n);
    }
    load_v(n);
  }
  at_tile.advance();
  places[at_tile.stage].first_block = -1;
  wait(bars.empty_q(at_q.stage), at_q.phase ^ 1);
  arrive(bars.full_q(at_q.stage));
}

template <class Shape>
__device__ __forceinline__ void attention(const tensor_map& q_map, const tensor_map& k_map,
                                          const tensor_map& v_map, const problem& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const u32 shared = shared_address(memory);
  const barriers<Shape> bars{shared + Shape::at_barriers};
  auto* const places = reinterpret_cast<tile*>(memory + Shape::at_tiles);
  if (threadIdx.x == 0) {
    prefetch(q_map);
    prefetch(k_map);
    prefetch(v_map);
    for (int s = 0; s < Shape::query_stages; ++s) {
      init_barrier(bars.full_q(s), 1);
      init_barrier(bars.empty_q(s), 4 * Shape::groups);
    }
    for (int s = 0; s < Shape::stages; ++s) {
      init_barrier(bars.full_k(s), 1);
      init_barrier(bars.full_v(s), 1);
      init_barrier(bars.empty_k(s), 4 * Shape::groups);
      init_barrier(bars.empty_v(s), 4 * Shape::groups);
    }
    fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x < 32 && elect_one()) produce<Shape>(q_map, k_map, v_map, p, bars, shared, places);
  } else {
    take_registers<Shape::registers>();
    consumer<Shape> worker{p, bars, shared, places, warpgroup - 1};
    if constexpr (Shape::ping_pong) {
      if (warpgroup == Shape::groups) worker.pass_turn();  // the first has the first turn
    }
    worker.run();
  }
}

}  // namespace hopper

#define ATTENTION_FORWARD(name, ...)                                                                   \
  extern "C" __global__ void __launch_bounds__((hopper::shape<__VA_ARGS__>::threads), 1)               \
      name(const __grid_constant__ hopper::tensor_map q, const __grid_constant__ hopper::tensor_map k, \
           const __grid_constant__ hopper::tensor_map v, const __grid_constant__ hopper::problem p) {  \
    hopper::attention<hopper::shape<__VA_ARGS__>>(q, k, v, p);                                         \
  }
