// SPDX-License-Identifier: MIT
// What a sealed catalog does with calls that nobody prepared: see catalog::seal().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// What happens to a call that was not prepared. All are counted.
enum class seal_action : int {
  count = 0,   ///< it runs
  report = 1,  ///< it runs, and the first of its problem is a warning in the log
  refuse = 2,  ///< it throws call_error not_prepared
};

/// By what a call was not prepared for.
struct seal_rules {
  seal_action load = seal_action::report;      ///< its kernel is not loaded
  seal_action plan = seal_action::count;       ///< its problem is met for the first time
  seal_action fallback = seal_action::report;  ///< no rows decide it
};

/// A problem whose first call came after seal().
struct unprepared_problem {
  std::string line;          ///< as SWITCHYARD_RECORD writes it, for `switchyard tune`
  std::uint64_t calls = 0;   ///< that were not prepared for
  bool was_loaded = false;   ///< a call loaded its kernel
  bool is_fallback = false;  ///< no rows decide it
  bool is_refused = false;   ///< a call was refused
  std::string text{};        ///< "softmax {dtype=f32 rows=4 columns=4} on NVIDIA H200"
};

/// What a sealed catalog counted.
struct seal_report {
  std::uint64_t plans = 0;      ///< calls that were planned or refused
  std::uint64_t loads = 0;      ///< of them, those that loaded a kernel
  std::uint64_t fallbacks = 0;  ///< of them, those that no rows decide
  std::uint64_t refused = 0;
  std::vector<unprepared_problem> problems;  ///< the first 1,024
};

/// What was not covered, a line for each problem: "2 calls of softmax {...} on ...: loaded its kernel, no
/// rows decide it".
[[nodiscard]] std::string to_string(const seal_report& of);

/// The state behind catalog::seal(). Any thread may call.
class seal {
 public:
  /// What a call met.
  struct event {
    bool loads = false;
    bool falls_back = false;
    bool is_refused = false;
  };

  void close(const seal_rules& rules);
  void open() noexcept { is_closed_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_.load(std::memory_order_acquire); }
  [[nodiscard]] seal_rules rules() const;
  [[nodiscard]] seal_report report() const;

  /// Counts a call of a problem, and warns of the problem once if a rule says so.
  void note(const operator_description& op, const device_properties& device, problem_view problem,
            const event& met, log& messages);

 private:
  static constexpr std::size_t max_problems = 1'024;

  std::atomic<bool> is_closed_{false};
  mutable mutex mutex_;
  seal_rules rules_;  // guarded by mutex_, like what follows
  seal_report counted_;
  std::vector<std::size_t> hashes_;  // of the problems' lines
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/seal_impl.hpp>
#endif
