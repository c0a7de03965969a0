// SPDX-License-Identifier: MIT
// A workbench for one operator on one device, without the operator's type: sets up a problem, says which
// variants may serve it, checks them and times them. It throws whatever a driver throws. A kernel that
// crashes takes the bench with it, so the tuner runs each bench in a process of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/sampler.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// A variant that may serve the problem that is set up.
struct serving_variant {
  std::string id;
  std::string blob;              ///< blob_fingerprint
  std::vector<axis_value> type;  ///< as its manifest states it
};

/// What a bench says of a problem that it has set up.
struct bench_problem {
  std::vector<std::int64_t> problem;
  std::vector<serving_variant> variants;  ///< in the manifest's order
  double bytes = 0;
  double flops = 0;
  checked_extent checked;
};

/// A bench without its operator's type.
class bench {
 public:
  bench() = default;
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  virtual ~bench() = default;

  [[nodiscard]] virtual const operator_description& description() const noexcept = 0;

  /// Allocates and fills the tensors of a problem. With `checked`, also computes the right results; otherwise
  /// the first check() does.
  virtual bench_problem set_up(const request& want, cache_state cache, std::uint64_t seed, bool checked) = 0;

  /// Runs a variant and returns what is wrong with the first wrong run; empty when all are right. A single
  /// run, on results full of NaN, tells whether a variant can be right. Several runs after timing find races
  /// and kernels that keep state, which are right at first: results hold NaN, numbers and an earlier result
  /// in turn, and the workload's variations are run too. They end early after `judging_seconds`. Throws
  /// call_error no_variant where the problem is too large for the reference, and the variant does not serve
  /// the smaller one that is checked in its place: nothing is known of its results then.
  [[nodiscard]] virtual std::string check(const std::string& variant, std::size_t runs) = 0;

  /// The largest error of a value in the last check(), as a share of what is allowed there.
  [[nodiscard]] virtual double largest_error() const noexcept = 0;

  /// How much of the problem's results is compared; nothing before the right results are computed.
  [[nodiscard]] virtual checked_extent checked() const = 0;

  /// One sample of a variant's time, in microseconds a call. The compared variants are sampled in turns, so
  /// that a drift of the device affects all alike.
  [[nodiscard]] virtual double sample(const std::string& variant, const sample_options& options) = 0;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
