// SPDX-License-Identifier: MIT
// How a tensor's elements are stored in a GGUF file, by ggml's numbers.
#pragma once

#include <cstdint>
#include <string>

namespace llm {

/// ggml's numeric type ids. Those without a block_format are known by name only, so that an error can say
/// what a file holds. A file may hold a number that is none of these.
enum class tensor_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
};

/// Elements are stored in blocks along a row. Plain numbers have blocks of one.
struct block_format {
  std::int64_t elements = 0;  ///< of one block; 0: tensors of this type are not read
  std::int64_t bytes = 0;     ///< of one block
  [[nodiscard]] explicit operator bool() const noexcept { return elements != 0; }
};

/// The block of a type that can be read, otherwise one that converts to false.
[[nodiscard]] block_format block_of(tensor_type type) noexcept;

/// ggml's name, such as "Q4_K"; "type 77" for an unknown number.
[[nodiscard]] std::string to_string(tensor_type type);

/// The names of the types that have a block, separated by commas: for messages.
[[nodiscard]] std::string readable_types();

}  // namespace llm
