// SPDX-License-Identifier: MIT
// Arguments of an operator whose extents have 32 bits.
#include <catch.hpp>
#include <cstdint>

#include <switchyard/tensor.hpp>
#include <switchyard/tensors/bind_views.hpp>

#include "../operators/call_tensors.hpp"

using namespace switchyard;

namespace narrow_extents {

// The extents are bound from the last member to the first: what writes too far spoils one bound before.
struct arguments {
  const float* x = nullptr;
  std::int32_t columns = -1;
  std::int32_t rows = -1;
  std::int32_t behind = -1;
};

using x_view = view<&arguments::x, dtype::f32, dim<&arguments::rows>, dim<&arguments::columns>>;

[[nodiscard]] arguments bind(const const_tensor& x) {
  arguments out;
  bind_views(views<x_view>{}, "narrow", out, false, x);
  return out;
}

}  // namespace narrow_extents

TEST_CASE("an extent of 32 bits is bound without its neighbours, whether tensors agree at once or not") {
  const float memory[16]{};
  for (const std::int64_t stride_of_the_only_row : {4, 9}) {
    const auto call = narrow_extents::bind({memory, dtype::f32, {1, 4}, {stride_of_the_only_row, 1}});
    CHECK(call.x == memory);
    CHECK(call.rows == 1);
    CHECK(call.columns == 4);
    CHECK(call.behind == -1);
  }
}

TEST_CASE("an extent that its 32 bits do not hold is refused") {
  const float memory[1]{};
  const std::int64_t large = (std::int64_t{1} << 32U) + 3;
  for (const std::int64_t stride_of_the_only_row : {large, std::int64_t{9}}) {
    const const_tensor x{memory, dtype::f32, {1, large}, {stride_of_the_only_row, 1}};
    CHECK_THAT(test::refusal([&] { return narrow_extents::bind(x); }),
               has_text("x [1, 4294967299]: columns is 4294967299, but must be less than 2^31"));
  }
}
