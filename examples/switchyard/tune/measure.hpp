// SPDX-License-Identifier: MIT
// How `tune` and `bench` measure: a worker process holds one problem, checks its variants and times them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/operator.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/measuring/halving.hpp>
#include <switchyard/tune/measuring/statistics.hpp>

#include "command.hpp"
#include "tune/problems.hpp"
#include "tune/process.hpp"

namespace tool {

/// How times are taken.
struct measure_settings {
  std::string devices;
  std::string cache = "rotating";
  double confidence = 0.01;
  std::size_t samples = 40;
  double drift = 0.03;
  double limit_seconds = 30;
  /// Runs of a variant that is judged: so many that a fault in one of 100 shows with 95 %, where time allows.
  std::size_t judged_runs = 300;
};

/// The same as a command line says it.
struct measure_arguments {
  std::string confidence = "1%";
  std::string drift = "3%";
  std::string limit = "30s";
};

/// The options that say how times are taken.
void add_measure_options(CLI::App& command, measure_settings& settings, measure_arguments& arguments);

/// Takes over what the options say. Throws usage_error.
void read_measure_options(measure_settings& settings, const measure_arguments& arguments);

/// "90", "90s", "10m", "1.5h" in seconds. Throws usage_error.
[[nodiscard]] double require_duration(const std::string& option, const std::string& text);

/// From here on SIGINT and SIGTERM end a run soon, and a second one at once.
void catch_signals();
/// Becomes true at the first signal.
[[nodiscard]] const std::atomic<bool>& interrupted() noexcept;
/// The exit status that tells of the signal.
[[nodiscard]] int status_interrupted() noexcept;

/// The time that --budget gives is over.
class out_of_time : public std::exception {};

/// A problem cannot be measured.
class left_out : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A variant cannot be measured for this problem; that says nothing about others.
class not_measured : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct serving {
  std::string id;
  std::string blob;
  std::vector<switchyard::axis_value> type;
};

/// How thoroughly a round of halving times.
struct round_options {
  std::size_t samples;
  std::size_t max_samples;
  double sample_us;
  double warm_up_us;
  bool final;
};

/// The round whose times count.
[[nodiscard]] round_options final_round(const measure_settings& settings);

/// Successive halving: quick rounds until `least` or so are left. `time_all(variants, round, timed)` gives
/// the times of those that could be measured and puts these into `timed`.
template <class TimeAll>
[[nodiscard]] std::vector<serving> halve(std::vector<serving> alive, std::size_t least,
                                         const TimeAll& time_all) {
  for (round_options quick{3, 3, 200, 300, false}; alive.size() > least && quick.samples <= 12;
       quick.samples = quick.max_samples *= 2, quick.sample_us *= 1.5) {
    std::vector<serving> measured;
    const std::vector<switchyard::tune::timed> times = time_all(alive, quick, measured);
    std::vector<serving> kept;
    for (const std::size_t each : switchyard::tune::survivors(times, least)) kept.push_back(measured[each]);
    alive = std::move(kept);
  }
  return alive;
}

/// What a worker checks, as its answer and the journal state it.
[[nodiscard]] nlohmann::json extent_to_json(const switchyard::tune::checked_extent& of);

/// A time, and what the device said of itself then.
struct measured_variant {
  switchyard::tune::timed time;
  nlohmann::json clocks;
};

/// A worker process with the problem that it holds. The process is started anew, and the problem set up
/// again, whenever a variant has cost it.
class measuring_worker {
 public:
  using clock = std::chrono::steady_clock;

  /// `setting_up` is told before a problem is set up.
  measuring_worker(const switchyard::operator_description& op, const measure_settings& settings,
                   worker_process& worker, const std::atomic<bool>& interrupted,
                   std::optional<clock::time_point> deadline, std::function<void()> setting_up)
      : op_{op},
        settings_{settings},
        worker_{worker},
        interrupted_{interrupted},
        deadline_{deadline},
        setting_up_{std::move(setting_up)} {}

  /// Sets a problem up, which outlives its measuring. Throws left_out where that fails, or where the
  /// workload makes calls of another layout; out_of_time; worker_lost when interrupted.
  void begin(const tuning_problem& problem);

  /// All axes of the problem, those that its workload decided among them.
  [[nodiscard]] const std::vector<std::int64_t>& full() const noexcept { return full_; }
  /// What may serve it, tables aside, in the manifests' order.
  [[nodiscard]] const std::vector<serving>& variants() const noexcept { return serving_; }
  /// How much of it is compared with the reference.
  [[nodiscard]] const switchyard::tune::checked_extent& checks() const noexcept { return checks_; }

  /// Checks a variant, once for a problem, and times it; against a `best` that is not 0, hopeless ones
  /// shortly. After a final round it is checked again, so that no variant wins that was right only at first.
  /// One that fails in a process where others have run gets a second chance in a fresh one: they may have
  /// spoilt the process. Throws worker_lost where the variant is to blame, or when interrupted; not_measured;
  /// out_of_time.
  [[nodiscard]] measured_variant time(const serving& variant, const round_options& options, double best);

  /// The same judging without times. Throws as time() does.
  void judge(const serving& variant);

 private:
  using seconds = std::chrono::duration<double>;

  [[nodiscard]] seconds limit(double factor) const;
  void require_time() const;
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& request, double factor = 1);
  [[nodiscard]] nlohmann::json require_answer(const serving& variant, const nlohmann::json& request);
  void set_up();
  void require_asked() const;
  template <class Step>
  auto with_second_chance(const serving& variant, const Step& step);
  [[nodiscard]] measured_variant time_once(const serving& variant, const round_options& options, double best);
  void check(const serving& variant);
  void check_again(const serving& variant);
  [[nodiscard]] std::string find_mistake(const serving& variant, std::size_t runs);
  void outlive(const serving& variant);
  [[nodiscard]] bool ran_alone(const serving& variant) const;
  void drop_process() noexcept;

  const switchyard::operator_description& op_;
  const measure_settings& settings_;
  worker_process& worker_;
  const std::atomic<bool>& interrupted_;
  std::optional<clock::time_point> deadline_;
  std::function<void()> setting_up_;
  const tuning_problem* problem_ = nullptr;
  std::vector<std::int64_t> full_;
  std::vector<serving> serving_;
  switchyard::tune::checked_extent checks_;
  bool ready_ = false;
  std::set<std::string> checked_;
  std::set<std::string> judged_;
  std::set<std::string> ran_;       ///< variants that the process has run
  std::set<std::string> outlived_;  ///< variants that left threads behind, and whose process went on well
};

}  // namespace tool
