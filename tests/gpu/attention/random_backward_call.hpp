// SPDX-License-Identifier: MIT
// Random calls of attention backward: a random forward call with its results, and what follows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/tune/reference/attention_backward.hpp>

#include "random_call.hpp"
#include "strides.hpp"

namespace {

using sy::operators::attention_backward;

/// A forward call with its results, and the backward call that follows.
struct backward_call {
  call forward;
  attention_backward::arguments a;
  std::vector<std::byte> out, dout;
  std::vector<float> lse, dlse;
  std::array<std::vector<double>, 4> expected;  ///< of dq, dk, dv, dbias; NaN where nothing is written
  std::array<double, 4> limits{};

  explicit backward_call(std::uint32_t seed) : forward{seed, false}, seed_{seed} {
    const arguments& f = forward.a;
    const auto elements = static_cast<std::size_t>(forward.out_elements);
    out.resize((elements + 16) * static_cast<std::size_t>(sy::size_of(f.dtype)));
    dout = out;
    std::mt19937 random{seed};
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < elements; ++i)
      sy::reference::store(f.dtype, dout.data(), static_cast<std::int64_t>(i), normal(random));
    lse.resize(static_cast<std::size_t>(forward.lse_elements));

    const auto before = forward.first * sy::size_of(f.dtype);
    sy::test::copy_arguments<attention_forward, attention_backward>(f, a);
    a.out = out.data() + before;
    a.dout = dout.data() + before;
    a.lse = lse.data();
    a.dq = const_cast<void*>(f.q);  // for check(); results go elsewhere
    a.dk = const_cast<void*>(f.k);
    a.dv = const_cast<void*>(f.v);
    sy::test::lay_out_gradients<attention_backward>(a);
    forward.block_mask.set(a);
    const auto chance = [&](int percent) { return std::uniform_int_distribution{0, 99}(random) < percent; };
    a.deterministic = chance(40);
    if (chance(50)) {
      a.dlse_stride_head = f.lse_stride_head + (chance(50) ? 5 : 0);
      const bool packed = a.cu_seqlens_q != nullptr;
      a.dlse_stride_batch = packed ? std::int64_t{1} << 40 : a.heads * a.dlse_stride_head;
      dlse.resize(static_cast<std::size_t>((packed ? 1 : a.batch) * a.heads * a.dlse_stride_head));
      a.dlse = dlse.data();
    }
    if (a.bias != nullptr && chance(70)) {
      // Broadcast over any of batch, heads and rows, whatever the bias is.
      std::int64_t step = a.seqlen_k + (chance(50) ? 3 : 0);
      const auto stride = [&](std::int64_t count) {
        if (chance(40)) return std::int64_t{0};
        return std::exchange(step, step * std::max<std::int64_t>(count, 1));
      };
      a.dbias_stride_row = stride(a.seqlen_q);
      a.dbias_stride_head = stride(a.heads);
      a.dbias_stride_batch = stride(a.batch);
      dbias_elements_ = static_cast<std::size_t>(step);
      a.dbias = const_cast<void*>(a.bias);
    }
  }

  /// Fills the forward call's results, expected values, and the errors that are allowed.
  void compute() {
    forward.compute();
    const arguments& f = forward.a;
    for (std::size_t i = 0; i < forward.expected.size(); ++i)
      sy::reference::store(f.dtype, out.data(), static_cast<std::int64_t>(i), forward.expected[i]);
    std::copy(forward.expected_lse.begin(), forward.expected_lse.end(), lse.begin());

    make_dlse(seed_);

    // Four times the errors of the formulas carried out plainly in float and rounded once; for what is
    // rounded in between in low precision (the forward's output, weights, slopes) two units at the gradients'
    // size; four times what is left where dP and delta cancel, an eighth of that for the weights of dv, which
    // are rounded once; and, because a weight is off by as much as its score, units of float at the size of
    // the scores of normal numbers, and six half units at the size of the LSE: one for the LSE as it is
    // stored, and up to ln 2 * 2 each for the LSE, the score and its ALiBi term in base 2; and what a soft
    // cap's scores may be off by, while the LSE is not.
    double size_lse = 0;
    for (const float value : lse) {
      if (std::isfinite(value)) size_lse = std::max(size_lse, static_cast<double>(std::abs(value)));
    }
    std::array<double, 4> noise{};
    const auto exact = compute<double>(&noise);
    const auto plain = compute<float>();
    const double of_cap = sy::reference::error_of_cap(a, 8 * forward.score());
    const double unit = f.dtype == dtype::f32 ? 0x1p-19 : f.dtype == dtype::f16 ? 0x1p-10 : 0x1p-7;
    for (std::size_t n = 0; n < expected.size(); ++n) {
      double error = 0;
      double size = 0;
      for (std::size_t i = 0; i < exact[n].size(); ++i) {
        if (std::isnan(exact[n][i])) continue;
        size = std::max(size, std::abs(exact[n][i]));
        error = std::max(error, std::abs(exact[n][i] - sy::reference::rounded(f.dtype, plain[n][i])));
      }
      const double work = f.dtype == dtype::f32 ? 0x1p-20 : unit;  // f32 products are three of tf32
      limits[n] = 4 * error + 2 * unit * size + 4 * work * noise[n] +
                  (0x1p-19 * forward.score() + 0x1.8p-22 * size_lse + of_cap) * size + unit * 0x1p-6;
      expected[n] = exact[n];
    }
  }

  [[nodiscard]] std::string text() const {
    return forward.text() + " dlse " + (a.dlse != nullptr ? "1" : "0");
  }

  [[nodiscard]] std::size_t bytes(std::size_t n) const {
    return expected[n].size() * static_cast<std::size_t>(sy::size_of(a.dtype));
  }

 private:
  /// Of normal numbers; NaN for rows that see nothing or are not there, and in gaps.
  void make_dlse(std::uint32_t seed) {
    if (a.dlse == nullptr) return;
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    std::fill(dlse.begin(), dlse.end(), std::numeric_limits<float>::quiet_NaN());
    const std::int64_t entries = a.cu_seqlens_q != nullptr ? 1 : a.batch;
    for (std::int64_t n = 0; n < entries * a.heads * a.lse_stride_head; ++n) {
      if (!std::isfinite(lse[static_cast<std::size_t>(n)])) continue;
      const std::int64_t row = n / a.lse_stride_head;
      dlse[static_cast<std::size_t>(row * a.dlse_stride_head + n % a.lse_stride_head)] = normal(random);
    }
  }

  template <class Real>
  [[nodiscard]] std::array<std::vector<double>, 4> compute(std::array<double, 4>* noise = nullptr) const {
    const auto bytes_each = static_cast<std::size_t>(sy::size_of(a.dtype));
    const auto first = static_cast<std::size_t>(forward.first);
    const auto fresh = [&](const std::vector<std::byte>& like) {
      return std::vector<Real>(like.size() / bytes_each - first, std::numeric_limits<Real>::quiet_NaN());
    };
    sy::reference::attention_gradients<Real> gradients{
        fresh(forward.q), fresh(forward.k), fresh(forward.v),
        std::vector<Real>(dbias_elements_, std::numeric_limits<Real>::quiet_NaN())};
    sy::reference::attention_backward<Real>(a, gradients);
    if (noise != nullptr) {
      *noise = {static_cast<double>(gradients.noise_dq), static_cast<double>(gradients.noise_dk),
                static_cast<double>(gradients.noise_dv) / 8, static_cast<double>(gradients.noise_dbias)};
    }
    std::array<std::vector<double>, 4> result;
    const std::array<const std::vector<Real>*, 4> from{&gradients.dq, &gradients.dk, &gradients.dv,
                                                       &gradients.dbias};
    for (std::size_t n = 0; n < result.size(); ++n) {
      if (n < 3) result[n].assign(first, nan);
      for (const Real value : *from[n]) result[n].push_back(static_cast<double>(value));
    }
    return result;
  }

  std::uint32_t seed_;
  std::size_t dbias_elements_ = 0;
};

}  // namespace
