// SPDX-License-Identifier: MIT
// A small operator with every kind of axis and argument, for the tests of the lower layers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace sample {

enum class layout : std::int32_t { dense = 0, packed = 1, paged = 2 };

struct scale {
  static constexpr std::string_view name = "scale";
  struct arguments {
    float factor = 1;
    const void* x = nullptr;
    void* y = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int32_t stride = 0;
    double offset = 0;
    std::uint8_t flags = 0;
    std::int64_t width = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
    sample::layout layout = sample::layout::dense;
    bool masked = false;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::factor, &arguments::x, &arguments::y, &arguments::rows,
                         &arguments::columns, &arguments::stride, &arguments::offset, &arguments::flags,
                         &arguments::width, &arguments::dtype, &arguments::layout, &arguments::masked>;
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::layout>(),
      switchyard::type_axis<&arguments::masked>(), switchyard::type_axis<&arguments::width>(),
      switchyard::type_axis("alignment",
                            [](const arguments& a) noexcept { return switchyard::alignment_of(a.x, a.y); }),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());
};

}  // namespace sample

template <>
inline constexpr std::array<std::string_view, 3> switchyard::enumerator_names<sample::layout>{
    "dense", "packed", "paged"};

namespace sample {

inline const switchyard::operator_description& description() {
  return switchyard::describe<scale>();
}

/// A problem by axis names; the rest is 0.
inline std::vector<std::int64_t> problem(
    std::initializer_list<std::pair<std::string_view, std::int64_t>> values) {
  std::vector<std::int64_t> out(description().axes.size());
  for (const auto& [name, value] : values) out.at(switchyard::find_axis(description(), name)) = value;
  return out;
}

}  // namespace sample
