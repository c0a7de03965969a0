// Times every variant of an operator that may serve a problem, through the same launch path that engines use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/binding.hpp>
#include <switchyard/build_selector.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/module.hpp>
#include <switchyard/table.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard::inline v0::tune {

/// How long and how often a variant is timed.
struct timing_options {
  double warm_up_us = 2000;  ///< calls before the first sample, at the least
  double sample_us = 1000;   ///< one sample: as many calls as take this long
  std::size_t samples = 7;
  double give_up_factor = 4;  ///< a variant this much slower than the best so far is timed with one sample
  double rotate_bytes =
      0;  ///< tensors are rotated so that a cache of this size does not hold them; 0: no rotation
};

struct measurement {
  std::string variant;
  double microseconds = 0;  ///< median
  double spread = 0;        ///< (largest - smallest sample) / median
  std::string failure;      ///< why there is no time; else empty
};

/// Binds an operator to one variant, by its id. The files outlive it.
class forced_source final : public binding_source {
 public:
  forced_source(const catalog::contents& files, std::string variant, std::shared_ptr<module_store> modules)
      : files_{files}, variant_{std::move(variant)}, modules_{std::move(modules)} {}

  void attach(const operator_description& op, const device& where, binding_user& user) override {
    std::vector<std::string> ignored;
    user.adopt(std::make_unique<binding>(
        build_selector({&op, where.properties(), files_.manifests, {}, {}, variant_}, ignored), modules_,
        std::make_shared<log>(), nullptr, std::size_t{16}));
  }
  void detach(binding_user& /*user*/) noexcept override {}

 private:
  const catalog::contents& files_;
  std::string variant_;
  std::shared_ptr<module_store> modules_;
};

namespace detail {

/// Two events of a device.
class stopwatch {
 public:
  explicit stopwatch(std::shared_ptr<device_driver> driver)
      : driver_{std::move(driver)}, from_{driver_->create_event()}, to_{driver_->create_event()} {}
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    driver_->destroy_event(from_);
    driver_->destroy_event(to_);
  }

  /// Microseconds that the calls take on the stream.
  template <class Call>
  [[nodiscard]] double time(std::size_t calls, stream where, const Call& call) {
    require(driver_->record(from_, where));
    for (std::size_t i = 0; i < calls; ++i) call();
    require(driver_->record(to_, where));
    double microseconds = 0;
    require(driver_->elapsed(from_, to_, microseconds));
    return microseconds;
  }

 private:
  void require(status result) const {
    if (result != 0) throw driver_error{error_code::driver_failed, "measuring: " + driver_->describe(result)};
  }

  std::shared_ptr<device_driver> driver_;
  event_handle from_;
  event_handle to_;
};

}  // namespace detail

/// The median time of a call, and how far its samples lie apart.
struct timed {
  double microseconds = 0;
  double spread = 0;  ///< (largest - smallest sample) / median
};

/// Times a call that enqueues work on the null stream: warm-up, then samples of as many calls as the options
/// say. A call `give_up_factor` slower than `best`, where that is not 0, gets one sample.
template <class Call>
[[nodiscard]] timed time_call(const std::shared_ptr<device_driver>& driver, const timing_options& options,
                              const Call& call, double best = 0) {
  detail::stopwatch watch{driver};
  double once = watch.time(1, {}, call);  // loads the kernel
  double warm = 0;
  for (std::size_t i = 0; i < 2 || warm < options.warm_up_us; ++i) {
    once = watch.time(1, {}, call);
    warm += once;
    if (best > 0 && once > best * options.give_up_factor * 4) break;
  }
  const bool hopeless = best > 0 && once > best * options.give_up_factor;
  const auto wanted = static_cast<std::size_t>(options.sample_us / (once > 0.5 ? once : 0.5));
  const std::size_t repeat = std::clamp<std::size_t>(wanted, 1, 1000);
  std::vector<double> samples;
  for (std::size_t i = 0; i < (hopeless ? 1 : options.samples); ++i) {
    samples.push_back(watch.time(repeat, {}, call) / static_cast<double>(repeat));
  }
  std::sort(samples.begin(), samples.end());
  const double median = samples[samples.size() / 2];
  return {median, (samples.back() - samples.front()) / median};
}

/// Measures one operator on one device.
template <operator_type Operator>
class measurer {
 public:
  measurer(catalog& files, device where, timing_options options = {})
      : files_{files.files(describe<Operator>())},
        device_{std::move(where)},
        options_{options},
        modules_{std::make_shared<module_store>(device_.driver())} {}

  /// Every admissible variant's time for a problem, in the manifest's order.
  [[nodiscard]] std::vector<measurement> measure(const request& want, std::uint64_t seed) {
    std::vector<prepared_call<Operator>> calls;
    calls.push_back(workload<Operator>::make(device_.driver(), want, seed));
    const double copies = calls[0].bytes > 0 ? std::ceil(options_.rotate_bytes / calls[0].bytes) : 1;
    for (std::size_t i = 1; static_cast<double>(i) < copies && i < max_copies; ++i) {
      calls.push_back(workload<Operator>::make(device_.driver(), want, seed + 1000 * i));
    }
    problem_ = make_problem<Operator>(calls[0].arguments);
    bytes_ = calls[0].bytes;
    flops_ = calls[0].flops;

    std::vector<std::string> ignored;
    const auto rules =
        build_selector({&describe<Operator>(), device_.properties(), files_.manifests, {}, {}, {}}, ignored);
    std::vector<measurement> out;
    double best = 0;
    for (std::uint32_t i = 0; i < rules->candidates.size(); ++i) {
      if (!rules->admissible(i, problem_, {})) continue;
      const std::string& id = rules->candidates[i].what->id;
      const bool again =
          std::any_of(out.begin(), out.end(), [&id](const measurement& m) { return m.variant == id; });
      if (again) continue;  // the same id for a less specific target: never chosen over the first
      out.push_back(time(id, calls, best));
      const double time = out.back().microseconds;
      if (out.back().failure.empty() && (best == 0 || time < best)) best = time;
    }
    return out;
  }

  /// The problem that a request makes. Allocates its tensors for a moment.
  [[nodiscard]] static problem_of<Operator> problem_for(const device& where, const request& want) {
    return make_problem<Operator>(workload<Operator>::make(where.driver(), want, 1).arguments);
  }

  /// The problem measured last, and what it costs at the least.
  [[nodiscard]] const problem_of<Operator>& problem() const noexcept { return problem_; }
  [[nodiscard]] double bytes() const noexcept { return bytes_; }
  [[nodiscard]] double flops() const noexcept { return flops_; }

 private:
  static constexpr std::size_t max_copies = 16;

  [[nodiscard]] measurement time(const std::string& id, std::vector<prepared_call<Operator>>& calls,
                                 double best) {
    measurement out{id, 0, 0, {}};
    try {
      forced_source source{files_, id, modules_};
      dispatcher<Operator> run{source, device_};
      std::size_t next = 0;
      const auto call = [&] { run(stream{}, calls[next++ % calls.size()].arguments); };
      const timed median = time_call(device_.driver(), options_, call, best);
      out.microseconds = median.microseconds;
      out.spread = median.spread;
    } catch (const error& problem) {
      out.failure = problem.what();
    }
    return out;
  }

  catalog::contents files_;
  device device_;
  timing_options options_;
  std::shared_ptr<module_store> modules_;
  problem_of<Operator> problem_{};
  double bytes_ = 0;
  double flops_ = 0;
};

/// Puts measurements into the group of a table that has the problem's values of `type_axes`; makes one where
/// there is none. The rows speak for every value of the type axes that are not named. Times that failed are
/// left out.
template <operator_type Operator>
void add_row(table& into, const problem_of<Operator>& problem, const std::vector<measurement>& measured,
             const std::vector<std::uint32_t>& type_axes, std::size_t most = 12) {
  const operator_description& op = describe<Operator>();
  std::vector<axis_value> type;
  std::vector<std::uint32_t> axes;
  std::vector<std::int64_t> at;
  for (std::uint32_t i = 0; i < op.axes.size(); ++i) {
    if (op.axes[i].kind == axis_kind::type) {
      if (std::find(type_axes.begin(), type_axes.end(), i) != type_axes.end())
        type.push_back({i, problem[i]});
    } else {
      axes.push_back(i);
      at.push_back(problem[i]);
    }
  }
  std::vector<measurement> best;
  for (const measurement& each : measured) {
    if (each.failure.empty()) best.push_back(each);
  }
  if (best.empty()) return;
  std::stable_sort(best.begin(), best.end(), [](const measurement& a, const measurement& b) {
    return a.microseconds < b.microseconds;
  });
  if (best.size() > most) best.resize(most);
  auto group = std::find_if(into.groups.begin(), into.groups.end(),
                            [&](const row_group& each) { return each.type == type && each.axes == axes; });
  if (group == into.groups.end()) {
    into.groups.emplace_back();
    group = into.groups.end() - 1;
    group->type = type;
    group->axes = axes;
  }
  for (const measurement& each : best) {
    const auto found = std::find(group->ids.begin(), group->ids.end(), each.variant);
    const auto id = static_cast<std::uint32_t>(found - group->ids.begin());
    if (found == group->ids.end()) group->ids.push_back(each.variant);
    group->times.push_back({id, static_cast<float>(each.microseconds)});
  }
  group->at.insert(group->at.end(), at.begin(), at.end());
  group->first_time.push_back(static_cast<std::uint32_t>(group->times.size()));
  group->source_row.push_back(static_cast<std::uint32_t>(group->row_count() - 1));
}

}  // namespace switchyard::inline v0::tune
