// SPDX-License-Identifier: MIT
// The variants that may serve problems of one type signature, from one snapshot of the disk, and the plans
// made of them.
//
// Any thread may enter. variant_kernels.hpp says who waits for whom.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/plans/format_plan.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/serving/variant_kernels.hpp>

namespace switchyard {
inline namespace v0 {

class type_kernels {
 public:
  /// The context outlives it.
  type_kernels(operator_context& shared, std::shared_ptr<const selector> from)
      : shared_{shared}, selector_{std::move(from)}, kernels_{shared_, *selector_} {
    if (shared_.seen_by.ranges) name_ranges();
  }
  type_kernels(const type_kernels&) = delete;
  type_kernels& operator=(const type_kernels&) = delete;

  [[nodiscard]] const selector& used_selector() const noexcept { return *selector_; }

  [[nodiscard]] choice select(problem_view problem) const noexcept {
    return selector_->select(problem, kernels_.unusable());
  }

  /// The choice for a call: the best variant whose grid, memory and parameters can be computed for the
  /// problem and, if `arguments` are given, for them.
  [[nodiscard]] choice select_fitting(problem_view problem, const std::byte* arguments = nullptr) const {
    return switchyard::select_fitting(*selector_, problem, kernels_.unusable(), arguments);
  }

  /// That choice, with the reasons for it.
  [[nodiscard]] explanation explain(problem_view problem, const std::byte* arguments = nullptr) const;

  /// Chooses, loads and lays out. If the winner cannot be used, the next candidate is tried, with one
  /// warning. A variant whose load failed for lack of memory and the like is tried again later, or at once if
  /// nothing else serves. A variant whose grid, memory or parameters cannot be computed for this problem, or
  /// exceed the device, still serves other problems. `passed_over`: variants that are known not to serve this
  /// call.
  ///
  /// When no candidate is left, throws the last load failure that may pass, else the error of the first
  /// variant that did not fit, else what refuse() throws. Also throws the load's own driver_error if the
  /// context is broken, and driver_error load_during_capture if a blob would have to be loaded and may not
  /// be.
  [[nodiscard]] std::unique_ptr<plan> make_plan(const call_problem& of, std::uint64_t hash, loading may_load,
                                                std::vector<std::uint32_t> passed_over = {});

  /// Makes a plan without the variants that an argument of the single call rules out. Throws as make_plan().
  [[nodiscard]] std::unique_ptr<plan> make_plan_without(std::vector<std::uint32_t> passed_over,
                                                        const plan& unfit, const error& problem,
                                                        loading may_load);

  /// Makes a plan for the problem of another plan that takes at most so many bytes of workspace, by a variant
  /// that is not `passed_over` (null: none are). Null if no variant fits. Throws as make_plan().
  [[nodiscard]] std::unique_ptr<plan> make_plan_within(const plan& of, std::size_t bytes, loading may_load,
                                                       const std::vector<std::uint32_t>* passed_over);

  /// The best variant that is in service and not among these; no_index: there is none.
  [[nodiscard]] std::uint32_t best_without(const std::vector<std::uint32_t>& passed_over,
                                           problem_view problem) const {
    return select_without(passed_over, problem).variant;
  }

  /// The least workspace of the variants that serve a plan's problem.
  [[nodiscard]] std::size_t least_workspace(const plan& of) const;

  /// Whether an error says that a variant does not fit one problem or call, though it may fit others.
  [[nodiscard]] static bool is_unfit(const error& problem) noexcept;

  /// Whether a fallback plan may be decided again: a variant that was waited for is due, or none is waited
  /// for any more.
  [[nodiscard]] bool may_decide_again() const noexcept { return kernels_.may_decide_again(); }

  /// Lets one thread at a time decide fallback plans again: the others keep the plans that they have
  /// instead of waiting for its load.
  class deciding_again {
   public:
    explicit deciding_again(type_kernels& owner) noexcept
        : owner_{owner},
          is_mine_{owner.may_decide_again() &&
                   !owner.is_deciding_again_.exchange(true, std::memory_order_acquire)} {}
    deciding_again(const deciding_again&) = delete;
    deciding_again& operator=(const deciding_again&) = delete;
    ~deciding_again() {
      if (is_mine_) owner_.is_deciding_again_.store(false, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return is_mine_; }

   private:
    type_kernels& owner_;
    bool is_mine_;
  };

  /// Throws why nothing serves a problem: call_error no_variant or nothing_forced.
  [[noreturn, gnu::cold]] void refuse(problem_view problem) const;

  /// Loads every kernel of a variant's launches. False when one cannot be loaded; `transient` is then set
  /// where the failure may pass.
  bool prepare(std::uint32_t variant, std::unique_ptr<const driver_error>& transient) {
    return kernels_.load(variant, loading::allowed, transient) != nullptr;
  }

  /// Whether a variant is out of service, for good or for now.
  [[nodiscard]] bool has_failures() const noexcept;

  /// Visits the variants that are out of service since a blob was missing or not the pinned one.
  template <class Visitor>
  void for_each_without_blob(const Visitor& visit) const {
    kernels_.for_each_without_blob(visit);
  }

  /// The name of a plan's calls in a profiler: "softmax avx512_s4"; null where ranges are off.
  [[nodiscard]] const char* range_of(const plan& made) const noexcept {
    return ranges_.empty() ? nullptr : ranges_[made.chosen.variant].c_str();
  }

  /// Counts an error that a call of a plan ends with.
  [[gnu::cold]] void count(error_code thrown) const noexcept;

  /// A line for one launch, where they were asked for.
  void trace(const plan& made) const {
    if (shared_.messages->level() == debug_level::launches) report(made, problem_of(made).all(), {});
  }

 private:
  /// The choice among the variants that are in service and not passed over.
  [[nodiscard, gnu::cold]] choice select_without(const std::vector<std::uint32_t>& passed_over,
                                                 problem_view problem) const;

  /// An error with the variant that it is of, which drivers do not know.
  [[nodiscard, gnu::cold]] call_error named(std::uint32_t index, const error& problem) const;

  void name_ranges();

  /// Counts a choice, and prints nothing.
  void count(const choice& chosen) const noexcept;

  void make_room_for_blocks(const plan& out);

  [[nodiscard]] call_problem problem_of(const plan& of) const noexcept {
    return {*selector_->op, of.problem.own(), of.problem.conditions()};
  }

  void report(const plan& made, problem_view problem, const detail::plan_cost& cost) const;

  operator_context& shared_;
  std::shared_ptr<const selector> selector_;
  detail::variant_kernels kernels_;
  std::vector<std::string> ranges_;  // by candidate; empty: ranges are off
  std::atomic<bool> is_deciding_again_{false};
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/type_kernels_impl.hpp>
#endif
