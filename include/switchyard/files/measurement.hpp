// SPDX-License-Identifier: MIT
// How rows of a tuning table were measured, as data: `measured` in the file. Tools read, compare and show it.
// Choosing reads the dates alone: read_measured_date.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// The smallest and the largest value of something; both are 0 if nothing is known.
struct least_and_most {
  std::int64_t least = 0;
  std::int64_t most = 0;

  [[nodiscard]] bool known() const noexcept { return most > 0; }
  void add(const least_and_most& other) noexcept;
  friend bool operator==(const least_and_most&, const least_and_most&) = default;
};

/// The device's clocks and temperature while it was measured. "power" or "temperature" limited them at times.
struct measured_clocks {
  least_and_most mhz;
  least_and_most memory_mhz;
  least_and_most celsius;
  std::vector<std::string> limited_by;

  friend bool operator==(const measured_clocks&, const measured_clocks&) = default;
};

/// Numbers of problems by what of their results was compared with the reference.
struct measured_checks {
  std::string reference;       ///< the type that it computes in: "f64"
  std::int64_t whole = 0;      ///< every value
  std::int64_t rows = 0;       ///< a sample of rows
  std::int64_t smaller = 0;    ///< those of a smaller problem of the same type
  std::int64_t unchecked = 0;  ///< nothing: the variants were compared at other problems

  friend bool operator==(const measured_checks&, const measured_checks&) = default;
};

/// That a table was merged from others.
struct measured_merge {
  std::int64_t tables = 0;
  std::int64_t repeated_rows = 0;  ///< that several of them had
  std::string conflict;            ///< what became of these: "median" or "newest"

  friend bool operator==(const measured_merge&, const measured_merge&) = default;
};

/// One tuning run. What is not known is 0 or empty, and is not written.
struct measurement {
  std::string date;         ///< "2026-11-22"
  std::string tool;         ///< "switchyard 0.1.0"
  std::int64_t driver = 0;  ///< the driver's version, as its API gives it
  std::int64_t rows = 0;    ///< how many rows it measured; 0: all
  std::int64_t runs = 0;    ///< how often everything was measured
  std::string statistic;    ///< what a time is of its samples: "median"
  least_and_most samples;   ///< of one time
  double precision = 0;     ///< sampling ended when half the 95 % interval was this share of the time
  double drift = 0;         ///< a problem was measured again when the device changed by more than this share
  std::string cache;        ///< "rotating", "cold" or "warm", as `tune --cache`
  std::int64_t cache_bytes = 0;  ///< that the tensors rotated over, or that were written to flush the caches
  std::string launches;          ///< "device", "stream" or "graph", as `tune --launches`
  double sustained = 0;          ///< seconds that the device was kept busy with a variant; 0: short samples
  measured_clocks clocks;
  measured_checks checks;
  measured_merge merged;
  std::string note;  ///< for people
  /// Members that this version does not know, each with its JSON text.
  std::vector<std::pair<std::string, std::string>> others;

  friend bool operator==(const measurement&, const measurement&) = default;
};

/// The members of a measurement's JSON object, without braces.
[[nodiscard]] std::string format_members(const measurement& of);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/measurement_impl.hpp>
#endif
