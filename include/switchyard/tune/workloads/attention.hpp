// What the workloads of the attention operators share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// cu_seqlens of sequences of one length.
[[nodiscard]] inline std::vector<std::int32_t> attention_starts(std::int64_t batch, std::int64_t length) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i <= batch; ++i) out.push_back(static_cast<std::int32_t>(i * length));
  return out;
}

/// Keys that a row sees under the mask, summed over the rows of one head.
template <class Arguments>
[[nodiscard]] double attention_pairs(const Arguments& a) {
  if (a.mask == operators::attention_mask::none) {
    return static_cast<double>(a.seqlen_q) * static_cast<double>(a.seqlen_k);
  }
  const std::int64_t shift =
      a.mask == operators::attention_mask::causal_bottom_right ? a.seqlen_k - a.seqlen_q : 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < a.seqlen_q; ++i) {
    pairs += static_cast<double>(std::clamp<std::int64_t>(i + 1 + shift, 0, a.seqlen_k));
  }
  return pairs;
}

/// What out and lse have to be, at the sampled rows; a row is a query of one head. `compute` is called with a
/// float and with a double, the arguments, a visitor and a predicate, and is the operator's reference in that
/// type. Allowed are four times the error of the formula carried out plainly in f32 and rounded once; `share`
/// of the output's size for what is rounded on the way; and, because the largest of few errors is small by
/// luck at times, `unit * 2^-8`. For lse eight units of f32 at its size take the place of the latter two.
template <class Arguments, class Compute>
void expect_attention(const Arguments& a, const row_sample& sample, expectation& out, double share,
                      double unit, Compute&& compute) {
  const auto wants = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    return sample.has((b * a.heads + h) * a.seqlen_q + i);
  };
  std::vector<double> rough;
  std::vector<double> rough_lse;
  compute(
      float{}, a,
      [&](std::int64_t, std::int64_t, std::span<const float> row, float lse) {
        for (const float value : row)
          rough.push_back(reference::rounded(a.dtype, static_cast<double>(value)));
        rough_lse.push_back(static_cast<double>(lse));
      },
      wants);
  auto& values = out.of("out", a.out, a.dtype);
  auto& logs = a.lse != nullptr ? out.of("lse", a.lse, dtype::f32) : values;
  double error = 0;
  double size = 0;
  double error_lse = 0;
  double size_lse = 1;
  std::size_t next = 0;
  std::size_t next_lse = 0;
  compute(
      double{}, a,
      [&](std::int64_t at, std::int64_t lse_at, std::span<const double> row, double lse) {
        for (std::size_t d = 0; d < row.size(); ++d) {
          values.want(at + static_cast<std::int64_t>(d), row[d], 0);
          size = std::max(size, std::abs(row[d]));
          error = std::max(error, std::abs(row[d] - rough[next++]));
        }
        if (std::isfinite(lse)) {
          size_lse = std::max(size_lse, std::abs(lse));
          error_lse = std::max(error_lse, std::abs(lse - rough_lse[next_lse]));
        }
        ++next_lse;
        if (a.lse != nullptr) logs.want(lse_at, lse, 0);
      },
      wants);
  const double allowed = 4 * error + share * size + unit * 0x1p-8 + 0x1p-24;
  for (expectation::value& each : values.values) each.allowed = allowed;
  if (a.lse == nullptr) return;
  for (expectation::value& each : logs.values) each.allowed = 4 * error_lse + 0x1p-20 * size_lse;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
