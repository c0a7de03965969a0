// SPDX-License-Identifier: MIT
// The CPU's rotary kernels against the f64 reference, for every instruction set that runs here.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/float16.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/reference/rotary.hpp>

#include "catch.hpp"
#include "kernels/host_blobs.hpp"

namespace {

using namespace switchyard;
using operators::rotary_style;
using arguments = operators::rotary::arguments;

enum class from { offset, sequence_offsets, ids };

struct options {
  dtype type = dtype::f32;
  dtype table_type = dtype::f32;
  std::int64_t batch = 2, seqlen = 19, heads = 5, heads_kv = 3, head_dim = 64, rotary_dim = 64;
  rotary_style style = rotary_style::half;
  from positions = from::offset;
  bool inverse = false, table = true, in_place = false, packed = false, heads_first = false, padded = false,
       misaligned = false;
};

std::string describe(const options& o, std::uint32_t seed) {
  std::ostringstream text;
  text << "seed " << seed << ": " << test::type_name(o.type) << " table " << o.table << ' '
       << test::type_name(o.table_type) << " batch " << o.batch << " seqlen " << o.seqlen << " heads "
       << o.heads << '+' << o.heads_kv << " dim " << o.rotary_dim << '/' << o.head_dim << " style "
       << static_cast<int>(o.style) << " positions " << static_cast<int>(o.positions) << " inverse "
       << o.inverse << " in_place " << o.in_place << " packed " << o.packed << " heads_first "
       << o.heads_first << " padded " << o.padded << " misaligned " << o.misaligned;
  return text.str();
}

struct problem {
  arguments a;
  test::tensor q, k, q_out, k_out, cos, sin;
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> cu, offsets;
  std::int64_t first = 0;

  problem(const options& o, std::mt19937& random) {
    const auto below = [&](std::int64_t limit) {
      return std::uniform_int_distribution<std::int64_t>{0, limit}(random);
    };
    first = o.misaligned ? 1 : 0;
    a.batch = o.batch;
    a.seqlen = o.seqlen;
    a.heads = o.heads;
    a.heads_kv = o.heads_kv;
    a.head_dim = o.head_dim;
    a.rotary_dim = o.rotary_dim;
    a.dtype = o.type;
    a.table_dtype = o.table_type;
    a.style = o.style;
    a.inverse = o.inverse;
    a.offset = 11;
    a.base = 50000.0F;
    a.scaling = 0.75F;
    std::int64_t tokens = o.seqlen;
    if (o.packed) {
      cu = {0};
      for (std::int64_t b = 0; b < o.batch; ++b) {
        cu.push_back(cu.back() + static_cast<std::int32_t>(b == o.batch - 1 ? o.seqlen : below(o.seqlen)));
      }
      a.cu_seqlens = cu.data();
      tokens = cu.back();
    }
    std::int64_t last = a.offset + o.seqlen;
    if (o.positions == from::sequence_offsets) {
      for (std::int64_t b = 0; b < o.batch; ++b) offsets.push_back(static_cast<std::int32_t>(below(40)));
      a.sequence_offsets = offsets.data();
      last = 40 + o.seqlen;
    }
    if (o.positions == from::ids) {
      // Runs and jumps, and some positions twice.
      for (std::int64_t n = 0; n < (o.packed ? tokens : o.batch * o.seqlen); ++n) {
        ids.push_back(n > 0 && below(2) != 0 ? ids.back() + below(1) : below(200));
      }
      a.positions = ids.data();
      last = 0;
      for (const std::int64_t id : ids) last = std::max(last, id + 1);
    }
    if (o.table) {
      const std::int64_t half = o.rotary_dim / 2;
      a.table_stride = half + 1;
      cos = test::tensor{o.table_type, last * a.table_stride};
      sin = test::tensor{o.table_type, last * a.table_stride};
      for (std::int64_t p = 0; p < last; ++p) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(p) * std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
          reference::store(o.table_type, cos.data(), p * a.table_stride + i, std::cos(angle));
          reference::store(o.table_type, sin.data(), p * a.table_stride + i, std::sin(angle));
        }
      }
      a.cos = cos.data();
      a.sin = sin.data();
    }
    const auto layout = [&](std::int64_t heads, std::int64_t gap, std::int64_t& batch, std::int64_t& token,
                            std::int64_t& head) {
      if (o.heads_first) {
        token = o.head_dim + gap;
        head = token * tokens + 2 * gap;
        batch = head * heads + gap;
      } else {
        head = o.head_dim + gap;
        token = head * heads + gap;
        batch = token * tokens + 2 * gap;
      }
      const std::int64_t size = batch * (o.packed ? 1 : o.batch) + first;
      if (o.packed) batch = std::int64_t{1} << 40;
      return size;
    };
    const std::int64_t gap = o.padded ? 3 : 0;
    const std::int64_t out_gap = o.in_place ? gap : 2 * gap;
    q = test::tensor::random(
        o.type, layout(o.heads, gap, a.q_stride_batch, a.q_stride_token, a.q_stride_head), random);
    k = test::tensor::random(
        o.type, layout(o.heads_kv, gap, a.k_stride_batch, a.k_stride_token, a.k_stride_head), random);
    q_out = test::tensor::poisoned(
        o.type, layout(o.heads, out_gap, a.q_out_stride_batch, a.q_out_stride_token, a.q_out_stride_head));
    k_out = test::tensor::poisoned(
        o.type, layout(o.heads_kv, out_gap, a.k_out_stride_batch, a.k_out_stride_token, a.k_out_stride_head));
    const auto at_first = [&](test::tensor& t) {
      return static_cast<std::byte*>(t.data()) + first * size_of(o.type);
    };
    a.q = at_first(q);
    a.q_out = at_first(q_out);
    if (o.heads_kv > 0) {
      a.k = at_first(k);
      a.k_out = at_first(k_out);
    }
  }
};

struct way {
  std::string name;
  std::function<void(const test::blob&, const arguments&)> run;
};

std::vector<way> ways() {
  std::vector<way> result;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::uint32_t>((a + b - 1) / b);
  };
  for (const auto& sizes : {std::pair{1, 1000}, {4, 2}, {64, 1000}}) {
    const std::int32_t tokens = sizes.first;
    const std::int32_t heads = sizes.second;
    result.push_back({std::to_string(tokens) + " tokens, " + std::to_string(heads) + " heads",
                      [=](const test::blob& blob, const arguments& a) {
                        test::launch(blob.find("rotary_" + test::type_name(a.dtype)),
                                     {ceil_div(a.seqlen, tokens), static_cast<std::uint32_t>(a.batch),
                                      ceil_div(a.heads + a.heads_kv, heads)},
                                     static_cast<std::size_t>(24 * a.rotary_dim), a, tokens, heads);
                      }});
  }
  result.push_back(
      {"reference", [=](const test::blob& blob, const arguments& a) {
         test::launch(blob.find("rotary_reference_" + test::type_name(a.dtype)),
                      {static_cast<std::uint32_t>(a.seqlen), static_cast<std::uint32_t>(a.batch), 1}, 0, a);
       }});
  return result;
}

struct outcome {
  std::vector<double> q, k;  ///< NaN where nothing belongs
};

template <class Real>
outcome compute(const problem& p) {
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  outcome result{std::vector<double>(static_cast<std::size_t>(p.q_out.size()), nothing),
                 std::vector<double>(static_cast<std::size_t>(p.k_out.size()), nothing)};
  reference::rotary<Real>(p.a, [&](bool is_key, std::int64_t offset, double value) {
    (is_key ? result.k : result.q)[static_cast<std::size_t>(p.first + offset)] = value;
  });
  return result;
}

void check(const options& o) {
  const std::uint32_t seed = test::fresh_seed();
  INFO(describe(o, seed));
  std::mt19937 random{seed};
  problem p{o, random};
  REQUIRE_THAT(operators::rotary::check(p.a), no_text());
  const outcome expected = compute<double>(p);
  const outcome plain = compute<float>(p);

  // Twice the error of the plain formula in float, rounded to the type, and a unit of float.
  double limit = 0;
  const auto add = [&](const std::vector<double>& exact, const std::vector<double>& rough) {
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!std::isnan(exact[i]))
        limit = std::max(limit, std::abs(reference::rounded(o.type, rough[i]) - exact[i]));
    }
  };
  add(expected.q, plain.q);
  add(expected.k, plain.k);
  limit = 2 * limit + 0x1p-22;

  for (const test::blob& blob : test::blobs("rotary")) {
    for (const way& run : ways()) {
      INFO(blob.name() << ", " << run.name);
      arguments a = p.a;
      test::tensor q = test::tensor::poisoned(o.type, p.q_out.size());
      test::tensor k = test::tensor::poisoned(o.type, p.k_out.size());
      const auto at_first = [&](test::tensor& t) {
        return static_cast<std::byte*>(t.data()) + p.first * size_of(o.type);
      };
      if (o.in_place) {
        std::memcpy(q.data(), p.q.data(), static_cast<std::size_t>(q.size() * size_of(o.type)));
        std::memcpy(k.data(), p.k.data(), static_cast<std::size_t>(k.size() * size_of(o.type)));
        a.q = at_first(q);
        a.k = o.heads_kv > 0 ? at_first(k) : nullptr;
      }
      a.q_out = at_first(q);
      a.k_out = o.heads_kv > 0 ? at_first(k) : nullptr;
      run.run(blob, a);

      double largest = 0;
      std::int64_t touched = 0;
      const auto compare = [&](const std::vector<double>& exact, const test::tensor& before,
                               const test::tensor& found) {
        for (std::int64_t i = 0; i < found.size(); ++i) {
          const double value = exact[static_cast<std::size_t>(i)];
          if (std::isnan(value)) {
            if (o.in_place ? found[i] != before[i] : !found.untouched(i)) ++touched;
          } else {
            const double error = std::abs(found[i] - value);
            largest = error <= largest ? largest : error;
            if (std::isnan(error)) largest = std::numeric_limits<double>::infinity();
          }
        }
      };
      compare(expected.q, p.q, q);
      compare(expected.k, p.k, k);
      CHECK(touched == 0);
      CHECK(largest <= limit);
    }
  }
}

void check_types(options o) {
  for (const rotary_style style : {rotary_style::half, rotary_style::interleaved}) {
    for (const dtype type : test::element_types) {
      o.style = style;
      o.type = type;
      check(o);
    }
  }
}

/// Every feature by itself.
const std::vector<std::pair<std::string, options>> features{
    {"plain", {}},
    {"queries only", {.heads_kv = 0}},
    {"inverse", {.inverse = true}},
    {"computed angles", {.table = false}},
    {"computed angles, inverse, given positions", {.positions = from::ids, .inverse = true, .table = false}},
    {"table of f16", {.table_type = dtype::f16}},
    {"table of bf16", {.table_type = dtype::bf16}},
    {"table of f64", {.table_type = dtype::f64}},
    {"in place", {.in_place = true}},
    {"in place, partial, gaps", {.rotary_dim = 38, .in_place = true, .padded = true}},
    {"first positions", {.positions = from::sequence_offsets}},
    {"given positions", {.positions = from::ids}},
    {"variable length", {.packed = true}},
    {"variable length, given positions", {.positions = from::ids, .packed = true}},
    {"variable length, first positions, computed",
     {.positions = from::sequence_offsets, .table = false, .packed = true}},
    {"heads before tokens", {.heads_first = true}},
    {"gaps, aligned to elements only", {.padded = true, .misaligned = true}},
    {"one token", {.seqlen = 1}},
};

}  // namespace

TEST_CASE("rotary: each feature by itself", "[rotary]") {
  for (const auto& [name, o] : features) {
    DYNAMIC_SECTION(name) {
      check_types(o);
    }
  }
}

TEST_CASE("rotary: dimensions", "[rotary]") {
  options o;
  for (const auto& [dim, rotary_dim] : std::vector<std::pair<int, int>>{
           {2, 2}, {5, 4}, {33, 30}, {80, 32}, {96, 96}, {100, 100}, {128, 128}, {256, 64}, {256, 256}}) {
    o.head_dim = dim;
    o.rotary_dim = rotary_dim;
    check_types(o);
  }
}

TEST_CASE("rotary: every 16-bit value is read and rounded as the scalar conversions do", "[rotary]") {
  const std::uint32_t seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> exponent{-24.0F, 6.0F};
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    const auto read = [&](std::uint16_t bits) {
      return type == dtype::f16 ? f16_to_float(bits) : bf16_to_float(bits);
    };
    const auto round = [&](float value) {
      const auto wide = static_cast<double>(value);
      return type == dtype::f16 ? f16_from(wide) : bf16_from(wide);
    };
    // All values as the first halves of heads of 64 whose second halves are zero; each token has its factor.
    std::vector<std::uint16_t> in(std::size_t{65536} * 2, 0);
    for (std::size_t n = 0; n < 65536; ++n) in[n / 32 * 64 + n % 32] = static_cast<std::uint16_t>(n);
    std::vector<float> cos(std::size_t{32} * 32);
    for (float& value : cos) value = std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0F : -1.0F);
    const std::vector<float> sin(cos.size(), 0.0F);
    std::vector<std::uint16_t> out(in.size());
    const const_tensor cosines{std::span{cos}, {32, 32}};
    const const_tensor sines{std::span{sin}, {32, 32}};
    const auto a =
        operators::rotary::call({in.data(), type, {1, 32, 64, 64}}, {}, {out.data(), type, {1, 32, 64, 64}},
                                {}, {.cos = cosines, .sin = sines});
    for (const test::blob& blob : test::blobs("rotary")) {
      INFO(blob.name());
      ways().at(2).run(blob, a);
      std::size_t wrong = 0;
      for (std::size_t n = 0; n < 65536; ++n) {
        const float value = read(static_cast<std::uint16_t>(n));
        const float product = value * cos[n / 2048 * 32 + n % 32];
        const std::uint16_t found = out[n / 32 * 64 + n % 32];
        const bool right = std::isnan(value) ? std::isnan(read(found)) : found == round(product);
        if (!right) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}
