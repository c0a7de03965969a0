// SPDX-License-Identifier: MIT
// Times calls of one variant through the same launch path that engines use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/tune/measuring/statistics.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// What is in the caches when a call begins.
enum class cache_state : std::uint8_t {
  rotating,  ///< tensors take turns, so that a cache does not hold them; calls follow one another
  cold,      ///< nothing of use: a larger buffer is written before each call, which is timed alone
  warm,      ///< what the call before left there: the same tensors each time
};

/// How long and how often a variant is timed.
struct timing_options {
  double warm_up_us = 2000;  ///< calls before the first sample, at the least
  double sample_us = 1000;   ///< one sample: as many calls as take this long
  std::size_t samples = 7;
  std::size_t max_samples = 0;  ///< sampling goes on up to here while the precision is not reached
  double precision = 0;         ///< wanted half width of the median's 95 % interval, as a share of it
  double give_up_factor = 4;    ///< a variant this much slower than the best so far is timed with one sample
  cache_state cache = cache_state::rotating;
};

/// Binds an operator to one variant, by its id. The files outlive it.
class forced_source final : public state_source {
 public:
  forced_source(const catalog::contents& files, std::string variant, std::shared_ptr<module_store> modules)
      : files_{files}, variant_{std::move(variant)}, modules_{std::move(modules)} {}

  void attach(const operator_description& op, const switchyard::device& device, state_user& user) override {
    std::vector<std::string> ignored;
    const operator_description& described = files_.described != nullptr ? *files_.described : op;
    (void)user.adopt(std::make_unique<operator_state>(
        std::make_shared<const fixed_selectors>(
            build_selector({&described, device.properties(), files_.manifests, {}, {}, variant_}, ignored)),
        modules_, std::make_shared<log>(), nullptr, std::size_t{16}));
  }
  void detach(state_user& /*user*/) noexcept override {}

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
  [[nodiscard]] double time(std::size_t calls, switchyard::stream stream, const Call& call) {
    require(driver_->record(from_, stream));
    for (std::size_t i = 0; i < calls; ++i) call();
    require(driver_->record(to_, stream));
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

/// Times a call that enqueues work on the null stream: warm-up, then samples of as many calls as the options
/// say. A call `give_up_factor` slower than `best`, where that is not 0, gets one sample: if every warm-up
/// call was, and the sample is. One slow call alone, as on a busy machine, gives nothing up. `before` is
/// called before each sample, untimed; with a cold cache a sample is one call.
template <class Call, class Before>
[[nodiscard]] timed time_call(const std::shared_ptr<device_driver>& driver, const timing_options& options,
                              const Call& call, double best, const Before& before) {
  detail::stopwatch watch{driver};
  (void)watch.time(1, {}, call);  // loads the kernel
  double fastest = HUGE_VAL;
  double warm = 0;
  constexpr std::size_t least_calls = 3;
  for (std::size_t i = 0; i < least_calls || warm < options.warm_up_us; ++i) {
    const double once = watch.time(1, {}, call);
    fastest = std::min(fastest, once);
    warm += once;
    if (i + 1 >= least_calls && best > 0 && fastest > best * options.give_up_factor * 4) break;
  }
  const double give_up = best > 0 ? best * options.give_up_factor : HUGE_VAL;
  const bool seems_hopeless = fastest > give_up;
  const auto wanted = static_cast<std::size_t>(options.sample_us / std::max(fastest, 0.5));
  const bool alone = options.cache == cache_state::cold;
  const std::size_t repeat = alone ? 1 : std::clamp<std::size_t>(wanted, 1, 1000);
  std::vector<double> samples;
  timed out;
  const auto enough = [&] {
    if (seems_hopeless && !samples.empty() && samples.front() > give_up) return true;
    if (samples.size() < std::max<std::size_t>(options.samples, 1)) return false;
    out = summarise(samples);
    return samples.size() >= options.max_samples || out.uncertainty() <= options.precision;
  };
  while (!enough()) {
    before();
    samples.push_back(watch.time(repeat, {}, call) / static_cast<double>(repeat));
  }
  return summarise(std::move(samples));
}

template <class Call>
[[nodiscard]] timed time_call(const std::shared_ptr<device_driver>& driver, const timing_options& options,
                              const Call& call, double best = 0) {
  return time_call(driver, options, call, best, [] {});
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
