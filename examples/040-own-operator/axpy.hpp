// The operator y += a x. This struct is its whole description.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/operator.hpp>

namespace engine {

struct axpy {
  static constexpr std::string_view name = "axpy";

  struct arguments {
    float a = 0;
    const void* x = nullptr;
    void* y = nullptr;
    std::int64_t n = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
  };

  /// The arguments that manifests may name.
  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::x, &arguments::y, &arguments::n, &arguments::dtype>;

  /// What a choice may depend on. The derived axis makes null and misaligned pointers part of the problem.
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::dtype>(), switchyard::size_axis<&arguments::n>(),
                       switchyard::type_axis("alignment", [](const arguments& call) noexcept {
                         return switchyard::alignment_of(call.x, call.y);
                       }));

  /// Returns what is wrong with a call, or an empty string. Runs once for each new problem.
  [[nodiscard]] static std::string check(const arguments& call) {
    if (call.n < 0) return "n must not be negative";
    if (call.n > 0 && switchyard::alignment_of(call.x, call.y) == 0) return "x and y must not be null";
    return {};
  }
};

}  // namespace engine
