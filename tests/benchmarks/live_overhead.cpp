// SPDX-License-Identifier: MIT
// What live measuring costs a device that is kept busy: calls of a shape with it off and on, in turns, from
// one stream. Prints microseconds a call, and the overhead as the median of the turns' ratios with the range
// of their middle half. Exit status 1 where the usual share costs more than 0.5 %.
//
//   live_overhead [host] < shapes       a line: operator axis=value ...
//
// Without shapes it takes its own: short calls, which pay the most, and longer ones.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/workloads/norm.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

namespace sy = switchyard;

namespace {

constexpr double budget = 0.005;
constexpr double turn_us = 60'000;
constexpr int turns = 41;

/// A catalog and a dispatcher that time one call in so many; 0: none.
template <class Operator>
struct side {
  side(const sy::device& device, std::uint32_t one_in) {
    sy::catalog_options options;
    options.live.one_in = one_in;
    catalog = std::make_unique<sy::catalog>(std::move(options));
    run = std::make_unique<sy::dispatcher<Operator>>(*catalog, device);
  }
  std::unique_ptr<sy::catalog> catalog;
  std::unique_ptr<sy::dispatcher<Operator>> run;
};

/// Microseconds of a call, of many that follow each other.
template <class Operator>
[[nodiscard]] double time_calls(sy::device_driver& driver, const side<Operator>& of, sy::stream on,
                                const typename Operator::arguments& call, std::size_t calls) {
  (void)driver.synchronize(on);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < calls; ++i) (*of.run)(on, call);
  (void)driver.synchronize(on);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(calls);
}

/// Returns whether the usual share keeps within the budget.
template <class Operator>
[[nodiscard]] bool measure(const sy::device& device, const sy::tune::request& want, const std::string& line) {
  sy::device_driver& driver = *device.driver();
  const auto prepared = sy::tune::workload<Operator>::make(device.driver(), want, 1);
  const sy::stream on = driver.has_graphs() ? driver.create_stream() : sy::stream{};
  const side<Operator> off{device, 0};
  bool is_within = true;
  for (const std::uint32_t one_in : {sy::live_options::usual_share, std::uint32_t{64}}) {
    const side<Operator> live{device, one_in};
    const auto time = [&](const side<Operator>& of, std::size_t calls) {
      return time_calls(driver, of, on, prepared.arguments, calls);
    };
    (void)time(off, 100);
    (void)time(live, 100);
    const auto calls = static_cast<std::size_t>(std::clamp(turn_us / time(off, 1000), 100.0, 1e6));
    std::vector<double> ratios;
    std::vector<double> without;
    for (int i = 0; i < turns; ++i) {
      const bool is_first = i % 2 == 0;
      const double first = time(is_first ? off : live, calls);
      const double second = time(is_first ? live : off, calls);
      without.push_back(is_first ? first : second);
      ratios.push_back(is_first ? second / first : first / second);
    }
    std::sort(ratios.begin(), ratios.end());
    std::sort(without.begin(), without.end());
    const double overhead = ratios[ratios.size() / 2] - 1;
    const sy::operator_counters counted = live.catalog->counters().operators.at(0);
    std::printf("%s: %.3f us a call; 1 in %u timed: %+.2f %% (%+.2f to %+.2f), %llu times, %llu lost\n",
                line.c_str(), without[without.size() / 2], one_in, 100 * overhead,
                100 * (ratios[ratios.size() / 4] - 1),
                100 * (ratios[ratios.size() - 1 - ratios.size() / 4] - 1),
                static_cast<unsigned long long>(counted.live_times),
                static_cast<unsigned long long>(counted.live_untimed));
    std::fflush(stdout);
    if (one_in == sy::live_options::usual_share) is_within = overhead <= budget;
  }
  driver.destroy_stream(on);
  return is_within;
}

[[nodiscard]] bool measure(const sy::device& device, const std::string& line) {
  std::istringstream words{line};
  std::string name;
  words >> name;
  sy::tune::request want;
  for (std::string word; words >> word;) {
    const auto is = word.find('=');
    if (is == std::string::npos) continue;
    const std::string value = word.substr(is + 1);
    const auto& types = sy::enumerator_names<sy::dtype>;
    const auto type = std::find(types.begin(), types.end(), value);
    want.set(word.substr(0, is), type != types.end() ? type - types.begin() : std::stoll(value));
  }
  if (name == "softmax") return measure<sy::operators::softmax>(device, want, line);
  if (name == "rms_norm") return measure<sy::operators::rms_norm>(device, want, line);
  std::fprintf(stderr, "no shape of '%s' is known here\n", name.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_host = argc > 1 && std::string_view{argv[1]} == "host";
  const sy::device device = on_host ? sy::device::host() : sy::device::current();
  std::printf("%s\n", device.properties().name.c_str());
  std::vector<std::string> shapes;
  if (::isatty(0) == 0) {
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.empty()) shapes.push_back(line);
    }
  }
  if (shapes.empty()) {
    shapes = {"rms_norm dtype=bf16 rows=16 columns=4096", "softmax dtype=f32 rows=64 columns=1024",
              "rms_norm dtype=bf16 rows=4096 columns=4096"};
  }
  bool all_within = true;
  for (const std::string& line : shapes) all_within = measure(device, line) && all_within;
  return all_within ? 0 : 1;
}
