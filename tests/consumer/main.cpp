// SPDX-License-Identifier: MIT
// A user's program with an operator of its own, built in each of the ways a project may take the library in.
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <switchyard/operator.hpp>

namespace {

struct axpy {
  static constexpr std::string_view name = "axpy";
  struct arguments {
    float a = 0.0F;
    const float* x = nullptr;
    float* y = nullptr;
    std::int64_t n = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::x, &arguments::y, &arguments::n>;
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis(
          "aligned", [](const arguments& a) noexcept { return switchyard::alignment_of(a.x, a.y) == 16; }),
      switchyard::size_axis<&arguments::n>());
};

}  // namespace

int main() {
  alignas(16) float values[4] = {};
  const auto problem = switchyard::make_problem<axpy>({.a = 1.0F, .x = values, .y = values, .n = 4});
  const auto& description = switchyard::describe<axpy>();
  const bool right = problem[0] == 1 && problem[1] == 4 && description.name == "axpy" &&
                     description.fields.size() == 4 && description.fields[3].name == "n" &&
                     description.axes[1].name == "n";
  std::puts(right ? "ok" : "the description is wrong");
  return right ? 0 : 1;
}
