// Problems of one kind under one snapshot of the disk: the variants that may serve them, and their kernels as
// far as they are loaded.
//
// Any thread may enter. A thread that needs a kernel which another one is loading waits for it; nobody waits
// for the loading of a kernel that it does not need.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <time.h>  // NOLINT(modernize-deprecated-headers,hicpp-deprecated-headers): there already
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/rule_book.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/format_plan.hpp>
#include <switchyard/launching/kernel_loader.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/launching/planner.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/problem/argument_axes.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a blob may be loaded now. Inside a stream capture it may not.
enum class loading : bool { refused, allowed };

/// Counts the events after which a choice may be another one.
using generation_counter = std::atomic<std::uint64_t>;

/// What the kinds of a binding share.
struct binding_context {
  std::shared_ptr<const rule_book> rules;
  std::shared_ptr<kernel_loader> loader;
  std::shared_ptr<log> messages;
  std::shared_ptr<recorder> record;                ///< null: problems are not recorded
  std::shared_ptr<generation_counter> generation;  ///< null: nobody counts
  std::atomic<bool> is_in_service{false};          ///< calls use the binding
  mutex images_mutex{};
  std::unique_ptr<image_cache> images = nullptr;  ///< written once, before a plan that needs it
};

class kind_binding {
 public:
  /// The context outlives it.
  kind_binding(binding_context& shared, std::shared_ptr<const selector> rules)
      : shared_{shared},
        rules_{std::move(rules)},
        unusable_(rules_->candidates.size()),
        variants_(rules_->candidates.size()) {}
  kind_binding(const kind_binding&) = delete;
  kind_binding& operator=(const kind_binding&) = delete;

  [[nodiscard]] const selector& rules() const noexcept { return *rules_; }

  [[nodiscard]] choice select(problem_view problem) const noexcept {
    return rules_->select(problem, unusable_);
  }

  /// The choice that a call comes to: a variant that cannot be computed for it gives way. What single
  /// arguments rule out is passed over as well, where they are given.
  [[nodiscard]] choice select_fitting(problem_view problem, const std::byte* arguments = nullptr) const {
    return switchyard::select_fitting(*rules_, problem, unusable_, arguments);
  }

  /// That choice with its grounds.
  [[nodiscard]] explanation explain(problem_view problem, const std::byte* arguments = nullptr) const {
    return switchyard::explain(*rules_, problem, select_fitting(problem, arguments), unusable_, arguments);
  }

  /// Chooses, loads and lays out. A winner that cannot be used gives way to the next candidate, with one
  /// warning; one whose load failed for want of memory and the like is tried again later, at once where
  /// nothing else serves; one whose grid, memory or parameters cannot be computed for this problem, or are
  /// more than the device takes, still serves other problems. Throws what refuse() does when nothing is left,
  /// else the error of such a variant, the load's own driver_error where that may pass or where the context
  /// is broken, and driver_error load_during_capture when a blob would have to be loaded and may not be. The
  /// problem is a packed one. `passed_over`: variants that are known not to serve this call.
  [[nodiscard]] std::unique_ptr<plan> make_plan(problem_view packed, std::uint64_t hash, loading may_load,
                                                std::vector<std::uint32_t> passed_over = {}) {
    const expanded_problem expanded{*rules_->op, packed};
    const problem_view problem = expanded.view();
    if (may_load == loading::allowed) return_to_service(retry_due_now());
    std::unique_ptr<const driver_error> passing;  // the last failure that may pass
    std::exception_ptr unfit;                     // why the first variant was passed over
    bool retried = false;
    for (;;) {
      const bool timed = shared_.messages->level() != debug_level::silent;
      const std::int64_t begin = timed ? nanoseconds() : 0;
      const std::uint64_t changes = service_changes_.load(std::memory_order_acquire);
      const choice chosen = passed_over.empty() ? select(problem) : select_without(passed_over, problem);
      const std::int64_t selected = timed ? nanoseconds() : 0;
      if (chosen.variant == no_index) {
        if (!retried && may_load == loading::allowed && waiting_.load(std::memory_order_relaxed) > 0) {
          retried = true;
          return_to_service(at_any_time);
          continue;
        }
        shared_.messages->count(chosen);
        if (passing) throw driver_error{*passing};
        if (unfit != nullptr) std::rethrow_exception(unfit);
        refuse(problem);
      }
      const std::vector<loaded_kernel>* kernels = load(chosen.variant, may_load, passing);
      if (kernels == nullptr) continue;
      auto out = std::make_unique<plan>();
      out->problem.assign(packed);
      out->hash = hash;
      out->chosen = chosen;
      out->kind = this;
      out->is_counted = shared_.record != nullptr || shared_.messages->level() == debug_level::launches;
      out->is_provisional = waiting_.load(std::memory_order_acquire) > 0 ||
                            service_changes_.load(std::memory_order_acquire) != changes;
      try {
        detail::planner{*rules_, *rules_->candidates[chosen.variant].variant, problem}.build(*kernels, *out);
        configure(*out, chosen.variant);
      } catch (const error& problem_of_variant) {
        if (!is_unfit(problem_of_variant)) throw;
        warn_unfit(chosen.variant, problem_of_variant);
        if (unfit == nullptr) unfit = std::make_exception_ptr(named(chosen.variant, problem_of_variant));
        passed_over.push_back(chosen.variant);
        continue;
      }
      make_room_for_images(*out);
      shared_.messages->count(chosen);
      if (timed) report(*out, {selected - begin, nanoseconds() - selected});
      return out;
    }
  }

  /// Makes a plan without the variants that an argument of the single call rules out. Throws as make_plan().
  [[nodiscard]] std::unique_ptr<plan> make_plan_without(std::vector<std::uint32_t> passed_over,
                                                        const plan& unfit, const error& problem,
                                                        loading may_load) {
    warn_unfit(unfit.chosen.variant, problem);
    return make_plan(unfit.problem, unfit.hash, may_load, std::move(passed_over));
  }

  /// Whether an error says that a variant does not fit one problem or call, though it may fit others.
  [[nodiscard]] static bool is_unfit(const error& problem) noexcept {
    return problem.code() == error_code::evaluation_failed || problem.code() == error_code::launch_failed;
  }

  /// Whether a provisional plan may be decided again: a variant that was waited for is due, or none is waited
  /// for any more.
  [[nodiscard]] bool may_decide_again() const noexcept {
    return waiting_.load(std::memory_order_relaxed) == 0 ||
           nanoseconds() >= next_retry_.load(std::memory_order_relaxed);
  }

  /// Lets one thread at a time decide provisional plans again: the others keep the plans that they have
  /// instead of waiting for its load.
  class deciding_again {
   public:
    explicit deciding_again(kind_binding& owner) noexcept
        : owner_{owner},
          is_mine_{owner.may_decide_again() &&
                   !owner.is_deciding_again_.exchange(true, std::memory_order_acquire)} {}
    deciding_again(const deciding_again&) = delete;
    deciding_again& operator=(const deciding_again&) = delete;
    ~deciding_again() {
      if (is_mine_) owner_.is_deciding_again_.store(false, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return is_mine_; }

   private:
    kind_binding& owner_;
    bool is_mine_;
  };

  /// Throws why nothing serves a problem: call_error no_variant or nothing_forced.
  [[noreturn, gnu::cold]] void refuse(problem_view problem) const {
    throw call_error{rules_->is_forced ? error_code::nothing_forced : error_code::no_variant,
                     shared_.rules->explain_failure(problem, *rules_, unusable_)};
  }

  /// Loads every kernel of a variant's launches. False when one cannot be loaded; `passing` is then set where
  /// the failure may pass.
  bool prepare(std::uint32_t variant, std::unique_ptr<const driver_error>& passing) {
    return load(variant, loading::allowed, passing) != nullptr;
  }

  /// Whether a variant is out of service, for good or for now.
  [[nodiscard]] bool has_failures() const noexcept {
    for (const std::atomic<bool>& each : unusable_) {
      if (each.load(std::memory_order_relaxed)) return true;
    }
    return false;
  }

  /// Visits the variants that are out of service since a blob was missing or not the pinned one.
  template <class Visitor>
  void for_each_without_blob(const Visitor& visit) const {
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      if (variants_[i].lacks_blob.load(std::memory_order_relaxed)) visit(*rules_->candidates[i].variant);
    }
  }

  /// A line for one launch, where they were asked for.
  void trace(const plan& each) const {
    if (shared_.messages->level() == debug_level::launches) report(each, {});
  }

 private:
  static constexpr std::int64_t at_any_time = INT64_MAX;
  static constexpr std::int64_t first_wait_ns = 1'000'000'000;
  static constexpr unsigned most_doublings = 6;

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

  [[nodiscard]] static std::int64_t nanoseconds() noexcept {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }

  [[nodiscard]] std::string name_of(std::uint32_t index) const {
    return "variant '" + rules_->candidates[index].variant->id + "' of " + std::string{rules_->op->name};
  }

  [[nodiscard]] const std::vector<loaded_kernel>* load(std::uint32_t index, loading may_load,
                                                       std::unique_ptr<const driver_error>& passing) {
    loaded_variant& slot = variants_[index];
    if (const auto* ready = slot.ready.load(std::memory_order_acquire)) return ready;
    const locked lock{slot.load_mutex};
    if (const auto* ready = slot.ready.load(std::memory_order_relaxed)) return ready;
    if (unusable_[index].load(std::memory_order_relaxed)) {  // by a thread that was here first
      if (slot.last_failure != nullptr) passing = std::make_unique<const driver_error>(*slot.last_failure);
      return nullptr;
    }
    const variant& chosen = *rules_->candidates[index].variant;
    try {
      std::vector<loaded_kernel> kernels(chosen.launches.size());
      const launch_layout* before = nullptr;  // fills do not count
      for (std::size_t i = 0; i < chosen.launches.size(); ++i) {
        const launch& each = chosen.launches[i];
        if (each.is_fill) continue;
        kernels[i] =
            may_load == loading::allowed ? shared_.loader->load(each) : shared_.loader->find_loaded(each);
        if (kernels[i].function == nullptr) fail_in_capture(chosen);
        kernels[i].layout = detail::layout_maker{*rules_, chosen, each, before}.make();
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
      if (failures > 0 && shared_.messages->level() != debug_level::silent) {
        shared_.messages->line("switchyard: " + name_of(index) + " was loaded after " +
                               std::to_string(failures) + " failures and serves again");
      }
      return &slot.kernels;
    } catch (const driver_error& problem) {
      if (problem.kind() == failure_kind::context || problem.code() == error_code::load_during_capture) throw;
      if (problem.kind() == failure_kind::transient) {
        passing = std::make_unique<const driver_error>(problem);
        slot.last_failure = std::make_unique<const driver_error>(problem);
        suspend(index, slot, problem);
      } else {
        retire(index, problem);
      }
    } catch (const error& problem) {
      retire(index, problem);
    }
    return nullptr;
  }

  [[noreturn, gnu::cold]] void fail_in_capture(const variant& chosen) const {
    throw driver_error{
        error_code::load_during_capture,
        std::string{rules_->op->name} + ": variant '" + chosen.id +
            "' is not loaded yet, and nothing can be loaded while the stream is being captured. Call "
            "prepare() with this problem before the capture"};
  }

  /// The choice among the variants that are in service and not passed over.
  [[nodiscard, gnu::cold]] choice select_without(const std::vector<std::uint32_t>& passed_over,
                                                 problem_view problem) const {
    std::vector<std::atomic<bool>> unusable(unusable_.size());
    for (std::size_t i = 0; i < unusable.size(); ++i)
      unusable[i].store(unusable_[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
    for (const std::uint32_t index : passed_over) unusable[index].store(true, std::memory_order_relaxed);
    return rules_->select(problem, unusable);
  }

  /// An error with the variant that it is of, which drivers do not know.
  [[nodiscard, gnu::cold]] call_error named(std::uint32_t index, const error& problem) const {
    std::string message{problem.message()};
    if (problem.code() == error_code::launch_failed) message = name_of(index) + ": " + message;
    return call_error{error_code::evaluation_failed, message};
  }

  /// Warns once of a variant that does not fit a problem.
  [[gnu::cold]] void warn_unfit(std::uint32_t index, const error& problem) {
    if (variants_[index].has_warned.exchange(true, std::memory_order_relaxed)) return;
    shared_.messages->warn(std::string{problem.what()} + " (" + name_of(index) +
                           " is passed over for such calls; the next candidate is used)");
  }

  /// Takes a variant out of service for as long as this binding is used.
  [[gnu::cold]] void retire(std::uint32_t index, const error& problem) {
    if (problem.code() == error_code::blob_missing || problem.code() == error_code::blob_hash_differs)
      variants_[index].lacks_blob.store(true, std::memory_order_relaxed);
    unusable_[index].store(true, std::memory_order_relaxed);
    count_generation();
    shared_.messages->warn(std::string{problem.what()} + " (" + name_of(index) +
                           " is out of service; the next candidate is used)");
  }

  /// Takes a variant out of service until it is tried again: after a second, then after twice as long each
  /// time. The caller holds the variant's load_mutex.
  [[gnu::cold]] void suspend(std::uint32_t index, loaded_variant& slot, const error& problem) {
    const std::int64_t wait = first_wait_ns
                              << (slot.failures < most_doublings ? slot.failures : most_doublings);
    const std::int64_t retry_at = nanoseconds() + wait;
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

  /// The time until which waits are over, 0 where none can be.
  [[nodiscard]] std::int64_t retry_due_now() const noexcept {
    return waiting_.load(std::memory_order_relaxed) > 0 ? nanoseconds() : 0;
  }

  /// Returns the variants to service whose wait ends by then.
  void return_to_service(std::int64_t by_then) noexcept {
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

  void count_generation() noexcept {
    if (shared_.generation != nullptr && shared_.is_in_service.load(std::memory_order_relaxed))
      shared_.generation->fetch_add(1, std::memory_order_release);
  }

  /// Tells the driver of more shared memory or a cluster, where a launch asks for more than any before it.
  /// Throws driver_error launch_failed for a launch that the device cannot make.
  void configure(const plan& out, std::uint32_t index) {
    loaded_variant& slot = variants_[index];
    for (std::size_t i = 0; i < out.launches.size(); ++i) {
      const planned_launch& each = out.launches[i];
      if (each.is_fill || each.is_empty) continue;
      if (each.late_grid == nullptr && !shared_.loader->driver().accepts_grid(each.geometry)) [[unlikely]]
        fail_grid(*rules_->candidates[index].variant, i, each.geometry.grid);
      if (each.layout->is_block_known && each.geometry.shared_bytes == 0 && each.geometry.cluster == dim3{})
        continue;
      const locked lock{slot.configure_mutex};
      launch_geometry& before = slot.configured[i];
      if (each.geometry.shared_bytes <= before.shared_bytes && each.geometry.cluster == before.cluster &&
          each.geometry.block == before.block)
        continue;
      shared_.loader->driver().configure(each.function, each.geometry);
      before = each.geometry;
    }
  }

  [[noreturn, gnu::cold]] void fail_grid(const variant& of, std::size_t index, const dim3& grid) const {
    throw driver_error{
        error_code::launch_failed,
        detail::explain_grid(of.launches[index].kernel, grid, shared_.loader->driver().properties().name)};
  }

  void make_room_for_images(const plan& out) {
    for (const planned_launch& each : out.launches) {
      if (each.owner == 0) continue;
      const locked lock{shared_.images_mutex};
      if (shared_.images == nullptr) shared_.images = std::make_unique<image_cache>();
    }
  }

  void report(const plan& made, const detail::plan_cost& cost) const {
    const expanded_problem problem{*rules_->op, made.problem};
    explanation why = switchyard::explain(*rules_, problem.view(), made.chosen, unusable_);
    if (why.chosen.why == reason::heuristic)
      shared_.messages->note_without_rows(detail::format_type_of(*rules_->op, problem.view()));
    detail::add_geometry(made, why);
    shared_.messages->line(shared_.messages->json() ? detail::format_json(why, cost)
                                                    : detail::format_line(why, cost));
  }

  binding_context& shared_;
  std::shared_ptr<const selector> rules_;
  std::vector<std::atomic<bool>> unusable_;
  std::vector<loaded_variant> variants_;
  std::atomic<unsigned> waiting_{0};               // variants that are tried again later
  std::atomic<std::int64_t> next_retry_{0};        // when the first of them is due
  std::atomic<std::uint64_t> service_changes_{0};  // variants that were suspended or returned to service
  std::atomic<bool> is_deciding_again_{false};
  mutex waits_mutex_;
};

}  // namespace v0
}  // namespace switchyard
