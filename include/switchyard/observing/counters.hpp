// SPDX-License-Identifier: MIT
// What a catalog's operators did, as numbers: plans, loads, replacements, errors, unprepared calls.
//
// A call whose problem was met before is not counted: it pays for nothing here. Any thread may count and
// read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/code_counts.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// The counters of one operator since its catalog was opened, over all devices. They only grow.
struct operator_counters {
  std::string name;
  std::uint64_t plans = 0;                 ///< choices made ready for launches
  std::array<std::uint64_t, 8> choices{};  ///< of them by reason; `none`: no variant was found
  std::uint64_t displaced_plans = 0;       ///< that the plan cache had no room for any more
  std::uint64_t passed_over = 0;           ///< variants that gave way since they did not fit a problem
  std::uint64_t loads = 0;                 ///< variants whose kernels were loaded
  std::uint64_t failed_loads = 0;          ///< attempts that failed
  std::uint64_t replacements = 0;          ///< newer files that were taken into use
  std::uint64_t refused_replacements = 0;  ///< attempts to that failed
  std::uint64_t unprepared_plans = 0;      ///< calls of a sealed catalog that were planned or refused
  std::uint64_t unprepared_loads = 0;      ///< of them, those that loaded a kernel
  std::uint64_t unprepared_fallbacks = 0;  ///< of them, those that no rows decide
  std::uint64_t refused_calls = 0;         ///< of them, those that were refused
  std::uint64_t live_times = 0;            ///< real calls that were timed: see live_options
  std::uint64_t live_untimed = 0;          ///< that were to be timed, and could not
  std::uint64_t live_comparisons = 0;      ///< of two variants at a real call: see compare_live()
  std::uint64_t live_denials = 0;          ///< variants that a comparison took out of service
  std::uint64_t canary_returns = 0;        ///< of new tables that were taken back since they were slower
  std::vector<counted_code> errors;        ///< thrown by calls, prepare() and workspace_bytes(), by number
};

/// The counters of a catalog.
struct catalog_counters {
  std::vector<operator_counters> operators;  ///< that a dispatcher was made for, by name
  std::uint64_t reloads = 0;                 ///< that found changed files
  std::uint64_t generation = 0;              ///< see catalog::generation()
  std::vector<counted_code> warnings;        ///< of the log by number; 0: those without one
};

/// What counts for one operator.
class operator_tally {
 public:
  using counter = std::atomic<std::uint64_t>;

  void count(counter operator_tally::*which) noexcept {
    (this->*which).fetch_add(1, std::memory_order_relaxed);
  }
  void count(const choice& chosen) noexcept {
    choices_[static_cast<std::size_t>(chosen.why)].fetch_add(1, std::memory_order_relaxed);
  }
  void count(error_code thrown) noexcept { errors_.count(static_cast<int>(thrown)); }
  void count(const seal::event& met) noexcept;

  [[nodiscard]] operator_counters read(std::string name) const;

  counter plans{0};
  counter displaced_plans{0};
  counter passed_over{0};
  counter loads{0};
  counter failed_loads{0};
  counter replacements{0};
  counter refused_replacements{0};
  counter live_times{0};
  counter live_untimed{0};
  counter live_comparisons{0};
  counter live_denials{0};
  counter canary_returns{0};

 private:
  std::array<counter, 8> choices_{};
  counter unprepared_plans_{0};
  counter unprepared_loads_{0};
  counter unprepared_fallbacks_{0};
  counter refused_calls_{0};
  code_counts errors_;
};

/// The tallies of a catalog's operators.
class tallies {
 public:
  /// Made when first asked for.
  [[nodiscard]] std::shared_ptr<operator_tally> of(std::string_view name);

  /// All, by name.
  [[nodiscard]] std::vector<operator_counters> read() const;

 private:
  struct named {
    std::string name;
    std::shared_ptr<operator_tally> tally;
  };

  mutable mutex mutex_;
  std::vector<named> all_;  // by name; guarded by mutex_
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/counters_impl.hpp>
#endif
