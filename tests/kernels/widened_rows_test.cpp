// SPDX-License-Identifier: MIT
// Keys in e4m3 for attention on Hopper, without a GPU: of random calls, the rows that the launch before makes
// are those that the tiles of the launch behind copy, come from where the call has them, and lie where the
// products read them. No page that no query sees is looked up.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "catch.hpp"
#include "emulated_widening.hpp"
#include "environment.hpp"

namespace {

using hopper::widening;

constexpr int no_limit = 1 << 29;

struct call {
  widening p{};
  std::vector<int> cu_q, cu_k, used_q, used_k, table;
  std::vector<int> queries, keys;  ///< of each entry

  explicit call(std::mt19937& random) : random_{random} {
    p.batch = pick({1, 2, 3});
    p.heads_kv = pick({1, 2, 3, 8});
    p.seqlen_q = pick({0, 1, 17, 64, 200, 300});
    p.seqlen_k = pick({0, 1, 5, 64, 127, 128, 129, 300, 700});
    p.left = pick({no_limit, no_limit, 0, 1, 31, 127, 128, 200});
    p.right = pick({no_limit, 0, 0, 1, 100});
    p.bottom_right = pick({0, 1, 1});
    p.block = pick({64, 128});
    p.blocks = (std::max(p.seqlen_k, 1) + 127) / 128 * 128 / p.block;
    p.pieces = pick({8, 16, 24, 32});
    p.reciprocal = (65536 + p.pieces - 1) / p.pieces;
    p.rows_at_once = hopper::widening_threads / p.pieces;
    for (int b = 0; b < p.batch; ++b) {
      queries.push_back(below(p.seqlen_q + 1));
      keys.push_back(below(p.seqlen_k + 1));
    }
    give_queries(pick({0, 1, 2}));
    give_keys(pick({0, 1, 2, 3}));
    // Of a layout by tokens, or by heads.
    const bool by_heads = below(2) == 0;
    const std::int64_t tokens = p.page_size != 0 ? p.page_size : cu_k.empty() ? p.seqlen_k : 4096;
    const std::int64_t width = std::int64_t{8} * p.pieces;
    const std::array<long long, 3> strides{tokens * p.heads_kv * width, by_heads ? tokens * width : width,
                                           by_heads ? width : p.heads_kv * width};
    for (std::size_t i = 0; i < 3; ++i) p.k_strides[i] = strides.at(i);
  }

  int below(int end) { return std::uniform_int_distribution<int>{0, end - 1}(random_); }
  int pick(std::initializer_list<int> from) { return from.begin()[below(static_cast<int>(from.size()))]; }

  void give_queries(int how) {
    if (how == 0) queries.assign(queries.size(), p.seqlen_q);
    if (how == 1) {
      cu_q = cumulated(queries);
      p.cu_seqlens_q = cu_q.data();
    }
    if (how == 2) {
      used_q = queries;
      p.seqused_q = used_q.data();
    }
  }

  /// Dense, packed, in use, in pages.
  void give_keys(int how) {
    if (how == 0) keys.assign(keys.size(), p.seqlen_k);
    if (how == 1) {
      cu_k = cumulated(keys);
      p.cu_seqlens_k = cu_k.data();
    }
    if (how < 2) return;
    used_k = keys;
    p.seqused_k = used_k.data();
    if (how == 2) return;
    p.page_size = pick({1, 5, 16, 64, 256});
    p.block_table_stride = (p.seqlen_k + p.page_size - 1) / p.page_size + 1;
    for (std::int64_t i = 0; i < p.batch * p.block_table_stride; ++i)
      table.push_back(5000 - static_cast<int>(i));
    p.block_table = table.data();
  }

  static std::vector<int> cumulated(const std::vector<int>& lengths) {
    std::vector<int> out{0};
    for (const int length : lengths) out.push_back(out.back() + length);
    return out;
  }

  [[nodiscard]] bool sees(int b, int query, int key) const {
    const auto entry = static_cast<std::size_t>(b);
    const int at = query + (p.bottom_right != 0 ? keys[entry] - queries[entry] : 0);
    return key < keys[entry] && key >= at - p.left && key <= at + p.right;
  }

  /// Where a key's row starts.
  [[nodiscard]] std::int64_t start_of(int b, int head, int key) const {
    std::int64_t entry = b;
    std::int64_t token = key;
    if (!cu_k.empty()) {
      entry = 0;
      token += cu_k[static_cast<std::size_t>(b)];
    }
    if (p.page_size != 0) {
      entry = *entry_of(b, key);
      token = key % p.page_size;
    }
    return entry * p.k_strides[0] + head * p.k_strides[1] + token * p.k_strides[2];
  }

  /// The block table's entry of a key.
  [[nodiscard]] const int* entry_of(int b, int key) const {
    return table.data() + b * p.block_table_stride + key / p.page_size;
  }

 private:
  std::mt19937& random_;
};

/// What the blocks of threads of an entry make: source by place.
std::map<int, std::int64_t> rows_made(const call& c, int entry) {
  std::map<int, std::int64_t> out;
  const int rows = hopper::rows_of_block(c.p);
  const auto keys = hopper::keys_of_entry(c.p, entry);
  const int grid = (c.p.blocks * c.p.block * c.p.heads_kv + rows - 1) / rows;
  REQUIRE(rows <= hopper::widening_threads);
  for (int at = 0; at < grid * rows; ++at) {
    const auto row = hopper::find_row(c.p, keys, c.p.k_strides, at);
    if (row.to < 0) continue;
    REQUIRE(out.emplace(row.to, row.from).second);
  }
  return out;
}

/// The blocks that the tiles of an entry copy.
std::set<int> blocks_copied(const call& c, int entry, int tokens) {
  std::set<int> out;
  const int queries = c.queries[static_cast<std::size_t>(entry)];
  for (int first = 0; first < queries; first += tokens) {
    std::set<int> seen;
    for (int query = first; query < std::min(first + tokens, queries); ++query) {
      for (int key = 0; key < c.keys[static_cast<std::size_t>(entry)]; ++key) {
        if (c.sees(entry, query, key)) seen.insert(key / c.p.block);
      }
    }
    if (seen.empty()) seen.insert(0);
    out.merge(seen);
  }
  return out;
}

}  // namespace

TEST_CASE("rows widened for attention are those that its tiles copy") {
  std::mt19937 random{switchyard::test::seed_or(1)};
  int with_rows = 0, with_window = 0;
  for (int round = 0; round < 400; ++round) {
    call c{random};
    CAPTURE(round, c.p.batch, c.p.heads_kv, c.p.seqlen_q, c.p.seqlen_k, c.p.left, c.p.right, c.p.bottom_right,
            c.p.block, c.p.page_size);
    std::set<int> places;
    for (int b = 0; b < c.p.batch; ++b) {
      const auto entry = static_cast<std::size_t>(b);
      CAPTURE(b, c.queries[entry], c.keys[entry]);
      widening_reads.clear();
      const auto made = rows_made(c, b);
      std::set<int> seen;
      for (int key = 0; key < c.keys[entry]; ++key) {
        for (int query = 0; query < c.queries[entry] && !seen.contains(key); ++query) {
          if (c.sees(b, query, key)) seen.insert(key);
        }
      }
      for (const int block : blocks_copied(c, b, c.pick({16, 48, 128}))) {
        for (int row = 0; row < c.p.block; ++row) {
          const int key = block * c.p.block + row;
          for (int head = 0; head < c.p.heads_kv; ++head) {
            const int item = (b * c.p.heads_kv + head) * c.p.blocks + block;
            const auto found = made.find(item * c.p.block * c.p.pieces + 8 * row);
            REQUIRE(found != made.end());
            REQUIRE(found->second == (seen.contains(key) ? c.start_of(b, head, key) : -1));
            ++with_rows;
          }
        }
      }
      with_window += !seen.empty() && *seen.begin() > 128 ? 1 : 0;
      const std::int64_t all = std::int64_t{c.p.batch} * c.p.heads_kv * c.p.blocks * c.p.block * c.p.pieces;
      for (const auto& [to, from] : made) {
        REQUIRE(to < all);
        REQUIRE(places.insert(to).second);
      }
      std::set<const int*> pages;
      if (c.p.page_size != 0) {
        for (const int key : seen) pages.insert(c.entry_of(b, key));
      }
      for (const int* read : widening_reads) {
        if (read >= c.table.data() && read < c.table.data() + c.table.size()) REQUIRE(pages.contains(read));
      }
    }
  }
  CHECK(with_rows > 10'000);
  CHECK(with_window > 10);
}

TEST_CASE("keys behind the longest sequence of a call have no row") {
  std::mt19937 random{switchyard::test::seed_or(3)};
  call c{random};
  const std::vector<int> used(static_cast<std::size_t>(c.p.batch), c.p.seqlen_k + 1000);
  c.p.cu_seqlens_k = nullptr;
  c.p.seqused_k = used.data();
  c.p.seqused_q = c.p.cu_seqlens_q = nullptr;
  c.p.seqlen_q = 1;
  CHECK(hopper::keys_of_entry(c.p, 0).high <= c.p.seqlen_k);
  CHECK(hopper::keys_of_entry(c.p, 0).end <= c.p.blocks * c.p.block);
}

TEST_CASE("the warps that widen take every block once, the last of each part first") {
  std::mt19937 random{switchyard::test::seed_or(2)};
  for (int round = 0; round < 200; ++round) {
    const call c{random};
    const int items = c.p.batch * c.p.heads_kv;
    const int at_once = 1 + static_cast<int>(random() % static_cast<unsigned>(items));
    const int parts = static_cast<int>(std::array{1, 1, 2, 3, 8}.at(random() % 5));
    CAPTURE(round, c.p.batch, c.p.heads_kv, c.p.blocks, at_once, parts);
    std::set<std::array<int, 4>> taken;  // entry, head, block, whether values
    std::map<std::array<int, 2>, std::vector<int>> orders;
    const int each = hopper::orders_of_head(c.p, parts);
    int group = 0;
    for (int at = 0; at < 2 * items * each; ++at) {
      const auto unit = hopper::find_unit(c.p, at_once, parts, at);
      const int of_group = (unit.entry * c.p.heads_kv + unit.head) / at_once;
      REQUIRE(of_group >= group);
      group = of_group;
      const auto keys = hopper::keys_of_entry(c.p, unit.entry);
      const int block = hopper::find_block(c.p, keys, parts, unit.order);
      if (block < 0) continue;
      REQUIRE(block * c.p.block >= keys.begin);
      REQUIRE(taken.insert({unit.entry, unit.head, block, unit.values ? 1 : 0}).second);
      if (unit.values) orders[{unit.entry, unit.head}].push_back(block);
    }
    std::size_t all = 0;
    for (int b = 0; b < c.p.batch; ++b) {
      const auto keys = hopper::keys_of_entry(c.p, b);
      const int count = keys.end / c.p.block;
      all += static_cast<std::size_t>(2 * c.p.heads_kv * (keys.end - keys.begin) / c.p.block);
      if (count < parts || keys.begin != 0) continue;
      const auto& order = orders.at({b, 0});
      for (int part = 0; part < parts; ++part)
        REQUIRE(order.at(static_cast<std::size_t>(part)) == count * (part + 1) / parts - 1);
    }
    REQUIRE(taken.size() == all);
  }
}

TEST_CASE("pieces of a widened row lie as the products read them") {
  for (const int block : {64, 128}) {
    for (const int pieces : {8, 16, 24, 32}) {
      widening p{};
      p.block = block;
      p.pieces = pieces;
      for (int row = 0; row < block; ++row) {
        for (int piece = 0; piece < pieces; ++piece) {
          const int start = 3 * block * pieces;  // of a block
          const int panel = piece / 8 * block * 8;
          CHECK(hopper::place_of(p, start + 8 * row, piece) ==
                start + panel + 8 * row + (piece % 8 ^ row % 8));
        }
      }
    }
  }
}
