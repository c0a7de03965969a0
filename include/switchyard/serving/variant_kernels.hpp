// SPDX-License-Identifier: MIT
// Loads the kernels of the variants that may serve one type signature. A variant that fails to load leaves
// service: for good, or for some time if the failure is transient.
//
// Any thread may enter. A thread waits only for the loading of a kernel that it needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class variant_kernels {
 public:
  static constexpr std::int64_t at_any_time = INT64_MAX;

  /// Both outlive it.
  variant_kernels(operator_context& shared, const selector& from)
      : shared_{shared},
        selector_{from},
        unusable_(from.candidates.size()),
        variants_(from.candidates.size()) {}
  variant_kernels(const variant_kernels&) = delete;
  variant_kernels& operator=(const variant_kernels&) = delete;

  /// By candidate, whether it is out of service.
  [[nodiscard]] const std::vector<std::atomic<bool>>& unusable() const noexcept { return unusable_; }

  /// Whether a variant's kernels are loaded.
  [[nodiscard]] bool is_loaded(std::uint32_t index) const noexcept {
    return variants_[index].ready.load(std::memory_order_acquire) != nullptr;
  }

  /// How often a variant was suspended or returned to service.
  [[nodiscard]] std::uint64_t service_changes() const noexcept {
    return service_changes_.load(std::memory_order_acquire);
  }

  /// Whether a variant is tried again later.
  [[nodiscard]] bool is_waiting() const noexcept { return waiting_.load(std::memory_order_acquire) > 0; }

  /// Whether a variant that was waited for is due, or none is waited for.
  [[nodiscard]] bool may_decide_again() const noexcept;

  /// Whether a variant is out of service, for good or for now.
  [[nodiscard]] bool has_failures() const noexcept {
    for (const std::atomic<bool>& flag : unusable_) {
      if (flag.load(std::memory_order_relaxed)) return true;
    }
    return false;
  }

  /// Visits the variants that are out of service since a blob was missing or not the pinned one.
  template <class Visitor>
  void for_each_without_blob(const Visitor& visit) const {
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      if (variants_[i].lacks_blob.load(std::memory_order_relaxed)) visit(*selector_.candidates[i].variant);
    }
  }

  [[nodiscard]] std::string name_of(std::uint32_t index) const;

  /// The kernels of a variant's launches, loaded now where they are not. Null where one cannot be loaded;
  /// `transient` is then set where the failure may pass. Throws driver_error where the context is broken, and
  /// load_during_capture where a blob would have to be loaded and may not be.
  [[nodiscard]] const std::vector<loaded_kernel>* load(std::uint32_t index, loading may_load,
                                                       std::unique_ptr<const driver_error>& transient);

  /// Warns once of a variant that does not fit a problem.
  [[gnu::cold]] void warn_unfit(std::uint32_t index, const error& problem);

  /// The time until which waits are over, 0 where none can be.
  [[nodiscard]] std::int64_t retry_due_now() const noexcept {
    return waiting_.load(std::memory_order_relaxed) > 0 ? shared_.clock() : 0;
  }

  /// Returns the variants to service whose wait ends by then.
  void return_to_service(std::int64_t by_then) noexcept;

  /// Tells the driver of more shared memory or a cluster, where a launch asks for more than any before it.
  /// Throws driver_error launch_failed for a launch that the device cannot make.
  void configure(const plan& out, std::uint32_t index);

 private:
  static constexpr std::int64_t first_wait_ns = 1'000'000'000;
  static constexpr unsigned max_doublings = 6;

  struct loaded_variant {
    std::atomic<const std::vector<loaded_kernel>*> ready{nullptr};
    std::vector<loaded_kernel> kernels;
    std::atomic<bool> has_warned{false};  // that it does not fit some problem
    std::atomic<bool> lacks_blob{false};  // and is out of service: the blob was missing or not the pinned one
    mutex load_mutex;                     // held while the kernels are loaded
    unsigned failures = 0;  // loads in a row that failed for what may pass; guarded by load_mutex
    std::unique_ptr<const driver_error> last_failure;  // of those; guarded by load_mutex
    mutex configure_mutex;
    std::vector<launch_geometry> configured;  // guarded by configure_mutex
    std::int64_t retry_at = 0;  // when it is tried again, 0: not waiting; guarded by waits_mutex_
  };

  [[noreturn, gnu::cold]] void fail_unloaded(const variant& chosen, loading may_load) const;

  /// Takes a variant out of service for as long as this operator state is used.
  [[gnu::cold]] void retire(std::uint32_t index, const error& problem);

  /// Takes a variant out of service until it is tried again: after a second, then after twice as long each
  /// time. The caller holds the variant's load_mutex.
  [[gnu::cold]] void suspend(std::uint32_t index, loaded_variant& slot, const error& problem);

  [[gnu::cold]] void count_failed_load() noexcept;

  void count_generation() noexcept;

  [[noreturn, gnu::cold]] void fail_grid(const variant& of, std::size_t index, const dim3& grid) const;

  operator_context& shared_;
  const selector& selector_;
  std::vector<std::atomic<bool>> unusable_;
  std::vector<loaded_variant> variants_;
  std::atomic<unsigned> waiting_{0};               // variants that are tried again later
  std::atomic<std::int64_t> next_retry_{0};        // when the first of them is due
  std::atomic<std::uint64_t> service_changes_{0};  // variants that were suspended or returned to service
  mutex waits_mutex_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/variant_kernels_impl.hpp>
#endif
