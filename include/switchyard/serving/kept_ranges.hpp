// SPDX-License-Identifier: MIT
// The ranges that an engine prepared, kept so that they are prepared again when files are replaced. Their
// number and cost are bounded, however often prepare() is called.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/prepare_ranges.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Whether preparing `outer` tries every problem that preparing `inner` tries.
[[nodiscard]] bool covers(const operator_description& op, const prepared_ranges& outer,
                          const prepared_ranges& inner) noexcept;

class kept_ranges {
 public:
  using list = std::vector<std::shared_ptr<const prepared_ranges>>;

  /// Ranges that are kept; further ones are not.
  static constexpr std::size_t most = 256;
  /// Bounds the problems of all kept ranges that are tried again.
  static constexpr std::size_t max_problems = 4 * max_prepared_problems;

  /// Keeps ranges, unless others cover them; drops those that they cover.
  void add(const operator_description& op, const std::shared_ptr<const prepared_ranges>& fresh);

  [[nodiscard]] const list& all() const noexcept { return all_; }
  /// Grows with each range that is kept.
  [[nodiscard]] std::size_t changes() const noexcept { return changes_; }

  /// How many problems of each range may be tried, so that all ranges stay within the bound.
  [[nodiscard]] static std::size_t share_of_each(const list& all) noexcept;

 private:
  list all_;
  std::size_t changes_ = 0;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/kept_ranges_impl.hpp>
#endif
