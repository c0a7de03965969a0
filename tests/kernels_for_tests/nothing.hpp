// SPDX-License-Identifier: MIT
// The operator of nothing.cpp's kernel nothing_16, as an engine would describe it.
#pragma once

#include <cstdint>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

namespace test {

/// Sixteen parameters, taken as they are.
struct nothing {
  static constexpr std::string_view name = "nothing";
  struct arguments {
    const void *a = nullptr, *b = nullptr;
    void *c = nullptr, *d = nullptr;
    std::int64_t e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0;
    float m = 0, n = 0;
    switchyard::dtype dtype = switchyard::dtype::f16;
    std::int32_t p = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::b, &arguments::c, &arguments::d, &arguments::e,
                         &arguments::f, &arguments::g, &arguments::h, &arguments::i, &arguments::j,
                         &arguments::k, &arguments::l, &arguments::m, &arguments::n, &arguments::dtype,
                         &arguments::p>;
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::l>("head_dim"),
      switchyard::size_axis<&arguments::e>("batch"), switchyard::size_axis<&arguments::f>("heads"),
      switchyard::size_axis<&arguments::g>("seqlen_q"), switchyard::size_axis<&arguments::h>("seqlen_k"));

  /// A call with sizes such as attention's.
  [[nodiscard]] static arguments call() { return {.e = 4, .f = 32, .g = 1024, .h = 1024, .l = 128}; }
};

}  // namespace test
