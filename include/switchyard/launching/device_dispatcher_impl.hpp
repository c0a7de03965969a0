// SPDX-License-Identifier: MIT
// The bodies of device_dispatcher.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/launching/per_call_launch.hpp>
#include <switchyard/launching/plan_launcher.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/plans/workspace.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/serving/carry_plans.hpp>
#include <switchyard/serving/kept_ranges.hpp>
#include <switchyard/serving/made_choice.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/prepare_ranges.hpp>
#include <switchyard/serving/replaced_states.hpp>
#include <switchyard/serving/state_source.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION device_dispatcher::device_dispatcher(const operator_description& op, state_source& source,
                                                         device target,
                                                         std::shared_ptr<const choice_limits> limits)
    : plan_launcher{op, *target.driver(), reclaimer_},
      source_{source},
      device_{std::move(target)},
      own_memory_{source.memory_of(device_)},
      limits_{std::move(limits)},
      timer_{source.timer_of(op, device_)} {
  if (limits_ != nullptr) limits_->require_valid();
  if (own_memory_ != nullptr) take_memory_from(*own_memory_);
  source_.attach(op, device_, *this);
}

SWITCHYARD_FUNCTION device_dispatcher::~device_dispatcher() {
  source_.detach(*this);
  delete current_.load(std::memory_order_relaxed);  // NOLINT(cppcoreguidelines-owning-memory)
}

SWITCHYARD_FUNCTION void device_dispatcher::prepare(problem_view own, const void* arguments,
                                                    std::span<const axis_span> ranges) {
  const auto fresh =
      std::make_shared<const detail::prepared_ranges>(detail::read_ranges(op_, own, arguments, ranges));
  for (;;) {
    const reclaimer::guard guard{reclaimer_};
    operator_state* const now = current_.load(std::memory_order_seq_cst);
    (void)detail::load_ranges(*now, *fresh);
    const locked lock{mutex_};
    prepared_.add(op_, fresh);
    if (current_.load(std::memory_order_relaxed) == now) return;  // else it was replaced meanwhile
  }
}

SWITCHYARD_FUNCTION std::size_t device_dispatcher::workspace_bytes(problem_view own, const void* arguments,
                                                                   std::span<const axis_span> ranges) {
  const detail::prepared_ranges of = detail::read_ranges(op_, own, arguments, ranges);
  std::shared_ptr<const operator_selectors> rules;
  {
    const reclaimer::guard guard{reclaimer_};
    rules = current_.load(std::memory_order_seq_cst)->selectors();
  }
  return source_.bound_workspace(*rules, of);
}

SWITCHYARD_FUNCTION explanation device_dispatcher::explain(problem_view own, const void* arguments) {
  const reclaimer::guard guard{reclaimer_};
  operator_state* const now = current_.load(std::memory_order_seq_cst);
  return now->explain(now->problem_of(own, arguments).all(), static_cast<const std::byte*>(arguments));
}

SWITCHYARD_COLD std::vector<made_choice> device_dispatcher::choices() {
  std::vector<made_choice> out;
  const reclaimer::guard guard{reclaimer_};
  operator_state* const now = current_.load(std::memory_order_seq_cst);
  if (now == nullptr) return out;
  now->plans().for_each([&](const plan& made) {
    const call_problem problem = now->problem_of(made.problem);
    out.push_back({std::string{op_.name} + " {" + format_problem(now->op(), problem.all()) + "} on " +
                       now->device().name,
                   made.selected->id + " " + blob_fingerprint(*made.selected)});
  });
  return out;
}

SWITCHYARD_FUNCTION bool device_dispatcher::adopt(std::unique_ptr<operator_state>&& fresh) {
  operator_state* old = nullptr;
  displaced_.make_room();  // nothing fails once calls use the fresh one
  for (int round = 0;; ++round) {
    const std::size_t prepared = prepare_again(*fresh);
    if (!detail::carry_plans(reclaimer_, current_, *fresh)) return false;
    const locked lock{mutex_};
    if (prepared_.changes() != prepared && round < max_rounds) continue;  // more was prepared meanwhile
    fresh->begin_service();
    old = current_.exchange(fresh.release(), std::memory_order_seq_cst);
    break;
  }
  if (old == nullptr) return true;
  displaced_.add(old);
  free_replaced();
  return true;
}

SWITCHYARD_FUNCTION std::size_t device_dispatcher::prepare_again(operator_state& fresh) {
  detail::kept_ranges::list all;
  std::size_t changes = 0;
  {
    const locked lock{mutex_};
    all = prepared_.all();
    changes = prepared_.changes();
  }
  const std::size_t share = detail::kept_ranges::share_of_each(all);
  for (const auto& prepared_before : all) {
    try {
      (void)detail::load_ranges(fresh, *prepared_before, share);
    } catch (const error&) {
      // A call in the range meets the error itself.
    }
  }
  return changes;
}

SWITCHYARD_COLD void device_dispatcher::check_call(operator_state& now, problem_view own,
                                                   const void* arguments, stream launch_stream) {
  std::string wrong;
  try {
    if (now.device().backend == "host") {  // where check_memory() was asked already
      if (op_.check_indices != nullptr) wrong = op_.check_indices(arguments);
    } else if (op_.check_on_device == nullptr) {
      return;
    } else if (driver_->capturing(launch_stream)) {
      if (!has_warned_.exchange(true))
        now.messages().warn(std::string{op_.name} +
                            ": calls that are captured into a graph are not checked: the numbers in their "
                            "tensors of indices come later");
      return;
    } else {
      wrong = source_.check_on_device(op_, *driver_, arguments, launch_stream);
    }
    if (!wrong.empty()) detail::fail_checked(op_, own, wrong);
  } catch (const error& problem) {
    now.count(problem.code());
    throw;
  }
}

// Inlined, it would cost launch_known() registers.
[[gnu::noinline]] SWITCHYARD_COLD void device_dispatcher::launch_counted(operator_state& now, plan& found,
                                                                         const void* arguments,
                                                                         stream launch_stream,
                                                                         const workspace& given) {
  if (now.is_checked()) check_call(now, found.problem.own(), arguments, launch_stream);
  const std::uint64_t calls = found.count.fetch_add(1, std::memory_order_relaxed);
  found.kernels->trace(found);
  const detail::scoped_range range{now.ranges(), found.kernels->range_of(found)};
  // By the problem's hash, each begins elsewhere: one that is seldom called is timed as often as it should.
  if (found.live == nullptr || timer_ == nullptr || !timer_->is_due(calls + found.hash))
    return run_counted(now, found, arguments, launch_stream, given);
  detail::timed_call timed{*timer_, launch_stream};
  run_counted(now, found, arguments, launch_stream, given);
  timed.finish(found.live);
}

SWITCHYARD_FUNCTION void device_dispatcher::run_counted(operator_state& now, plan& found,
                                                        const void* arguments, stream launch_stream,
                                                        const workspace& given) {
  if (found.counted_way == launch_way::any) return run(now, found, arguments, launch_stream, given);
  launch_by(found.counted_way, now, found, arguments, launch_stream, given);
}

SWITCHYARD_FUNCTION bool device_dispatcher::launch_decided_again(operator_state& now, const plan& found,
                                                                 const void* arguments, stream launch_stream,
                                                                 const workspace& given) {
  std::unique_ptr<plan> fresh;
  try {
    if (driver_->capturing(launch_stream)) {
      fresh = now.make_plan(now.problem_of(found.problem), found.hash, loading::refused);
    } else if (const type_kernels::deciding_again mine{*found.kernels}) {
      fresh = now.make_plan(now.problem_of(found.problem), found.hash, loading::allowed);
    }
  } catch (const driver_error& problem) {
    if (problem.kind() == failure_kind::context) throw;  // else the plan at hand still works
  }
  if (fresh == nullptr) return false;
  run_fresh(now, fresh, arguments, launch_stream, given);
  return true;
}

SWITCHYARD_COLD void device_dispatcher::refuse(problem_view own, const std::string& wrong) const {
  current_.load(std::memory_order_seq_cst)->count(error_code::invalid_argument);
  detail::fail_illegal(op_, own, wrong);
}

SWITCHYARD_COLD void device_dispatcher::fail_foreign(const operator_state& now) const {
  now.count(error_code::invalid_argument);
  detail::fail_foreign(op_, *driver_);
}

SWITCHYARD_FUNCTION void device_dispatcher::launch_new(operator_state& now, const call_problem& problem,
                                                       std::uint64_t key, const void* arguments,
                                                       stream launch_stream, const workspace& given) {
  if (!driver_->owns(launch_stream)) fail_foreign(now);
  if (now.sealed() != nullptr && now.sealed()->is_closed())
    return launch_sealed(now, problem, key, arguments, launch_stream, given);
  std::unique_ptr<plan> fresh = now.make_plan(problem, key, may_load(launch_stream));
  run_fresh(now, fresh, arguments, launch_stream, given);
}

SWITCHYARD_FUNCTION void device_dispatcher::launch_sealed(operator_state& now, const call_problem& problem,
                                                          std::uint64_t key, const void* arguments,
                                                          stream launch_stream, const workspace& given) {
  const seal_rules rules = now.sealed()->rules();
  seal::event met;
  std::unique_ptr<plan> fresh;
  const auto note = [&] {
    now.count(met);
    now.sealed()->note(now.op(), now.device(), problem.all(), met, now.messages());
  };
  try {
    if (rules.plan == seal_action::refuse) detail::fail_unprepared(now.op(), problem.all(), "is new");
    fresh = now.make_plan(problem, key, may_load(launch_stream, rules.load == seal_action::refuse));
    met.loads = fresh->has_loaded;
    met.falls_back = fresh->chosen.why == reason::heuristic;
    if (met.falls_back && rules.fallback == seal_action::refuse)
      detail::fail_unprepared(now.op(), problem.all(), "is decided by no rows");
  } catch (const call_error& refused) {
    met.is_refused = refused.code() == error_code::not_prepared;
    if (met.is_refused) {
      note();
      now.count(refused.code());
    }
    throw;
  }
  note();
  run_fresh(now, fresh, arguments, launch_stream, given);
}

SWITCHYARD_FUNCTION void device_dispatcher::run_fresh(operator_state& now, std::unique_ptr<plan>& fresh,
                                                      const void* arguments, stream launch_stream,
                                                      const workspace& given) {
  if (now.is_checked()) check_call(now, fresh->problem.own(), arguments, launch_stream);
  now.note(*fresh, 1);
  if (fresh->is_counted) fresh->kernels->trace(*fresh);
  const detail::scoped_range range{now.ranges(), fresh->kernels->range_of(*fresh)};
  plan* const published = publish(now, fresh);
  run(now, published != nullptr ? *published : *fresh, arguments, launch_stream, given);
}

SWITCHYARD_FUNCTION plan* device_dispatcher::publish(operator_state& now, std::unique_ptr<plan>& fresh) {
  if (waiting_.load(std::memory_order_relaxed) > detail::max_waiting) {
    const std::size_t left = reclaimer_.collect();
    waiting_.store(left, std::memory_order_relaxed);
    if (left > detail::max_waiting) return nullptr;
  }
  plan* displaced = nullptr;
  plan* published = nullptr;
  {
    const locked lock{mutex_};
    published = now.plans().find(fresh->hash, fresh->problem.own(), fresh->problem.conditions());
    if (published == nullptr) {
      displaced = now.plans().insert(fresh.get());
      published = fresh.release();
    } else if (published->is_fallback) {
      now.plans().replace(published, fresh.get());
      displaced = std::exchange(published, fresh.release());
    }
  }
  if (displaced != nullptr) retire(now, displaced);
  return published;
}

SWITCHYARD_FUNCTION void device_dispatcher::retire(operator_state& now, plan* displaced) {
  if (!displaced->is_fallback) now.count(&operator_tally::displaced_plans);
  now.note(*displaced, displaced->count.exchange(0, std::memory_order_relaxed));
  const std::size_t left =
      reclaimer_.retire_lazily(displaced, [](void* unused) { delete static_cast<plan*>(unused); });
  waiting_.store(left, std::memory_order_relaxed);
}

}  // namespace v0
}  // namespace switchyard
