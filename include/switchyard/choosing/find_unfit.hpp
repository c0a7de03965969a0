// SPDX-License-Identifier: MIT
// Why a variant cannot be launched for a problem that it may serve: its workspace, block, grid or a parameter
// cannot be computed at these sizes, or exceeds the backend. At run time the next variant is used instead.
//
// Planning, explaining and preparing share this rule, so they pass over the same variants and give the same
// reason. Needs no device. Text is made only for what does not fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// What is said of a grid that has more blocks than the backend takes.
[[nodiscard]] std::string explain_grid(const std::string& kernel, const dim3& grid,
                                       const std::string& device);

class unfit_finder {
 public:
  unfit_finder(const candidate_set& from, const variant& of, problem_view problem, const std::byte* arguments)
      : device_{from.device},
        variant_{of},
        values_{problem, from.device.attributes, from.op->fields, arguments} {}

  [[nodiscard]] std::string find();

 private:
  bool refuse(std::string why);

  [[nodiscard]] bool check_workspace();

  [[nodiscard]] bool check_launch(const launch& launch);

  struct launch_size {
    dim3 block;
    dim3 cluster;
    dim3 grid;
    std::uint32_t shared_bytes = 0;
  };

  /// What the backend takes of a launch that has blocks.
  [[nodiscard]] bool check_limits(const launch& launch, const launch_size& size, bool knows_grid);

  [[nodiscard]] bool check_parameters(const std::vector<parameter>& list);

  [[nodiscard]] bool check_map(const tensor_map_recipe& map);

  [[nodiscard]] bool check_part(const expression& of);

  [[nodiscard]] bool may_evaluate(const expression& of) const noexcept {
    return values_.arguments != nullptr || !of.reads_fields();
  }

  [[nodiscard]] bool read(const std::array<expression, 3>& from, const char* name,
                          const std::array<std::string, 3>& texts, dim3& out);

  [[nodiscard]] bool read(const expression& from, const char* name, const std::string& text,
                          std::uint32_t& out);

  [[nodiscard]] bool refuse_fault(std::string name, std::string_view text, fault why);

  [[nodiscard]] static std::string in_brackets(std::string_view text);

  const device_properties& device_;
  const variant& variant_;
  evaluation values_;
  std::string why_;
};

/// Why a variant cannot be computed for a problem that has all axes: `grid "n / 0" divides by zero`. Empty:
/// it can. With the call's arguments, a grid that reads them is judged as well.
[[nodiscard]] inline std::string find_unfit(const candidate_set& from, const variant& of,
                                            problem_view problem, const std::byte* arguments = nullptr) {
  return unfit_finder{from, of, problem, arguments}.find();
}

}  // namespace detail

/// The choice that a call comes to: select()'s, or the next one where that cannot be computed for the call.
[[nodiscard]] choice select_fitting(const selector& from, problem_view asked, unusable_flags unusable = {},
                                    const std::byte* arguments = nullptr);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/find_unfit_impl.hpp>
#endif
