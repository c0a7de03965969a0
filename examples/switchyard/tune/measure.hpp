// SPDX-License-Identifier: MIT
// How `tune` and `bench` measure: a worker process holds one problem, checks its variants and times them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/files/measurement.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/measuring/statistics.hpp>

#include "command.hpp"
#include "tune/interrupt.hpp"
#include "tune/measure_options.hpp"
#include "tune/problems.hpp"
#include "tune/process.hpp"

namespace tool {

/// The time of --budget is used up.
class out_of_time : public std::exception {};

/// A problem cannot be measured.
class left_out : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A variant cannot be measured for this problem. It may serve others.
class not_measured : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct serving {
  std::string id;
  std::string blob;
  std::vector<switchyard::axis_value> type;
};

/// How much of a result is checked, as the worker's answer and the journal state it.
[[nodiscard]] nlohmann::json extent_to_json(const switchyard::tune::checked_extent& of);

/// A variant's time in a race.
struct raced_variant {
  serving variant;
  switchyard::tune::timed time;
  bool final = false;  ///< it was sampled in every turn: the others were too slow to matter
};

/// The result of a race, fastest variant first.
struct race_outcome {
  std::vector<raced_variant> times;
  double drift = 0;       ///< by how much the fastest became slower or faster meanwhile
  bool steady = true;     ///< that is within what --drift allows, and what the samples can tell
  nlohmann::json clocks;  ///< what the device said of itself at the end
};

/// What a race reports while it runs.
struct race_hooks {
  /// What is timed now, and the fastest so far.
  std::function<void(const std::string& doing, const std::string& best)> doing;
  /// A variant left the race. `to_blame`: it must not be used at all.
  std::function<void(const serving& variant, const std::string& why, bool to_blame)> failed;
};

/// One turn of a variant.
struct turn_options {
  std::size_t calls = 1;
  std::size_t untimed = 0;
  double expected_us = 0;
  bool short_calls = false;  ///< of all that are compared
};

/// A worker process with the problem that it holds. When a variant ends the process, a new one is started and
/// the problem set up again.
class measuring_worker {
 public:
  using clock = std::chrono::steady_clock;

  /// `setting_up` is called before a problem is set up.
  measuring_worker(const switchyard::operator_description& op, const measure_settings& settings,
                   worker_process& worker, const std::atomic<bool>& interrupted,
                   std::optional<clock::time_point> deadline, std::function<void()> setting_up)
      : op_{op},
        settings_{settings},
        worker_{worker},
        interrupted_{interrupted},
        deadline_{deadline},
        setting_up_{std::move(setting_up)} {}

  /// Sets up a problem, which must outlive its measurement. Throws left_out if that fails or if the workload
  /// makes calls of another layout, out_of_time, and worker_lost when interrupted.
  void begin(const tuning_problem& problem);

  /// All axes of the problem, including those that its workload decides.
  [[nodiscard]] const std::vector<std::int64_t>& full() const noexcept { return full_; }
  /// The variants that may serve the problem, in the manifests' order; tables are ignored.
  [[nodiscard]] const std::vector<serving>& variants() const noexcept { return serving_; }
  /// How much of the result is compared with the reference.
  [[nodiscard]] const switchyard::tune::checked_extent& checks() const noexcept { return checks_; }

  /// Times variants in turns, so that drift of the device affects all of them alike. Each is checked before
  /// it is timed. `exhaustive`: slow variants are timed as often as fast ones. A variant that fails in a
  /// process where others have run is tried again in a fresh one, since they may have damaged the process.
  /// Throws worker_lost when interrupted, and out_of_time.
  [[nodiscard]] race_outcome race(const std::vector<serving>& variants, bool exhaustive,
                                  const race_hooks& hooks);

  /// Checks a variant again after it was timed, so that none wins that was correct only at first. Throws
  /// worker_lost if the variant is to blame or when interrupted, not_measured, and out_of_time.
  void confirm(const serving& variant);

  /// Whether a variant's results need not be compared at this problem, or another one of its type.
  [[nodiscard]] bool trusts(const serving& variant) const;

  /// Like confirm(), for a variant that is not timed. Returns the largest error of a value, as a share of
  /// what is allowed there.
  [[nodiscard]] double judge(const serving& variant);

 private:
  using seconds = std::chrono::duration<double>;

  [[nodiscard]] seconds limit(double factor) const;
  void require_time() const;
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& request, double factor = 1);
  [[nodiscard]] nlohmann::json require_answer(const serving& variant, const nlohmann::json& request);
  void set_up();
  void require_asked() const;
  /// Repeats a failed step in a fresh process if other variants had run in the first one.
  template <class Step>
  auto with_second_chance(const serving& variant, const Step& step) {
    try {
      return step();
    } catch (const worker_lost& lost) {
      if (lost.why() == worker_lost::kind::interrupted || ran_alone(variant)) throw;
    }
    checked_.erase(variant.id);
    judged_.erase(variant.id);
    drop_process();
    return step();
  }
  struct contender;
  [[nodiscard]] double turn(const serving& variant, const turn_options& options);
  [[nodiscard]] bool take_turn(contender& of, const turn_options& options, const race_hooks& hooks,
                               const std::function<void(double)>& take);
  void quick_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks);
  void timed_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks);
  [[nodiscard]] std::string key_of(const serving& variant) const;
  [[nodiscard]] std::string kind_key_of(const serving& variant) const;
  [[nodiscard]] std::string size_key_of(const serving& variant) const;
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
  double largest_error_ = 0;  ///< in the last comparison
  bool ready_ = false;
  std::map<std::string, double> last_share_;  ///< a variant's time over the best, by kind of calls
  std::set<std::string> hopeless_;            ///< variants that took four times as long as the best, by sizes
  std::set<std::string> trusted_;             ///< variants that were judged for problems of their type
  std::set<std::string> checked_;
  std::set<std::string> judged_;
  std::set<std::string> ran_;       ///< variants that the process has run
  std::set<std::string> outlived_;  ///< variants that left threads behind, and whose process went on well
};

}  // namespace tool
