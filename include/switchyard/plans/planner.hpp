// SPDX-License-Identifier: MIT
// Makes the plan of one variant for one problem: grids, parameter blocks, tensor maps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Makes the plan of one variant for one problem.
class planner {
 public:
  planner(const selector& from, const variant& chosen, problem_view problem)
      : from_{from}, variant_{chosen}, values_{problem, from.device.attributes, from.op->fields, nullptr} {}

  void build(const std::vector<loaded_kernel>& kernels, plan& out);

 private:
  /// Throws why the variant cannot be computed for the problem.
  [[noreturn, gnu::cold]] void fail() const;

  void require_memory(std::size_t workspace_bytes) const;

  [[nodiscard]] std::int64_t value_of(const expression& expression) const;

  void extent_of(const std::array<expression, 3>& from, dim3& out) const;

  [[nodiscard]] static launch_way way_of(const planned_launch& single);

  /// Makes room for everything in one piece, and copies what layouts have ready.
  void reserve(const std::vector<loaded_kernel>& kernels, plan& out) const;

  /// Constructs objects one behind the other. They need no destructor.
  template <class Object>
  [[nodiscard]] static Object* take(std::byte*& at, std::size_t count) noexcept {
    static_assert(std::is_trivially_destructible_v<Object> && alignof(Object) <= 16);
    auto* const out = reinterpret_cast<Object*>(at);
    for (std::size_t i = 0; i < count; ++i) ::new (static_cast<void*>(out + i)) Object;
    at += count * sizeof(Object);
    return out;
  }

  void plan_geometry(const launch& launch, planned_launch& planned) const;

  void plan_parameters(planned_launch& planned) const;

  void plan_maps(planned_launch& planned) const;

  void plan_keeping(planned_launch& planned) const;

  void plan_map(const tensor_map_recipe& recipe, planned_map& out) const;

  void plan_per_call(planned_launch& planned, plan& out) const;

  [[nodiscard]] const per_call_program* find_per_call(const launch_layout& layout, plan& out) const;

  const selector& from_;
  const variant& variant_;
  evaluation values_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/plans/planner_impl.hpp>
#endif
