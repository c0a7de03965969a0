// SPDX-License-Identifier: MIT
#include <cmath>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/reference/attention_terms.hpp>

#include "catch.hpp"

namespace sy = switchyard;

TEST_CASE("a float reference is off by what a GPU's tanh may be, in 16 bits alone") {
  bool up = false;
  bool down = false;
  for (double x = -3; x < 3; x += 0.01) {
    const double exact = std::tanh(x);
    CHECK(sy::reference::bent(x, sy::dtype::bf16) == exact);
    const auto given = static_cast<float>(x);
    CHECK(sy::reference::bent(given, sy::dtype::f32) == std::tanh(given));
    for (const sy::dtype type : {sy::dtype::f16, sy::dtype::bf16}) {
      const double found = static_cast<double>(sy::reference::bent(given, type));
      CHECK(std::abs(found - exact) <= 0x1.01p-13 * std::abs(exact) + 0x1p-22);
      up = up || found > exact;
      down = down || found < exact;
    }
  }
  CHECK(up);
  CHECK(down);
  for (const float x : {1e30F, -HUGE_VALF}) CHECK(std::abs(sy::reference::bent(x, sy::dtype::f16)) <= 1.0F);
  CHECK(std::isnan(sy::reference::bent(std::nanf(""), sy::dtype::f16)));
}

TEST_CASE("a soft cap allows an error of its scores, at most that of the cap, in 16 bits alone") {
  sy::operators::attention_forward::arguments a;
  a.dtype = sy::dtype::bf16;
  CHECK(sy::reference::error_of_cap(a, 8) == 0);
  a.soft_cap = 30.0F;
  CHECK(sy::reference::error_of_cap(a, 8) == 8 * 0x1p-11);
  CHECK(sy::reference::error_of_cap(a, 1000) == 30 * 0x1p-11);
  a.dtype = sy::dtype::f32;
  CHECK(sy::reference::error_of_cap(a, 8) == 0);
}
