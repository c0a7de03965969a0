// SPDX-License-Identifier: MIT
// What serves one operator on one device, from one snapshot of the disk: the kernels of each type signature
// that calls have needed, and the plans made so far.
//
// Any thread may enter. Selectors of type signatures are made by one thread at a time: a thread that meets a
// new type signature waits for the thread that is making one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/observers.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/problem/problem_key.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/type_kernels.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>

namespace switchyard {
inline namespace v0 {

class operator_state {
 public:
  /// `generation` may be null; else it grows when a variant leaves service or returns to it. `clock` is the
  /// one that variants wait by which are loaded again later.
  operator_state(std::shared_ptr<const operator_selectors> selectors, std::shared_ptr<kernel_loader> loader,
                 std::shared_ptr<log> messages, std::shared_ptr<recorder> record, std::size_t plan_capacity,
                 std::shared_ptr<generation_counter> generation = nullptr,
                 nanosecond_clock clock = monotonic_nanoseconds, observers seen_by = {});
  operator_state(const operator_state&) = delete;
  operator_state& operator=(const operator_state&) = delete;
  /// No launch may be under way.
  ~operator_state();

  [[nodiscard]] const operator_description& op() const noexcept { return shared_.selectors->op(); }
  [[nodiscard]] const device_properties& device() const noexcept { return shared_.selectors->device(); }
  [[nodiscard]] device_driver& driver() const noexcept { return shared_.loader->driver(); }
  /// Whether files add axes that read arguments. Plans then depend on more than a call's key.
  [[nodiscard]] bool reads_arguments() const noexcept { return op().added_count > 0; }
  [[nodiscard]] plan_cache& plans() noexcept { return plans_; }
  /// A call's problem. `own` has the operator's own axes, and outlives it.
  [[nodiscard]] call_problem problem_of(problem_view own, const void* arguments) const noexcept {
    return {op(), own, device().attributes, arguments};
  }
  [[nodiscard]] call_problem problem_of(const kept_problem& of) const noexcept {
    return {op(), of.own(), of.conditions()};
  }
  /// What a problem's plan is found by: the hash of its calls' keys.
  [[nodiscard]] std::uint64_t hash_of(const call_problem& problem) const noexcept {
    return hash(make_key(op(), problem.own()));
  }
  /// The plan of a call, from a plan that its key finds; null where there is none. For operators that files
  /// added axes to.
  [[nodiscard]] plan* find_alike(plan& found, const void* arguments) const noexcept {
    return plan_cache::find_alike(
        found, op().added->evaluate(op().added_count, {found.problem.own(), device().attributes, op().fields,
                                                       static_cast<const std::byte*>(arguments)}));
  }
  /// The parameter blocks that are kept for plans' launches.
  [[nodiscard]] parameter_block_cache& parameter_blocks() noexcept { return *shared_.parameter_blocks; }
  [[nodiscard]] log& messages() const noexcept { return *shared_.messages; }
  /// The catalog's seal; null: it has none.
  [[nodiscard]] seal* sealed() const noexcept { return shared_.seen_by.sealed.get(); }
  /// Counts an error, an event of a seal, and the like, where a catalog does.
  template <class What>
  void count(const What& what) const noexcept {
    shared_.seen_by.count(what);
  }
  /// Whether calls' tensors of indices are read before they are launched.
  [[nodiscard]] bool is_checked() const noexcept { return shared_.seen_by.is_checked; }
  /// Ranges around calls; may be off.
  [[nodiscard]] const range_hooks& ranges() const noexcept { return shared_.seen_by.ranges; }

  /// The selectors of all type signatures.
  [[nodiscard]] const std::shared_ptr<const operator_selectors>& selectors() const noexcept {
    return shared_.selectors;
  }

  /// The kernels of a problem's type signature. Throws call_error no_variant or nothing_forced where there
  /// are none.
  [[nodiscard]] type_kernels& kernels_for(problem_view problem);

  /// The choice that a call comes to, with its grounds; as far as its arguments matter, where they are given.
  [[nodiscard]] explanation explain(problem_view problem, const std::byte* arguments = nullptr);

  /// Chooses, loads and lays out; throws as type_kernels::make_plan() and kernels_for() do.
  [[nodiscard]] std::unique_ptr<plan> make_plan(const call_problem& problem, std::uint64_t hash,
                                                loading may_load);

  /// Called before calls use it. Until then what cannot be loaded changes no call's choice.
  void begin_service() noexcept { shared_.is_in_service.store(true, std::memory_order_relaxed); }

  /// Whether a variant is out of service, for good or for now.
  [[nodiscard]] bool has_failures() const noexcept;

  /// The variants that are out of service since a blob was missing or not the pinned one.
  [[nodiscard]] std::vector<const variant*> without_blob() const;

  /// Frees a plan, recording the calls that were counted.
  void discard(plan* unused) const noexcept;

  void note(const plan& used, std::uint64_t count) const noexcept;

 private:
  struct known_kernels {
    type_signature signature;
    type_kernels kernels;
    known_kernels* next = nullptr;
  };

  [[nodiscard]] static std::size_t bucket_of(const type_signature& signature) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < signature.values.size(); ++i)
      sum += signature.values[i] * detail::hash_factors[i];
    sum += signature.conditions * detail::hash_factors[max_axes];
    return (sum >> 32U) % buckets;
  }

  [[nodiscard]] type_kernels* find(const type_signature& signature) const noexcept {
    known_kernels* known = known_[bucket_of(signature)].load(std::memory_order_acquire);
    while (known != nullptr && known->signature != signature) known = known->next;
    return known != nullptr ? &known->kernels : nullptr;
  }

  /// Reads the selector of a type signature. Null, and nothing is kept, where no variant is of it.
  [[nodiscard]] type_kernels* make(const type_signature& signature);

  static constexpr std::size_t buckets = 64;

  operator_context shared_;
  plan_cache plans_;
  std::array<std::atomic<known_kernels*>, buckets> known_{};  // lists that only grow; owned
  mutex known_mutex_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/operator_state_impl.hpp>
#endif
