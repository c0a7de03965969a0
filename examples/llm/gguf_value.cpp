// SPDX-License-Identifier: MIT
#include "gguf_value.hpp"

#include <array>
#include <bit>

namespace llm {

static_assert(std::endian::native == std::endian::little,
              "GGUF's numbers are read as they stand in the file");

namespace {

struct value_type {
  std::string_view name;
  std::size_t size = 0;
};

constexpr std::array<value_type, 13> value_types{{{"u8", 1},
                                                  {"i8", 1},
                                                  {"u16", 2},
                                                  {"i16", 2},
                                                  {"u32", 4},
                                                  {"i32", 4},
                                                  {"f32", 4},
                                                  {"boolean", 1},
                                                  {"string", 0},
                                                  {"array", 0},
                                                  {"u64", 8},
                                                  {"i64", 8},
                                                  {"f64", 8}}};

[[nodiscard]] value_type value_type_of(gguf_type type) noexcept {
  const auto number = static_cast<std::size_t>(type);
  return number < value_types.size() ? value_types[number] : value_type{};
}

}  // namespace

std::size_t size_of(gguf_type type) noexcept {
  return value_type_of(type).size;
}

std::string_view name_of(gguf_type type) noexcept {
  return value_type_of(type).name;
}

bool is_signed(gguf_type type) noexcept {
  return type == gguf_type::i8 || type == gguf_type::i16 || type == gguf_type::i32 || type == gguf_type::i64;
}

bool is_real(gguf_type type) noexcept {
  return type == gguf_type::f32 || type == gguf_type::f64;
}

bool is_integer(gguf_type type) noexcept {
  return size_of(type) != 0 && !is_real(type) && type != gguf_type::boolean;
}

std::int64_t read_integer(gguf_type type, const std::byte* from) noexcept {
  switch (type) {
    case gguf_type::u8:
      return read_number<std::uint8_t>(from);
    case gguf_type::i8:
      return read_number<std::int8_t>(from);
    case gguf_type::u16:
      return read_number<std::uint16_t>(from);
    case gguf_type::i16:
      return read_number<std::int16_t>(from);
    case gguf_type::u32:
      return read_number<std::uint32_t>(from);
    case gguf_type::i32:
      return read_number<std::int32_t>(from);
    case gguf_type::u64:
    case gguf_type::i64:
      return read_number<std::int64_t>(from);
    default:
      return 0;
  }
}

double read_real(gguf_type type, const std::byte* from) noexcept {
  if (type == gguf_type::f64) return read_number<double>(from);
  return static_cast<double>(read_number<float>(from));
}

}  // namespace llm
