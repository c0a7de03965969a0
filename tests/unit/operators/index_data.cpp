// SPDX-License-Identifier: MIT
// What operators say of the numbers in cu_seqlens, seqused, block tables, positions and slots.
#include <catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>

#include "call_tensors.hpp"

using namespace switchyard;
using namespace switchyard::operators;

namespace index_data {

using switchyard::test::at;
using switchyard::test::refusal;
using ints = std::vector<std::int32_t>;
using longs = std::vector<std::int64_t>;

const_tensor of(const ints& numbers) {
  return {numbers.data(), dtype::i32, {static_cast<std::int64_t>(numbers.size())}};
}
const_tensor of(const longs& numbers) {
  return {numbers.data(), dtype::i64, {static_cast<std::int64_t>(numbers.size())}};
}

/// Of a legal call.
template <class Operator>
std::string wrong(const typename Operator::arguments& call) {
  REQUIRE_THAT(Operator::check(call), no_text());
  return Operator::check_memory(call);
}

/// Three sequences in 12 queries and 20 keys, of at most 5 and 9.
std::string packed(const ints& cu_q, const ints& cu_k, const ints& used_q = {}, const ints& used_k = {}) {
  attention_forward::options with{
      .cu_seqlens_q = of(cu_q), .cu_seqlens_k = of(cu_k), .longest_q = 5, .longest_k = 9};
  if (!used_q.empty()) with.seqused_q = of(used_q);
  if (!used_k.empty()) with.seqused_k = of(used_k);
  const std::string forward = wrong<attention_forward>(attention_forward::call(
      at(0, {12, 4, 64}), at(1, {20, 2, 64}), at(2, {20, 2, 64}), at(3, {12, 4, 64}), with));
  attention_backward::options back{
      .cu_seqlens_q = with.cu_seqlens_q, .cu_seqlens_k = with.cu_seqlens_k, .longest_q = 5, .longest_k = 9};
  back.seqused_q = with.seqused_q;
  back.seqused_k = with.seqused_k;
  const tensor q = at(0, {12, 4, 64});
  const tensor k = at(1, {20, 2, 64});
  const std::string backward =
      wrong<attention_backward>(attention_backward::call({.q = q,
                                                          .k = k,
                                                          .v = k,
                                                          .out = q,
                                                          .dout = q,
                                                          .lse = at(2, {4, 12}, dtype::f32),
                                                          .dq = q,
                                                          .dk = k,
                                                          .dv = k},
                                                         back));
  CHECK(backward == forward);
  return forward;
}

/// Two sequences of one query in 6 pages of 16 keys, 3 entries each.
std::string paged_keys(const ints& table, const ints& used, std::int64_t longest = -1,
                       std::int32_t window_left = -1) {
  const paged cache{.k = at(1, {6, 16, 2, 64}),
                    .v = at(2, {6, 16, 2, 64}),
                    .block_table = {table.data(), dtype::i32, {2, 3}},
                    .used = of(used),
                    .longest = longest};
  const tensor q = at(0, {2, 1, 4, 64});
  const std::string forward = wrong<attention_forward>(attention_forward::call(
      q, cache, q, {.mask = attention_mask::causal_bottom_right, .window_left = window_left}));
  CHECK(wrong<attention_decode>(attention_decode::call(q, cache, q, {.window_left = window_left})) ==
        forward);
  return forward;
}

TEST_CASE("sequences of attention rise from 0, and end within their tensors", "[operators]") {
  CHECK_THAT(packed({0, 4, 4, 9}, {0, 9, 11, 20}), no_text());
  CHECK(packed({1, 4, 4, 9}, {0, 9, 11, 20}) == "cu_seqlens_q[0] is 1: it must be 0");
  CHECK(packed({0, 4, 3, 8}, {0, 9, 11, 20}) ==
        "cu_seqlens_q[2] is 3, less than 4 before it: the numbers must not fall");
  CHECK(packed({0, 4, 9, 13}, {0, 9, 11, 20}) == "cu_seqlens_q[3] is 13, but q has 12 tokens");
  CHECK(packed({0, 4, 10, 12}, {0, 9, 11, 20}) ==
        "cu_seqlens_q[2] is 10: sequence 1 has 6 tokens, but seqlen_q, the longest, is 5");
  CHECK(packed({0, 4, 4, 9}, {0, 9, 11, 21}) ==
        "cu_seqlens_k[3] is 21: sequence 2 has 10 tokens, but seqlen_k, the longest, is 9");
  CHECK(packed({0, 4, 4, 9}, {0, 9, 18, 21}) == "cu_seqlens_k[3] is 21, but k has 20 tokens");
  CHECK(packed({0, INT32_MIN, INT32_MAX, 9}, {0, 9, 11, 20}) ==
        "cu_seqlens_q[1] is -2147483648, less than 0 before it: the numbers must not fall");
}

TEST_CASE("tokens in use are at most those of a sequence", "[operators]") {
  CHECK_THAT(packed({0, 4, 4, 9}, {0, 9, 11, 20}, {4, 0, 5}, {0, 2, 9}), no_text());
  CHECK(packed({0, 4, 4, 9}, {0, 9, 11, 20}, {4, 1, 5}) ==
        "seqused_q[1] is 1: it must be at least 0 and at most 0, the length of its sequence");
  CHECK(packed({0, 4, 4, 9}, {0, 9, 11, 20}, {}, {9, 2, -5}) ==
        "seqused_k[2] is -5: it must be at least 0 and at most 9, the length of its sequence");
  const ints used{3, 8};
  const tensor q = at(0, {2, 1, 4, 64});
  const tensor k = at(1, {2, 7, 2, 64});
  const std::string dense = "seqused_k[1] is 8: it must be at least 0 and at most 7, seqlen_k";
  CHECK(wrong<attention_forward>(attention_forward::call(q, k, k, q, {.seqused_k = of(used)})) == dense);
  CHECK(wrong<attention_decode>(attention_decode::call(q, k, k, q, {.seqused_k = of(used)})) == dense);
  CHECK(wrong<attention_forward>(attention_forward::call(q, k, k, q, {.seqused_q = of(used)})) ==
        "seqused_q[0] is 3: it must be at least 0 and at most 1, seqlen_q");
}

TEST_CASE("packed tensors without tokens hold no sequence", "[operators]") {
  const ints cu{0, 2};
  const tensor none{nullptr, dtype::bf16, {0, 4, 64}};
  const tensor k = at(1, {1, 8, 2, 64});
  auto call = attention_forward::call(none, k, k, none, {.cu_seqlens_q = of(cu), .longest_q = 5});
  CHECK(call.seqlen_q == 0);
  call.q = call.out = at(0, {1}).data();
  CHECK(wrong<attention_forward>(call) ==
        "cu_seqlens_q[1] is 2: sequence 0 has 2 tokens, but seqlen_q, the longest, is 0");
}

TEST_CASE("pages that queries see are those of the cache", "[operators]") {
  CHECK_THAT(paged_keys({5, 0, 1, 2, 3, 4}, {48, 33}), no_text());
  CHECK_THAT(paged_keys({5, 0, -1, 2, 6, 99}, {32, 16}), no_text());  // entries that hold no key
  CHECK(paged_keys({5, 0, 1, 2, 6, 99}, {32, 17}) ==
        "block_table[1][1] is 6: it must be at least 0 and below 6, the number of pages of k and v");
  CHECK(paged_keys({5, 0, -1, 2, 6, 99}, {33, 16}) ==
        "block_table[0][2] is -1: it must be at least 0 and below 6, the number of pages of k and v");
  CHECK(paged_keys({0, 0, 0, 0, 0, 0}, {-1, 16}) ==
        "seqused_k[0] is -1: it must be at least 0 and at most 48, seqlen_k");
  CHECK(paged_keys({0, 0, 0, 0, 0, 0}, {1, 49}) ==
        "seqused_k[1] is 49: it must be at least 0 and at most 48, seqlen_k");
  CHECK(paged_keys({0, 0, 0, 0, 0, 0}, {1, 49}, 4096) ==
        "seqused_k[1] is 49, but block_table has 3 entries for each sequence: pages of 16 keys");
  // A page that a window leaves behind may be gone.
  CHECK_THAT(paged_keys({-1, 0, 1, 2, 3, 4}, {48, 33}, -1, 31), no_text());
  CHECK(paged_keys({-1, 0, 1, 2, 3, 4}, {48, 33}, -1, 32) ==
        "block_table[0][0] is -1: it must be at least 0 and below 6, the number of pages of k and v");
}

TEST_CASE("the pages of plain arguments are checked as far as they are known", "[operators]") {
  const ints table{7, -1};
  const ints used{16};
  const paged cache{.k = at(1, {6, 16, 2, 64}),
                    .v = at(2, {6, 16, 2, 64}),
                    .block_table = {table.data(), dtype::i32, {1, 2}},
                    .used = of(used)};
  const tensor q = at(0, {1, 1, 4, 64});
  auto call = attention_decode::call(q, cache, q);
  CHECK(call.pages == 6);
  CHECK(call.block_table_entries == 2);
  CHECK_THAT(wrong<attention_decode>(call), has_text("block_table[0][0] is 7"));
  call.pages = call.block_table_entries = unset;
  CHECK_THAT(wrong<attention_decode>(call), no_text());
  call.seqlen_k = 64;
  const ints more{17};
  call.seqused_k = more.data();
  CHECK_THAT(wrong<attention_decode>(call),
             has_text("block_table[0][1] is -1: it must be at least 0 and below "));
  CHECK_THAT(wrong<attention_decode>(call), has_text(", the number of pages that any memory holds"));
  const ints few{16};
  call.seqused_k = few.data();
  call.k_stride_batch = std::int64_t{1} << 45U;
  CHECK(
      wrong<attention_decode>(call) ==
      "block_table[0][0] is 7: it must be at least 0 and below 4, the number of pages that any memory holds");
  call.pages = -2;
  CHECK(wrong<attention_decode>(call) == "pages must not be negative: it is -2");
  call.pages = 8;
  call.k_stride_batch = call.v_stride_batch;
  call.block_table_entries = -7;
  CHECK(wrong<attention_decode>(call) == "block_table_entries must not be negative: it is -7");
}

TEST_CASE("positions of rotary are rows of its tables", "[operators]") {
  const tensor q = at(0, {2, 3, 4, 64});
  const tensor q3 = at(0, {6, 4, 64});
  const tensor cos = at(2, {16, 32}, dtype::f32);
  const auto dense = [&](const longs& ids) {
    return wrong<rotary>(
        rotary::in_place(q, {}, {.cos = cos, .sin = cos, .positions = {ids.data(), dtype::i64, {2, 3}}}));
  };
  CHECK_THAT(dense({0, 15, 3, 3, 3, 2}), no_text());
  CHECK(dense({0, 16, 3, 3, 3, 2}) ==
        "positions[1] is 16: it must be at least 0 and below 16, the number of positions in cos and sin");
  CHECK_THAT(dense({0, 1, 3, 3, 3, INT64_MIN}), has_text("positions[5] is -9223372036854775808"));
  const longs any{-7, 1, 2, 3, 4, INT64_MAX};
  CHECK_THAT(wrong<rotary>(rotary::in_place(q, {}, {.positions = {any.data(), dtype::i64, {2, 3}}})),
             no_text());  // angles are computed

  const auto offsets = [&](const ints& from) {
    return wrong<rotary>(rotary::in_place(q, {}, {.cos = cos, .sin = cos, .sequence_offsets = of(from)}));
  };
  CHECK_THAT(offsets({13, 0}), no_text());
  CHECK(offsets({0, 14}) ==
        "sequence_offsets[1] is 14, and the sequence has 3 tokens: positions must be at least 0 and below "
        "16, the "
        "number of positions in cos and sin");
  CHECK_THAT(offsets({-1, 0}), has_text("sequence_offsets[0] is -1"));

  const auto sequences = [&](const ints& cu, std::int64_t offset, const longs& ids = {}) {
    rotary::options with{.cos = cos, .sin = cos, .cu_seqlens = of(cu), .longest = 4, .offset = offset};
    if (!ids.empty()) with.positions = of(ids);
    return wrong<rotary>(rotary::in_place(q3, {}, with));
  };
  CHECK_THAT(sequences({0, 4, 6}, 12), no_text());
  CHECK(sequences({0, 4, 3}, 0) == "cu_seqlens[2] is 3, less than 4 before it: the numbers must not fall");
  CHECK(sequences({0, 4, 7}, 0) == "cu_seqlens[2] is 7, but q has 6 tokens");
  CHECK(sequences({0, 5, 6}, 0) ==
        "cu_seqlens[1] is 5: sequence 0 has 5 tokens, but seqlen, the longest, is 4");
  const ints six{0, 4, 6};
  CHECK_THAT(wrong<rotary>(rotary::in_place(q3, {}, {.cu_seqlens = of(six), .longest = indices::max_bound})),
             no_text());  // a bound
  CHECK(wrong<rotary>(rotary::in_place(q3, {}, {.cu_seqlens = of(six), .longest = indices::max_bound + 1})) ==
        "seqlen, the longest sequence, is 16777217, but all have 6 tokens together");
  CHECK_THAT(sequences({0, 2, 6}, 13), has_text("offset is 13, and the sequence has 4 tokens"));
  CHECK_THAT(sequences({0, 2, 3}, 13, {0, 1, 2, 99, 99, 99}), no_text());  // of no sequence
  CHECK_THAT(sequences({0, 2, 4}, 13, {0, 1, 2, 99, 99, 99}), has_text("positions[3] is 99"));
}

TEST_CASE("rotary's plain arguments may state the rows of their tables", "[operators]") {
  const tensor q = at(0, {1, 8, 4, 64});
  const tensor cos = at(2, {16, 32}, dtype::f32);
  auto call = rotary::in_place(q, {}, {.cos = cos, .sin = cos, .offset = 8});
  CHECK(call.table_rows == 16);
  const auto refused = [&](std::int64_t rows, std::int64_t offset) {
    call.table_rows = rows;
    call.offset = offset;
    const std::string wrong = rotary::check(call);
    CHECK((call.alignment() == 0) == !wrong.empty());  // so that every call is checked
    return wrong;
  };
  CHECK_THAT(refused(16, 8), no_text());
  CHECK_THAT(refused(unset, 1 << 30), no_text());
  CHECK(refused(16, 9) ==
        "offset is 9 and seqlen 8, but cos and sin have rows for 16 positions: offset must not be negative, "
        "and "
        "offset + seqlen at most the number of positions");
  CHECK_THAT(refused(7, 0), has_text("rows for 7 positions"));
  CHECK_THAT(refused(0, 0), has_text("rows for 0 positions"));
  CHECK_THAT(refused(16, INT64_MAX), has_text("rows for 16 positions"));
  CHECK(refused(-2, 0) == "table_rows must not be negative: it is -2");
  call.seqlen = 0;
  CHECK_THAT(refused(3, 100), no_text());  // nothing is read
  call.seqlen = 8;
  const longs ids(8, 2);
  call.positions = ids.data();
  CHECK_THAT(refused(3, 100), no_text());  // the offset is not used
}

TEST_CASE("slots are those of a cache's pages, or negative", "[operators]") {
  const auto place = [](const longs& positions, const longs& slots) {
    const tensor cache = at(1, {3, 4, 2, 64});
    return wrong<rotary_cache>(rotary_cache::call(
        at(0, {3, 4, 64}), at(4, {3, 2, 64}), at(5, {3, 2, 64}), cache, at(6, {3, 4, 2, 64}),
        {at(2, {8, 16}, dtype::f32), at(3, {8, 16}, dtype::f32), of(positions), of(slots)}, {}));
  };
  CHECK_THAT(place({0, 7, 3}, {11, -1, INT64_MIN}), no_text());
  CHECK(place({0, 7, 3}, {11, 12, 0}) ==
        "slots[1] is 12: it must be below 12, the slots of 3 pages of 4; negative: none");
  CHECK(place({0, 8, 3}, {11, -1, 0}) ==
        "positions[1] is 8: it must be at least 0 and below 8, the number of positions in cos and sin");
  const longs positions{0, INT64_MAX, 3};
  const longs slots{0, INT64_MAX, 3};
  const tensor cache = at(1, {3, 4, 2, 64});
  auto unknown = rotary_cache::call(
      at(0, {3, 4, 64}), at(4, {3, 2, 64}), at(5, {3, 2, 64}), cache, cache,
      {at(2, {8, 16}, dtype::f32), at(3, {8, 16}, dtype::f32), of(positions), of(slots)}, {});
  unknown.pages = unknown.table_rows = unset;
  CHECK_THAT(wrong<rotary_cache>(unknown), has_text("positions[1] is 9223372036854775807"));
  const longs legal{0, 1, 2};
  unknown.positions = legal.data();
  CHECK_THAT(wrong<rotary_cache>(unknown), has_text("slots[1] is 9223372036854775807"));
  unknown.table_rows = -2;
  CHECK(wrong<rotary_cache>(unknown) == "table_rows must not be negative: it is -2");
  CHECK_THAT(place({0, 7, -1}, {-1, -1, -1}), has_text("positions[2] is -1"));  // queries are turned
}

TEST_CASE("numbers of a call that is illegal otherwise are not read", "[operators]") {
  const auto* const nowhere = reinterpret_cast<const std::int32_t*>(std::uintptr_t{1});
  const tensor q = at(0, {2, 1, 4, 64});
  auto call = attention_forward::call(q, q, q, q);
  call.cu_seqlens_q = call.seqused_k = call.block_table = nowhere;  // misaligned
  CHECK_THAT(attention_forward::check_memory(call), no_text());
  call.cu_seqlens_q = call.seqused_k = nullptr;
  call.block_table = reinterpret_cast<const std::int32_t*>(std::uintptr_t{16});
  call.block_table_stride = 1;
  CHECK_THAT(attention_forward::check_memory(call), no_text());  // no page size, no keys in use
  rotary_cache::arguments place;
  CHECK_THAT(rotary_cache::check_memory(place), no_text());
  CHECK_THAT(rotary::check_memory({.cu_seqlens = nowhere}), no_text());
}

TEST_CASE("a tensor beside others of smaller elements is aligned to its own at every call", "[operators]") {
  const longs ids{0};
  const tensor narrow = at(1, {3, 4, 2, 64}, dtype::f8_e4m3);
  auto place =
      rotary_cache::call(at(0, {1, 4, 64}), at(4, {1, 2, 64}), at(5, {1, 2, 64}), narrow, narrow,
                         {at(2, {8, 16}, dtype::f32), at(3, {8, 16}, dtype::f32), of(ids), of(ids)}, {});
  const auto odd = [](const void* address) { return static_cast<const std::byte*>(address) + 1; };
  place.k_cache =
      const_cast<std::byte*>(odd(place.k_cache));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  CHECK_THAT(rotary_cache::check(place), no_text());
  CHECK(place.alignment() == 1);
  place.k = odd(place.k);
  CHECK_THAT(rotary_cache::check(place), has_text("must be aligned to their element size"));
  CHECK(place.alignment() == 0);

  const tensor q = at(0, {2, 1, 4, 64});
  const tensor k = at(1, {2, 8, 2, 64}, dtype::f8_e4m3);
  auto decode = attention_decode::call(q, k, k, q);
  decode.k = odd(decode.k);
  CHECK_THAT(attention_decode::check(decode), no_text());
  decode.q = odd(decode.q);
  CHECK_THAT(attention_decode::check(decode), has_text("must be aligned to their element size"));
  CHECK(decode.alignment() == 0);
  auto forward = attention_forward::call(q, k, k, q);
  forward.k = odd(forward.k);
  CHECK_THAT(attention_forward::check(forward), no_text());
  forward.q = odd(forward.q);
  CHECK_THAT(attention_forward::check(forward), has_text("must be aligned to their element size"));
  CHECK(forward.alignment() == 0);
}

}  // namespace index_data
