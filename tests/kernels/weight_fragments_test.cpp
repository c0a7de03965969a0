// SPDX-License-Identifier: MIT
// Blocks of quantised weights as operands of Hopper's tensor cores, without a GPU: what the threads of a warp
// make of the blocks of 16 outputs, multiplied with a row of x, against f64.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <matmul/weight_fragments_256.hpp>
#include <matmul/weight_fragments_32.hpp>
#include <random>
#include <vector>

#include <switchyard/tune/reference/weights.hpp>
#include <switchyard/tune/workloads/weights.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

namespace stream = sy::stream;
using stream::format;
using stream::view;
using switchyard::operators::weight_format;

constexpr int outputs = 16;
constexpr int inputs = 2048;  // with which rows of q6_k are whole pieces
constexpr std::size_t column_stride =
    8;  ///< floats from group to group of the sums of one row in a tile of eight

/// 16 bytes, as copies into shared memory align them.
struct alignas(16) piece {
  std::array<std::byte, 16> bytes;
};

template <format Format>
struct problem {
  static constexpr auto named = static_cast<weight_format>(Format);
  static constexpr std::size_t groups = inputs / stream::group_elements<Format>;
  static constexpr auto row_pieces =
      static_cast<std::size_t>(switchyard::operators::row_bytes(named, inputs)) / sizeof(piece);

  std::vector<float> x;              ///< each an f16
  std::vector<piece> weights;        ///< a row each `row_pieces`
  std::vector<piece> units;          ///< of x
  std::vector<float> sums, nothing;  ///< of the groups of x
  std::vector<piece> scratch = std::vector<piece>(128);

  explicit problem(std::mt19937& random)
      : x(inputs),
        weights(outputs * row_pieces),
        units(inputs / 8),
        sums(groups * column_stride),
        nothing(groups * column_stride) {
    std::uniform_real_distribution<float> any{-16384, 16384};
    for (float& value : x) value = rounded(any(random));
    for (std::size_t output = 0; output < outputs; ++output) {
      const auto blocks = switchyard::tune::random_blocks(named, inputs, random());
      std::memcpy(weights.data() + output * row_pieces, blocks.data(), blocks.size());
    }
    for (int k = 0; k < inputs; ++k)
      sums[static_cast<std::size_t>(k / stream::group_elements<Format>) * column_stride] +=
          x[static_cast<std::size_t>(k)] * 0x1p-24F;
    for (int unit = 0; unit < inputs / 8; ++unit) {
      const auto from = stream::sources<Format>(unit);
      std::array<std::uint16_t, 8> halves{};
      for (std::size_t e = 0; e < 8; ++e) {
        constexpr std::array<int, 4> order{0, stream::pairs_neighbours<Format> ? 1 : 2,
                                           stream::pairs_neighbours<Format> ? 2 : 1, 3};
        const int k = (e < 4 ? from.first : from.second) + order[e % 4];
        const float by = e < 4 ? 1 : stream::second_scale<Format>;
        halves[e] = switchyard::f16_from(static_cast<double>(x[static_cast<std::size_t>(k)] * by));
      }
      std::memcpy(&units[static_cast<std::size_t>(unit)], halves.data(), sizeof halves);
    }
  }

  [[nodiscard]] static float rounded(float value) {
    return switchyard::f16_to_float(switchyard::f16_from(static_cast<double>(value)));
  }
  [[nodiscard]] const char* row(std::size_t output) const {
    return reinterpret_cast<const char*>(weights.data() + output * row_pieces);
  }

  /// What a thread adds to outputs g and g + 8. The offset belongs to one of the four threads that share
  /// them.
  void add_thread(unsigned lane, std::array<double, outputs>& to) {
    threadIdx = {lane, 0, 0};
    const std::size_t g = lane / 4;
    view<1> from{};
    from.t = static_cast<int>(lane % 4);
    from.w[0] = row(g);
    from.w[1] = row(g + 8);
    from.x[0] = reinterpret_cast<const char*>(units.data());
    from.sums = from.t == 0 ? sums.data() : nothing.data();
    from.scratch = reinterpret_cast<char*>(scratch.data());
    stream::totals<1> total{};
    using block = stream::block<Format, 1>;
    for (int first = 0; first < inputs; first += block::inputs) {
      // Threads exchange factors through the scratch memory: once for them, once for the products.
      stream::totals<1> unused{};
      for (unsigned other = 0; other < 32; ++other) {
        view<1> theirs = from;
        threadIdx.x = other;
        theirs.t = static_cast<int>(other % 4);
        theirs.w[0] = row(other / 4);
        theirs.w[1] = row(other / 4 + 8);
        block::add(unused, theirs, first);
      }
      threadIdx.x = lane;
      block::add(total, from, first);
    }
    to[g] += static_cast<double>(total[0][0]);
    to[g + 8] += static_cast<double>(total[0][2]);
  }
};

template <format Format>
void check(std::mt19937& random) {
  problem<Format> of{random};
  std::array<double, outputs> found{};
  for (unsigned lane = 0; lane < 32; ++lane) of.add_thread(lane, found);
  INFO(switchyard::enumerator_names<weight_format>[static_cast<std::size_t>(Format)]);
  for (std::size_t output = 0; output < outputs; ++output) {
    double wanted = 0;
    double magnitude = 0;
    for (int k = 0; k < inputs; ++k) {
      const double term = static_cast<double>(of.x[static_cast<std::size_t>(k)]) *
                          switchyard::reference::weight_at(problem<Format>::named, of.row(output), k);
      wanted += term;
      magnitude += std::abs(term);
    }
    CHECK(std::abs(found[output] * static_cast<double>(stream::units_of_sum<Format>) - wanted) <=
          0x1p-20 * magnitude);
  }
}

}  // namespace

TEST_CASE("operands of tensor cores are the weights") {
  std::mt19937 random{switchyard::test::fresh_seed()};
  check<format::q8_0>(random);
  check<format::q4_0>(random);
  check<format::q4_1>(random);
  check<format::q5_0>(random);
  check<format::q5_1>(random);
  check<format::iq4_nl>(random);
  check<format::mxfp4>(random);
  check<format::q4_k>(random);
  check<format::q5_k>(random);
  check<format::q6_k>(random);
}
