// SPDX-License-Identifier: MIT
// The times of real calls and of comparisons by problem and variant, and what follows from them.
//
// Any thread may call. What is kept is bounded, and stays as long as the catalog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/observing/live_options.hpp>
#include <switchyard/observing/live_samples.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// A variant at one problem.
struct live_variant {
  std::string id;
  std::string blobs;     ///< what identifies its blobs
  live_time calls{};     ///< real calls, by events: with what lies between them and their kernels
  live_time compared{};  ///< in comparisons: these alone may be compared with each other
};

/// A problem that was measured.
struct live_problem {
  const operator_description* op = nullptr;  ///< valid as long as the catalog
  device_properties device;
  std::vector<std::int64_t> problem;
  std::vector<axis_value> row_type;  ///< of the table rows that speak for it; empty: it was not compared
  std::optional<match_rule> match;   ///< of their table; empty: no rows speak for it
  std::vector<live_variant> variants;
  std::string winner;  ///< of the latest comparison
  double regret = 0;   ///< how much longer the winner takes than the fastest one that it was compared with

  /// "softmax {dtype=f32 rows=4 columns=4} on NVIDIA H200"
  [[nodiscard]] std::string text() const;
};

/// A variant that a comparison took out of service.
struct live_denial {
  const operator_description* op = nullptr;
  device_properties device;
  std::string variant;
  std::string blobs;
  std::vector<axis_value> type;
  std::string reason;
};

/// What live measuring has found.
struct live_report {
  std::vector<live_problem> problems;
  std::vector<live_denial> denials;
  std::uint64_t left_out = 0;  ///< problems that there was no room for
  double regret = 0;           ///< over the problems that were compared, weighed by the winners' times
};

/// A line for each problem that was measured and each denial.
[[nodiscard]] std::string to_string(const live_report& of);

class live_records final : public live_observer {
 public:
  explicit live_records(const live_options& options) : options_{options} {}

  [[nodiscard]] const live_options& options() const noexcept { return options_; }

  [[nodiscard]] SWITCHYARD_FUNCTION live_samples* samples_of(const operator_description& op,
                                                             const device_properties& device,
                                                             problem_view problem,
                                                             const variant& of) override;

  /// Keeps a comparison's times.
  void add(const operator_description& op, const device_properties& device, const live_comparison& found);

  /// Keeps a denial; false where it is known.
  bool add(const live_denial& denied);

  [[nodiscard]] live_report report() const;

 private:
  struct entry {
    std::string id;
    std::string blobs;
    live_samples calls;
    live_samples compared;
  };
  struct record {
    const operator_description* op = nullptr;
    const device_properties* device = nullptr;
    std::vector<std::int64_t> problem;
    std::vector<axis_value> row_type;
    std::optional<match_rule> match;
    std::string winner;
    std::vector<std::unique_ptr<entry>> variants;
  };

  static constexpr std::size_t max_variants = 64;  ///< of a problem

  /// The record of a problem; null if there is no room. The caller holds the mutex.
  [[nodiscard]] record* find(const operator_description& op, const device_properties& device,
                             problem_view problem);
  /// The entry of a variant; null if there is no room. The caller holds the mutex.
  [[nodiscard]] static entry* find(record& in, const std::string& id, const std::string& blobs);

  live_options options_;
  mutable mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<device_properties>> devices_;
  std::vector<std::unique_ptr<record>> records_;
  std::vector<std::uint64_t> hashes_;  // of the records
  std::vector<live_denial> denials_;
  std::uint64_t left_out_ = 0;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/live_records_impl.hpp>
#endif
