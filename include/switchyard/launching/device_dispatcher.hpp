// SPDX-License-Identifier: MIT
// The launch path without an operator's type: find or make the plan, and launch it.
//
// Any thread may call. A call of a problem that was met before takes no lock and allocates nothing; a call of
// a new problem never waits for the thread that replaces files, which does its loading and freeing itself.
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
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/launching/plan_launcher.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/plans/bind_parameters.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/plans/workspace.hpp>
#include <switchyard/problem/added_axes.hpp>
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

namespace detail {
class call_checker;
class live_comparer;
}  // namespace detail

class device_dispatcher final : public state_user, private plan_launcher {
 public:
  /// Throws error when the operator's files cannot be read, or the device has none that run. `limits`: null
  /// for the source's.
  device_dispatcher(const operator_description& op, state_source& source, device target,
                    std::shared_ptr<const choice_limits> limits = nullptr);
  device_dispatcher(const device_dispatcher&) = delete;
  device_dispatcher& operator=(const device_dispatcher&) = delete;
  /// No call may be under way.
  SWITCHYARD_FUNCTION ~device_dispatcher() override;

  /// Runs the operator. `call.key()` gives the problem's key; `call.problem()`, and `call.check()`, which
  /// says what is wrong with the arguments, are asked for new problems only. The operator's
  /// check_memory(), which says the same of what their addresses lead to, is asked at every call of a CPU,
  /// and of a GPU in checked mode.
  // Always inline: the key stays in registers. So does the call, which has one address: it is copied.
  template <class Call>
  [[gnu::always_inline]] inline void launch(stream launch_stream, const workspace& given, const Call call) {
    const reclaimer::guard guard{reclaimer_};
    operator_state* const now = current_.load(std::memory_order_seq_cst);
    const auto key = call.key();  // behind what may call a function, else it would be kept in memory
    const std::uint64_t key_hash = hash(key);
    plan* const found = now->plans().first_of(key_hash);
    if (found == nullptr) [[unlikely]]
      return launch_unplanned(*now, key_hash, launch_stream, given, call);
    if (!plan_cache::is_of(*found, key)) [[unlikely]]
      return launch_behind(*now, launch_stream, given, call);
    if (found->way != launch_way::direct)
      return launch_found(*now, *found, call.arguments(), launch_stream, given);
    // As launch_direct() does: were both one inline function, some operators would take an instruction more.
    detail::pointer_array
        pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
    detail::bind_parameters(*found->single, call.arguments(), found->single->parameter_block, pointers);
    start_single(*found, pointers, launch_stream);
  }

  /// Makes sure that everything a call needs is loaded, and keeps its plan. `own` are the values of the
  /// operator's own axes, here as below.
  template <class Check>
  void prepare(problem_view own, const void* arguments, const Check& check) {
    bool is_new = true;
    for (;;) {
      const reclaimer::guard guard{reclaimer_};
      operator_state* const now = current_.load(std::memory_order_seq_cst);
      const call_problem problem = now->problem_of(own, arguments);
      const std::uint64_t key = now->hash_of(problem);
      const plan* const found = now->plans().find(key, own, problem.conditions());
      if (found == nullptr || (found->is_fallback && found->kernels->may_decide_again())) {
        if (std::exchange(is_new, false)) require_legal(own, check);
        std::unique_ptr<plan> fresh = now->make_plan(problem, key, loading::allowed);
        (void)publish(*now, fresh);
      }
      const locked lock{mutex_};
      if (current_.load(std::memory_order_relaxed) == now) return;  // else it was replaced meanwhile
    }
  }

  /// Loads every kernel that may be chosen when axes run over ranges, now and, for the first 256 ranges that
  /// do not cover each other, after each replacement of files.
  void prepare(problem_view own, const void* arguments, std::span<const axis_span> ranges);

  [[nodiscard]] explanation explain(problem_view own, const void* arguments);

  /// Bytes of workspace that a call takes. What the call needs is loaded, and its plan kept, so that a caller
  /// who asks before each call pays for a new problem once. Inside a capture nothing is loaded.
  template <class Check>
  [[nodiscard]] std::size_t workspace_bytes(problem_view own, const void* arguments, stream launch_stream,
                                            const Check& check) {
    const reclaimer::guard guard{reclaimer_};
    operator_state* const now = current_.load(std::memory_order_seq_cst);
    const call_problem problem = now->problem_of(own, arguments);
    const std::uint64_t key = now->hash_of(problem);
    if (const plan* found = now->plans().find(key, own, problem.conditions())) return found->workspace_bytes;
    require_legal(own, check);
    std::unique_ptr<plan> fresh = now->make_plan(problem, key, may_load(launch_stream));
    const plan* const published = publish(*now, fresh);
    return (published != nullptr ? published : fresh.get())->workspace_bytes;
  }

  /// Bytes of workspace that suffice for every call whose axes lie in ranges, whichever tables decide.
  [[nodiscard]] std::size_t workspace_bytes(problem_view own, const void* arguments,
                                            std::span<const axis_span> ranges);

  [[nodiscard]] const device& target() const noexcept { return device_; }

  [[nodiscard]] const choice_limits* limits() const noexcept override { return limits_.get(); }

  /// Takes a new operator state into use. What the old one served is decided and loaded first, here, so that
  /// no call pays for it. The old one is freed here as well, or by free_replaced() where a call still uses
  /// it.
  [[nodiscard]] SWITCHYARD_FUNCTION bool adopt(std::unique_ptr<operator_state>&& fresh) override;

  [[nodiscard]] const operator_state* in_use() const noexcept override {
    return current_.load(std::memory_order_acquire);
  }

  [[nodiscard]] SWITCHYARD_FUNCTION std::vector<made_choice> choices() override;

  void free_replaced() override { displaced_.free(reclaimer_); }

  void poll_live() noexcept override {
    if (timer_ != nullptr) timer_->poll();
  }

 private:
  friend class detail::call_checker;
  friend class detail::live_comparer;

  static constexpr int max_rounds = 4;

  /// Loads what was prepared; returns the changes of the kept ranges up to then.
  std::size_t prepare_again(operator_state& fresh);

  // The functions of a call take no more parameters than registers pass: with others on the stack, it would
  // need a frame pointer.

  /// A call whose plan is not the first one of its bucket. It makes the key again, so that the way of the
  /// other calls need not keep it.
  template <class Call>
  [[gnu::noinline]] void launch_behind(operator_state& now, stream launch_stream, const workspace& given,
                                       const Call call) {
    const auto key = call.key();
    const std::uint64_t key_hash = hash(key);
    plan* const found = now.plans().find(key_hash, key);
    if (found == nullptr) return launch_unplanned(now, key_hash, launch_stream, given, call);
    launch_found(now, *found, call.arguments(), launch_stream, given);
  }

  /// A call that its key finds no plan of: its problem is new.
  template <class Call>
  [[gnu::noinline]] void launch_unplanned(operator_state& now, std::uint64_t key_hash, stream launch_stream,
                                          const workspace& given, const Call call) {
    const auto own = call.problem();
    require_legal_call(now, own, call);
    const void* const arguments = call.arguments();
    launch_new(now, now.problem_of(own, arguments), key_hash, arguments, launch_stream, given);
  }

  /// Throws where a call of a new problem is illegal.
  template <class Call>
  void require_legal_call(const operator_state& now, problem_view own, const Call& call) const {
    require_legal(own, [&call] { return call.check(); });
    if (op_.check_memory != nullptr && now.device().backend == "host") require_memory(own, call.arguments());
  }

  void require_memory(problem_view own, const void* arguments) const {
    if (const std::string wrong = op_.check_memory(arguments); !wrong.empty()) refuse(own, wrong);
  }

  /// Launches a plan that the call's key finds.
  [[gnu::noinline]] void launch_found(operator_state& now, plan& found, const void* arguments,
                                      stream launch_stream, const workspace& given) {
    launch_by(found.way, now, found, arguments, launch_stream, given);
  }

  [[gnu::always_inline]] inline void launch_by(launch_way way, operator_state& now, plan& found,
                                               const void* arguments, stream launch_stream,
                                               const workspace& given) {
    if (way == launch_way::kept) return launch_kept(now, found, arguments, launch_stream);
    if (way == launch_way::compiled) return launch_compiled(now, found, arguments, launch_stream);
    if (way == launch_way::direct) return launch_direct(found, arguments, launch_stream);
    if (way == launch_way::interpreted) return launch_interpreted(now, found, arguments, launch_stream);
    if (way == launch_way::guarded) return launch_guarded(now, found, arguments, launch_stream, given);
    launch_known(now, found, arguments, launch_stream, given);
  }

  /// Launches the plan of a call whose arguments must be looked at, from one that its key finds.
  [[gnu::noinline]] void launch_guarded(operator_state& now, plan& found, const void* arguments,
                                        stream launch_stream, const workspace& given) {
    const problem_view own = found.problem.own();
    if (found.checks_memory) require_memory(own, arguments);
    plan* const of = now.reads_arguments() ? now.find_alike(found, arguments) : &found;
    // A problem with this key was met before, so what the call's check() reads is legal.
    if (of == nullptr)
      return launch_new(now, now.problem_of(own, arguments), found.hash, arguments, launch_stream, given);
    launch_by(of->guarded_way, now, *of, arguments, launch_stream, given);
  }

  template <class Check>
  void require_legal(problem_view own, const Check& check) const {
    if (const std::string wrong = check(); !wrong.empty()) refuse(own, wrong);
  }

  /// Throws that a stream is of another device, and counts it.
  [[noreturn, gnu::cold]] void fail_foreign(const operator_state& now) const;

  /// Throws what is wrong with a call, and counts it. The caller holds a guard.
  [[noreturn, gnu::cold]] void refuse(problem_view own, const std::string& wrong) const;

  [[gnu::noinline]] void launch_known(operator_state& now, plan& found, const void* arguments,
                                      stream launch_stream, const workspace& given) {
    if (found.is_fallback && found.kernels->may_decide_again() &&
        launch_decided_again(now, found, arguments, launch_stream, given)) {
      return;
    }
    if (found.is_counted) return launch_counted(now, found, arguments, launch_stream, given);
    run(now, found, arguments, launch_stream, given);
  }

  /// Checked mode: reads the tensors of indices of a call, on a device after all before it on the stream. A
  /// call that is being captured is not checked: its numbers come later.
  [[gnu::cold]] void check_call(operator_state& now, problem_view own, const void* arguments,
                                stream launch_stream);

  /// A call that is recorded, printed, checked, timed, or shown to a profiler.
  [[gnu::cold]] void launch_counted(operator_state& now, plan& found, const void* arguments,
                                    stream launch_stream, const workspace& given);

  /// Launches such a call as if it were not counted.
  void run_counted(operator_state& now, plan& found, const void* arguments, stream launch_stream,
                   const workspace& given);

  /// Decides a fallback plan again and launches the better one. False where the plan at hand is to be
  /// used.
  [[nodiscard, gnu::cold]] bool launch_decided_again(operator_state& now, const plan& found,
                                                     const void* arguments, stream launch_stream,
                                                     const workspace& given);

  void launch_new(operator_state& now, const call_problem& problem, std::uint64_t key, const void* arguments,
                  stream launch_stream, const workspace& given);

  /// The same where the catalog is sealed.
  void launch_sealed(operator_state& now, const call_problem& problem, std::uint64_t key,
                     const void* arguments, stream launch_stream, const workspace& given);

  void run_fresh(operator_state& now, std::unique_ptr<plan>& fresh, const void* arguments,
                 stream launch_stream, const workspace& given);

  /// Puts a plan into the cache, or drops it for one that another thread put there. A fallback plan gives
  /// way. Null, with the plan left to the caller, when too many plans wait for a reader that stays long:
  /// memory stays bounded.
  [[nodiscard]] plan* publish(operator_state& now, std::unique_ptr<plan>& fresh);

  void retire(operator_state& now, plan* displaced);

  state_source& source_;
  device device_;
  std::atomic<operator_state*> current_{nullptr};  // which every call reads, as what is above
  reclaimer reclaimer_;
  // What writers contend for, on a cache line of its own.
  alignas(64) mutex mutex_;
  std::atomic<std::size_t> waiting_{0};        // retired plans that readers held when last looked at
  detail::kept_ranges prepared_;               // guarded by mutex_
  detail::replaced_states displaced_;          // for the source's calls alone
  std::unique_ptr<memory_source> own_memory_;  // of calls' workspaces; null: the driver gives it
  std::shared_ptr<const choice_limits> limits_;
  std::atomic<bool> has_warned_{false};  // of calls that checked mode cannot check
  std::unique_ptr<live_timer> timer_;    // null: no call is timed
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/device_dispatcher_impl.hpp>
#endif
