// SPDX-License-Identifier: MIT
// The bodies of operator_state.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/observers.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/type_kernels.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION operator_state::operator_state(
    std::shared_ptr<const operator_selectors> selectors, std::shared_ptr<kernel_loader> loader,
    std::shared_ptr<log> messages, std::shared_ptr<recorder> record, std::size_t plan_capacity,
    std::shared_ptr<generation_counter> generation, nanosecond_clock clock, observers seen_by)
    : shared_{std::move(selectors), std::move(loader), std::move(messages), std::move(record),
              std::move(generation)},
      plans_{plan_capacity} {
  shared_.clock = clock;
  shared_.seen_by = std::move(seen_by);
}

SWITCHYARD_FUNCTION operator_state::~operator_state() {
  plans().for_each([this](plan& kept) { discard(&kept); });
  for (std::atomic<known_kernels*>& bucket : known_) {
    for (known_kernels* known = bucket.load(std::memory_order_relaxed); known != nullptr;)
      delete std::exchange(known, known->next);  // NOLINT(cppcoreguidelines-owning-memory): see known_
  }
}

SWITCHYARD_FUNCTION type_kernels& operator_state::kernels_for(problem_view problem) {
  const type_signature signature = shared_.selectors->signature_of(problem);
  if (type_kernels* const found = find(signature)) return *found;
  if (type_kernels* const made = make(signature)) return *made;
  const auto from = shared_.selectors->read(signature);
  shared_.messages->count(choice{});
  count(choice{});
  throw call_error{from->is_forced ? error_code::nothing_forced : error_code::no_variant,
                   shared_.selectors->explain_failure(problem, *from, {})};
}

SWITCHYARD_FUNCTION std::unique_ptr<plan> operator_state::make_plan(const call_problem& problem,
                                                                    std::uint64_t hash, loading may_load) {
  try {
    const detail::scoped_range range{ranges(),
                                     ranges() ? (std::string{op().name} + ": plan").c_str() : nullptr};
    return kernels_for(problem.all()).make_plan(problem, hash, may_load);
  } catch (const error& failure) {
    // A sealed catalog's refusal is counted with its call; what fails before service starts, no caller sees.
    if (failure.code() != error_code::not_prepared && shared_.is_in_service.load(std::memory_order_relaxed))
      count(failure.code());
    throw;
  }
}

SWITCHYARD_FUNCTION explanation operator_state::explain(problem_view problem, const std::byte* arguments) {
  const type_signature signature = shared_.selectors->signature_of(problem);
  const type_kernels* known = find(signature);
  if (known == nullptr) known = make(signature);
  if (known != nullptr) return known->explain(problem, arguments);
  const auto from = shared_.selectors->read_nearest(problem);
  return switchyard::explain(*from, problem, select_fitting(*from, problem, {}, arguments), {}, arguments);
}

SWITCHYARD_FUNCTION bool operator_state::has_failures() const noexcept {
  for (const std::atomic<known_kernels*>& bucket : known_) {
    for (const known_kernels* known = bucket.load(std::memory_order_acquire); known != nullptr;
         known = known->next) {
      if (known->kernels.has_failures()) return true;
    }
  }
  return false;
}

SWITCHYARD_FUNCTION std::vector<const variant*> operator_state::without_blob() const {
  std::vector<const variant*> out;
  for (const std::atomic<known_kernels*>& bucket : known_) {
    for (const known_kernels* known = bucket.load(std::memory_order_acquire); known != nullptr;
         known = known->next) {
      known->kernels.for_each_without_blob([&out](const variant& found) { out.push_back(&found); });
    }
  }
  return out;
}

SWITCHYARD_FUNCTION void operator_state::discard(plan* unused) const noexcept {
  note(*unused, unused->count.load(std::memory_order_relaxed));
  delete unused;  // NOLINT(cppcoreguidelines-owning-memory): plans are published as plain pointers
}

SWITCHYARD_FUNCTION void operator_state::note(const plan& used, std::uint64_t count) const noexcept {
  if (shared_.record != nullptr) shared_.record->note(op(), device(), problem_of(used.problem).all(), count);
}

SWITCHYARD_FUNCTION type_kernels* operator_state::make(const type_signature& signature) {
  const locked lock{known_mutex_};
  if (type_kernels* const found = find(signature)) return found;
  auto from = shared_.selectors->read(signature);
  if (from->candidates.empty()) return nullptr;
  std::atomic<known_kernels*>& bucket = known_[bucket_of(signature)];
  auto fresh = std::unique_ptr<known_kernels>{
      new known_kernels{signature, {shared_, std::move(from)}, bucket.load(std::memory_order_relaxed)}};
  bucket.store(fresh.get(), std::memory_order_release);
  return &fresh.release()->kernels;
}

}  // namespace v0
}  // namespace switchyard
