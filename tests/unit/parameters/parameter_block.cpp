// SPDX-License-Identifier: MIT
// How values are written into a kernel's parameters: no byte beside them, and nothing that does not fit.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <switchyard/parameters/parameter_block.hpp>

using namespace switchyard;

namespace stored {

/// How many bytes of a parameter block of 0xcd a store has changed, and the number that they are.
struct written {
  std::size_t bytes;
  std::uint64_t bits;
};

template <class Store>
written by(const Store& store) {
  std::array<unsigned char, 12> parameter_block;
  parameter_block.fill(0xcd);
  store(reinterpret_cast<std::byte*>(parameter_block.data()));
  written out{parameter_block.size(), 0};
  while (out.bytes > 0 && parameter_block[out.bytes - 1] == 0xcd) --out.bytes;
  __builtin_memcpy(&out.bits, parameter_block.data(), out.bytes < 8 ? out.bytes : 8);
  return out;
}

}  // namespace stored

TEST_CASE("an integer fits a type between its least and its greatest value") {
  struct range {
    value_kind kind;
    std::int64_t least;
    std::int64_t most;
  };
  for (const range limits : std::initializer_list<range>{{value_kind::i8, -128, 127},
                                                         {value_kind::u8, 0, 255},
                                                         {value_kind::i16, -32768, 32767},
                                                         {value_kind::u16, 0, 65535},
                                                         {value_kind::i32, INT32_MIN, INT32_MAX},
                                                         {value_kind::u32, 0, UINT32_MAX},
                                                         {value_kind::i64, INT64_MIN, INT64_MAX},
                                                         {value_kind::u64, 0, INT64_MAX},
                                                         {value_kind::pointer, INT64_MIN, INT64_MAX}}) {
    INFO("kind " << static_cast<int>(limits.kind));
    CHECK(detail::fits(limits.kind, limits.least));
    CHECK(detail::fits(limits.kind, 0));
    CHECK(detail::fits(limits.kind, limits.most));
    if (limits.least != INT64_MIN) CHECK_FALSE(detail::fits(limits.kind, limits.least - 1));
    if (limits.least != INT64_MIN) CHECK_FALSE(detail::fits(limits.kind, INT64_MIN));
    if (limits.most != INT64_MAX) CHECK_FALSE(detail::fits(limits.kind, limits.most + 1));
    if (limits.most != INT64_MAX) CHECK_FALSE(detail::fits(limits.kind, INT64_MAX));
  }
}

TEST_CASE("a value is written in as many bytes as its type has") {
  for (const value_kind kind : {value_kind::i8, value_kind::u16, value_kind::i32, value_kind::u64}) {
    const auto found =
        stored::by([kind](std::byte* to) { detail::store_integer(to, kind, 0x0102030405060708); });
    INFO("kind " << static_cast<int>(kind));
    CHECK(found.bytes == size_of(kind));
    CHECK(found.bits == (0x0102030405060708 & ~std::uint64_t{0} >> (64 - 8 * size_of(kind))));
  }
  struct sample {
    value_kind kind;
    std::uint64_t bits;
  };
  for (const sample& given : std::initializer_list<sample>{{value_kind::f16, 0x3e00},
                                                           {value_kind::bf16, 0x3fc0},
                                                           {value_kind::f32, 0x3fc00000},
                                                           {value_kind::f64, 0x3ff8000000000000}}) {
    const auto found = stored::by([&given](std::byte* to) { detail::store_real(to, given.kind, 1.5); });
    INFO("kind " << static_cast<int>(given.kind));
    CHECK(found.bytes == size_of(given.kind));
    CHECK(found.bits == given.bits);
  }
}
