// SPDX-License-Identifier: MIT
// A smaller call of the same type, for a problem that is too large for the reference.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// How much of a problem is checked, and on how much memory.
struct check_options {
  double max_work = 1e8;  ///< multiplications and additions of the reference; beyond it rows are sampled
  std::int64_t least_rows = 24;                     ///< sampled whatever they cost
  double max_bytes = 4 * 1024.0 * 1024.0 * 1024.0;  ///< of tensors that are copied to the host
  double max_row_work = 1.5e9;  ///< where the least rows cost more, a smaller problem is checked
};

/// What is wrong with a call; empty where it is legal.
template <operator_type Operator>
[[nodiscard]] std::string illegal(const typename Operator::arguments& call) {
  if constexpr (requires { Operator::check(call); }) {
    return Operator::check(call);
  } else {
    return {};
  }
}

[[nodiscard]] inline double total_bytes(const tensors& of) {
  double out = 0;
  for (const tensors::tensor& tensor : of.all()) out += static_cast<double>(tensor.bytes);
  return out;
}

/// A smaller problem of the same type where `call`, which `want` asked for, is too large, and what asks for
/// it; null where it is not. Rows are taken away first, then the workload has its say, and from there sizes
/// are halved, the largest first, until the reference can do it. The code that runs is the same: a
/// variant's kernels differ by type alone. What remains untested there are offsets beyond the smaller
/// tensors.
template <operator_type Operator>
[[nodiscard]] std::unique_ptr<prepared_call<Operator>> smaller_call(
    const prepared_call<Operator>& call, request& want, const check_options& options,
    const std::shared_ptr<device_driver>& memory, std::uint64_t seed) {
  const auto too_large = [&](const prepared_call<Operator>& tried) {
    const auto rows = std::min(workload<Operator>::rows(tried.arguments), options.least_rows);
    return total_bytes(tried.memory) > options.max_bytes ||
           static_cast<double>(rows) * workload<Operator>::row_work(tried.arguments) > options.max_row_work;
  };
  std::unique_ptr<prepared_call<Operator>> out;
  if (!too_large(call)) return out;
  const operator_description& op = describe<Operator>();
  auto problem = make_problem<Operator>(call.arguments);
  std::vector<bool> fixed(op.axes.size());
  for (std::size_t i = 0; i < op.axes.size(); ++i) fixed[i] = op.axes[i].kind != axis_kind::size;
  const auto attempt = [&](const request& smaller) {
    auto made = std::make_unique<prepared_call<Operator>>(workload<Operator>::make(memory, smaller, seed));
    if (!illegal<Operator>(made->arguments).empty()) return false;
    want = smaller;
    out = std::move(made);
    problem = make_problem<Operator>(out->arguments);
    return true;
  };
  if constexpr (requires(request & smaller) { workload<Operator>::shrink(call.arguments, smaller); }) {
    request smaller = want;
    workload<Operator>::shrink(call.arguments, smaller);
    static_cast<void>(attempt(smaller));
  }
  const std::size_t rows = find_axis(op, "rows");
  if (rows < op.axes.size() && !fixed[rows] && problem[rows] > options.least_rows) {
    const double share = options.max_bytes / total_bytes(call.memory);
    request smaller = want;
    smaller.set("rows", std::clamp(static_cast<std::int64_t>(static_cast<double>(problem[rows]) * share),
                                   options.least_rows, problem[rows]));
    static_cast<void>(attempt(smaller));
  }
  while (!out || too_large(*out)) {
    std::size_t largest = op.axes.size();
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      if (fixed[i] || problem[i] < 2) continue;
      if (largest == op.axes.size() || problem[i] > problem[largest]) largest = i;
    }
    if (largest == op.axes.size()) break;
    request smaller = want;
    smaller.set(op.axes[largest].name, problem[largest] - problem[largest] / 2);
    // Heads that no longer share their keys evenly, say.
    if (!attempt(smaller)) fixed[largest] = true;
  }
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
