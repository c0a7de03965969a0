// One operator on one device under one snapshot of the disk: the selector, the kernels loaded so far, and the
// plans made so far.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <time.h>  // NOLINT(modernize-deprecated-headers,hicpp-deprecated-headers): there already
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/launching/plan_cache.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a blob may be loaded now. Inside a stream capture it may not.
enum class loading : bool { refused, allowed };

class binding {
 public:
  binding(std::shared_ptr<const selector> rules, std::shared_ptr<kernel_loader> loader,
          std::shared_ptr<log> messages, std::shared_ptr<recorder> record, std::size_t capacity)
      : rules_{std::move(rules)},
        loader_{std::move(loader)},
        messages_{std::move(messages)},
        record_{std::move(record)},
        unusable_(rules_->candidates.size()),
        kernels_(rules_->candidates.size()),
        plans_{capacity} {}
  binding(const binding&) = delete;
  binding& operator=(const binding&) = delete;
  /// No launch may be under way.
  ~binding() {
    plans_.for_each([this](plan& each) { discard(&each); });
  }

  [[nodiscard]] const selector& rules() const noexcept { return *rules_; }
  [[nodiscard]] device_driver& driver() const noexcept { return loader_->driver(); }
  [[nodiscard]] plan_cache& plans() noexcept { return plans_; }
  /// For plans with tensor maps.
  [[nodiscard]] tensor_map_cache& tensor_maps() noexcept { return *tensor_maps_; }
  [[nodiscard]] log& messages() const noexcept { return *messages_; }

  [[nodiscard]] choice select(problem_view problem) const noexcept {
    return rules_->select(problem, unusable_);
  }

  /// The choice with its grounds, and with grids where the variant's kernels need no argument for them.
  [[nodiscard]] explanation explain(problem_view problem) const {
    return switchyard::explain(*rules_, problem, select(problem), unusable_);
  }

  /// Chooses, loads and lays out. A winner that cannot be used gives way to the next candidate, with one
  /// warning. Throws what refuse() does when nothing is left, driver_error load_during_capture when a blob
  /// would have to be loaded and may not be.
  [[nodiscard]] std::unique_ptr<plan> make_plan(problem_view problem, std::uint64_t hash, loading may_load) {
    for (;;) {
      const bool timed = messages_->level() != debug_level::silent;
      const std::int64_t begin = timed ? nanoseconds() : 0;
      const choice chosen = select(problem);
      const std::int64_t selected = timed ? nanoseconds() : 0;
      if (chosen.variant == no_index) {
        messages_->count(chosen);
        refuse(problem);
      }
      const std::vector<loaded_kernel>* kernels = load(chosen.variant, may_load);
      if (kernels == nullptr) continue;
      auto out = std::make_unique<plan>();
      out->problem.assign(problem);
      out->hash = hash;
      out->chosen = chosen;
      out->counted = record_ != nullptr || messages_->level() == debug_level::launches;
      detail::planner{*rules_, *rules_->candidates[chosen.variant].variant, problem}.build(*kernels, *out);
      configure(*out, chosen.variant);
      make_room_for_maps(*out);
      messages_->count(chosen);
      if (timed) report(*out, selected - begin, nanoseconds() - selected);
      return out;
    }
  }

  /// Throws why nothing serves a problem: call_error no_variant or nothing_forced.
  [[noreturn, gnu::cold]] void refuse(problem_view problem) const {
    throw call_error{rules_->is_forced ? error_code::nothing_forced : error_code::no_variant,
                     explain_failure(*rules_, problem, unusable_)};
  }

  /// Loads every kernel of a variant's launches. False when one cannot be loaded.
  bool prepare(std::uint32_t variant) { return load(variant, loading::allowed) != nullptr; }

  /// Frees a plan, recording the calls that were counted.
  void discard(plan* each) const noexcept {
    note(*each, each->count.load(std::memory_order_relaxed));
    delete each;  // NOLINT(cppcoreguidelines-owning-memory): plans are published as plain pointers
  }

  void note(const plan& each, std::uint64_t count) const noexcept {
    if (record_ != nullptr) record_->note(*rules_->op, rules_->device, each.problem, count);
  }

  /// A line for one launch, where they were asked for.
  void trace(const plan& each) const {
    if (messages_->level() == debug_level::launches) report(each, -1, -1);
  }

 private:
  [[nodiscard]] static std::int64_t nanoseconds() noexcept {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }

  struct loaded_variant {
    std::atomic<const std::vector<loaded_kernel>*> ready{nullptr};
    std::vector<loaded_kernel> kernels;
    std::vector<launch_geometry> configured;  // guarded by mutex_
  };

  [[nodiscard]] const std::vector<loaded_kernel>* load(std::uint32_t index, loading may_load) {
    loaded_variant& slot = kernels_[index];
    if (const auto* ready = slot.ready.load(std::memory_order_acquire)) return ready;
    const variant& what = *rules_->candidates[index].variant;
    if (may_load == loading::refused) {
      throw driver_error{
          error_code::load_during_capture,
          std::string{rules_->op->name} + ": variant '" + what.id +
              "' is not loaded yet, and nothing can be loaded while the stream is being captured. Call "
              "prepare() with this problem before the capture"};
    }
    const locked lock{mutex_};
    if (const auto* ready = slot.ready.load(std::memory_order_relaxed)) return ready;
    if (unusable_[index].load(std::memory_order_relaxed)) return nullptr;
    try {
      std::vector<loaded_kernel> kernels(what.launches.size());
      for (std::size_t i = 0; i < what.launches.size(); ++i) {
        if (!what.launches[i].is_fill) kernels[i] = loader_->load(what.launches[i]);
      }
      slot.kernels = std::move(kernels);
      slot.configured.resize(slot.kernels.size());
      slot.ready.store(&slot.kernels, std::memory_order_release);
      return &slot.kernels;
    } catch (const error& problem) {
      unusable_[index].store(true, std::memory_order_relaxed);
      messages_->warn(std::string{problem.what()} + " (variant '" + what.id + "' of " +
                      std::string{rules_->op->name} + " is out of service; the next candidate is used)");
      return nullptr;
    }
  }

  /// Tells the driver of more shared memory or a cluster, where a launch asks for more than any before it.
  void configure(const plan& out, std::uint32_t index) {
    loaded_variant& slot = kernels_[index];
    for (std::size_t i = 0; i < out.launches.size(); ++i) {
      const planned_launch& each = out.launches[i];
      if (each.is_fill || (each.geometry.shared_bytes == 0 && each.geometry.cluster == dim3{})) continue;
      const locked lock{mutex_};
      launch_geometry& before = slot.configured[i];
      if (each.geometry.shared_bytes <= before.shared_bytes && each.geometry.cluster == before.cluster)
        continue;
      loader_->driver().configure(each.function, each.geometry);
      before = each.geometry;
    }
  }

  void make_room_for_maps(const plan& out) {
    for (const planned_launch& each : out.launches) {
      if (each.maps.empty()) continue;
      const locked lock{mutex_};
      if (tensor_maps_ == nullptr) tensor_maps_ = std::make_unique<tensor_map_cache>();
    }
  }

  void report(const plan& made, std::int64_t select_ns, std::int64_t load_ns) const {
    explanation why = switchyard::explain(*rules_, made.problem, made.chosen, unusable_);
    for (std::size_t i = 0; i < made.launches.size(); ++i) {
      const planned_launch& each = made.launches[i];
      if (each.is_fill) continue;
      const auto extent = [](const dim3& d) {
        return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
      };
      why.launches[i] += ", grid " +
                         (each.late_grid != nullptr ? "of the call" : extent(each.geometry.grid)) +
                         ", block " + extent(each.geometry.block);
      if (each.geometry.shared_bytes > 0)
        why.launches[i] += ", shared " + std::to_string(each.geometry.shared_bytes);
    }
    if (messages_->json()) {
      messages_->line(format_json(why, select_ns, load_ns));
      return;
    }
    std::string line = "switchyard: " + std::string{select_ns < 0 ? "launch " : ""} + to_string(why);
    for (const std::string& each : why.launches) line += "; " + each;
    if (select_ns >= 0) {
      line += "; selected in " + std::to_string(select_ns) + " ns, loaded in " +
              text::number(static_cast<double>(load_ns) / 1000) + " us";
    }
    messages_->line(std::move(line));
  }

  [[nodiscard]] std::string format_json(const explanation& why, std::int64_t select_ns,
                                        std::int64_t load_ns) const {
    const auto member = [](std::string_view name, std::string_view value) {
      return text::quote_json(name) + ":" + text::quote_json(value) + ",";
    };
    std::string line = "{" + member("event", select_ns < 0 ? "launch" : "choice") +
                       member("operator", why.operator_name) + member("problem", why.problem) +
                       member("device", why.device) + member("variant", why.variant) +
                       member("config", why.config) + member("target", why.target) +
                       member("reason", to_string(why.chosen.why)) + member("sentence", format_reason(why));
    if (!why.table.empty()) {
      line += member("table", why.table);
      line +=
          "\"group\":" + std::to_string(why.table_group) + ",\"row\":" + std::to_string(why.table_row) + ",";
    }
    line += "\"distance\":" + text::number(static_cast<double>(why.chosen.distance)) +
            ",\"predicted_us\":" + text::number(static_cast<double>(why.chosen.microseconds)) +
            ",\"growth\":" + text::number(static_cast<double>(why.chosen.growth)) +
            ",\"stale\":" + (why.chosen.stale ? "true" : "false") + ",\"launches\":[";
    for (std::size_t i = 0; i < why.launches.size(); ++i)
      line += (i > 0 ? "," : "") + text::quote_json(why.launches[i]);
    line += "]";
    if (select_ns >= 0) {
      line += ",\"select_ns\":" + std::to_string(select_ns) +
              ",\"load_us\":" + text::number(static_cast<double>(load_ns) / 1000);
    }
    return line + "}";
  }

  std::shared_ptr<const selector> rules_;
  std::shared_ptr<kernel_loader> loader_;
  std::shared_ptr<log> messages_;
  std::shared_ptr<recorder> record_;
  std::vector<std::atomic<bool>> unusable_;
  std::vector<loaded_variant> kernels_;
  plan_cache plans_;
  std::unique_ptr<tensor_map_cache> tensor_maps_;  // written once, before a plan that needs it is published
  mutex mutex_;
};

/// Who uses bindings and takes new ones when the disk has changed.
class binding_user {
 public:
  binding_user() = default;
  binding_user(const binding_user&) = delete;
  binding_user& operator=(const binding_user&) = delete;
  virtual ~binding_user() = default;

  /// Called by the source, one call at a time, with a binding that replaces the one in use.
  virtual void adopt(std::unique_ptr<binding> fresh) = 0;
};

/// Where bindings come from. A catalog is one.
class binding_source {
 public:
  binding_source() = default;
  binding_source(const binding_source&) = delete;
  binding_source& operator=(const binding_source&) = delete;
  virtual ~binding_source() = default;

  /// Binds an operator to a device and from then on gives the user a new binding whenever the disk changes.
  /// The source outlives the user.
  virtual void attach(const operator_description& op, const device& where, binding_user& user) = 0;
  virtual void detach(binding_user& user) noexcept = 0;

  /// What tells a stream's device, for users that serve every device. Throws driver_error.
  [[nodiscard]] virtual std::shared_ptr<stream_router> streams() {
    throw driver_error{error_code::unsupported_device,
                       "these files serve one device: give the dispatcher that device"};
  }
};

}  // namespace v0
}  // namespace switchyard
