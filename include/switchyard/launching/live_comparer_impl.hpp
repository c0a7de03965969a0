// SPDX-License-Identifier: MIT
// The bodies of live_comparer.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/compare_results.hpp>
#include <switchyard/launching/live_comparer.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/type_kernels.hpp>
#include <switchyard/tensors/result_tensor.hpp>
#include <switchyard/threads/reclaimer.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Memory for a call's results beside the call's own, and the arguments that lead to it. Addresses are as
/// well aligned as the call's are, so that the same variants serve.
class live_comparer::copies {
 public:
  explicit copies(live_comparer& owner) : owner_{owner} {
    const std::size_t bytes = owner_.core_.op_.argument_bytes;
    arguments_.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
    std::memcpy(arguments_.data(), owner_.of_.arguments, bytes);
  }
  copies(const copies&) = delete;
  copies& operator=(const copies&) = delete;
  ~copies() {
    for (void* const memory : memory_) owner_.core_.memory().release(memory, owner_.on_);
  }

  /// False where there is no memory.
  [[nodiscard]] bool allocate() {
    constexpr std::size_t alignment = 256;
    for (const result_tensor& result : owner_.of_.results) {
      memory_.reserve(memory_.size() + 1);
      void* const made = owner_.core_.memory().allocate(result.bytes + 2 * alignment, owner_.on_);
      if (made == nullptr) return false;
      memory_.push_back(made);
      const auto begin = reinterpret_cast<std::uintptr_t>(made);
      const std::uintptr_t aligned = (begin + alignment - 1) / alignment * alignment;
      auto* const at = static_cast<std::byte*>(made) + (aligned - begin) +
                       reinterpret_cast<std::uintptr_t>(result.address) % alignment;
      at_.push_back(at);
      std::memcpy(reinterpret_cast<std::byte*>(arguments_.data()) + result.field, &at, sizeof at);
    }
    return true;
  }

  [[nodiscard]] const void* arguments() const noexcept { return arguments_.data(); }

  /// The call's results as they are now: what a variant leaves alone, or changes in place.
  void fill() const {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const result_tensor& result = owner_.of_.results[i];
      owner_.require(owner_.core_.driver_->copy(at_[i], result.address, result.bytes, owner_.on_));
    }
  }

  /// Waits for them.
  [[nodiscard]] std::vector<std::vector<std::byte>> download() const {
    std::vector<std::vector<std::byte>> out;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      out.emplace_back(owner_.of_.results[i].bytes);
      owner_.require(owner_.core_.driver_->copy(out.back().data(), at_[i], out.back().size(), owner_.on_));
    }
    owner_.require(owner_.core_.driver_->synchronize(owner_.on_));
    return out;
  }

 private:
  live_comparer& owner_;
  std::vector<std::max_align_t> arguments_;
  std::vector<void*> memory_;
  std::vector<std::byte*> at_;
};

SWITCHYARD_COLD live_comparison live_comparer::compare() {
  live_comparison out;
  const operator_description* described = nullptr;
  if (!of_.illegal.empty()) fail_illegal(core_.op_, of_.own, of_.illegal);
  out.text = find_obstacle();
  if (!out.text.empty()) return out;
  {
    const reclaimer::guard guard{core_.reclaimer_};
    operator_state* const now = core_.current_.load(std::memory_order_seq_cst);
    described = &now->op();
    try {
      compare_guarded(*now, out);
    } catch (...) {
      (void)core_.driver_->synchronize(on_);  // what the call names may go when this returns
      throw;
    }
    (void)core_.driver_->synchronize(on_);
  }
  core_.source_.take(*described, core_.device_, out);
  return out;
}

SWITCHYARD_COLD std::string live_comparer::find_obstacle() const {
  const std::string name{core_.op_.name};
  if (!core_.driver_->owns(on_)) fail_foreign(core_.op_, *core_.driver_);
  if (core_.driver_->capturing(on_)) return name + ": the stream is being captured";
  if (!of_.unknown.empty()) return name + ": " + of_.unknown;
  std::size_t bytes = 0;
  for (const result_tensor& result : of_.results) bytes += result.bytes;
  if (bytes == 0) return name + ": the call has no results";
  if (bytes > options_.max_bytes) {
    return name + ": the results have " + std::to_string(bytes) + " bytes, more than " +
           std::to_string(options_.max_bytes);
  }
  return {};
}

SWITCHYARD_COLD void live_comparer::compare_guarded(operator_state& now, live_comparison& out) {
  const call_problem problem = now.problem_of(of_.own, of_.arguments);
  if (core_.op_.check_memory != nullptr && now.device().backend == "host") {
    if (const std::string wrong = core_.op_.check_memory(of_.arguments); !wrong.empty())
      fail_illegal(core_.op_, of_.own, wrong);
  }
  out.problem.assign(problem.all().begin(), problem.all().end());
  const std::string words = std::string{now.op().name} + " {" + format_problem(now.op(), problem.all()) + "}";
  const contender winner = find_winner(now, problem);
  out.winner = describe(*winner.of);
  const selector& rules = winner.of->kernels->used_selector();
  if (winner.of->chosen.group != no_index) {
    const indexed_group& decided = rules.groups[winner.of->chosen.group];
    out.row_type = decided.type;
    if (winner.of->chosen.row != no_index)
      out.match = rules.tables[decided.origins[winner.of->chosen.row].table]->match;
  } else {
    for (std::uint32_t i = 0; i < core_.op_.axes.size(); ++i) {
      if (core_.op_.axes[i].kind == axis_kind::type) out.row_type.push_back({i, problem.all()[i]});
    }
  }
  copies a{*this};
  copies b{*this};
  if (!a.allocate() || !b.allocate()) {
    out.text = words + ": there is no memory for the results";
    return;
  }
  if (!of_.is_same_problem(of_.arguments, a.arguments()) ||
      !of_.is_same_problem(of_.arguments, b.arguments())) {
    out.text = words + ": results in other memory are another problem";
    return;
  }
  const contender rival = find_rival(now, problem, *winner.of, out);
  if (rival.of == nullptr) {
    out.outcome = comparison_outcome::no_rival;
    out.text = words + ": no other variant than '" + out.winner.id + "' serves it";
    return;
  }
  out.rival = describe(*rival.of);
  a.fill();
  b.fill();
  run(now, winner, a);
  try {
    run(now, rival, b);
  } catch (const call_error& unfit) {
    out.outcome = comparison_outcome::no_rival;
    out.text = words + ": '" + out.rival.id + "' does not serve it: " + std::string{unfit.message()};
    return;
  }
  const auto right = a.download();
  const auto other = b.download();
  std::string differs = difference(right, other);
  if (differs.empty()) time_in_turns(now, winner, rival, a, b, out);
  // Once more: if the winner differs from itself, the call's inputs were changed meanwhile.
  a.fill();
  run(now, winner, a);
  if (const std::string moved = difference(right, a.download()); !moved.empty()) {
    out.outcome = comparison_outcome::unsteady;
    out.text = words + ": '" + out.winner.id + "' differs from itself: " + moved;
    return;
  }
  if (differs.empty()) {
    out.outcome = comparison_outcome::compared;
    out.text = words + ": '" + out.winner.id + "' takes " + text::number(out.winner.median_us) + " us, '" +
               out.rival.id + "' " + text::number(out.rival.median_us) + " us";
    return;
  }
  out.outcome = comparison_outcome::differs;
  out.denied = out.rival.id;
  std::string judge = "'" + out.winner.id + "', which serves it";
  if (const contender third = find_arbiter(now, problem, *winner.of, *rival.of); third.of != nullptr) {
    b.fill();
    try {
      run(now, third, b);
      const auto decides = b.download();
      const std::string id = third.of->selected->id;
      if (difference(right, decides).empty()) {
        judge = "'" + out.winner.id + "' and '" + id + "'";
      } else if (difference(other, decides).empty()) {
        out.denied = out.winner.id;
        judge = "'" + out.rival.id + "' and '" + id + "'";
      }
    } catch (const call_error&) {  // it does not serve the call
    }
  }
  out.text = words + ": '" + out.denied + "' differs from " + judge + ": " + differs;
}

SWITCHYARD_COLD live_comparer::contender live_comparer::find_winner(operator_state& now,
                                                                    const call_problem& problem) {
  contender out;
  const std::uint64_t key = now.hash_of(problem);
  out.of = now.plans().find(key, of_.own, problem.conditions());
  if (out.of == nullptr) {
    out.own = now.make_plan(problem, key, core_.may_load(on_));
    out.of = out.own.get();
  }
  const std::size_t count = out.of->kernels->used_selector().candidates.size();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != out.of->chosen.variant) out.others.push_back(i);
  }
  return out;
}

SWITCHYARD_COLD live_comparer::contender live_comparer::find_rival(operator_state& now,
                                                                   const call_problem& problem,
                                                                   const plan& winner, live_comparison& out) {
  const std::vector<candidate>& candidates = winner.kernels->used_selector().candidates;
  if (const auto stable = now.selectors()->read_stable(problem.all()); stable != nullptr) {
    const choice chosen = stable->select(problem.all());
    for (std::uint32_t i = 0; chosen.variant != no_index && i < candidates.size(); ++i) {
      const variant& mine = *candidates[i].variant;
      const variant& theirs = *stable->candidates[chosen.variant].variant;
      if (i == winner.chosen.variant || mine.id != theirs.id || mine.type != theirs.type) continue;
      contender found = plan_by(now, problem, winner, i);
      out.is_canary = found.of != nullptr;
      if (out.is_canary) return found;
    }
  }
  std::vector<std::uint32_t> tried{winner.chosen.variant};
  for (std::uint32_t rank = 1; tried.size() <= candidates.size(); ++rank) {
    const std::uint32_t next = winner.kernels->best_without(tried, problem.all());
    if (next == no_index) break;
    tried.push_back(next);
    if (rank < options_.runner_up) continue;
    contender found = plan_by(now, problem, winner, next);
    if (found.of != nullptr) return found;
  }
  return {};
}

SWITCHYARD_COLD live_comparer::contender live_comparer::plan_by(operator_state& now,
                                                                const call_problem& problem,
                                                                const plan& winner, std::uint32_t variant) {
  contender out;
  const std::size_t count = winner.kernels->used_selector().candidates.size();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != variant) out.others.push_back(i);
  }
  const bool is_sealed = now.sealed() != nullptr && now.sealed()->is_closed() &&
                         now.sealed()->rules().load == seal_action::refuse;
  try {
    out.own = winner.kernels->make_plan(problem, winner.hash, core_.may_load(on_, is_sealed), out.others);
    out.of = out.own.get();
  } catch (const call_error&) {  // it does not serve the call, or is not loaded and may not be
  } catch (const driver_error& failure) {
    if (failure.kind() == failure_kind::context) throw;
  }
  return out;
}

SWITCHYARD_COLD live_comparer::contender live_comparer::find_arbiter(operator_state& now,
                                                                     const call_problem& problem,
                                                                     const plan& winner, const plan& rival) {
  std::vector<std::uint32_t> tried{winner.chosen.variant, rival.chosen.variant};
  for (;;) {
    const std::uint32_t next = winner.kernels->best_without(tried, problem.all());
    if (next == no_index) return {};
    tried.push_back(next);
    contender found = plan_by(now, problem, winner, next);
    if (found.of != nullptr) return found;
  }
}

SWITCHYARD_COLD void live_comparer::run(operator_state& now, const contender& by, const copies& into) {
  core_.run(now, *by.of, into.arguments(), on_, {}, &by.others);
}

SWITCHYARD_COLD void live_comparer::time_in_turns(operator_state& now, const contender& winner,
                                                  const contender& rival, const copies& a, const copies& b,
                                                  live_comparison& out) {
  constexpr double least_us = 50;  // of one time: events count whole microseconds or so
  constexpr double max_calls = 64;
  struct events {
    explicit events(device_driver& of) : driver{of} {
      from = driver.create_event();
      try {
        to = driver.create_event();
      } catch (...) {
        driver.destroy_event(from);
        throw;
      }
    }
    events(const events&) = delete;
    events& operator=(const events&) = delete;
    ~events() {
      driver.destroy_event(from);
      driver.destroy_event(to);
    }
    device_driver& driver;
    event_handle from = nullptr;
    event_handle to = nullptr;
  };
  const events clock{*core_.driver_};
  const auto time = [&](const contender& by, const copies& into, int calls) {
    require(clock.driver.record(clock.from, on_));
    for (int i = 0; i < calls; ++i) run(now, by, into);
    require(clock.driver.record(clock.to, on_));
    double microseconds = 0;
    require(clock.driver.elapsed(clock.from, clock.to, microseconds));
    return microseconds / calls;
  };
  const double once = std::max({time(winner, a, 1), time(rival, b, 1), 0.1});
  const int calls = static_cast<int>(std::clamp(std::ceil(least_us / once), 1.0, max_calls));
  for (std::uint32_t turn = 0; turn < std::max(options_.turns, 1U); ++turn) {
    const bool is_first = turn % 2 == 0;
    const double first = is_first ? time(winner, a, calls) : time(rival, b, calls);
    const double second = is_first ? time(rival, b, calls) : time(winner, a, calls);
    const double mine = is_first ? first : second;
    const double theirs = is_first ? second : first;
    if (!(mine > 0) || !(theirs > 0)) continue;  // a clock that stands still or runs backwards
    out.winner.times_us.push_back(mine);
    out.rival.times_us.push_back(theirs);
  }
  for (compared_variant* compared : {&out.winner, &out.rival}) {
    std::vector<double> sorted = compared->times_us;
    std::sort(sorted.begin(), sorted.end());
    if (!sorted.empty())
      compared->median_us = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
}

SWITCHYARD_COLD std::string live_comparer::difference(
    const std::vector<std::vector<std::byte>>& one, const std::vector<std::vector<std::byte>>& other) const {
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::string wrong = describe_difference(of_.results[i], one[i].data(), other[i].data());
    if (!wrong.empty()) return wrong;
  }
  return {};
}

SWITCHYARD_COLD compared_variant live_comparer::describe(const plan& of) {
  return {of.selected->id, blob_fingerprint(*of.selected), of.selected->type, {}, 0};
}

SWITCHYARD_COLD void live_comparer::require(status result) const {
  if (result == 0) return;
  throw driver_error{error_code::driver_failed, std::string{core_.op_.name} + ": comparing variants: " +
                                                    core_.driver_->describe(result)};
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
