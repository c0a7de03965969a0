// SPDX-License-Identifier: MIT
// Attention forward on Hopper: what a launch computes, the sizes of a kernel, and which tiles a block of
// threads takes.
#pragma once

#include "hopper_parts.hpp"
#include "hopper_widen_rows.hpp"

namespace hopper {

inline constexpr i32 no_limit = 1 << 29;

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
  i32 left;   ///< no_limit or more: no limit
  i32 right;  ///< likewise
  i32 bottom_right;
  i32 has;    ///< bits: lse, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k
  i32 group;  ///< heads whose tiles are scheduled together
  float scale;
  float soft_cap;
};

/// What the calls of engines have besides.
struct extended_problem : problem {
  const float* sinks;  ///< [heads]; null: none
  const i32*
      block_table;  ///< with pages: the page of entry b's keys from i * page_size on is [b * stride + i]
  const float* alibi_slopes;  ///< [heads]
  i64 block_table_stride;
  i32 page_size;
  i32 packed;      ///< query heads of a KV head that lie in one tile, with row token * packed + head
  i32 tokens;      ///< of a tile; times `packed`, at most its rows
  i32 reciprocal;  ///< 2^16 / packed, rounded up
  i32 head_tiles;  ///< heads / packed
  i32 sharing;     ///< of these, how many read one KV head
};

/// With a bias that is added to the scores.
struct biased_problem : extended_problem {
  const void* bias;  ///< 16-bit, its innermost stride is 1
  i64 bias_stride_batch;
  i64 bias_stride_head;
  i64 bias_stride_row;
  i64 in_tiles;  ///< whether its strides allow the copy engine to read it
};

/// With keys in parts: each gives its own result and LSE, for rows (entry * heads + head) * seqlen_q + query.
struct split_problem : extended_problem {
  float* partial;      ///< [splits, rows, dim_v]
  float* partial_lse;  ///< [splits, rows], to base 2
  i64 splits;
};

/// With keys and values that have scales, in parts or not.
template <class Base>
struct scaled_problem : Base {
  const float* k_scale;  ///< of KV head h at k_scale[h * k_scale_stride]; null: 1
  const float* v_scale;
  i64 k_scale_stride;
  i64 v_scale_stride;
};

/// With keys and values in 16 bits that were made from such in e4m3: [batch, heads_kv, blocks], each block as
/// the products read it in shared memory.
template <class Base>
struct widened_problem : scaled_problem<Base> {
  const unsigned char* keys;
  const unsigned char* values;
  i64 blocks;  ///< of a head
};

/// The same, made by the launch itself.
template <class Base>
struct widening_problem : widened_problem<Base> {
  widening source;
  u32* done;  ///< a counter, then of each block of keys how much is there: 2 with the values; starts at 0
  i32 items_at_once;  ///< heads of keys that the first tiles see
  i32 parts;          ///< of the keys of a head, which tiles take side by side
};

/// What is added to scores, other than by a mask, and keys and values in e4m3, whose scores have scales:
/// these come as they are (`narrow`), in 16 bits from the launch before (`widened`, hopper_widen.cu), or in
/// 16 bits from this launch (`widening`, hopper_forward_widening.hpp). A bias is loaded by who adds it; with
/// `bias_tiles` it comes through the copy engine where that can read it.
enum class term { none, alibi, bias, bias_tiles, narrow, widened, widening };

template <bool Extended, term Term, bool Split>
struct problem_kind {
  using type = problem;
};
template <term Term>
struct problem_kind<true, Term, false> {
  using type = extended_problem;
};
template <>
struct problem_kind<true, term::bias, false> {
  using type = biased_problem;
};
template <>
struct problem_kind<true, term::bias_tiles, false> {
  using type = biased_problem;
};
template <>
struct problem_kind<true, term::narrow, false> {
  using type = scaled_problem<extended_problem>;
};
template <>
struct problem_kind<true, term::narrow, true> {
  using type = scaled_problem<split_problem>;
};
template <>
struct problem_kind<true, term::widened, false> {
  using type = widened_problem<extended_problem>;
};
template <>
struct problem_kind<true, term::widened, true> {
  using type = widened_problem<split_problem>;
};
template <>
struct problem_kind<true, term::widening, false> {
  using type = widening_problem<extended_problem>;
};
template <>
struct problem_kind<true, term::widening, true> {
  using type = widening_problem<split_problem>;
};
template <>
struct problem_kind<true, term::none, true> {
  using type = split_problem;
};

/// What fills the rings: one thread, tiles by the longest sequence; or a warp, tiles by what each sequence
/// has, with packed heads and sinks, from tensors or from pages.
enum class feeding { thread, warp, pages };

enum : i32 { has_lse = 1, has_cu_q = 2, has_cu_k = 4, has_used_q = 8, has_used_k = 16 };

/// Sizes of a kernel; head dims are multiples of 8. `Masked`: keys are limited by more than the end of the
/// sequence. `Capped`: scores are. `PingPong`: warpgroups take turns to issue products (FlashAttention-3:
/// ping-pong scheduling).
template <class Type, int Dim, int DimV, int Warpgroups, int Keys, int Stages, bool Masked, bool Capped,
          bool PingPong, int QueryStages, feeding Feeding = feeding::thread, term Term = term::none,
          bool Split = false>
struct shape {
  using type = Type;
  using problem_type = typename problem_kind<Feeding != feeding::thread, Term, Split>::type;
  static constexpr int dim = Dim;
  static constexpr int dim_v = DimV;
  static constexpr int groups = Warpgroups;
  // A warpgroup's registers hold 256 columns of results. Beyond that each has some of the columns of the same
  // 64 rows, and all compute the scores.
  static constexpr bool shares_rows = DimV > 256;
  static constexpr int columns = shares_rows ? DimV / Warpgroups : DimV;  ///< of a warpgroup
  static constexpr int product_v =
      (columns + 15) / 16 * 16;  ///< columns of a product; those behind `columns` are zero
  static constexpr int rows = shares_rows ? 64 : 64 * Warpgroups;
  static constexpr int keys = Keys;
  static constexpr int stages = Stages;
  static constexpr int query_stages = QueryStages;
  static constexpr bool masked = Masked;
  static constexpr bool capped = Capped;
  static constexpr bool ping_pong = PingPong;
  static constexpr bool extended = Feeding != feeding::thread;
  static constexpr bool paged = Feeding == feeding::pages;
  static constexpr bool alibi = Term == term::alibi;
  static constexpr bool biased = Term == term::bias || Term == term::bias_tiles;
  static constexpr int bias_stages = Term == term::bias_tiles ? 2 : 0;
  // Blocks in e4m3, which three warps turn into blocks of `type` in the stages.
  static constexpr bool narrow = Term == term::narrow;
  static constexpr int narrow_stages = narrow ? 2 : 0;
  static constexpr bool widens = Term == term::widening;
  static constexpr bool widened = Term == term::widened || widens;  ///< in 16 bits, in the workspace
  static constexpr bool scaled = narrow || widened;                 ///< keys and values have scales
  // Blocks of keys start at multiples of their size, and the last may reach behind its sequence. A page holds
  // whole ones; and the copy engine traps on a box whose rows start at no multiple of 16 bytes, as those of a
  // bias would.
  static constexpr bool whole_blocks = paged || bias_stages > 0 || widened;
  static constexpr bool clears_values =
      whole_blocks && !widened;  ///< behind the end, where widened ones have zeros
  static constexpr bool split = Split;
  static constexpr bool copies_out = false;  ///< whether results leave through a buffer and the copy engine
  // Blocks that a warpgroup does not see before those that it sees, or behind them; the first of two and the
  // last have but one side. A block of values that waits to be multiplied and those left out behind it hold
  // their stages until the next tile's first keys have come, which come after the values left out before.
  static constexpr int unseen = (rows - 64 + Keys - 1) / Keys;
  static constexpr bool skips = Masked && rows > 64 && 1 + (Warpgroups == 2 ? 1 : 2) * unseen <= Stages;
  static constexpr int panels = (Dim + 63) / 64;
  static constexpr int panels_v = (DimV + 63) / 64;
  /// Warps that copy; beside keys in e4m3, the others widen them.
  static constexpr int feeders = !paged || narrow ? 1 : panels > 1 && panels_v > 1 ? 4 : 2;
  static constexpr int threads = 128 * (Warpgroups + 1);
  // Of a thread of the consumers, and of the producer, which has more where its warps widen.
  static constexpr u32 given = 16;
  static constexpr bool tight = Warpgroups == 2 && product_v / 2 + Keys * 3 / 4 > 190;
  static constexpr u32 of_consumer = Warpgroups == 3 ? 160 : tight ? 240 : 232;
  static constexpr u32 registers = of_consumer - (widens ? given : 0);
  static constexpr u32 of_producer = Warpgroups == 3 ? 32 : tight ? 24 : 40;
  static constexpr u32 producer_registers = of_producer + (widens ? 2 * given : 0);
  static constexpr u32 panel_q = rows * 128;
  static constexpr u32 panel_k = Keys * 128;
  static constexpr u32 bytes_q = panels * panel_q;
  static constexpr u32 bytes_k = panels * panel_k;
  static constexpr u32 bytes_v = panels_v * panel_k;
  static constexpr u32 at_k = QueryStages * bytes_q;
  static constexpr u32 at_v = at_k + Stages * bytes_k;
  static constexpr u32 bytes_bias = rows * Keys * 2;
  static constexpr u32 at_bias = at_v + Stages * bytes_v;
  static constexpr u32 bytes_narrow = Keys * Dim;
  static constexpr u32 at_narrow = at_bias + bias_stages * bytes_bias;
  static constexpr u32 at_barriers = at_narrow + narrow_stages * bytes_narrow;
  static constexpr u32 at_tiles =
      at_barriers + 64 * ((QueryStages + 2 * Stages + bias_stages + narrow_stages + 3) / 4);
  // A tile's is read until its result is written, when the next one's queries have been multiplied.
  static constexpr int tile_slots = extended ? 5 : 4;          // a warp looks for the next tile early
  static constexpr u32 at_kinds = at_tiles + tile_slots * 64;  ///< what the narrow stages hold
  static constexpr u32 at_widening = at_tiles + tile_slots * 64;
  static constexpr u32 bytes_widening = Keys * 8 + 8192;  ///< of a warp that widens
  static constexpr u32 shared_bytes = at_kinds + (narrow ? 64 : widens ? 3 * bytes_widening : 0);
  static_assert(!scaled || (Dim == DimV && Dim % 64 == 0));
  static_assert(!widens || Warpgroups == 2);  // three need all registers
  static_assert(QueryStages + 2 + (extended ? 1 : 0) <= tile_slots);
};

template <int Panels>
struct panels_of {};

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
  __device__ u32 full_bias(int s) const { return full_q(Shape::query_stages + 2 * Shape::stages + s); }
  __device__ u32 empty_bias(int s) const { return full_bias(s) + 8; }
  __device__ u32 full_narrow(int s) const {
    return full_q(Shape::query_stages + 2 * Shape::stages + Shape::bias_stages + s);
  }
  __device__ u32 empty_narrow(int s) const { return full_narrow(s) + 8; }
};

/// One tile of queries and the keys that it sees.
struct alignas(64) tile {
  i32 first_block, last_block;  ///< blocks of keys, [first, last), one or more; -1: no tile is left
  i32 full_begin, full_end;     ///< those that need no mask
  i32 keys;
  i32 begin;       ///< the first query in memory, counted in the sequence; may be negative
  i32 first, end;  ///< the rows to write, counted in the sequence, or in the tile where a warp feeds
  i32 diagonal;    ///< the key on the diagonal of query 0
  i32 foreign;     ///< rows of a lone block that belong to other sequences, and may hold anything
  i64 out;         ///< element of query 0
  i64 lse;         ///< likewise
  i32 head;        ///< the first of the packed heads; only where a warp feeds
  i32 extra;       ///< with ALiBi: keys - queries; with a bias: the batch entry; with splits: the part
                   ///< of bits 16 on, with e4m3 the KV head
};

/// What the copies of a tile need besides.
struct tile_source {
  i32 head, head_kv, entry_q, entry_k, token_q, token_k;
};

/// The token, counted in the tile, of a row of it.
template <class Shape>
[[nodiscard]] __device__ __forceinline__ i32 token_of(const typename Shape::problem_type& p, i32 row) {
  if constexpr (Shape::extended) return static_cast<i32>(static_cast<u32>(row * p.reciprocal) >> 16);
  return row;
}

/// Which of the packed heads a row of a tile belongs to.
template <class Shape>
[[nodiscard]] __device__ __forceinline__ i32 head_of(const typename Shape::problem_type& p, i32 row) {
  if constexpr (Shape::extended) return row - token_of<Shape>(p, row) * p.packed;
  return 0;
}

/// Query heads, packed ones counted once.
template <class Shape>
[[nodiscard]] __device__ __forceinline__ i32 heads_of(const typename Shape::problem_type& p) {
  if constexpr (Shape::extended) return p.head_tiles;
  return p.heads;
}

/// The most queries of one head that a tile has.
template <class Shape>
[[nodiscard]] __device__ __forceinline__ i32 tokens_of(const typename Shape::problem_type& p) {
  if constexpr (Shape::extended) return p.tokens;
  return Shape::rows;
}

/// The blocks of keys that the queries [first, end) see; when that is none, an empty range.
template <class Shape>
__device__ __forceinline__ void see(const typename Shape::problem_type& p, i32 first, i32 end, tile& t) {
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
  if constexpr (Shape::whole_blocks) return block * Shape::keys;
  return min(block * Shape::keys, keys - Shape::keys);
}

/// Leaves of the blocks of a tile those of one part. A part without any has one that is masked as a whole.
template <class Shape>
__device__ __forceinline__ void take_part(const typename Shape::problem_type& p, i32 part, tile& t) {
  const i32 count = t.last_block - t.first_block;
  const i32 splits = static_cast<i32>(p.splits);
  const i32 begin = t.first_block + count * part / splits;
  const i32 end = t.first_block + count * (part + 1) / splits;
  if constexpr (Shape::scaled) {
    t.extra |= part << 16;
  } else {
    t.extra = part;
  }
  if (begin < end) {
    t.first_block = begin;
    t.last_block = end;
    return;
  }
  t.last_block = t.first_block + 1;
  t.full_begin = t.full_end = 0;
  t.diagonal = -(1 << 30);
}

/// Tile `at` of head `item` of all batch entries' heads. False when there is no such tile.
template <class Shape>
__device__ __forceinline__ bool locate(const typename Shape::problem_type& p, i32 item, i32 at, tile& t,
                                       tile_source& from) {
  const i32 heads = heads_of<Shape>(p);
  const i32 entry = item / heads;
  from.head = item - entry * heads;
  if constexpr (Shape::extended) {
    from.head_kv = from.head / p.sharing;
    from.head *= p.packed;
  } else {
    from.head_kv = from.head / (p.heads / p.heads_kv);
  }
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
    if constexpr (!Shape::widened) from.entry_k = 0;
  }
  if (p.has & has_used_q) queries = __ldg(p.seqused_q + entry);
  if (p.has & has_used_k) t.keys = __ldg(p.seqused_k + entry);
  if constexpr (Shape::widened) t.keys = min(t.keys, p.seqlen_k);  // as in keys_of_entry()
  if (!Shape::whole_blocks && (p.has & has_cu_k)) t.foreign = max(Shape::keys - t.keys, 0);
  const i32 tokens = tokens_of<Shape>(p);
  t.first = at * tokens;
  if (t.first >= queries) return false;
  t.end = min(t.first + tokens, queries);
  t.begin = min(t.first, queries - tokens);
  t.diagonal = p.bottom_right ? t.keys - queries : 0;
  see<Shape>(p, t.first, t.end, t);
  // A block that is masked as a whole makes the result of rows that see nothing.
  if (t.first_block == t.last_block) t.last_block = 1;
  t.out =
      from.entry_q * p.out_stride_batch + from.head * p.out_stride_head + from.token_q * p.out_stride_token;
  t.lse = from.entry_q * p.lse_stride_batch + from.head * p.lse_stride_head + from.token_q;
  if constexpr (Shape::extended) {
    t.first = (t.first - t.begin) * p.packed;
    t.end = (t.end - t.begin) * p.packed;
    t.head = from.head;
  }
  if constexpr (Shape::alibi) t.extra = t.keys - queries;
  if constexpr (Shape::biased) t.extra = entry;
  if constexpr (Shape::scaled) t.extra = from.head_kv;
  if constexpr (Shape::split) {
    t.lse = static_cast<i64>(entry * p.heads + from.head) * p.seqlen_q;
    t.out = t.lse * Shape::dim_v;
  }
  return true;
}

/// Assigns tiles to the blocks of threads. Without a counter, one a round; under a mask pairs of the first
/// and the last that are left of a head, which together see as many keys as any other pair. With a counter,
/// to who asks, heads in groups whose keys stay in the L2 cache, and those tiles first that see most.
template <class Shape>
struct tile_scheduler {
  const typename Shape::problem_type& p;
  i32 next_unit;
  i32 item = 0;
  i32 mirrored = -1;  ///< the other tile of a pair, in `item`

  __device__ __forceinline__ explicit tile_scheduler(const typename Shape::problem_type& call)
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

}  // namespace hopper
