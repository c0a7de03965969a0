// SPDX-License-Identifier: MIT
// Everything found on disk: manifests and tables of the search path, given to dispatchers and replaced while
// they run. In the header-only form it compiles the JSON reader, so include it in one source file of an
// engine.
//
// Roots are those of SWITCHYARD_PATH, then those of installed_roots(): see search_path. Any thread may call
// any function.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>
#include <switchyard/files/data_folder.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/observing/canary_trial.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/counters_file.hpp>
#include <switchyard/observing/environment.hpp>
#include <switchyard/observing/live_options.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/plans/memory_hooks.hpp>
#include <switchyard/plans/plan_cache.hpp>
#include <switchyard/serving/fingerprint.hpp>
#include <switchyard/serving/operator_contents.hpp>
#include <switchyard/serving/state_source.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>
#include <switchyard/threads/repeating_thread.hpp>

namespace switchyard {
inline namespace v0 {

class module_store;
class selector_source;
class selector;
struct operator_files;
struct search_path;
struct state_use;

/// New tables for a share of the problems, until they have proved themselves.
struct canary_options {
  std::vector<std::string> tables{};  ///< before all overlays: files or folders
  double share = 0;                   ///< of the problems of each operator, by a hash of the problem: 0 to 1
  /// The share becomes 0 automatically when compare_live() finds, over at least so many comparisons of one
  /// operator, that the choices of these tables take longer than the others' by more than this share of the
  /// time. 0: never.
  double max_regret = 0.05;
  std::uint32_t least_comparisons = 32;
};

/// How a catalog is opened.
struct catalog_options {
  std::vector<std::string> roots;   ///< searched before those of the environment
  std::vector<std::string> tables;  ///< overlays, before those of the environment: files or folders
  canary_options canary{};
  bool default_roots = true;  ///< whether the environment's and the installed roots are searched
  environment settings = environment::read();
  log_receiver receiver{};  ///< the program's own logger
  memory_hooks memory{};    ///< the program's own allocator for workspaces of calls that are given none
  /// Called with each manifest and table before it is used, for example to check a signature. If it returns
  /// text, the file is refused with that text and its previous version stays in use. Any thread that reads
  /// files calls it; it must not call the library.
  std::function<std::string(std::string_view bytes, const std::string& path)> accept{};
  live_options live{};            ///< which real calls are timed: none
  range_hooks ranges{};           ///< around calls; none: those of SWITCHYARD_RANGES
  std::string data{data_folder};  ///< kernels and tables of this installation; empty: there is none
  std::size_t plan_capacity =
      default_plan_capacity;  ///< problems each dispatcher keeps plans for, on a device
  /// Finds a stream's device; null: stream_router::of_machine().
  std::shared_ptr<stream_router> streams = nullptr;
  /// The clock that retries of loads and of new files go by. Tests set their own.
  nanosecond_clock clock = monotonic_nanoseconds;
  /// Limits of the variants that serve a dispatcher without limits of its own.
  choice_limits limits{};
};

class catalog final : public state_source {
 public:
  using contents = operator_contents;

  ///     catalog files{{.roots = {"/opt/engine/share/switchyard"}}};
  explicit catalog(catalog_options options = {});
  catalog(const catalog&) = delete;
  catalog& operator=(const catalog&) = delete;
  /// Dispatchers are destroyed before their catalog.
  SWITCHYARD_FUNCTION ~catalog() override;

  /// The folders that are searched.
  ///     for (const std::string& folder : files.roots()) std::puts(folder.c_str());
  [[nodiscard]] const std::vector<std::string>& roots() const noexcept;

  /// Operators that have manifests, sorted.
  ///     for (const std::string& name : files.operators()) std::puts(name.c_str());
  [[nodiscard]] std::vector<std::string> operators() const;

  /// The selector of an operator for problems of every type, on a device that need not be present.
  ///     files.make_selector(describe<softmax>(), device::host().properties())->select(problem)
  [[nodiscard]] std::shared_ptr<const selector> make_selector(const operator_description& op,
                                                              const device_properties& device);

  /// The content of an operator's files that serve now, for every device. Reads all of it.
  ///     files.files(describe<softmax>()).manifests.size()
  [[nodiscard]] contents files(const operator_description& op);

  /// Reads what has changed on disk and gives every dispatcher concerned a new operator state. A file that
  /// cannot be used leaves its previous version in use, with a warning. Only the calling thread pays for a
  /// replacement: it loads what the dispatchers' known problems will need, and frees what is no longer used.
  /// If new files need kernels that cannot be loaded, so that calls that are served now would fail, the old
  /// files stay in use, with a warning; a watching catalog tries again.
  ///     for (const std::string& path : files.reload().changed) std::puts(path.c_str());
  reload_report reload() { return reload(INT64_MAX); }

  /// Changes whenever calls may be served by other kernels than before: after a replacement, and when a
  /// variant leaves service or returns to it. A captured graph keeps the kernels that it was captured with;
  /// they stay loaded. Read the counter before capturing, and capture again once it has changed. One load.
  ///     if (files.generation() != generation_of_graph) capture();
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_->load(std::memory_order_acquire);
  }

  /// Unloads the kernels that no dispatcher of this program refers to any more, on the devices that this
  /// catalog's dispatchers serve; returns how many blobs that were. Without this call, everything that was
  /// loaded stays loaded until the program ends. Two things must not exist when it is called: a graph or an
  /// executable graph with a kernel that was launched before the last replacement, or through a dispatcher
  /// that is now destroyed; and a destroyed context of the engine's own that was used with a dispatcher.
  /// Waits for kernels in flight, as drivers do.
  ///     std::printf("%zu blobs unloaded", files.unload_unused());
  std::size_t unload_unused();

  /// A hash of all that decides the choices of operators on a device, which need not be present: the same on
  /// every host that has the same files, library and device, wherever the files lie. Ranks of one job compare
  /// it when they start; describe_difference() names what differs. Reads operators' files that were not read
  /// yet.
  ///     std::puts(files.fingerprint(describe<softmax>(), device::host().properties()).hash.c_str());
  [[nodiscard]] switchyard::fingerprint fingerprint(std::span<const operator_description* const> operators,
                                                    const device_properties& device);
  [[nodiscard]] switchyard::fingerprint fingerprint(const operator_description& op,
                                                    const device_properties& device) {
    const operator_description* const one = &op;
    return fingerprint({&one, 1}, device);
  }

  /// Like fingerprint(), but of the choices that calls and prepare() made: a part for each problem of which a
  /// dispatcher keeps a plan, in the problems' order. Its text may be appended to that of fingerprint():
  /// hosts then compare the choices of the problems that both have met. The hashes of two hosts compare only
  /// if both met the same problems.
  ///     std::puts(to_string(files.fingerprint_of_choices()).c_str());
  [[nodiscard]] switchyard::fingerprint fingerprint_of_choices();

  /// Changes the share of problems that catalog_options::canary decides: 0 takes all back, 1 gives all. Which
  /// problems those are is the same in every process and on every host; a larger share has those of a smaller
  /// one. Reloads. Throws call_error invalid_argument for a share that is not from 0 to 1.
  ///     files.set_canary_share(0);
  reload_report set_canary_share(double share);

  /// From now on a call is an event if its problem is new, its kernel is not loaded, or no rows decide it.
  /// The rules say which events are only counted, which are also warnings in the log, and which are refused.
  /// prepare() and reload() work as before and cause no events. Sealing again resets the counts.
  ///     files.seal({.load = seal_action::refuse});
  void seal(const seal_rules& rules = {}) { seal_->close(rules); }
  ///     files.unseal();
  void unseal() noexcept { seal_->open(); }

  /// What was counted since seal().
  ///     std::puts(to_string(files.sealed()).c_str());
  [[nodiscard]] seal_report sealed() const { return seal_->report(); }

  /// What was counted since the catalog was opened. Repeated calls are not counted and pay nothing for it.
  ///     std::puts(to_prometheus(files.counters()).c_str());
  [[nodiscard]] catalog_counters counters() const;

  /// Writes the counters to a file as Prometheus text, now, at an interval, and when the catalog is
  /// destroyed: each time as a whole, so that node_exporter's textfile collector never reads a part. A
  /// failure is a warning, once until it is written again. Throws file_error unreadable_file where the first
  /// one fails.
  ///     files.write_counters("/var/lib/node_exporter/switchyard.prom");
  void write_counters(const std::string& path, std::chrono::milliseconds interval = std::chrono::seconds{15});

  /// What was measured of real calls: by events, as catalog_options::live says, and by compare_live(). Reads
  /// the events that have completed, and waits for none.
  ///     std::printf("%s", to_string(files.live()).c_str());
  [[nodiscard]] live_report live();

  /// Reads the completed events of timed calls. A watching catalog does so whenever it looks for new files.
  ///     files.poll_live();
  void poll_live();

  /// What comparisons found, as tuning tables: the rows of an operator on a device, with times that were
  /// taken in turns, and what was denied. Each is written as a whole to FOLDER/OPERATOR/DEVICE.json, ready
  /// for `switchyard merge`. Returns the paths. Throws file_error unreadable_file.
  ///     files.write_live_tables("/var/lib/engine/live");
  std::vector<std::string> write_live_tables(const std::string& folder);

  /// Looks for changes at an interval, on a thread of its own, and reloads. Files are compared by times, size
  /// and inode, so it works on network file systems as well.
  ///     files.watch(std::chrono::seconds{5});
  void watch(std::chrono::milliseconds interval = std::chrono::milliseconds{500});

  /// Ends watch(). Files are read at reload() again.
  ///     files.stop_watching();
  void stop_watching() noexcept { watcher_.stop(); }

  SWITCHYARD_FUNCTION void attach(const operator_description& op, const device& target,
                                  state_user& user) override;

  SWITCHYARD_FUNCTION void detach(state_user& user) noexcept override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::size_t bound_workspace(
      const operator_selectors& rules, const detail::prepared_ranges& ranges) const override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::string check_on_device(const operator_description& op,
                                                                device_driver& driver, const void* arguments,
                                                                stream on) const override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::shared_ptr<stream_router> streams() override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::unique_ptr<memory_source> memory_of(const device& target) override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::unique_ptr<live_timer> timer_of(const operator_description& op,
                                                                         const device& target) override;

  SWITCHYARD_FUNCTION void take(const operator_description& op, const device& target,
                                const live_comparison& found) override;

 private:
  /// The ranges of the options, else those of the environment; a warning where they cannot be had.
  [[nodiscard]] range_hooks find_ranges() const;

  /// Warns of settings in the environment that have no effect: folders and operators that do not exist.
  void report_settings() const;

  [[nodiscard]] static search_path path_of(const catalog_options& options);

  /// Replaces what has changed. What failed before is tried again only if its next try is due by `now`.
  reload_report reload(std::int64_t now);

  /// Takes a variant out of service that a comparison found wrong.
  void deny(const operator_description& op, const device& target, const live_comparison& found);

  /// Takes new tables back where comparisons found them slower.
  void judge_canary(const operator_description& op, const live_comparison& found);

  [[nodiscard]] std::vector<std::shared_ptr<state_use>> all_uses();

  std::shared_ptr<state_use> remove(const state_user& user) noexcept;

  [[nodiscard]] std::unique_ptr<operator_state> make_state(const state_use& mine, const operator_files& from);

  catalog_options options_;
  std::shared_ptr<log> messages_;
  std::shared_ptr<switchyard::seal> seal_ = std::make_shared<switchyard::seal>();
  std::shared_ptr<recorder> record_;
  tallies tallies_;
  range_hooks ranges_;
  std::shared_ptr<live_records> live_;
  canary_trial trial_;
  std::atomic<std::uint64_t> reloads_{0};
  std::unique_ptr<selector_source> selectors_;  // behind a pointer: its header reads JSON
  std::shared_ptr<generation_counter> generation_ = std::make_shared<generation_counter>(0);

  switchyard::mutex replace_mutex_;  // one replacement at a time; held while modules are loaded and unloaded
  switchyard::mutex streams_mutex_;  // guards options_.streams
  switchyard::mutex mutex_;          // never held across either; guards what follows
  std::vector<std::shared_ptr<state_use>> uses_;
  std::set<std::shared_ptr<module_store>> stores_;
  repeating_thread watcher_;
  counters_file counters_file_;
};

namespace detail {

template <class Catalog>
state_source& source_of(Catalog& from) {
  return from;
}
// Each file that includes this header has it, like an inline function.
template state_source& source_of<catalog>(catalog& from);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/catalog_impl.hpp>
#endif
