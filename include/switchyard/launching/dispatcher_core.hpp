// The launch path without an operator's type: find or make the plan, bind the parameters, call the driver.
//
// Any thread may call. A call of a problem that was met before takes no lock and allocates nothing; one of a
// new problem never waits for the thread that replaces files, which loads and frees on its own account.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>
#include <switchyard/base/reclaimer.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/bind_parameters.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/launching/binding_source.hpp>
#include <switchyard/launching/call_errors.hpp>
#include <switchyard/launching/carry_plans.hpp>
#include <switchyard/launching/kept_ranges.hpp>
#include <switchyard/launching/launch_late.hpp>
#include <switchyard/launching/launch_layout.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/launching/prepare_ranges.hpp>
#include <switchyard/launching/workspace.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/argument_axes.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/problem/problem_key.hpp>

namespace switchyard {
inline namespace v0 {

class dispatcher_core final : public binding_user {
 public:
  /// Throws error when the operator's files cannot be read, or the device has none that run.
  dispatcher_core(const operator_description& op, binding_source& source, device target)
      : op_{op}, source_{source}, device_{std::move(target)}, driver_{device_.driver().get()} {
    source_.attach(op_, device_, *this);
  }
  dispatcher_core(const dispatcher_core&) = delete;
  dispatcher_core& operator=(const dispatcher_core&) = delete;
  /// No call may be under way.
  ~dispatcher_core() override {
    source_.detach(*this);
    delete current_.load(std::memory_order_relaxed);           // NOLINT(cppcoreguidelines-owning-memory)
    for (const binding* const each : displaced_) delete each;  // NOLINT(cppcoreguidelines-owning-memory)
  }

  /// Runs the operator. `call.key()` gives the problem's key; `call.problem()`, and `call.check()`, which
  /// says what is wrong with the arguments, are asked for new problems only. The operator's
  /// check_memory(), which says the same of what their addresses lead to, is asked at every call of a CPU.
  // Always inline: the key stays in registers.
  template <class Call>
  [[gnu::always_inline]] inline void launch(const void* arguments, stream launch_stream, workspace given,
                                            const Call& call) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    const auto key = call.key();  // behind what may call a function, else it would be kept in memory
    const std::uint64_t key_hash = hash(key);
    plan* found = now->plans_by_key().first_of(key_hash);
    if (found != nullptr && !plan_cache::is_of(*found, key)) [[unlikely]]
      found = find_behind(*now, key_hash, call);
    if (found != nullptr && found->direct != nullptr) [[likely]] {
      detail::pointer_array
          pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
      detail::bind_parameters(*found->direct, arguments, found->direct->image, pointers);
      // Loaded again: to keep it over the call would take one instruction more.
      const planned_launch& only = *found->direct;
      const status result = driver_->launch(only.function, only.geometry, pointers.data(), launch_stream);
      if (result != 0) [[unlikely]]
        detail::fail_launch(op_, *driver_, *found, 0, result, launch_stream);
      return;
    }
    if (found != nullptr && found->single != nullptr) {
      if (found->single->key != nullptr) return launch_kept(*now, *found, arguments, launch_stream);
      return launch_single(*now, *found, arguments, launch_stream);
    }
    launch_otherwise(*now, found, key_hash, arguments, launch_stream, given, call);
  }

  /// Makes sure that everything a call needs is loaded, and keeps its plan. `own` are the values of the
  /// operator's own axes, here as below.
  template <class Check>
  void prepare(problem_view own, const void* arguments, const Check& check) {
    bool is_new = true;
    for (;;) {
      const reclaimer::guard guard{reclaimer_};
      binding* const now = current_.load(std::memory_order_seq_cst);
      const packed_problem problem = now->pack(own, arguments);
      const std::uint64_t key = now->hash_of(problem);
      const plan* const found = now->plans().find(key, problem);
      if (found == nullptr || (found->is_provisional && found->kind->may_decide_again())) {
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
  void prepare(problem_view own, const void* arguments, std::span<const axis_span> ranges) {
    const auto fresh =
        std::make_shared<const detail::prepared_ranges>(detail::read_ranges(op_, own, arguments, ranges));
    for (;;) {
      const reclaimer::guard guard{reclaimer_};
      binding* const now = current_.load(std::memory_order_seq_cst);
      (void)detail::load_ranges(*now, *fresh);
      const locked lock{mutex_};
      prepared_.add(op_, fresh);
      if (current_.load(std::memory_order_relaxed) == now) return;  // else it was replaced meanwhile
    }
  }

  [[nodiscard]] explanation explain(problem_view own, const void* arguments) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    return now->explain(expanded_problem{now->op(), now->pack(own, arguments)}.view());
  }

  /// Bytes of workspace that a call takes. What the call needs is loaded, and its plan kept, so that a caller
  /// who asks before each call pays for a new problem once. Inside a capture nothing is loaded.
  template <class Check>
  [[nodiscard]] std::size_t workspace_bytes(problem_view own, const void* arguments, stream launch_stream,
                                            const Check& check) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    const packed_problem problem = now->pack(own, arguments);
    const std::uint64_t key = now->hash_of(problem);
    if (const plan* found = now->plans().find(key, problem)) return found->workspace_bytes;
    require_legal(own, check);
    const loading may_load = driver_->capturing(launch_stream) ? loading::refused : loading::allowed;
    std::unique_ptr<plan> fresh = now->make_plan(problem, key, may_load);
    const plan* const published = publish(*now, fresh);
    return (published != nullptr ? published : fresh.get())->workspace_bytes;
  }

  [[nodiscard]] const device& target() const noexcept { return device_; }

  /// Takes a new binding into use. What the old one served is decided and loaded first, here, so that no call
  /// pays for it. The old one is freed here as well, or by free_replaced() where a call still uses it.
  [[nodiscard]] bool adopt(std::unique_ptr<binding>&& fresh) override {
    binding* old = nullptr;
    displaced_.reserve(displaced_.size() + 1);  // nothing fails once calls use the fresh one
    for (int round = 0;; ++round) {
      const std::size_t prepared = prepare_again(*fresh);
      if (!detail::carry_plans(reclaimer_, current_, *fresh)) return false;
      const locked lock{mutex_};
      if (prepared_.changes() != prepared && round < most_rounds) continue;  // more was prepared meanwhile
      fresh->begin_service();
      old = current_.exchange(fresh.release(), std::memory_order_seq_cst);
      break;
    }
    if (old == nullptr) return true;
    displaced_.push_back(old);
    free_replaced();
    return true;
  }

  [[nodiscard]] const binding* in_use() const noexcept override {
    return current_.load(std::memory_order_acquire);
  }

  void free_replaced() override {
    std::erase_if(displaced_, [this](binding* old) {
      return reclaimer_.retire_for_owner(old, [](void* each) { delete static_cast<binding*>(each); });
    });
    // Calls leave within microseconds. What a slow or preempted one still uses is freed by a later reload.
    for (int attempt = 0; attempt < most_attempts && reclaimer_.collect_owned() > 0; ++attempt) {
    }
  }

 private:
  static constexpr int most_rounds = 4;
  static constexpr int most_attempts = 8;

  /// Loads what was prepared; returns the changes of the kept ranges up to then.
  std::size_t prepare_again(binding& fresh) {
    detail::kept_ranges::list all;
    std::size_t changes = 0;
    {
      const locked lock{mutex_};
      all = prepared_.all();
      changes = prepared_.changes();
    }
    const std::size_t share = detail::kept_ranges::share_of_each(all);
    for (const auto& each : all) {
      try {
        (void)detail::load_ranges(fresh, *each, share);
      } catch (const error&) {
        // A call in the range meets the error itself.
      }
    }
    return changes;
  }

  // It makes the key again, so that the way of the other calls need not keep it.
  template <class Call>
  [[nodiscard, gnu::noinline]] static plan* find_behind(binding& now, std::uint64_t key_hash,
                                                        const Call& call) noexcept {
    return now.plans_by_key().find(key_hash, call.key());
  }

  template <class Call>
  [[gnu::noinline]] void launch_otherwise(binding& now, plan* found, std::uint64_t key_hash,
                                          const void* arguments, stream launch_stream, workspace given,
                                          const Call& call) {
    if (found == nullptr) [[unlikely]] {
      const auto own = call.problem();
      if (now.reads_arguments()) found = find_packed(now, own, key_hash, arguments);
      if (found == nullptr) {
        require_legal(own, [&call] { return call.check(); });
        if (op_.check_memory != nullptr && now.device().backend == "host") require_memory(own, arguments);
        if (!now.reads_arguments()) return launch_new(now, own, key_hash, arguments, launch_stream, given);
        const packed_problem packed = now.pack(own, arguments);
        return launch_new(now, packed, now.hash_of(packed), arguments, launch_stream, given);
      }
      if (found->checks_memory) require_memory(own, arguments);
      return launch_packed(now, *found, arguments, launch_stream, given);
    }
    if (found->checks_memory) {
      require_memory(problem_view{found->problem}.first(op_.own_axes()), arguments);
      if (found->behind_check != nullptr)
        return launch_direct(*found, *found->behind_check, arguments, launch_stream);
    }
    launch_known(now, *found, arguments, launch_stream, given);
  }

  void require_memory(problem_view own, const void* arguments) const {
    if (const std::string wrong = op_.check_memory(arguments); !wrong.empty())
      detail::fail_illegal(op_, own, wrong);
  }

  /// The plan of a call of an operator with axes that files added; null where its problem is new.
  [[nodiscard, gnu::noinline]] static plan* find_packed(binding& now, problem_view own,
                                                        std::uint64_t key_hash, const void* arguments) {
    added_values values;  // NOLINT(cppcoreguidelines-pro-type-member-init): read_arguments writes it
    const problem_view added = now.read_arguments(own, arguments, values);
    return now.plans().find(binding::hash_of(key_hash, added), own, added);
  }

  [[gnu::noinline]] void launch_packed(binding& now, plan& found, const void* arguments, stream launch_stream,
                                       workspace given) {
    const planned_launch* const direct = found.direct != nullptr ? found.direct : found.behind_check;
    if (direct != nullptr) {
      launch_direct(found, *direct, arguments, launch_stream);
    } else if (found.single != nullptr && found.single->key != nullptr) {
      launch_kept(now, found, arguments, launch_stream);
    } else if (found.single != nullptr) {
      launch_single(now, found, arguments, launch_stream);
    } else {
      launch_known(now, found, arguments, launch_stream, given);
    }
  }

  /// The one launch of a plan for which nothing is left to compute.
  void launch_direct(const plan& of, const planned_launch& only, const void* arguments,
                     stream launch_stream) {
    detail::pointer_array
        pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
    detail::bind_parameters(only, arguments, only.image, pointers);
    const status result = driver_->launch(only.function, only.geometry, pointers.data(), launch_stream);
    if (result != 0) [[unlikely]]
      detail::fail_launch(op_, *driver_, of, 0, result, launch_stream);
  }

  template <class Check>
  void require_legal(problem_view own, const Check& check) const {
    if (const std::string wrong = check(); !wrong.empty()) detail::fail_illegal(op_, own, wrong);
  }

  void launch_known(binding& now, plan& found, const void* arguments, stream launch_stream, workspace given) {
    if (found.is_provisional && found.kind->may_decide_again() &&
        launch_decided_again(now, found, arguments, launch_stream, given)) {
      return;
    }
    if (found.is_counted) {
      found.count.fetch_add(1, std::memory_order_relaxed);
      found.kind->trace(found);
    }
    run(now, found, arguments, launch_stream, given);
  }

  /// Decides a provisional plan again and launches the better one. False where the plan at hand is to be
  /// used.
  [[nodiscard, gnu::cold]] bool launch_decided_again(binding& now, const plan& found, const void* arguments,
                                                     stream launch_stream, workspace given) {
    std::unique_ptr<plan> fresh;
    try {
      if (driver_->capturing(launch_stream)) {
        fresh = now.make_plan(found.problem, found.hash, loading::refused);
      } else if (const kind_binding::deciding_again mine{*found.kind}) {
        fresh = now.make_plan(found.problem, found.hash, loading::allowed);
      }
    } catch (const driver_error& problem) {
      if (problem.kind() == failure_kind::context) throw;  // else the plan at hand still works
    }
    if (fresh == nullptr) return false;
    run_fresh(now, fresh, arguments, launch_stream, given);
    return true;
  }

  void launch_new(binding& now, problem_view problem, std::uint64_t key, const void* arguments,
                  stream launch_stream, workspace given) {
    if (!driver_->owns(launch_stream)) detail::fail_foreign(op_, *driver_);
    const loading may_load = driver_->capturing(launch_stream) ? loading::refused : loading::allowed;
    std::unique_ptr<plan> fresh = now.make_plan(problem, key, may_load);
    run_fresh(now, fresh, arguments, launch_stream, given);
  }

  void run_fresh(binding& now, std::unique_ptr<plan>& fresh, const void* arguments, stream launch_stream,
                 workspace given) {
    now.note(*fresh, 1);
    if (fresh->is_counted) fresh->kind->trace(*fresh);
    plan* const published = publish(now, fresh);
    run(now, published != nullptr ? *published : *fresh, arguments, launch_stream, given);
  }

  /// Puts a plan into the cache, or drops it for one that another thread put there. A provisional plan gives
  /// way. Null, with the plan left to the caller, when too many plans wait for a reader that stays long:
  /// memory stays bounded.
  [[nodiscard]] plan* publish(binding& now, std::unique_ptr<plan>& fresh) {
    if (waiting_.load(std::memory_order_relaxed) > detail::most_waiting) {
      const std::size_t left = reclaimer_.collect();
      waiting_.store(left, std::memory_order_relaxed);
      if (left > detail::most_waiting) return nullptr;
    }
    plan* displaced = nullptr;
    plan* published = nullptr;
    {
      const locked lock{mutex_};
      published = now.plans().find(fresh->hash, fresh->problem);
      if (published == nullptr) {
        displaced = now.plans().insert(fresh.get());
        published = fresh.release();
      } else if (published->is_provisional) {
        now.plans().replace(published, fresh.get());
        displaced = std::exchange(published, fresh.release());
      }
    }
    if (displaced != nullptr) retire(now, displaced);
    return published;
  }

  void retire(binding& now, plan* displaced) {
    now.note(*displaced, displaced->count.exchange(0, std::memory_order_relaxed));
    const std::size_t left =
        reclaimer_.retire_lazily(displaced, [](void* each) { delete static_cast<plan*>(each); });
    waiting_.store(left, std::memory_order_relaxed);
  }

  /// `passed_over`: the variants that were tried for this call before; null: none.
  void run(binding& now, const plan& of, const void* arguments, stream launch_stream, workspace given,
           const std::vector<std::uint32_t>* passed_over = nullptr) {
    const planned_launch* started = nullptr;
    try {
      const detail::scratch memory{*driver_, op_, of.workspace_bytes, given, launch_stream};
      detail::local_image local;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      const image_line* image = nullptr;
      for (std::size_t i = 0; i < of.launches.size(); ++i) {
        const planned_launch& each = of.launches[i];
        if (each.is_empty) continue;
        const status result =
            each.is_fill
                ? driver_->fill(memory.at(of.workspace[each.fill_workspace]), each.fill_byte,
                                of.workspace[each.fill_workspace].bytes, launch_stream)
                : detail::late_call{now, *driver_, reclaimer_, of, arguments, launch_stream, &memory}.start(
                      each, local, image);
        if (result != 0) detail::fail_launch(op_, *driver_, of, i, result, launch_stream);
        if (!each.is_fill) started = &each;
      }
    } catch (const call_error& problem) {
      // A kernel that was started may have written results that are inputs as well.
      if (problem.code() != error_code::evaluation_failed || started != nullptr) throw;
      run_without(now, of, problem, arguments, launch_stream, given, passed_over);
    }
  }

  /// Runs a call by the next variant: an argument of this call makes one of the plan's expressions
  /// impossible. Its plan is not kept, since the plan at hand serves other calls of the same problem.
  [[gnu::cold, gnu::noinline]] void run_without(binding& now, const plan& unfit, const call_error& problem,
                                                const void* arguments, stream launch_stream, workspace given,
                                                const std::vector<std::uint32_t>* before = nullptr) {
    const loading may_load = driver_->capturing(launch_stream) ? loading::refused : loading::allowed;
    std::vector<std::uint32_t> passed_over;
    if (before != nullptr) passed_over = *before;
    passed_over.push_back(unfit.chosen.variant);
    std::unique_ptr<plan> next;
    try {
      next = unfit.kind->make_plan_without(passed_over, unfit, problem, may_load);
    } catch (const call_error& nothing_left) {
      if (nothing_left.code() != error_code::no_variant) throw;
      throw call_error{problem};
    }
    run(now, *next, arguments, launch_stream, given, &passed_over);
  }

  /// The one launch of a plan, whose image may have been kept.
  [[gnu::noinline]] void launch_kept(binding& now, const plan& of, const void* arguments,
                                     stream launch_stream) {
    const planned_launch& only = *of.single;
    detail::pointer_array
        pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
    if (only.late_grid != nullptr ||
        only.bind_kept(now.images(), only, static_cast<const std::byte*>(arguments), nullptr,
                       pointers.data()) == nullptr) [[unlikely]] {
      return launch_single(now, of, arguments, launch_stream);
    }
    const status result = driver_->launch(only.function, only.geometry, pointers.data(), launch_stream);
    if (result != 0) [[unlikely]]
      detail::fail_launch(op_, *driver_, of, 0, result, launch_stream);
  }

  /// The one launch of a plan, with late values or tensor maps.
  [[gnu::noinline]] void launch_single(binding& now, const plan& of, const void* arguments,
                                       stream launch_stream) {
    try {
      detail::local_image local;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
      const detail::late_call call{now, *driver_, reclaimer_, of, arguments, launch_stream, nullptr};
      const image_line* image = nullptr;
      const status result = call.start(*of.single, local, image);
      if (result != 0) [[unlikely]]
        detail::fail_launch(op_, *driver_, of, 0, result, launch_stream);
    } catch (const call_error& problem) {
      if (problem.code() != error_code::evaluation_failed) throw;
      run_without(now, of, problem, arguments, launch_stream, {});
    }
  }

  const operator_description& op_;
  binding_source& source_;
  device device_;
  // What every call reads.
  device_driver* driver_;
  std::atomic<binding*> current_{nullptr};
  reclaimer reclaimer_;
  // What writers contend for, on a cache line of its own.
  alignas(64) mutex mutex_;
  std::atomic<std::size_t> waiting_{0};  // retired plans that readers held when last looked at
  detail::kept_ranges prepared_;         // guarded by mutex_
  std::vector<binding*> displaced_;      // owned, until the reclaimer has them; for the source's calls alone
};

}  // namespace v0
}  // namespace switchyard
