// SPDX-License-Identifier: MIT
// The bodies of variant_kernels.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/parameters/layout_maker.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/serving/operator_context.hpp>
#include <switchyard/serving/variant_kernels.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION bool variant_kernels::may_decide_again() const noexcept {
  return waiting_.load(std::memory_order_relaxed) == 0 ||
         shared_.clock() >= next_retry_.load(std::memory_order_relaxed);
}

SWITCHYARD_FUNCTION std::string variant_kernels::name_of(std::uint32_t index) const {
  return "variant '" + selector_.candidates[index].variant->id + "' of " + std::string{selector_.op->name};
}

SWITCHYARD_FUNCTION const std::vector<loaded_kernel>* variant_kernels::load(
    std::uint32_t index, loading may_load, std::unique_ptr<const driver_error>& transient) {
  loaded_variant& slot = variants_[index];
  if (const auto* ready = slot.ready.load(std::memory_order_acquire)) return ready;
  const locked lock{slot.load_mutex};
  if (const auto* ready = slot.ready.load(std::memory_order_relaxed)) return ready;
  if (unusable_[index].load(std::memory_order_relaxed)) {  // by a thread that was here first
    if (slot.last_failure != nullptr) transient = std::make_unique<const driver_error>(*slot.last_failure);
    return nullptr;
  }
  const variant& chosen = *selector_.candidates[index].variant;
  try {
    std::vector<loaded_kernel> kernels(chosen.launches.size());
    const launch_layout* before = nullptr;  // fills do not count
    for (std::size_t i = 0; i < chosen.launches.size(); ++i) {
      const launch& launch = chosen.launches[i];
      if (launch.is_fill) continue;
      kernels[i] =
          may_load == loading::allowed ? shared_.loader->load(launch) : shared_.loader->find_loaded(launch);
      if (kernels[i].function == nullptr) fail_unloaded(chosen, may_load);
      kernels[i].layout = detail::layout_maker{selector_, chosen, launch, before}.make();
      before = kernels[i].layout.get();
      // What no problem changes is refused once, and not at each launch.
      if (before->is_block_known) shared_.loader->driver().configure(kernels[i].function, before->geometry);
    }
    slot.kernels = std::move(kernels);
    slot.configured.resize(slot.kernels.size());
    slot.ready.store(&slot.kernels, std::memory_order_release);
    // Only now: a graph captured before holds the variant that served meanwhile.
    if (slot.failures > 0) count_generation();
    slot.last_failure = nullptr;
    const unsigned failures = std::exchange(slot.failures, 0U);
    shared_.seen_by.count(&operator_tally::loads);
    if (failures > 0 && shared_.messages->level() != debug_level::silent) {
      shared_.messages->line("switchyard: " + name_of(index) + " was loaded after " +
                             std::to_string(failures) + " failures and serves again");
    }
    return &slot.kernels;
  } catch (const driver_error& problem) {
    if (problem.code() == error_code::load_during_capture) throw;
    count_failed_load();
    if (problem.kind() == failure_kind::context) throw;
    if (problem.kind() == failure_kind::transient) {
      transient = std::make_unique<const driver_error>(problem);
      slot.last_failure = std::make_unique<const driver_error>(problem);
      suspend(index, slot, problem);
    } else {
      retire(index, problem);
    }
  } catch (const error& problem) {
    if (problem.code() == error_code::not_prepared) throw;
    count_failed_load();
    retire(index, problem);
  }
  return nullptr;
}

SWITCHYARD_FUNCTION void variant_kernels::warn_unfit(std::uint32_t index, const error& problem) {
  if (variants_[index].has_warned.exchange(true, std::memory_order_relaxed)) return;
  shared_.messages->warn(std::string{problem.what()} + " (" + name_of(index) +
                         " is passed over for such calls; the next candidate is used)");
}

SWITCHYARD_FUNCTION void variant_kernels::return_to_service(std::int64_t by_then) noexcept {
  if (by_then == 0) return;
  const locked lock{waits_mutex_};
  std::int64_t next = at_any_time;
  for (std::size_t index = 0; index < variants_.size(); ++index) {
    std::int64_t& retry_at = variants_[index].retry_at;
    if (retry_at == 0) continue;
    if (retry_at > by_then) {
      if (retry_at < next) next = retry_at;
      continue;
    }
    retry_at = 0;
    unusable_[index].store(false, std::memory_order_relaxed);
    service_changes_.fetch_add(1, std::memory_order_acq_rel);
    waiting_.fetch_sub(1, std::memory_order_acq_rel);
  }
  next_retry_.store(next, std::memory_order_relaxed);
}

SWITCHYARD_FUNCTION void variant_kernels::configure(const plan& out, std::uint32_t index) {
  loaded_variant& slot = variants_[index];
  for (std::size_t i = 0; i < out.launches.size(); ++i) {
    const planned_launch& launch = out.launches[i];
    if (launch.is_fill || launch.is_empty) continue;
    if (launch.per_call_grid == nullptr && !shared_.loader->driver().accepts_grid(launch.geometry))
        [[unlikely]]
      fail_grid(*selector_.candidates[index].variant, i, launch.geometry.grid);
    if (launch.layout->is_block_known && launch.geometry.shared_bytes == 0 &&
        launch.geometry.cluster == dim3{})
      continue;
    const locked lock{slot.configure_mutex};
    launch_geometry& before = slot.configured[i];
    if (launch.geometry.shared_bytes <= before.shared_bytes && launch.geometry.cluster == before.cluster &&
        launch.geometry.block == before.block)
      continue;
    shared_.loader->driver().configure(launch.function, launch.geometry);
    before = launch.geometry;
  }
}

SWITCHYARD_FUNCTION void variant_kernels::fail_unloaded(const variant& chosen, loading may_load) const {
  if (may_load == loading::sealed) {
    throw call_error{error_code::not_prepared,
                     std::string{selector_.op->name} + ": variant '" + chosen.id +
                         "' is not loaded, and the sealed catalog refuses to load. Call "
                         "prepare() with this problem before seal()"};
  }
  throw driver_error{
      error_code::load_during_capture,
      std::string{selector_.op->name} + ": variant '" + chosen.id +
          "' is not loaded yet, and nothing can be loaded while the stream is being captured. Call "
          "prepare() with this problem before the capture"};
}

SWITCHYARD_FUNCTION void variant_kernels::retire(std::uint32_t index, const error& problem) {
  if (problem.code() == error_code::blob_missing || problem.code() == error_code::blob_hash_differs)
    variants_[index].lacks_blob.store(true, std::memory_order_relaxed);
  unusable_[index].store(true, std::memory_order_relaxed);
  count_generation();
  shared_.messages->warn(std::string{problem.what()} + " (" + name_of(index) +
                         " is out of service; the next candidate is used)");
}

SWITCHYARD_FUNCTION void variant_kernels::suspend(std::uint32_t index, loaded_variant& slot,
                                                  const error& problem) {
  const std::int64_t wait = first_wait_ns << (slot.failures < max_doublings ? slot.failures : max_doublings);
  const std::int64_t retry_at = shared_.clock() + wait;
  slot.failures += 1;
  {
    const locked lock{waits_mutex_};
    slot.retry_at = retry_at;
    // The counts first: who does not see the variant sees that something changed.
    const bool is_first = waiting_.fetch_add(1, std::memory_order_acq_rel) == 0;
    service_changes_.fetch_add(1, std::memory_order_acq_rel);
    unusable_[index].store(true, std::memory_order_release);
    if (is_first || retry_at < next_retry_.load(std::memory_order_relaxed))
      next_retry_.store(retry_at, std::memory_order_relaxed);
  }
  if (slot.failures == 1) count_generation();  // a retry that fails again changes nothing
  const std::string message = std::string{problem.what()} + " (" + name_of(index) + " is tried again in " +
                              std::to_string(wait / first_wait_ns) +
                              " s; until then the next candidate is used)";
  if (slot.failures == 1) {
    shared_.messages->warn(message);
  } else if (shared_.messages->level() != debug_level::silent) {
    shared_.messages->line("switchyard: " + message);
  }
}

SWITCHYARD_FUNCTION void variant_kernels::count_failed_load() noexcept {
  shared_.seen_by.count(&operator_tally::failed_loads);
}

SWITCHYARD_FUNCTION void variant_kernels::count_generation() noexcept {
  if (shared_.generation != nullptr && shared_.is_in_service.load(std::memory_order_relaxed))
    shared_.generation->fetch_add(1, std::memory_order_release);
}

SWITCHYARD_FUNCTION void variant_kernels::fail_grid(const variant& of, std::size_t index,
                                                    const dim3& grid) const {
  throw driver_error{
      error_code::launch_failed,
      detail::explain_grid(of.launches[index].kernel, grid, shared_.loader->driver().properties().name)};
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
