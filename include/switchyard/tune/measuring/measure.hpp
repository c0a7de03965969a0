// SPDX-License-Identifier: MIT
// Times one call, through the launch path that engines use, and serves an operator by one variant alone.
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
#include <switchyard/tune/sampler.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// How long and how often a call is timed.
struct timing_options {
  double warm_up_us = 2000;  ///< calls before the first sample, at the least
  double sample_us = 1000;   ///< one sample: as many calls as take this long
  std::size_t samples = 7;
  std::size_t max_samples = 0;  ///< sampling goes on up to here while the precision is not reached
  double precision = 0;         ///< wanted half width of the median's 95 % interval, as a share of it
  double give_up_factor = 4;    ///< a call this much slower than the best so far is timed with one sample
};

/// Serves an operator by the one variant that has this id. The files outlive it.
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

/// Times one call by itself that enqueues work on the null stream: warm-up, then samples of as many calls as
/// the options say. A call `give_up_factor` slower than `best`, where that is not 0, gets one sample: if
/// every warm-up call was, and the sample is. One slow call alone, as on a busy machine, gives nothing up.
/// Variants that are compared are timed in turns instead: see bench.hpp.
template <class Call>
[[nodiscard]] timed time_call(const std::shared_ptr<device_driver>& driver, const timing_options& options,
                              const Call& call, double best = 0) {
  sampler clock{driver};
  const auto sample = [&](std::size_t calls, double expected) {
    return clock.sample({.calls = calls, .expected_us = expected}, [&call](stream) { call(); });
  };
  call();  // loads the kernel
  double fastest = HUGE_VAL;
  double warm = 0;
  constexpr std::size_t least_calls = 3;
  for (std::size_t i = 0; i < least_calls || warm < options.warm_up_us; ++i) {
    const double once = sample(1, 0);
    fastest = std::min(fastest, once);
    warm += once;
    if (i + 1 >= least_calls && best > 0 && fastest > best * options.give_up_factor * 4) break;
  }
  const double give_up = best > 0 ? best * options.give_up_factor : HUGE_VAL;
  const bool seems_hopeless = fastest > give_up;
  const auto wanted = static_cast<std::size_t>(options.sample_us / std::max(fastest, 0.5));
  const std::size_t repeat = std::clamp<std::size_t>(wanted, 1, 1000);
  std::vector<double> samples;
  timed out;
  const auto enough = [&] {
    if (seems_hopeless && !samples.empty() && samples.front() > give_up) return true;
    if (samples.size() < std::max<std::size_t>(options.samples, 1)) return false;
    out = summarise(samples);
    return samples.size() >= options.max_samples || out.uncertainty() <= options.precision;
  };
  while (!enough()) samples.push_back(sample(repeat, fastest));
  return summarise(std::move(samples));
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
