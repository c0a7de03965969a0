// SPDX-License-Identifier: MIT
// Values of GGUF metadata as they lie in the file: numbers there have no alignment, so they are copied when
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace llm {

/// The file format's numbers for the types of values.
enum class gguf_type : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Bytes of a value; 0 for strings, arrays and unknown types.
[[nodiscard]] std::size_t size_of(gguf_type type) noexcept;
[[nodiscard]] bool is_integer(gguf_type type) noexcept;
[[nodiscard]] bool is_signed(gguf_type type) noexcept;
[[nodiscard]] bool is_real(gguf_type type) noexcept;
/// "u32", "string", …; empty for an unknown number.
[[nodiscard]] std::string_view name_of(gguf_type type) noexcept;

/// A number of any alignment. `from` has at least sizeof(Number) bytes.
template <class Number>
[[nodiscard]] Number read_number(const std::byte* from) noexcept {
  Number out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

/// An integer of one of the integer types; unsigned ones above the range of int64 come out negative.
[[nodiscard]] std::int64_t read_integer(gguf_type type, const std::byte* from) noexcept;
[[nodiscard]] double read_real(gguf_type type, const std::byte* from) noexcept;

/// A value, or an array of values of one type.
struct gguf_value {
  gguf_type type{};  ///< of the value, or of the array's elements
  bool is_array = false;
  std::size_t count = 1;  ///< elements of an array
  std::span<const std::byte>
      bytes;  ///< numbers packed; strings each after its length of 64 bits (one alone: without)
};

/// The integers of an array, in place.
class gguf_integers {
 public:
  gguf_integers() = default;
  explicit gguf_integers(const gguf_value& value) noexcept
      : type_{value.type}, step_{size_of(value.type)}, count_{value.count}, data_{value.bytes.data()} {}
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// i < size().
  [[nodiscard]] std::int64_t operator[](std::size_t i) const noexcept {
    return read_integer(type_, data_ + i * step_);
  }

 private:
  gguf_type type_{};
  std::size_t step_ = 0;
  std::size_t count_ = 0;
  const std::byte* data_ = nullptr;
};

/// The floats of an array, in place.
class gguf_reals {
 public:
  gguf_reals() = default;
  explicit gguf_reals(const gguf_value& value) noexcept
      : type_{value.type}, step_{size_of(value.type)}, count_{value.count}, data_{value.bytes.data()} {}
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// i < size().
  [[nodiscard]] double operator[](std::size_t i) const noexcept {
    return read_real(type_, data_ + i * step_);
  }

 private:
  gguf_type type_{};
  std::size_t step_ = 0;
  std::size_t count_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace llm
