// SPDX-License-Identifier: MIT
// Selection: tables x candidates x problem -> choice. A pure function of what a selector was built from; it
// sees no driver, throws nothing, allocates nothing and prints nothing. build_selector.hpp makes selectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// The candidates of one operator on one device, with the tables that decide among them.
class selector : public candidate_set {
 public:
  std::vector<std::shared_ptr<const manifest>> manifests;  ///< own the variants that candidates point to
  std::vector<std::shared_ptr<const table>> tables;        ///< overlays, then most specific first
  std::size_t overlay_count = 0;                           ///< of the tables, the first ones
  std::vector<indexed_group> groups;                       ///< in the order in which they are asked
  std::vector<silent_group> silent;                        ///< named where a choice is explained
  std::vector<candidate_pin> pins;
  std::vector<std::uint32_t> forced;  ///< candidates that SWITCHYARD_FORCE names
  bool is_forced = false;
  std::string force_text;

  /// Chooses a variant for a problem. Axes that files added, and that it lacks, are false, or 0.
  [[nodiscard]] choice select(problem_view asked, unusable_flags unusable = {}) const noexcept;

  /// A variant that serves a problem and that the rows of a group compare with no other; no_index: there is
  /// none, so the rows speak for the problem.
  [[nodiscard]] std::uint32_t left_out(const indexed_group& group, problem_view problem,
                                       unusable_flags unusable) const noexcept {
    return first_admissible(group.uncompared, problem, unusable);
  }

 private:
  [[nodiscard]] choice first_of(const std::vector<std::uint32_t>& list, problem_view problem,
                                unusable_flags unusable, reason why) const noexcept;

  [[nodiscard]] static choice graded(choice out) noexcept;

  /// Without rows: the first admissible candidate in the manifests' order or, if the unit of its cost is
  /// known, the one with the least cost of those whose unit is.
  [[nodiscard]] choice heuristic(problem_view problem, unusable_flags unusable) const noexcept;

  [[nodiscard]] std::uint32_t least_cost(std::uint32_t first, problem_view problem,
                                         unusable_flags unusable) const noexcept;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/select_impl.hpp>
#endif
