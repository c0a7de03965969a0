// SPDX-License-Identifier: MIT
// The bodies of catalog.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/device.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>
#include <switchyard/devices/why_absent.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/read_measured_date.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/observing/canary_trial.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/counters_file.hpp>
#include <switchyard/observing/environment.hpp>
#include <switchyard/observing/event_timer.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/observing/observers.hpp>
#include <switchyard/observing/open_ranges.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/plans/memory_hooks.hpp>
#include <switchyard/serving/device_index_source.hpp>
#include <switchyard/serving/live_tables.hpp>
#include <switchyard/serving/made_choice.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/selector_source.hpp>
#include <switchyard/serving/state_source.hpp>
#include <switchyard/serving/state_use.hpp>
#include <switchyard/serving/workspace_bound.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/repeating_thread.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD catalog::~catalog() {
  watcher_.stop();
}

SWITCHYARD_COLD const std::vector<std::string>& catalog::roots() const noexcept {
  return selectors_->path().roots;
}

SWITCHYARD_COLD std::vector<std::string> catalog::operators() const {
  return list_operators(selectors_->path());
}

SWITCHYARD_COLD std::shared_ptr<const selector> catalog::make_selector(const operator_description& op,
                                                                       const device_properties& device) {
  return selectors_->make_selector(op, device, files(op), options_.limits);
}

SWITCHYARD_COLD catalog::catalog(catalog_options options)
    : options_{std::move(options)},
      messages_{options_.settings.open_log(options_.receiver)},
      record_{options_.settings.open_recorder()},
      ranges_{find_ranges()},
      live_{std::make_shared<live_records>(options_.live)},
      selectors_{std::make_unique<selector_source>(
          path_of(options_), [this](std::string_view op) { return options_.settings.forced_for(op); },
          [messages = messages_](const std::string& message) { messages->warn(message); }, why_absent,
          options_.accept)},
      counters_file_{[this] { return counters(); },
                     [messages = messages_](const std::string& message) { messages->warn(message); }} {
  selectors_->set_canary_share(options_.canary.share);
  options_.limits.require_valid();
  report_settings();
  if (options_.settings.metrics.empty()) return;
  try {
    write_counters(environment::with_process(options_.settings.metrics));
  } catch (const error& problem) {
    messages_->warn("SWITCHYARD_METRICS: " + std::string{problem.what()});
  }
}

SWITCHYARD_COLD catalog::contents catalog::files(const operator_description& op) {
  reload_report ignored;
  return selectors_->read_all(selectors_->refresh(op, nullptr, ignored));
}

SWITCHYARD_COLD switchyard::fingerprint catalog::fingerprint(
    std::span<const operator_description* const> operators, const device_properties& device) {
  switchyard::fingerprint out = detail::begin_fingerprint(device);
  for (const operator_description* const op : operators) {
    reload_report ignored;
    const operator_files files = selectors_->refresh(*op, &device, ignored);
    detail::add_operator(out, *op, device, files, options_.settings.forced_for(op->name));
  }
  detail::add_limits(out, options_.limits);
  detail::finish(out);
  return out;
}

SWITCHYARD_COLD switchyard::fingerprint catalog::fingerprint_of_choices() {
  std::vector<made_choice> choices;
  for (const auto& used : all_uses()) {
    used->visit_user([&choices](state_user& user) {
      std::vector<made_choice> of_one = user.choices();
      std::move(of_one.begin(), of_one.end(), std::back_inserter(choices));
    });
  }
  switchyard::fingerprint out;
  detail::add_choices(out, std::move(choices));
  detail::finish(out);
  return out;
}

SWITCHYARD_COLD std::size_t catalog::unload_unused() {
  const std::scoped_lock replacing{replace_mutex_};
  for (const auto& used : all_uses()) used->visit_user([](state_user& user) { user.free_replaced(); });
  std::set<std::shared_ptr<module_store>> stores;
  {
    const std::scoped_lock lock{mutex_};
    stores = stores_;
  }
  std::size_t count = 0;
  for (const auto& store : stores) count += store->unload_unused();
  return count;
}

SWITCHYARD_COLD reload_report catalog::set_canary_share(double share) {
  selectors_->set_canary_share(share);
  trial_.begin_again();
  return reload();
}

SWITCHYARD_COLD range_hooks catalog::find_ranges() const {
  if (options_.ranges || options_.settings.ranges.empty()) return options_.ranges;
  try {
    return open_ranges(options_.settings.ranges);
  } catch (const driver_error& problem) {
    messages_->warn("SWITCHYARD_RANGES: " + std::string{problem.what()});
    return {};
  }
}

SWITCHYARD_COLD catalog_counters catalog::counters() const {
  return {tallies_.read(), reloads_.load(std::memory_order_relaxed), generation(), messages_->warnings()};
}

SWITCHYARD_COLD void catalog::write_counters(const std::string& path, std::chrono::milliseconds interval) {
  counters_file_.start(path, interval);
}

SWITCHYARD_COLD std::unique_ptr<memory_source> catalog::memory_of(const device& target) {
  if (!options_.memory) return nullptr;
  return std::make_unique<detail::hooked_memory>(options_.memory, *target.driver());
}

SWITCHYARD_COLD std::unique_ptr<live_timer> catalog::timer_of(const operator_description& op,
                                                              const device& target) {
  if (options_.live.one_in == 0) return nullptr;
  return std::make_unique<event_timer>(
      options_.live, target.driver(), live_, tallies_.of(op.name),
      [messages = messages_](const std::string& message) { messages->warn(message); });
}

SWITCHYARD_COLD void catalog::take(const operator_description& op, const device& target,
                                   const live_comparison& found) {
  const bool is_timed = found.outcome == comparison_outcome::compared;
  if (is_timed || found.outcome == comparison_outcome::differs)
    tallies_.of(op.name)->count(&operator_tally::live_comparisons);
  if (is_timed) live_->add(op, target.driver()->properties(), found);
  if (!found.denied.empty()) return deny(op, target, found);
  if (is_timed && found.is_canary) judge_canary(op, found);
}

SWITCHYARD_COLD void catalog::deny(const operator_description& op, const device& target,
                                   const live_comparison& found) {
  const compared_variant& wrong = found.denied == found.winner.id ? found.winner : found.rival;
  const live_denial denied{&op,        target.driver()->properties(),  wrong.id, wrong.blobs,
                           wrong.type, "live measuring: " + found.text};
  if (!live_->add(denied)) return;
  selectors_->deny(op, denied);
  tallies_.of(op.name)->count(&operator_tally::live_denials);
  messages_->warn("live measuring: " + found.text + " (variant '" + wrong.id + "' of " +
                  std::string{op.name} + " is out of service until its manifest or its blob changes)");
  (void)reload();
}

SWITCHYARD_COLD void catalog::judge_canary(const operator_description& op, const live_comparison& found) {
  const canary_options& rule = options_.canary;
  const double share = selectors_->canary_share();
  if (rule.max_regret <= 0 || share <= 0) return;
  const canary_trial::verdict so_far =
      trial_.add(op.name, found.winner.median_us, found.rival.median_us, rule.least_comparisons);
  if (so_far.comparisons < rule.least_comparisons || so_far.regret <= rule.max_regret) return;
  trial_.begin_again();
  tallies_.of(op.name)->count(&operator_tally::canary_returns);
  messages_->warn("canary: the choices of the new tables take " + text::number(100 * so_far.regret) +
                  " % longer than the others' over " + std::to_string(so_far.comparisons) +
                  " comparisons of " + std::string{op.name} + ", more than " +
                  text::number(100 * rule.max_regret) + " %: their share is 0 now, and was " +
                  text::number(share));
  (void)set_canary_share(0);
}

SWITCHYARD_COLD std::vector<std::string> catalog::write_live_tables(const std::string& folder) {
  std::vector<std::string> out;
  for (const live_table& live_file : format_live_tables(live_->report(), day_of(std::time(nullptr)))) {
    const std::filesystem::path path = std::filesystem::path{folder} / live_file.path;
    std::error_code problem;
    std::filesystem::create_directories(path.parent_path(), problem);  // writing says what is wrong
    write_file(path.string(), live_file.text);
    out.push_back(path.string());
  }
  return out;
}

SWITCHYARD_COLD live_report catalog::live() {
  poll_live();
  return live_->report();
}

SWITCHYARD_COLD void catalog::poll_live() {
  if (options_.live.one_in == 0) return;
  for (const auto& used : all_uses()) used->visit_user([](state_user& user) { user.poll_live(); });
}

SWITCHYARD_COLD void catalog::watch(std::chrono::milliseconds interval) {
  watcher_.start(interval, [this] {
    try {
      poll_live();
      (void)reload(options_.clock());
    } catch (const std::exception& problem) {
      try {
        messages_->warn(std::string{"watching for changes: "} + problem.what());
      } catch (const std::bad_alloc&) {  // the line is lost; the next look tries again
      }
    }
  });
}

SWITCHYARD_COLD void catalog::attach(const operator_description& op, const device& target, state_user& user) {
  const auto mine = std::make_shared<state_use>(op, target, user);
  const std::scoped_lock lock{mine->mutex};  // a reload meanwhile waits, and then compares versions
  {
    const std::scoped_lock list_lock{mutex_};
    uses_.push_back(mine);
  }
  try {
    reload_report ignored;
    const operator_files now = selectors_->refresh(op, &target.driver()->properties(), ignored);
    (void)user.adopt(make_state(*mine, now));  // the first one is always taken
    mine->version = now.version;
  } catch (...) {
    remove(user);
    mine->user = nullptr;
    throw;
  }
}

SWITCHYARD_COLD void catalog::detach(state_user& user) noexcept {
  const std::shared_ptr<state_use> mine = remove(user);
  if (mine == nullptr) return;
  const std::scoped_lock lock{mine->mutex};  // a reload may be giving it an operator state
  mine->user = nullptr;
}

SWITCHYARD_COLD std::size_t catalog::bound_workspace(const operator_selectors& rules,
                                                     const detail::prepared_ranges& ranges) const {
  return detail::bound_workspace(rules, ranges);
}

SWITCHYARD_COLD std::string catalog::check_on_device(const operator_description& op, device_driver& driver,
                                                     const void* arguments, stream on) const {
  detail::device_index_source source{op, driver, on};
  return op.check_on_device(arguments, source);
}

SWITCHYARD_COLD std::shared_ptr<stream_router> catalog::streams() {
  const std::scoped_lock lock{streams_mutex_};  // opening drivers takes long
  if (options_.streams == nullptr) options_.streams = stream_router::of_machine();
  return options_.streams;
}

SWITCHYARD_COLD void catalog::report_settings() const {
  const environment& set = options_.settings;
  for (const std::string& doubt : set.doubts) messages_->warn(doubt);
  if (!options_.default_roots) return;
  for (const std::string& folder : set.path) {
    std::error_code problem;
    if (std::filesystem::is_directory(folder, problem)) continue;
    messages_->warn("SWITCHYARD_PATH: " + folder + ": " +
                    (problem && !detail::is_absent(problem) ? problem.message() : "is no folder"));
  }
  if (set.forced.empty()) return;
  const std::vector<std::string> known = operators();
  for (const forced_choice& forced : set.forced) {
    if (std::find(known.begin(), known.end(), forced.operator_name) != known.end()) continue;
    messages_->warn("SWITCHYARD_FORCE: no kernels of an operator '" + forced.operator_name +
                    "' are installed" + text::suggestion(forced.operator_name, known) +
                    " (installed: " + (known.empty() ? std::string{"none"} : text::join(known)) + ")");
  }
}

SWITCHYARD_COLD search_path catalog::path_of(const catalog_options& options) {
  search_path out{options.roots, options.tables, options.canary.tables};
  if (options.default_roots) {
    const auto append = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
      for (const std::string& folder : from) to.push_back(folder);
    };
    append(out.roots, options.settings.path);
    append(out.overlays, options.settings.tables);
    append(out.roots, installed_roots(options.data));
  }
  drop_repeated(out.roots);
  return out;
}

SWITCHYARD_COLD reload_report catalog::reload(std::int64_t now) {
  const std::scoped_lock replacing{replace_mutex_};
  reload_report report;
  std::map<const operator_description*, operator_files> fresh;
  const std::vector<std::shared_ptr<state_use>> uses = all_uses();
  for (const auto& mine : uses) {
    if (fresh.contains(mine->op)) continue;
    fresh.emplace(mine->op, selectors_->refresh(*mine->op, &mine->target.driver()->properties(), report));
  }
  for (const auto& mine : uses) {
    const std::scoped_lock lock{mine->mutex};
    if (mine->user == nullptr) continue;
    const operator_files& newer = fresh[mine->op];
    const std::shared_ptr<operator_tally> tally = tallies_.of(mine->op->name);
    mine->replace(
        newer.version, now,
        {options_.clock, *generation_, *tally, *messages_, [&] { return make_state(*mine, newer); }}, report);
    mine->user->free_replaced();
  }
  if (!report.changed.empty()) reloads_.fetch_add(1, std::memory_order_relaxed);
  return report;
}

SWITCHYARD_COLD std::vector<std::shared_ptr<state_use>> catalog::all_uses() {
  const std::scoped_lock lock{mutex_};
  return uses_;
}

SWITCHYARD_COLD std::shared_ptr<state_use> catalog::remove(const state_user& user) noexcept {
  const std::scoped_lock lock{mutex_};
  const auto found =
      detail::find_if(uses_.begin(), uses_.end(), [&user](const auto& used) { return used->user == &user; });
  if (found == uses_.end()) return nullptr;
  std::shared_ptr<state_use> out = std::move(*found);
  uses_.erase(found);
  return out;
}

SWITCHYARD_COLD std::unique_ptr<operator_state> catalog::make_state(const state_use& mine,
                                                                    const operator_files& from) {
  const std::shared_ptr<device_driver>& driver = mine.target.driver();
  std::shared_ptr<module_store> store = module_store::of(driver);
  {
    const std::scoped_lock lock{mutex_};
    stores_.insert(store);
  }
  const choice_limits* const own = mine.user->limits();
  auto selectors = selectors_->make_selectors(*mine.op, driver->properties(), from,
                                              own != nullptr ? *own : options_.limits);
  return std::make_unique<operator_state>(
      std::move(selectors), std::move(store), messages_, record_, options_.plan_capacity, generation_,
      options_.clock,
      observers{seal_, tallies_.of(mine.op->name), ranges_, options_.settings.check,
                options_.live.one_in > 0 ? live_ : nullptr});
}

}  // namespace v0
}  // namespace switchyard
