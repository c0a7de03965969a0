// SPDX-License-Identifier: MIT
// Kept parameter blocks: found for the arguments that they were made for, and bounded in number.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <switchyard/parameters/parameter_block_cache.hpp>

#include "environment.hpp"

using namespace switchyard;

namespace kept_blocks {

constexpr std::uint64_t all = ~std::uint64_t{0};

/// A key of two parts: the first two words of the arguments, the low half of the fourth, and the seventh.
argument_key small_key() {
  argument_key out;
  out.masks = {{0, 0, all, 0}, {all, all, 0, 0xffffffff}};
  out.others = 1;
  out.last = 32;
  return out;
}

/// One of `parts` whole parts.
argument_key long_key(std::size_t parts) {
  argument_key out;
  out.masks.assign(parts, {all, all, all, all});
  out.others = parts - 1;
  out.last = 32 * (parts - 1);
  if (parts > argument_key::max_hashed) out.hashed = 1;
  return out;
}

struct arguments {
  std::array<std::uint64_t, 80> words{};
};

class launch_of_key {
 public:
  explicit launch_of_key(std::uint64_t owner, argument_key key = small_key())
      : owner_{owner}, key_{std::move(key)} {}
  [[nodiscard]] block_query query(const arguments& call, const void* workspace = nullptr) const {
    return {owner_, &key_, reinterpret_cast<const std::byte*>(call.words.data()), workspace};
  }

 private:
  std::uint64_t owner_;
  argument_key key_;
};

const kept_block* find(const parameter_block_cache& in, const block_query& of) {
  return in.find(parameter_block_cache::hash(of), of);
}

parameter_line line_of(unsigned char byte) {
  parameter_line out;
  out.bytes.fill(std::byte{byte});
  return out;
}

/// What had to make room is freed.
std::unique_ptr<kept_block> insert(parameter_block_cache& into, std::uint64_t hash, const block_query& of) {
  return std::unique_ptr<kept_block>{into.insert(hash, parameter_block_cache::make(of, {}, {}, {}))};
}
std::unique_ptr<kept_block> insert(parameter_block_cache& into, const block_query& of) {
  return insert(into, parameter_block_cache::hash(of), of);
}

TEST_CASE("a kept parameter block is found by all that it depends on, and by its launch") {
  const auto cache = std::make_unique<parameter_block_cache>();
  const launch_of_key mine{7};
  const launch_of_key other{8};
  const arguments call{{0x7000, 64, 3, 0x5'0000'0002, 0, 0, 9}};
  CHECK(find(*cache, mine.query(call)) == nullptr);
  CHECK(insert(*cache, mine.query(call)) == nullptr);
  REQUIRE(find(*cache, mine.query(call)) != nullptr);
  CHECK(find(*cache, mine.query(call))->owner == 7);
  CHECK(find(*cache, mine.query({{0x7000, 64, 99, 0x5'0000'0002, 1, 2, 9, 4}})) !=
        nullptr);  // not in the key
  CHECK(find(*cache, mine.query({{0x7000, 64, 3, 0x6'0000'0002, 0, 0, 9}})) != nullptr);
  // With the hash made the same only the rest can tell.
  const std::uint64_t hash = parameter_block_cache::hash(mine.query(call));
  const auto found = [&](const block_query& of) { return cache->find(hash, of) != nullptr; };
  CHECK(found(mine.query(call)));
  CHECK_FALSE(found(other.query(call)));
  CHECK_FALSE(found(mine.query(call, &call)));  // another workspace
  CHECK_FALSE(found(mine.query({{0x7001, 64, 3, 2, 0, 0, 9}})));
  CHECK_FALSE(found(mine.query({{0x7000, 65, 3, 2, 0, 0, 9}})));
  CHECK_FALSE(found(mine.query({{0x7000, 64, 3, 3, 0, 0, 9}})));
  CHECK_FALSE(found(mine.query({{0x7000, 64, 3, 2, 0, 0, 8}})));
}

TEST_CASE("an entry has its parameter block and its maps, one behind the other, and its grid") {
  const launch_of_key mine{3};
  const arguments call{{1, 2, 3, 4}};
  const std::array<parameter_line, 3> parameter_block{line_of(1), line_of(2), line_of(3)};
  const std::array<parameter_line, 2> maps{line_of(4), line_of(5)};
  const auto made =
      parameter_block_cache::make(mine.query(call, &call), parameter_block, maps, dim3{7, 8, 9});
  CHECK(made->owner == 3);
  CHECK(made->workspace == &call);
  CHECK(made->grid == dim3{7, 8, 9});
  CHECK(made->maps == made->parameter_block + 3);
  for (std::size_t i = 0; i < 5; ++i) CHECK(made->parameter_block[i].bytes[63] == std::byte(i + 1));
}

TEST_CASE("every word of a key counts, however many parts it has") {
  std::mt19937_64 random{switchyard::test::seed_or(11)};
  for (const std::size_t parts : {1U, 2U, 4U, 5U, 16U, 17U, 18U, 20U}) {
    const auto cache = std::make_unique<parameter_block_cache>();
    const launch_of_key mine{1, long_key(parts)};
    arguments call;
    for (std::uint64_t& word : call.words) word = random();
    const std::uint64_t hash = parameter_block_cache::hash(mine.query(call));
    REQUIRE(insert(*cache, mine.query(call)) == nullptr);
    for (std::size_t word = 0; word < call.words.size(); ++word) {
      arguments changed = call;
      changed.words[word] ^= std::uint64_t{1} << random() % 64;
      CAPTURE(parts, word);
      CHECK((cache->find(hash, mine.query(changed)) != nullptr) == (word >= 4 * parts));
    }
  }
}

TEST_CASE("a full set displaces an entry that it returns, each in turn") {
  const auto cache = std::make_unique<parameter_block_cache>();
  const launch_of_key mine{1};
  constexpr std::uint64_t hash = 0xab00'0000'0000'0000;
  std::vector<arguments> calls;
  constexpr std::size_t ways = parameter_block_cache::ways;
  for (std::uint64_t i = 0; i < 2 * ways + 1; ++i) calls.push_back({{i}});
  for (std::size_t i = 0; i < ways; ++i) CHECK(insert(*cache, hash, mine.query(calls[i])) == nullptr);
  const auto is_kept = [&](std::size_t i) { return cache->find(hash, mine.query(calls[i])) != nullptr; };
  for (std::size_t i = ways; i < 2 * ways; ++i) {
    REQUIRE(insert(*cache, hash, mine.query(calls[i])) != nullptr);
    CHECK(is_kept(i));
    std::size_t kept = 0;
    for (std::size_t earlier = 0; earlier <= i; ++earlier) kept += is_kept(earlier) ? 1U : 0U;
    CHECK(kept == ways);
  }
  for (std::size_t i = 0; i < 2 * ways; ++i) CHECK(is_kept(i) == (i >= ways));
  // Another set has room of its own.
  CHECK(insert(*cache, hash + (std::uint64_t{1} << 56), mine.query(calls.back())) == nullptr);
}

TEST_CASE("arguments were seen before from their second time on, whatever differs in their key") {
  const auto cache = std::make_unique<parameter_block_cache>();
  const launch_of_key mine{1};
  std::vector<arguments> calls;
  for (std::uint64_t i = 0; i < 20; ++i) {
    calls.push_back({{0x1000 + 256 * i, 1, 0, 1}});
    calls.push_back({{0x1000, 2 + i, 0, 1}});
    calls.push_back({{0x1000, 1, 0, 2 + i}});
    calls.push_back({{0x1000, 1, 0, 1, 0, 0, 1 + i}});
  }
  const auto seen = [&](const arguments& call) {
    const block_query query = mine.query(call);
    return cache->seen_before(parameter_block_cache::hash(query), query);
  };
  for (const arguments& call : calls) CHECK_FALSE(seen(call));
  for (const arguments& call : calls) CHECK(seen(call));
}

TEST_CASE("what was seen long ago is forgotten") {
  const auto cache = std::make_unique<parameter_block_cache>();
  const launch_of_key mine{1};
  const auto seen = [&](std::uint64_t number) {
    const arguments call{{number}};
    const block_query query = mine.query(call);
    return cache->seen_before(parameter_block_cache::hash(query), query);
  };
  constexpr std::uint64_t room =
      (std::uint64_t{1} << parameter_block_cache::seen_bits) * parameter_block_cache::seen_ways;
  CHECK_FALSE(seen(0));
  for (std::uint64_t i = 1; i < 8 * room; ++i) (void)seen(i * 256);
  CHECK_FALSE(seen(0));
  // What came last is remembered.
  CHECK(seen((8 * room - 1) * 256));
}

TEST_CASE("calls with different pointers spread over the sets") {
  for (const std::size_t parts : {2U, 13U}) {
    const launch_of_key mine{1, parts == 2 ? small_key() : long_key(parts)};
    std::set<std::uint64_t> sets;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const arguments call{{0x7f00'0000'0000 + i * 4096, 64, 0, 0}};
      sets.insert(parameter_block_cache::hash(mine.query(call)) >> (64 - parameter_block_cache::set_bits));
    }
    CHECK(sets.size() > 80);
  }
}

TEST_CASE("launches of calls that the hash cannot tell apart seldom displace each other") {
  // Four launches of four problems at two addresses, each with strides of four kinds, which lie behind what
  // is hashed.
  const std::uint32_t seed = switchyard::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  int displaced = 0;
  constexpr int engines = 200;
  for (int engine = 0; engine < engines; ++engine) {
    const auto cache = std::make_unique<parameter_block_cache>();
    const std::uint64_t first_owner = random() % 10'000;
    const std::uint64_t base = random() % (std::uint64_t{1} << 47) & ~std::uint64_t{255};
    bool has_room = true;
    for (std::uint64_t owner = first_owner; owner < first_owner + 16; ++owner) {
      const launch_of_key mine{owner, long_key(13)};
      for (std::uint64_t call = 0; call < 8; ++call) {
        arguments of{{base + 256 * (call % 2)}};
        of.words[4 * 12 - 1] = 64 * (call / 2);
        has_room = insert(*cache, mine.query(of)) == nullptr && has_room;
      }
    }
    displaced += has_room ? 0 : 1;
  }
  CHECK(displaced < engines / 10);
}

}  // namespace kept_blocks
