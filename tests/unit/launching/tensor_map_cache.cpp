// Encoded tensor maps: found for the arguments that they were made for, and bounded in number.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <switchyard/launching/tensor_map_cache.hpp>

using namespace switchyard;

namespace kept_maps {

/// A launch whose maps depend on the first two words of the arguments, of which the first is a pointer, and
/// on the low half of the fourth.
class keyed_launch {
 public:
  explicit keyed_launch(std::uint64_t owner) {
    argument_part whole;
    whole.mask = argument_part::bytes{~std::uint64_t{0}, ~std::uint64_t{0}};
    argument_part half;
    half.mask = argument_part::bytes{0, 0xffffffff};
    half.offset = 16;
    layout_.map_key = {whole, half};
    layout_.map_hash_parts = 1;
    planned_.layout = &layout_;
    planned_.map_owner = owner;
  }
  keyed_launch(const keyed_launch&) = delete;
  keyed_launch& operator=(const keyed_launch&) = delete;
  [[nodiscard]] const planned_launch& get() const noexcept { return planned_; }

 private:
  launch_layout layout_;
  planned_launch planned_;
};

struct arguments {
  std::array<std::uint64_t, 4> words{};
  [[nodiscard]] const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(words.data()); }
};

const encoded_maps* find(const tensor_map_cache& in, const planned_launch& of, const arguments& call) {
  return in.find(tensor_map_cache::hash(of, call.bytes()), of, call.bytes());
}

/// What had to make room is freed.
std::unique_ptr<encoded_maps> insert(tensor_map_cache& into, std::uint64_t hash, const planned_launch& of,
                                     const arguments& call) {
  auto fresh = std::make_unique<encoded_maps>();
  fresh->owner = of.map_owner;
  fresh->key = tensor_map_cache::read_key(of, call.bytes());
  return std::unique_ptr<encoded_maps>{into.insert(hash, fresh.release())};
}

}  // namespace kept_maps

TEST_CASE("kept maps are found by all that they depend on, and by their launch") {
  using namespace kept_maps;
  const auto cache = std::make_unique<tensor_map_cache>();
  const keyed_launch mine{7};
  const keyed_launch other{8};
  const arguments call{{0x7000, 64, 3, 0x5'0000'0002}};
  CHECK(find(*cache, mine.get(), call) == nullptr);
  CHECK(insert(*cache, tensor_map_cache::hash(mine.get(), call.bytes()), mine.get(), call) == nullptr);
  REQUIRE(find(*cache, mine.get(), call) != nullptr);
  CHECK(find(*cache, mine.get(), call)->owner == 7);
  CHECK(find(*cache, mine.get(), {{0x7000, 64, 99, 0x5'0000'0002}}) != nullptr);  // not part of the key
  CHECK(find(*cache, mine.get(), {{0x7000, 64, 3, 0x6'0000'0002}}) != nullptr);
  // With the hash made the same only the key can tell.
  const std::uint64_t hash = tensor_map_cache::hash(mine.get(), call.bytes());
  const auto found = [&](const planned_launch& of, const arguments& another) {
    return cache->find(hash, of, another.bytes()) != nullptr;
  };
  CHECK(found(mine.get(), call));
  CHECK_FALSE(found(other.get(), call));
  CHECK_FALSE(found(mine.get(), {{0x7001, 64, 3, 2}}));
  CHECK_FALSE(found(mine.get(), {{0x7000, 65, 3, 2}}));
  CHECK_FALSE(found(mine.get(), {{0x7000, 64, 3, 3}}));
}

TEST_CASE("a set keeps four entries, and a fifth displaces one that it returns, each in turn") {
  using namespace kept_maps;
  const auto cache = std::make_unique<tensor_map_cache>();
  const keyed_launch mine{1};
  constexpr std::uint64_t hash = 0xab00'0000'0000'0000;
  const auto call_of = [](std::uint64_t i) { return arguments{{i, 0, 0, 0}}; };
  for (std::uint64_t i = 0; i < tensor_map_cache::ways; ++i)
    CHECK(insert(*cache, hash, mine.get(), call_of(i)) == nullptr);
  std::set<std::uint64_t> displaced;
  for (std::uint64_t i = 4; i < 8; ++i) {
    const auto out = insert(*cache, hash, mine.get(), call_of(i));
    REQUIRE(out != nullptr);
    displaced.insert(out->key[0][0]);
    CHECK(cache->find(hash, mine.get(), call_of(i).bytes()) != nullptr);
  }
  CHECK(displaced == std::set<std::uint64_t>{0, 1, 2, 3});
  // Another set has room of its own.
  CHECK(insert(*cache, hash + (std::uint64_t{1} << 56), mine.get(), call_of(9)) == nullptr);
}

TEST_CASE("arguments were seen before from their second time on, whatever differs in their key") {
  using namespace kept_maps;
  const auto cache = std::make_unique<tensor_map_cache>();
  const keyed_launch mine{1};
  std::vector<arguments> calls;
  for (std::uint64_t i = 0; i < 20; ++i) {
    calls.push_back({{0x1000 + 256 * i, 1, 0, 1}});
    calls.push_back({{0x1000, 2 + i, 0, 1}});
    calls.push_back({{0x1000, 1, 0, 2 + i}});
  }
  const auto seen = [&](const arguments& call) {
    return cache->seen_before(tensor_map_cache::hash(mine.get(), call.bytes()),
                              tensor_map_cache::read_key(mine.get(), call.bytes()));
  };
  for (const arguments& each : calls) CHECK_FALSE(seen(each));
  for (const arguments& each : calls) CHECK(seen(each));
}

TEST_CASE("what was seen long ago is forgotten, the oldest of a set first") {
  using namespace kept_maps;
  const auto cache = std::make_unique<tensor_map_cache>();
  // Keys of no parts: the hash alone decides, and its mixed upper bits choose the set.
  constexpr std::uint64_t factor = 0xd6e8feb86659fd93U;
  std::uint64_t inverse = factor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - factor * inverse;  // modulo 2^64
  const auto seen = [&](std::uint64_t number) { return cache->seen_before(2 * number * inverse, {}); };
  for (std::uint64_t i = 1; i <= 4; ++i) CHECK_FALSE(seen(i));
  for (std::uint64_t i = 1; i <= 4; ++i) CHECK(seen(i));
  CHECK_FALSE(seen(5));  // displaces 1
  for (std::uint64_t i = 2; i <= 5; ++i) CHECK(seen(i));
  CHECK_FALSE(seen(1));
  CHECK_FALSE(seen(2));
}

TEST_CASE("calls with different pointers spread over the sets") {
  using namespace kept_maps;
  const keyed_launch mine{1};
  std::set<std::uint64_t> sets;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const arguments call{{0x7f00'0000'0000 + i * 4096, 64, 0, 0}};
    sets.insert(tensor_map_cache::hash(mine.get(), call.bytes()) >> (64 - tensor_map_cache::set_bits));
  }
  CHECK(sets.size() > 80);
}
