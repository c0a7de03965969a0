// SPDX-License-Identifier: MIT
// Checked mode on a GPU: the numbers lie in its memory, the refused call writes nothing, and the next one
// runs.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "attention/tested_gpu.hpp"
#include "catch.hpp"

namespace {

namespace sy = switchyard;
using sy::operators::embedding;
using sy::operators::rotary_cache;

/// Memory of the GPU.
class on_gpu {
 public:
  explicit on_gpu(std::size_t bytes) : bytes_{bytes}, address_{driver().allocate(bytes, {})} {
    if (address_ == nullptr) throw std::runtime_error{"no memory"};
    succeeded(driver().fill(address_, 0, bytes, {}));
  }
  template <class Number>
  explicit on_gpu(const std::vector<Number>& numbers) : on_gpu{numbers.size() * sizeof(Number)} {
    write(numbers);
  }
  on_gpu(const on_gpu&) = delete;
  on_gpu& operator=(const on_gpu&) = delete;
  ~on_gpu() { driver().release(address_, {}); }

  template <class Number>
  void write(const std::vector<Number>& numbers) {
    succeeded(driver().copy(address_, numbers.data(), numbers.size() * sizeof(Number), {}));
    wait_for_gpu();
  }
  [[nodiscard]] std::vector<std::uint8_t> read() const {
    std::vector<std::uint8_t> out(bytes_);
    wait_for_gpu();
    succeeded(driver().copy(out.data(), address_, bytes_, {}));
    wait_for_gpu();
    return out;
  }
  void poison() { succeeded(driver().fill(address_, 0x5A, bytes_, {})); }
  [[nodiscard]] bool is_poisoned() const {
    for (const std::uint8_t byte : read()) {
      if (byte != 0x5A) return false;
    }
    return true;
  }
  [[nodiscard]] void* get() const noexcept { return address_; }

 private:
  [[nodiscard]] static sy::device_driver& driver() { return *tested_gpu().driver(); }
  std::size_t bytes_;
  void* address_;
};

template <class Operator>
struct checked_on_gpu {
  checked_on_gpu() try : catalog{options()}, on{catalog, tested_gpu()} {
  } catch (const sy::error& problem) {
    skip_program(problem.what());
  }
  static sy::catalog_options options() {
    sy::catalog_options out;
    out.settings.check = true;
    return out;
  }
  std::string refusal(const typename Operator::arguments& call) {
    try {
      on({}, call);
    } catch (const sy::call_error& problem) {
      if (problem.code() == sy::error_code::no_variant) skip_program(problem.what());
      CHECK(problem.code() == sy::error_code::check_failed);
      return problem.what();
    }
    return {};
  }
  sy::catalog catalog;
  sy::dispatcher<Operator> on;
};

}  // namespace

TEST_CASE("checked mode names an id that is outside the table") {
  checked_on_gpu<embedding> all;
  const std::vector<std::uint16_t> halves(10 * 64, 0x3C00);  // ones
  const on_gpu table{halves};
  on_gpu ids{std::vector<std::int32_t>{0, 9, 4}};
  on_gpu out{3 * 64 * 2};
  const auto call = embedding::call({table.get(), sy::operators::weight_format::f16, 10, 64},
                                    {static_cast<const void*>(ids.get()), sy::dtype::i32, {3}},
                                    {out.get(), sy::dtype::f16, {3, 64}});
  for (int round = 0; round < 2; ++round) {
    ids.write(std::vector<std::int32_t>{0, 10, 4});
    out.poison();
    CHECK_THAT(all.refusal(call),
               has_text("[switchyard.307] embedding: ids[1] is 10: it must be at least 0 and below 10"));
    CHECK(out.is_poisoned());
    ids.write(std::vector<std::int32_t>{0, 9, 4});
    CHECK_THAT(all.refusal(call), no_text());
    const std::vector<std::uint8_t> got = out.read();
    for (std::size_t i = 0; i < got.size(); i += 2) REQUIRE((got[i] | got[i + 1] << 8U) == 0x3C00);
  }
}

TEST_CASE("checked mode names a position and a slot of rotary_cache") {
  checked_on_gpu<rotary_cache> all;
  constexpr std::int64_t tokens = 3;
  constexpr std::int64_t dim = 128;
  on_gpu q{tokens * 8 * dim * 2};
  const on_gpu k{tokens * 2 * dim * 2};
  on_gpu cache{2 * 16 * 2 * dim * 2};
  const on_gpu cos{std::vector<float>(40 * dim / 2, 1.0F)};
  on_gpu positions{std::vector<std::int64_t>{0, 39, 7}};
  on_gpu slots{std::vector<std::int64_t>{31, -1, 0}};
  const auto half = sy::dtype::bf16;
  const sy::const_tensor angles{static_cast<const void*>(cos.get()), sy::dtype::f32, {40, dim / 2}};
  const sy::tensor keys{k.get(), half, {tokens, 2, dim}};
  const sy::tensor pages{cache.get(), half, {2, 16, 2, dim}};
  const auto call =
      rotary_cache::call({q.get(), half, {tokens, 8, dim}}, keys, keys, pages, pages,
                         {.cos = angles,
                          .sin = angles,
                          .positions = {static_cast<const void*>(positions.get()), sy::dtype::i64, {tokens}},
                          .slots = {static_cast<const void*>(slots.get()), sy::dtype::i64, {tokens}}},
                         {});
  CHECK_THAT(all.refusal(call), no_text());
  cache.poison();
  positions.write(std::vector<std::int64_t>{0, 40, 7});
  CHECK_THAT(all.refusal(call), has_text("positions[1] is 40: it must be at least 0 and below 40"));
  positions.write(std::vector<std::int64_t>{0, 39, 7});
  slots.write(std::vector<std::int64_t>{32, -1, 0});
  CHECK_THAT(all.refusal(call), has_text("slots[0] is 32: it must be below 32, the slots of 2 pages of 16"));
  CHECK(cache.is_poisoned());
}
