// SPDX-License-Identifier: MIT
// Rotary through manifest and launch path: every variant against f64, with tables and computed angles, dense
// and packed, in place and not, padded and misaligned.
//
// Allowance: results are rounded to their type once, twice half a unit in the last place. Before it, two f32
// products of values below 1 and their sum, and a sine and a cosine good to four f32 units.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <switchyard/tune/reference/rotary.hpp>

#include "operator_test.hpp"

namespace sy = switchyard;
using switchyard::dtype;
using switchyard::operators::rotary;
using switchyard::operators::rotary_style;
using switchyard::test::side;
using switchyard::test::tensor;

namespace {

enum class source { offset, sequence_offsets, ids };

struct options {
  dtype type;
  dtype table;  ///< only with tables
  bool tables;
  rotary_style style;
  std::int64_t head_dim;
  std::int64_t rotary_dim;
  source positions;
  bool packed;
  bool in_place;
  bool inverse;
  std::int64_t gap;             ///< elements between tokens
  std::int64_t first;           ///< elements before the tensors: breaks their alignment
  bool many_sequences = false;  ///< on a GPU more than the second dimension of its grid holds
};

/// Integers in memory of the device.
template <class Integer>
sy::tune::device_buffer upload(const std::vector<Integer>& values) {
  sy::tune::device_buffer out{sy::test::tested_device().driver(), values.size() * sizeof(Integer)};
  out.upload(values.data(), values.size() * sizeof(Integer));
  return out;
}

/// q or k, where it goes, and what must come out: NaN between tokens.
struct half_of_call {
  tensor in;
  tensor out;
  std::vector<double> wanted;

  half_of_call(const options& with, std::int64_t count)
      : in{tensor::random(with.type, count, with.first)},
        out{tensor::poisoned(with.type, count, with.first)},
        wanted(static_cast<std::size_t>(count), std::nan("")) {}

  /// Poisons the output; a call in place finds its input there.
  void prepare(bool in_place) {
    out.poison();
    if (!in_place) return;
    const auto size = static_cast<std::size_t>(sy::size_of(in.type()));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (std::isnan(wanted[i])) continue;
      std::memcpy(static_cast<std::byte*>(out.host()) + i * size,
                  static_cast<std::byte*>(in.host()) + i * size, size);
    }
    out.upload();
  }
};

void require_values(tensor& found, const std::vector<double>& wanted, const std::string& description) {
  found.download();
  sy::test::worst_error error;
  std::size_t written_gaps = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double value = found.at(static_cast<std::int64_t>(i));
    if (std::isnan(wanted[i])) {
      written_gaps += std::isnan(value) ? 0U : 1U;
    } else {
      error.add(value, wanted[i], sy::test::epsilon(found.type()),
                16 * 0x1p-24 + sy::test::smallest(found.type()));
    }
  }
  INFO(description);
  CHECK(error.share() <= 1);
  CHECK(written_gaps == 0);
}

void test_rotary(const options& with) {
  const bool many = with.many_sequences;
  const std::int64_t batch = !many ? 3 : sy::test::tested_kind() == "host" ? 700 : 70'000;
  const std::int64_t seqlen = many ? 2 : 21;
  const std::int64_t heads = many ? 1 : 5;
  const std::int64_t heads_kv = many ? 1 : 3;
  std::vector<std::int32_t> cu_seqlens{0, 7, 28, 33};
  std::vector<std::int32_t> offsets{4, 0, 9};
  if (many) {
    cu_seqlens.resize(1);
    offsets.clear();
    for (std::int32_t i = 0; i < batch; ++i) {
      cu_seqlens.push_back(cu_seqlens.back() + i % 3);  // no token, one, two
      offsets.push_back(i % 53);
    }
  }
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < batch * seqlen; ++i) ids.push_back((i * 17 + 3) % 61);
  const auto device_cu_seqlens = upload(cu_seqlens);
  const auto device_offsets = upload(offsets);
  const auto device_ids = upload(ids);

  const std::int64_t tokens = with.packed ? cu_seqlens.back() : batch * seqlen;
  const std::int64_t q_token = heads * with.head_dim + with.gap;
  const std::int64_t k_token = heads_kv * with.head_dim + with.gap;
  half_of_call q{with, tokens * q_token};
  half_of_call k{with, tokens * k_token};
  tensor cosines = tensor::random(with.table, 64 * with.rotary_dim / 2);
  tensor sines = tensor::random(with.table, 64 * with.rotary_dim / 2);

  const auto call = [&](side at) {
    const auto view = [&](tensor& memory, std::int64_t of_heads, std::int64_t token) {
      const std::int64_t dim = with.head_dim;
      if (with.packed) return memory.view(at, {tokens, of_heads, dim}, {token, dim, 1});
      return memory.view(at, {batch, seqlen, of_heads, dim}, {seqlen * token, token, dim, 1});
    };
    rotary::options more{.rotary_dim = with.rotary_dim,
                         .offset = 11,
                         .scaling = with.tables ? 1.0F : 0.75F,
                         .style = with.style,
                         .inverse = with.inverse};
    if (with.tables) {
      more.cos = cosines.view(at, {64, with.rotary_dim / 2});
      more.sin = sines.view(at, {64, with.rotary_dim / 2});
    }
    const auto integers = [&](const auto& values, const auto& uploaded) {
      return at == side::host ? values.data() : uploaded.data();
    };
    if (with.packed) {
      more.cu_seqlens = sy::const_tensor{integers(cu_seqlens, device_cu_seqlens), dtype::i32, {batch + 1}};
      more.longest = seqlen;
    }
    if (with.positions == source::sequence_offsets)
      more.sequence_offsets = sy::const_tensor{integers(offsets, device_offsets), dtype::i32, {batch}};
    if (with.positions == source::ids) {
      const void* const at_first = integers(ids, device_ids);
      more.positions = with.packed ? sy::const_tensor{at_first, dtype::i64, {tokens}}
                                   : sy::const_tensor{at_first, dtype::i64, {batch, seqlen}};
    }
    const bool from_out = at == side::device && with.in_place;
    return rotary::call(view(from_out ? q.out : q.in, heads, q_token),
                        view(from_out ? k.out : k.in, heads_kv, k_token), view(q.out, heads, q_token),
                        view(k.out, heads_kv, k_token), more);
  };
  sy::reference::rotary(call(side::host), [&](bool is_key, std::int64_t offset, double value) {
    (is_key ? k : q).wanted[static_cast<std::size_t>(offset)] = value;
  });

  const std::string description = "head_dim " + std::to_string(with.head_dim) + ", rotary_dim " +
                                  std::to_string(with.rotary_dim) + ", tables " +
                                  std::to_string(with.tables) + ", packed " + std::to_string(with.packed) +
                                  ", in place " + std::to_string(with.in_place) + ", gap " +
                                  std::to_string(with.gap) + ", first " + std::to_string(with.first) + ", ";
  const std::size_t count =
      sy::test::for_each_variant<rotary>(call(side::device), [&](const std::string& id, const auto& run) {
        q.prepare(with.in_place);
        k.prepare(with.in_place);
        run();
        require_values(q.out, q.wanted, description + id + " q");
        require_values(k.out, k.wanted, description + id + " k");
      });
  INFO(description);
  if (with.tables || sy::test::tested_kind() != "hip") {
    CHECK(count >= sy::test::least_variants());
  } else {
    CHECK(count == 0);  // kernels for AMD GPUs need tables
  }
}

}  // namespace

TEST_CASE("rotary is right in every variant", "[rotary]") {
  sy::test::skip_without_variants<rotary>();
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16}) {
    for (const auto style : {rotary_style::half, rotary_style::interleaved}) {
      for (const bool inverse : {false, true}) {
        test_rotary({type, type, true, style, 128, 128, source::offset, false, inverse, inverse, 0, 0});
        test_rotary({type, dtype::f32, true, style, 64, 32, source::ids, false, false, inverse, 16, 0});
        test_rotary(
            {type, dtype::f32, true, style, 80, 80, source::sequence_offsets, true, true, inverse, 3, 1});
        test_rotary(
            {type, dtype::f32, false, style, 128, 96, source::sequence_offsets, true, false, inverse, 8, 0});
        test_rotary({type, dtype::f32, false, style, 64, 64, source::offset, false, true, inverse, 0, 0});
        test_rotary({type, dtype::f32, false, style, 34, 18, source::ids, true, false, inverse, 5, 1});
        test_rotary({type, type, true, style, 59, 16, source::ids, false, false, inverse, 0, 0});
        test_rotary({type, dtype::f32, true, style, 59, 48, source::offset, true, inverse, inverse, 3, 1});
        test_rotary({type, dtype::f32, false, style, 335, 300, source::offset, false, false, inverse, 1, 0});
      }
    }
  }
  CHECK(sy::test::variants_run() >= sy::test::least_variants());
}

TEST_CASE("rotary turns more sequences than the second dimension of a grid holds", "[rotary]") {
  sy::test::skip_without_variants<rotary>();
  // The emulator takes seconds for such a grid: there, aligned tensors and fewer positions.
  const bool is_emulated = sy::test::tested_kind() == "hip";
  for (const auto style : {rotary_style::half, rotary_style::interleaved}) {
    for (const std::int64_t first : {0, 1}) {
      if (is_emulated && first == 1) continue;
      const auto test = [&](dtype table, bool tables, source positions, bool packed) {
        test_rotary(
            {dtype::bf16, table, tables, style, 16, 16, positions, packed, false, false, 0, first, true});
      };
      test(dtype::bf16, true, source::offset, false);
      test(dtype::f32, true, source::ids, true);
      if (first == 0) {
        test_rotary(
            {dtype::bf16, dtype::f32, true, style, 17, 16, source::ids, false, false, false, 0, 0, true});
      }
      if (is_emulated) continue;
      test(dtype::f32, true, source::ids, false);
      test(dtype::f32, false, source::sequence_offsets, true);
    }
  }
  CHECK(sy::test::variants_run() >= sy::test::least_variants());
}
