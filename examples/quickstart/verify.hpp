// SPDX-License-Identifier: MIT
// Compares what a kernel wrote with the references in double precision.
//
// The error of a row (the head_dim values of one head of one token) is its largest difference over its
// largest magnitude. Rounding a value to bf16, which has 8 significant bits, moves it by at most 2^-8 of
// itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <switchyard/tune/reference/attention.hpp>
#include <switchyard/tune/reference/element.hpp>
#include <switchyard/tune/reference/rotary.hpp>

#include "layer.hpp"

namespace quickstart {

struct verdict {
  double error = 0;
  double tolerance = 0;
  std::int64_t rows = 0;                                           ///< that were compared
  [[nodiscard]] bool holds() const { return error <= tolerance; }  // false for NaN
};

/// Error of one row; infinite for a value that is no number.
[[nodiscard]] inline double row_error(const std::byte* out, std::int64_t at, std::span<const double> wanted) {
  double difference = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double found = sy::reference::load(sy::dtype::bf16, out, at + static_cast<std::int64_t>(i));
    if (!std::isfinite(found)) return std::numeric_limits<double>::infinity();
    difference = std::fmax(difference, std::fabs(found - wanted[i]));
    magnitude = std::fmax(magnitude, std::fabs(wanted[i]));
  }
  return magnitude == 0 ? difference : difference / magnitude;
}

/// Every element. The arithmetic is a multiplication and an addition in float, so rounding the result is
/// all but all of the error.
[[nodiscard]] inline verdict verify(const rotary_call& call) {
  std::vector<double> wanted_q(static_cast<std::size_t>(call.arguments.seqlen * heads * head_dim));
  std::vector<double> wanted_k(static_cast<std::size_t>(call.arguments.seqlen * heads_kv * head_dim));
  sy::reference::rotary(call.on_host, [&](bool is_key, std::int64_t at, double value) {
    (is_key ? wanted_k : wanted_q)[static_cast<std::size_t>(at)] = value;
  });
  verdict out{0, 1.01 * std::ldexp(1, -8), 0};
  const auto compare = [&out](const tensor& found, std::span<const double> wanted) {
    const std::vector<std::byte> values = found.download();
    constexpr auto row = static_cast<std::size_t>(head_dim);
    for (std::size_t at = 0; at < wanted.size(); at += row) {
      out.error = std::fmax(out.error,
                            row_error(values.data(), static_cast<std::int64_t>(at), wanted.subspan(at, row)));
      ++out.rows;
    }
  };
  compare(call.q, wanted_q);
  compare(call.k, wanted_k);
  return out;
}

/// All rows of a call with few, else a random sample that always has the first and the last query. Kernels
/// may round the softmax's weights to bf16 before the second product, so twice the
/// rounding of the result is allowed.
[[nodiscard]] inline verdict verify(const attention_call& call) {
  const std::vector<std::byte> values = call.out.download();
  const std::int64_t queries = call.arguments.seqlen_q;
  constexpr std::int64_t most = 512;
  verdict out{0, std::ldexp(1, -7), 0};
  const auto compare = [&](std::int64_t head, std::int64_t query) {
    // One row is attention of one query of one head over the keys that it sees.
    sy::operators::attention_forward::arguments row = call.on_host;
    row.heads = row.heads_kv = row.seqlen_q = 1;
    row.seqlen_k = call.arguments.seqlen_k - queries + query + 1;
    const auto offset = [](const void* base, std::int64_t elements) {
      return static_cast<const std::byte*>(base) + elements * 2;
    };
    const std::int64_t head_kv = head / (heads / heads_kv);
    row.q = offset(row.q, query * row.q_stride_token + head * row.q_stride_head);
    row.k = offset(row.k, head_kv * row.k_stride_head);
    row.v = offset(row.v, head_kv * row.v_stride_head);
    sy::reference::attention_forward(
        row, [&](std::int64_t, std::int64_t, std::span<const double> wanted, double) {
          const std::int64_t at = query * row.out_stride_token + head * row.out_stride_head;
          out.error = std::fmax(out.error, row_error(values.data(), at, wanted));
          ++out.rows;
        });
  };
  if (queries * heads <= most) {
    for (std::int64_t query = 0; query < queries; ++query) {
      for (std::int64_t head = 0; head < heads; ++head) compare(head, query);
    }
    return out;
  }
  std::mt19937_64 generator{7};
  for (std::int64_t i = 0; i < most; ++i) {
    const auto pick = [&generator](std::int64_t below) {
      return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(below));
    };
    compare(pick(heads), i == 0 ? 0 : i == 1 ? queries - 1 : pick(queries));
  }
  return out;
}

}  // namespace quickstart
