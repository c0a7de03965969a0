// SPDX-License-Identifier: MIT
// What is said of calls of rotary whose positions, tables or sequences do not fit.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators::rotary_errors {

[[nodiscard]] inline std::string wrong_positions(std::int64_t offset, std::int64_t seqlen,
                                                 std::int64_t rows) {
  return "offset is " + std::to_string(offset) + " and seqlen " + std::to_string(seqlen) +
         (rows < 0 ? std::string{}
                   : ", but cos and sin have rows for " + std::to_string(rows) + " positions") +
         ": offset must not be negative, and offset + seqlen at most the number of positions";
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_positions(std::int64_t offset, std::int64_t seqlen,
                                                                  std::int64_t rows) {
  throw call_error{error_code::invalid_argument, "rotary: " + wrong_positions(offset, seqlen, rows)};
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_longest() {
  throw call_error{error_code::invalid_argument,
                   "rotary: longest, the length of the longest sequence, must be given with cu_seqlens"};
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_table(std::int64_t rotary_dim, std::int64_t pairs) {
  throw call_error{error_code::invalid_argument, "rotary: rotary_dim is " + std::to_string(rotary_dim) +
                                                     ", but cos has columns for " + std::to_string(pairs)};
}

}  // namespace operators::rotary_errors

}  // namespace v0
}  // namespace switchyard
