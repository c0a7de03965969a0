// SPDX-License-Identifier: MIT
// The bodies of type_kernels.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/explain_rows.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/workspace_need.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/plans/format_plan.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/planner.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/type_kernels.hpp>
#include <switchyard/serving/variant_kernels.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION explanation type_kernels::explain(problem_view problem,
                                                      const std::byte* arguments) const {
  return switchyard::explain(*selector_, problem, select_fitting(problem, arguments), kernels_.unusable(),
                             arguments);
}

SWITCHYARD_FUNCTION std::unique_ptr<plan> type_kernels::make_plan(const call_problem& of, std::uint64_t hash,
                                                                  loading may_load,
                                                                  std::vector<std::uint32_t> passed_over) {
  const problem_view problem = of.all();
  if (may_load == loading::allowed) kernels_.return_to_service(kernels_.retry_due_now());
  std::unique_ptr<const driver_error> transient;  // the last failure that may pass
  std::exception_ptr unfit;                       // why the first variant was passed over
  bool retried = false;
  for (;;) {
    const bool timed = shared_.messages->level() != debug_level::silent;
    const std::int64_t begin = timed ? monotonic_nanoseconds() : 0;
    const std::uint64_t changes = kernels_.service_changes();
    const choice chosen = passed_over.empty() ? select(problem) : select_without(passed_over, problem);
    const std::int64_t selected = timed ? monotonic_nanoseconds() : 0;
    if (chosen.variant == no_index) {
      if (!retried && may_load == loading::allowed && kernels_.is_waiting()) {
        retried = true;
        kernels_.return_to_service(detail::variant_kernels::at_any_time);
        continue;
      }
      count(chosen);
      if (transient) throw driver_error{*transient};
      if (unfit != nullptr) std::rethrow_exception(unfit);
      refuse(problem);
    }
    const bool has_loaded = !kernels_.is_loaded(chosen.variant);
    const std::vector<loaded_kernel>* kernels = kernels_.load(chosen.variant, may_load, transient);
    if (kernels == nullptr) continue;
    auto out = std::make_unique<plan>();
    out->problem.assign(of.own(), of.conditions());
    out->hash = hash;
    out->chosen = chosen;
    out->has_loaded = has_loaded;
    out->kernels = this;
    if (shared_.seen_by.live != nullptr) {
      out->live = shared_.seen_by.live->samples_of(*selector_->op, selector_->device, problem,
                                                   *selector_->candidates[chosen.variant].variant);
    }
    out->is_counted = shared_.record != nullptr || shared_.messages->level() == debug_level::launches ||
                      !ranges_.empty() || shared_.seen_by.is_checked || out->live != nullptr;
    out->is_fallback = kernels_.is_waiting() || kernels_.service_changes() != changes;
    try {
      detail::planner{*selector_, *selector_->candidates[chosen.variant].variant, problem}.build(*kernels,
                                                                                                 *out);
      kernels_.configure(*out, chosen.variant);
    } catch (const error& problem_of_variant) {
      if (!is_unfit(problem_of_variant)) throw;
      kernels_.warn_unfit(chosen.variant, problem_of_variant);
      shared_.seen_by.count(&operator_tally::passed_over);
      if (unfit == nullptr) unfit = std::make_exception_ptr(named(chosen.variant, problem_of_variant));
      passed_over.push_back(chosen.variant);
      continue;
    }
    make_room_for_blocks(*out);
    count(chosen);
    shared_.seen_by.count(&operator_tally::plans);
    if (timed) report(*out, problem, {selected - begin, monotonic_nanoseconds() - selected});
    return out;
  }
}

SWITCHYARD_FUNCTION std::unique_ptr<plan> type_kernels::make_plan_without(
    std::vector<std::uint32_t> passed_over, const plan& unfit, const error& problem, loading may_load) {
  kernels_.warn_unfit(unfit.chosen.variant, problem);
  shared_.seen_by.count(&operator_tally::passed_over);
  return make_plan(problem_of(unfit), unfit.hash, may_load, std::move(passed_over));
}

SWITCHYARD_COLD std::unique_ptr<plan> type_kernels::make_plan_within(
    const plan& of, std::size_t bytes, loading may_load, const std::vector<std::uint32_t>* passed_over) {
  const call_problem problem = problem_of(of);
  const evaluation values{problem.all(), selector_->device.attributes, {}, nullptr};
  std::vector<std::uint32_t> too_large;
  if (passed_over != nullptr) too_large = *passed_over;
  for (std::uint32_t i = 0; i < selector_->candidates.size(); ++i) {
    const std::int64_t need = workspace_need(*selector_->candidates[i].variant, values);
    if (need > 0 && static_cast<std::size_t>(need) > bytes) too_large.push_back(i);
  }
  if (select_without(too_large, problem.all()).variant == no_index) return nullptr;
  return make_plan(problem, of.hash, may_load, std::move(too_large));
}

SWITCHYARD_COLD std::size_t type_kernels::least_workspace(const plan& of) const {
  const call_problem problem = problem_of(of);
  const std::int64_t least =
      selector_->is_forced ? -1
                           : detail::least_workspace_need(*selector_, problem.all(), kernels_.unusable());
  return least < 0 ? of.workspace_bytes : static_cast<std::size_t>(least);
}

SWITCHYARD_FUNCTION bool type_kernels::is_unfit(const error& problem) noexcept {
  return problem.code() == error_code::evaluation_failed || problem.code() == error_code::launch_failed;
}

SWITCHYARD_FUNCTION void type_kernels::refuse(problem_view problem) const {
  throw call_error{selector_->is_forced ? error_code::nothing_forced : error_code::no_variant,
                   shared_.selectors->explain_failure(problem, *selector_, kernels_.unusable())};
}

SWITCHYARD_FUNCTION bool type_kernels::has_failures() const noexcept {
  return kernels_.has_failures();
}

SWITCHYARD_FUNCTION choice type_kernels::select_without(const std::vector<std::uint32_t>& passed_over,
                                                        problem_view problem) const {
  std::vector<std::atomic<bool>> unusable(kernels_.unusable().size());
  for (std::size_t i = 0; i < unusable.size(); ++i)
    unusable[i].store(kernels_.unusable()[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  for (const std::uint32_t index : passed_over) unusable[index].store(true, std::memory_order_relaxed);
  return selector_->select(problem, unusable);
}

SWITCHYARD_FUNCTION call_error type_kernels::named(std::uint32_t index, const error& problem) const {
  std::string message{problem.message()};
  if (problem.code() == error_code::launch_failed) message = kernels_.name_of(index) + ": " + message;
  return call_error{error_code::evaluation_failed, message};
}

SWITCHYARD_FUNCTION void type_kernels::count(error_code thrown) const noexcept {
  shared_.seen_by.count(thrown);
}

SWITCHYARD_FUNCTION void type_kernels::count(const choice& chosen) const noexcept {
  shared_.messages->count(chosen);
  shared_.seen_by.count(chosen);
}

SWITCHYARD_FUNCTION void type_kernels::name_ranges() {
  for (const candidate& of : selector_->candidates)
    ranges_.push_back(std::string{selector_->op->name}.append(" ").append(of.variant->id));
}

SWITCHYARD_FUNCTION void type_kernels::make_room_for_blocks(const plan& out) {
  for (const planned_launch& planned : out.launches) {
    if (planned.owner == 0) continue;
    const locked lock{shared_.images_mutex};
    if (shared_.parameter_blocks == nullptr)
      shared_.parameter_blocks = std::make_unique<parameter_block_cache>();
  }
}

SWITCHYARD_FUNCTION void type_kernels::report(const plan& made, problem_view problem,
                                              const detail::plan_cost& cost) const {
  explanation why = switchyard::explain(*selector_, problem, made.chosen, kernels_.unusable());
  if (why.chosen.why == reason::heuristic)
    shared_.messages->note_without_rows(detail::format_type_of(*selector_->op, problem));
  detail::add_geometry(made, why);
  shared_.messages->line(
      shared_.messages->json() ? detail::format_json(why, cost) : detail::format_line(why, cost),
      log_kind::choice);
}

}  // namespace v0
}  // namespace switchyard
