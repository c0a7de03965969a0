// SPDX-License-Identifier: MIT
// The selectors of one operator on one device, one for each type signature, so that a call pays only for its
// own type.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// Any thread may enter.
class operator_selectors {
 public:
  operator_selectors(const operator_description& op, device_properties device)
      : op_{op}, device_{std::move(device)} {}
  operator_selectors(const operator_selectors&) = delete;
  operator_selectors& operator=(const operator_selectors&) = delete;
  virtual ~operator_selectors() = default;

  [[nodiscard]] const operator_description& op() const noexcept { return op_; }
  [[nodiscard]] const device_properties& device() const noexcept { return device_; }

  [[nodiscard]] virtual type_signature signature_of(problem_view problem) const noexcept = 0;

  /// Makes the selector of the variants that may serve problems of a type signature. Each call makes a new
  /// one.
  [[nodiscard]] virtual std::shared_ptr<const selector> read(const type_signature& signature) const = 0;

  /// The selector without the canary tables that decide a problem now; null: none do.
  [[nodiscard]] virtual std::shared_ptr<const selector> read_stable(problem_view /*problem*/) const {
    return nullptr;
  }

  /// The variants that come nearest to serving a problem for whose type signature there is none.
  [[nodiscard]] virtual std::shared_ptr<const selector> read_nearest(problem_view problem) const = 0;

  /// Why nothing serves a problem. `from` is that of its type signature; `unusable` is about its candidates.
  [[nodiscard]] virtual std::string explain_failure(problem_view problem, const selector& from,
                                                    unusable_flags unusable) const = 0;

 private:
  const operator_description& op_;
  device_properties device_;
};

/// A selector that is made already, for problems of every type.
class fixed_selectors final : public operator_selectors {
 public:
  explicit fixed_selectors(std::shared_ptr<const selector> only)
      : operator_selectors{*only->op, only->device}, only_{std::move(only)} {}

  [[nodiscard]] type_signature signature_of(problem_view) const noexcept override { return {}; }
  [[nodiscard]] std::shared_ptr<const selector> read(const type_signature&) const override { return only_; }
  [[nodiscard]] std::shared_ptr<const selector> read_nearest(problem_view) const override { return only_; }
  [[nodiscard]] std::string explain_failure(problem_view problem, const selector& from,
                                            unusable_flags unusable) const override {
    return switchyard::explain_failure(from, problem, unusable);
  }

 private:
  std::shared_ptr<const selector> only_;
};

}  // namespace v0
}  // namespace switchyard
