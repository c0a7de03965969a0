// SPDX-License-Identifier: MIT
// Applies new tables to a share of the problems. A hash of the problem decides which, so every process and
// host agrees. Other problems are not affected.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/serving/operator_selectors.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a problem is among the share, from 0 to 1, that new tables decide.
[[nodiscard]] bool is_of_canary(std::string_view operator_name, problem_view problem, double share) noexcept;

class canary_selectors final : public operator_selectors {
 public:
  /// Both are of one operator and device.
  canary_selectors(std::shared_ptr<const operator_selectors> stable,
                   std::shared_ptr<const operator_selectors> canary, double share)
      : operator_selectors{stable->op(), stable->device()},
        stable_{std::move(stable)},
        canary_{std::move(canary)},
        share_{share} {}

  [[nodiscard]] type_signature signature_of(problem_view problem) const noexcept override {
    const bool is_canary = is_of_canary(op().name, problem, share_);
    type_signature out = (is_canary ? canary_ : stable_)->signature_of(problem);
    out.is_canary = is_canary;
    return out;
  }

  [[nodiscard]] std::shared_ptr<const selector> read(const type_signature& signature) const override {
    return (signature.is_canary ? canary_ : stable_)->read(signature);
  }

  [[nodiscard]] std::shared_ptr<const selector> read_stable(problem_view problem) const override {
    if (!is_of_canary(op().name, problem, share_)) return nullptr;
    return stable_->read(stable_->signature_of(problem));
  }

  [[nodiscard]] std::shared_ptr<const selector> read_nearest(problem_view problem) const override {
    return of(problem).read_nearest(problem);
  }

  [[nodiscard]] std::string explain_failure(problem_view problem, const selector& rules,
                                            unusable_flags unusable) const override {
    return of(problem).explain_failure(problem, rules, unusable);
  }

 private:
  [[nodiscard]] const operator_selectors& of(problem_view problem) const noexcept {
    return is_of_canary(op().name, problem, share_) ? *canary_ : *stable_;
  }

  std::shared_ptr<const operator_selectors> stable_;
  std::shared_ptr<const operator_selectors> canary_;
  double share_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/canary_selectors_impl.hpp>
#endif
