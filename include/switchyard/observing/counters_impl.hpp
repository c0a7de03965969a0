// SPDX-License-Identifier: MIT
// The bodies of counters.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void operator_tally::count(const seal::event& met) noexcept {
  unprepared_plans_.fetch_add(1, std::memory_order_relaxed);
  unprepared_loads_.fetch_add(met.loads ? 1 : 0, std::memory_order_relaxed);
  unprepared_fallbacks_.fetch_add(met.falls_back ? 1 : 0, std::memory_order_relaxed);
  refused_calls_.fetch_add(met.is_refused ? 1 : 0, std::memory_order_relaxed);
}

SWITCHYARD_COLD operator_counters operator_tally::read(std::string name) const {
  const auto get = [](const counter& from) { return from.load(std::memory_order_relaxed); };
  operator_counters out;
  out.name = std::move(name);
  out.plans = get(plans);
  for (std::size_t i = 0; i < choices_.size(); ++i) out.choices[i] = get(choices_[i]);
  out.displaced_plans = get(displaced_plans);
  out.passed_over = get(passed_over);
  out.loads = get(loads);
  out.failed_loads = get(failed_loads);
  out.replacements = get(replacements);
  out.refused_replacements = get(refused_replacements);
  out.live_times = get(live_times);
  out.live_untimed = get(live_untimed);
  out.live_comparisons = get(live_comparisons);
  out.live_denials = get(live_denials);
  out.canary_returns = get(canary_returns);
  out.unprepared_plans = get(unprepared_plans_);
  out.unprepared_loads = get(unprepared_loads_);
  out.unprepared_fallbacks = get(unprepared_fallbacks_);
  out.refused_calls = get(refused_calls_);
  out.errors = errors_.read();
  return out;
}

SWITCHYARD_COLD std::shared_ptr<operator_tally> tallies::of(std::string_view name) {
  const locked lock{mutex_};
  std::size_t at = 0;
  while (at < all_.size() && all_[at].name < name) ++at;
  if (at == all_.size() || all_[at].name != name) {
    all_.push_back({std::string{name}, std::make_shared<operator_tally>()});
    for (std::size_t i = all_.size() - 1; i > at; --i) std::swap(all_[i], all_[i - 1]);
  }
  return all_[at].tally;
}

SWITCHYARD_COLD std::vector<operator_counters> tallies::read() const {
  const locked lock{mutex_};
  std::vector<operator_counters> out;
  for (const named& counted : all_) out.push_back(counted.tally->read(counted.name));
  return out;
}

}  // namespace v0
}  // namespace switchyard
