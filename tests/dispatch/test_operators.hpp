// SPDX-License-Identifier: MIT
// Operators that only these tests have, described as an engine would describe its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/switchyard.hpp>

#include "../kernels_for_tests/echo.hpp"
#include "../kernels_for_tests/nothing.hpp"

namespace test {

namespace sy = switchyard;

/// y[i] += a x[i].
struct axpy {
  static constexpr std::string_view name = "axpy";
  struct arguments {
    float a = 0;
    const float* x = nullptr;
    float* y = nullptr;
    std::int64_t n = 0;
  };
  static constexpr auto fields = sy::fields<&arguments::a, &arguments::x, &arguments::y, &arguments::n>;
  static constexpr auto axes =
      sy::axes(sy::type_axis("alignment",
                             [](const arguments& call) noexcept { return sy::alignment_of(call.x, call.y); }),
               sy::size_axis<&arguments::n>());
  [[nodiscard]] static std::string check(const arguments& call) {
    if (call.n < 0) return "n must not be negative";
    const std::int64_t aligned = sy::alignment_of(call.x, call.y);
    if (aligned == 0) return "x and y must not be null";
    if (aligned < 4) return "x and y must be aligned to 4 bytes";
    return {};
  }
};

/// out = sum of x[0..n).
struct row_sum {
  static constexpr std::string_view name = "row_sum";
  struct arguments {
    const float* x = nullptr;
    double* out = nullptr;
    std::int64_t n = 0;
  };
  static constexpr auto fields = sy::fields<&arguments::x, &arguments::out, &arguments::n>;
  static constexpr auto axes = sy::axes(sy::size_axis<&arguments::n>());
};

/// Writes the number of the variant that ran.
struct stamp {
  static constexpr std::string_view name = "stamp";
  struct arguments {
    std::int32_t* out = nullptr;
    sy::dtype dtype = sy::dtype::f32;
    std::int64_t head_dim = 64;
    std::int64_t batch = 1;
    std::int64_t seqlen = 1;
    std::int64_t blocks = 1;  ///< no axis: known to the call alone
  };
  static constexpr auto fields =
      sy::fields<&arguments::out, &arguments::batch, &arguments::seqlen, &arguments::blocks>;
  static constexpr auto axes =
      sy::axes(sy::type_axis<&arguments::dtype>(), sy::type_axis<&arguments::head_dim>(),
               sy::size_axis<&arguments::batch>(), sy::size_axis<&arguments::seqlen>());
};

/// One field of every machine type.
struct echo {
  static constexpr std::string_view name = "echo";
  struct arguments {
    std::int8_t i8 = 0;
    std::uint8_t u8 = 0;
    std::int16_t i16 = 0;
    std::uint16_t u16 = 0;
    std::int32_t i32 = 0;
    std::uint32_t u32 = 0;
    std::int64_t i64 = 0;
    std::uint64_t u64 = 0;
    float f32 = 0;
    double f64 = 0;
    const std::byte* pointer = nullptr;
    echo_kernel::report* out = nullptr;
    sy::dtype dtype = sy::dtype::f32;
    std::int64_t size = 0;
  };
  static constexpr auto fields =
      sy::fields<&arguments::i8, &arguments::u8, &arguments::i16, &arguments::u16, &arguments::i32,
                 &arguments::u32, &arguments::i64, &arguments::u64, &arguments::f32, &arguments::f64,
                 &arguments::pointer, &arguments::out>;
  static constexpr auto axes =
      sy::axes(sy::type_axis<&arguments::dtype>(), sy::size_axis<&arguments::size>());
};

/// A variant of `stamp` that writes `number`.
[[nodiscard]] inline nlohmann::json stamp_variant(const std::string& id, int number,
                                                  nlohmann::json type = {{"dtype", "f32"}}) {
  return {{"id", id},
          {"type", type},
          {"config", {{"number", number}, {"tile", number * 8}}},
          {"launches",
           {{{"blob", "stamp.so"}, {"kernel", "stamp"}, {"parameters", {"out", {{"i32", "number"}}}}}}}};
}

/// The same in a blob of its own.
[[nodiscard]] inline nlohmann::json stamp_variant_in(const std::string& blob, const std::string& id,
                                                     int number) {
  nlohmann::json out = stamp_variant(id, number);
  out["launches"][0]["blob"] = blob;
  return out;
}

/// A variant of row_sum with a workspace of so many bytes.
[[nodiscard]] inline nlohmann::json split_sum_variant(std::int64_t bytes) {
  return {{"id", "split"},
          {"workspace", {{"partial", std::to_string(bytes)}}},
          {"launches",
           {{{"fill", "partial"}},
            {{"blob", "arithmetic.so"},
             {"kernel", "add_parts_f32"},
             {"grid", {8, 1, 1}},
             {"parameters", {"x", "partial", "n", {{"i32", 8}}}}},
            {{"blob", "arithmetic.so"},
             {"kernel", "combine_f64"},
             {"parameters", {"partial", "out", {{"i32", 8}}}}}}}};
}

/// A variant of `nothing`.
[[nodiscard]] inline nlohmann::json nothing_variant(const std::string& id) {
  return {{"id", id},
          {"launches",
           {{{"blob", "nothing.so"},
             {"kernel", "nothing_16"},
             {"parameters",
              {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "dtype", "p"}}}}}};
}

/// A group of rows over batch and seqlen: {batch, seqlen, {id: us}}.
[[nodiscard]] inline nlohmann::json stamp_group(const std::vector<nlohmann::json>& rows,
                                                nlohmann::json type = {{"dtype", "f32"}}) {
  return {{"type", type}, {"axes", {"batch", "seqlen"}}, {"rows", rows}};
}
[[nodiscard]] inline nlohmann::json row(std::int64_t batch, std::int64_t seqlen, nlohmann::json times) {
  return {{"at", {batch, seqlen}}, {"times_us", times}};
}

/// Runs `stamp` and returns what it wrote.
[[nodiscard]] inline int run(sy::dispatcher<stamp>& with, stamp::arguments call) {
  std::int32_t out = -1;
  call.out = &out;
  with(nullptr, call);
  return out;
}

}  // namespace test
