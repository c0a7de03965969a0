// SPDX-License-Identifier: MIT
// The attention operators: which type a call is of, its alignment, and the calls they refuse.
#include <algorithm>
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/problem/problem_key.hpp>

#include "../../strides.hpp"
#include "thrown.hpp"

using namespace switchyard;

namespace attention_calls {

alignas(64) std::array<std::byte, 64> storage{};

template <class Operator>
typename Operator::arguments legal() {
  typename Operator::arguments out;
  out.dtype = dtype::f16;
  if constexpr (requires { out.kv_dtype; }) out.kv_dtype = dtype::f16;
  out.q = out.k = out.v = out.out = storage.data();
  out.batch = 1;
  out.heads = 4;
  out.heads_kv = 2;
  out.seqlen_q = out.seqlen_k = 4;
  out.head_dim = out.head_dim_v = 64;
  switchyard::test::set_strides<Operator>(out);
  return out;
}

template <class Operator>
std::int64_t axis(const typename Operator::arguments& call, std::string_view name) {
  return make_problem<Operator>(call).at(find_axis(describe<Operator>(), name));
}

/// A key's 64-bit words.
template <class Key>
std::array<std::uint64_t, sizeof(Key) / 8> words_of(const Key& key) {
  std::array<std::uint64_t, sizeof(Key) / 8> out{};
  std::memcpy(out.data(), &key, sizeof key);
  return out;
}

const std::int32_t* integers() {
  return reinterpret_cast<const std::int32_t*>(storage.data());
}

TEST_CASE("a window of no key on either side is a window") {
  auto forward = legal<operators::attention_forward>();
  CHECK(axis<operators::attention_forward>(forward, "window") == 0);
  forward.window_left = 0;
  CHECK(axis<operators::attention_forward>(forward, "window") == 1);
  CHECK(operators::attention_forward::check(forward).empty());
  forward.window_left = -1;
  forward.window_right = 0;
  CHECK(axis<operators::attention_forward>(forward, "window") == 1);
  CHECK(operators::attention_forward::check(forward).empty());

  auto decode = legal<operators::attention_decode>();
  CHECK(axis<operators::attention_decode>(decode, "window") == 0);
  decode.window_left = 0;
  CHECK(axis<operators::attention_decode>(decode, "window") == 1);
  CHECK(operators::attention_decode::check(decode).empty());
}

TEST_CASE("decode is latent where the values are the first columns of the keys") {
  using operators::attention_decode;
  auto call = legal<attention_decode>();  // whose keys and values have one address
  const auto latent = [&] { return axis<attention_decode>(call, "latent"); };
  call.v = storage.data() + 16;
  CHECK(latent() == 0);
  call.v = call.k;
  call.head_dim_v = call.head_dim - 8;
  CHECK(latent() == 1);
  CHECK(attention_decode::check(call).empty());
  call.head_dim_v = call.head_dim;
  CHECK(latent() == 1);
  call.head_dim_v = call.head_dim + 8;
  CHECK(latent() == 0);
  call.head_dim_v = call.head_dim;
  for (auto stride :
       {&attention_decode::arguments::v_stride_batch, &attention_decode::arguments::v_stride_head,
        &attention_decode::arguments::v_stride_token}) {
    call.*stride += 8;
    CHECK(latent() == 0);
    call.*stride -= 8;
  }
  CHECK(latent() == 1);
}

TEST_CASE("decode tells scales of keys or values in 16 bits, not those in e4m3") {
  using operators::attention_decode;
  auto call = legal<attention_decode>();
  const auto scaled = [&] { return axis<attention_decode>(call, "scaled_16"); };
  const auto* const one = reinterpret_cast<const float*>(storage.data());
  CHECK(scaled() == 0);
  for (auto scale : {&attention_decode::arguments::k_scale, &attention_decode::arguments::v_scale}) {
    call.*scale = one;
    CHECK(scaled() == 1);
    CHECK(attention_decode::check(call).empty());
    call.kv_dtype = dtype::f8_e4m3;
    CHECK(scaled() == 0);
    call.kv_dtype = call.dtype;
    call.*scale = nullptr;
  }
  CHECK(scaled() == 0);
}

TEST_CASE("each end of a window is -1 or more") {
  auto call = legal<operators::attention_forward>();
  call.window_right = -2;
  CHECK_THAT(operators::attention_forward::check(call), has_text("window_right must be -1 or more"));
  call.window_right = -1;
  call.window_left = -2;
  CHECK_THAT(operators::attention_forward::check(call), has_text("window_left"));
}

TEST_CASE("every stride of q, k, v and out counts for the alignment, and no other one") {
  const auto check = [](auto call, auto members) {
    CHECK(call.alignment() == 16);
    for (const auto member : members) {
      auto changed = call;
      changed.*member = 4;
      CHECK(changed.alignment() == 8);
      changed.*member = 1;
      CHECK(changed.alignment() == 2);
    }
  };
  using forward = operators::attention_forward::arguments;
  check(legal<operators::attention_forward>(),
        std::array{&forward::q_stride_batch, &forward::q_stride_head, &forward::q_stride_token,
                   &forward::k_stride_batch, &forward::k_stride_head, &forward::k_stride_token,
                   &forward::v_stride_batch, &forward::v_stride_head, &forward::v_stride_token,
                   &forward::out_stride_batch, &forward::out_stride_head, &forward::out_stride_token});
  using decode = operators::attention_decode::arguments;
  check(legal<operators::attention_decode>(),
        std::array{&decode::q_stride_batch, &decode::q_stride_head, &decode::q_stride_token,
                   &decode::k_stride_batch, &decode::k_stride_head, &decode::k_stride_token,
                   &decode::v_stride_batch, &decode::v_stride_head, &decode::v_stride_token,
                   &decode::out_stride_batch, &decode::out_stride_head, &decode::out_stride_token});
  auto call = legal<operators::attention_forward>();
  call.lse_stride_head = call.bias_stride_row = 1;
  CHECK(call.alignment() == 16);
  for (const auto tensor : {&forward::q, &forward::k, &forward::v}) {
    auto changed = legal<operators::attention_forward>();
    changed.*tensor = storage.data() + 4;
    CHECK(changed.alignment() == 4);
  }
}

TEST_CASE("the address of a bias counts for the alignment, and its strides do not") {
  auto call = legal<operators::attention_forward>();
  call.bias_stride_batch = call.bias_stride_head = call.bias_stride_row = 1;
  for (const std::int64_t bytes : {16, 8, 2}) {
    call.bias = storage.data() + bytes;
    CHECK(call.alignment() == bytes);
    CHECK(operators::attention_forward::check(call).empty());
  }
  call.bias = storage.data() + 1;
  CHECK_THAT(operators::attention_forward::check(call),
             has_text("the bias must be aligned to their element size"));
  call.bias_stride_row = unset;
  CHECK(call.alignment() == 0);
}

TEST_CASE("keys are paged or packed, not both") {
  auto call = legal<operators::attention_forward>();
  call.page_size = 16;
  call.block_table = call.seqused_k = integers();
  CHECK(operators::attention_forward::check(call).empty());
  CHECK(axis<operators::attention_forward>(call, "kv") == static_cast<int>(operators::attention_kv::paged));
  call.cu_seqlens_k = integers();
  CHECK_THAT(operators::attention_forward::check(call),
             has_text("block_table and cu_seqlens_k exclude each other"));
  call.block_table = nullptr;
  CHECK(operators::attention_forward::check(call).empty());
  CHECK(axis<operators::attention_forward>(call, "kv") == static_cast<int>(operators::attention_kv::packed));
}

namespace {

template <class Operator>
void check_scale_strides(const typename Operator::arguments& legal) {
  using arguments = typename Operator::arguments;
  for (const auto stride : {&arguments::k_scale_stride, &arguments::v_scale_stride}) {
    auto call = legal;
    for (const std::int64_t legal_stride : {0, 1}) {
      call.*stride = legal_stride;
      CHECK(Operator::check(call).empty());
    }
    for (const std::int64_t wrong : {-1, 2}) {
      call.*stride = wrong;
      CHECK_THAT(Operator::check(call), has_text("must be 0 or 1"));
      CHECK(call.alignment() == 0);  // so that it is checked, whatever ran before; also without scales
    }
  }
}

}  // namespace

TEST_CASE("scales of cached keys and values are one for all heads or one for each") {
  check_scale_strides<operators::attention_decode>(legal<operators::attention_decode>());
  auto narrow = legal<operators::attention_forward>();
  narrow.kv_dtype = dtype::f8_e4m3;
  check_scale_strides<operators::attention_forward>(narrow);
  narrow.q_dtype = dtype::f8_e4m3;
  for (const std::int64_t stride : {0, 1}) {
    narrow.q_scale_stride = stride;
    CHECK_THAT(operators::attention_forward::check(narrow), no_text());
  }
  for (const std::int64_t wrong : {-1, 2}) {
    narrow.q_scale_stride = wrong;
    CHECK_THAT(operators::attention_forward::check(narrow), has_text("q_scale_stride must be 0 or 1"));
  }
}

TEST_CASE("keys of a prompt have the type of its queries unless another is named") {
  using forward = operators::attention_forward;
  auto call = legal<forward>();
  const auto kv_dtype = [&call] { return static_cast<dtype>(axis<forward>(call, "kv_dtype")); };
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32}) {
    call.dtype = type;
    call.kv_dtype = unset_dtype;
    CHECK(kv_dtype() == type);
    CHECK_THAT(forward::check(call), no_text());
    const auto unset_key = make_key<forward>(call);
    call.kv_dtype = type;
    CHECK_THAT(forward::check(call), no_text());
    const auto set_key = make_key<forward>(call);
    CHECK(words_of(unset_key) == words_of(set_key));  // one plan serves both
  }
  call.kv_dtype = dtype::f8_e4m3;
  CHECK_THAT(forward::check(call), has_text("f8_e4m3 goes with the dtypes f16 and bf16"));
  call.dtype = dtype::bf16;
  CHECK(kv_dtype() == dtype::f8_e4m3);
  CHECK_THAT(forward::check(call), no_text());
  for (const dtype wrong : {dtype::f16, dtype::f8_e5m2, dtype::i8}) {
    call.kv_dtype = wrong;
    CHECK_THAT(forward::check(call), has_text("kv_dtype must be dtype or f8_e4m3"));
  }
}

TEST_CASE("queries of a prompt may be in e4m3 where its keys are") {
  using forward = operators::attention_forward;
  auto call = legal<forward>();
  const auto q_dtype = [&call] { return static_cast<dtype>(axis<forward>(call, "q_dtype")); };
  CHECK(q_dtype() == dtype::f16);
  const auto unset_key = make_key<forward>(call);
  call.q_dtype = dtype::f16;
  CHECK_THAT(forward::check(call), no_text());
  const auto set_key = make_key<forward>(call);
  CHECK(words_of(unset_key) == words_of(set_key));  // one plan serves both
  call.q_dtype = dtype::f8_e4m3;
  CHECK(q_dtype() == dtype::f8_e4m3);
  CHECK_THAT(forward::check(call), has_text("q_dtype f8_e4m3 goes with the kv_dtype f8_e4m3"));
  call.kv_dtype = dtype::f8_e4m3;
  CHECK_THAT(forward::check(call), no_text());
  call.dtype = dtype::f32;
  CHECK_THAT(forward::check(call), has_text("f8_e4m3 goes with the dtypes f16 and bf16"));
  call.dtype = dtype::f16;
  call.q_dtype = dtype::bf16;
  CHECK_THAT(forward::check(call), has_text("q_dtype must be dtype or f8_e4m3"));
}

TEST_CASE("a tensor that a call needs is missed, whatever ran before") {
  using namespace attention_calls;
  auto backward = legal<operators::attention_backward>();
  backward.dout = backward.dq = backward.dk = backward.dv = storage.data();
  backward.lse = reinterpret_cast<const float*>(storage.data());
  CHECK(backward.alignment() == 16);
  backward.lse = nullptr;
  CHECK(backward.alignment() == 0);
  CHECK_THAT(operators::attention_backward::check(backward), has_text("lse must not be null"));

  auto paged = legal<operators::attention_forward>();
  paged.block_table = reinterpret_cast<const std::int32_t*>(storage.data());
  paged.block_table_stride = 4;
  paged.page_size = 16;
  paged.seqused_q = paged.block_table;  // tells the same axis as seqused_k
  CHECK(paged.alignment() == 0);
  CHECK_THAT(operators::attention_forward::check(paged),
             has_text("seqused_k must be given with a block_table"));
  paged.seqused_k = paged.block_table;
  CHECK(paged.alignment() == 16);
}

TEST_CASE("a scale of queries that are not in e4m3 is refused, whatever ran before") {
  using forward = operators::attention_forward;
  auto call = legal<forward>();
  call.kv_dtype = dtype::f8_e4m3;
  call.q_scale = reinterpret_cast<const float*>(storage.data());
  CHECK(call.alignment() == 0);  // so that no plan of a call without is found
  CHECK_THAT(forward::check(call), has_text("q_scale is for queries in f8_e4m3, not in f16"));
  call.q_dtype = dtype::f8_e4m3;
  CHECK(call.alignment() == 16);
  CHECK_THAT(forward::check(call), no_text());
  call.q_scale = reinterpret_cast<const float*>(storage.data() + 2);
  CHECK(call.alignment() == 0);
  CHECK_THAT(forward::check(call), has_text("q_scale must be aligned"));
}

TEST_CASE("bytes of queries in e4m3 count for the alignment of a prompt") {
  using forward = operators::attention_forward;
  auto call = legal<forward>();
  call.q_dtype = call.kv_dtype = dtype::f8_e4m3;
  CHECK(call.alignment() == 16);
  auto changed = call;
  changed.q_stride_token = 8;
  CHECK(changed.alignment() == 8);
  changed = call;
  changed.out_stride_token = 4;  // of two bytes each
  CHECK(changed.alignment() == 8);
  changed = call;
  changed.q = storage.data() + 1;
  CHECK(changed.alignment() == 1);
  CHECK_THAT(forward::check(changed), no_text());
  changed.out = storage.data() + 1;
  CHECK_THAT(forward::check(changed), has_text("aligned to their element size"));
  changed = call;
  changed.q = nullptr;
  CHECK(changed.alignment() == 0);
  CHECK_THAT(forward::check(changed), has_text("must not be null"));
  changed = call;
  changed.q_stride_head = unset;
  CHECK(changed.alignment() == 0);
  CHECK(forward::check(changed) == "q_stride_head is not set");
}

TEST_CASE("scales of keys in the type of the queries are refused, whatever ran before") {
  using forward = operators::attention_forward;
  const auto* const scales = reinterpret_cast<const float*>(storage.data());
  for (const auto member : {&forward::arguments::k_scale, &forward::arguments::v_scale}) {
    auto call = legal<forward>();
    CHECK(call.alignment() == 16);
    call.*member = scales;
    CHECK(call.alignment() == 0);  // so that no plan of a call without is found
    CHECK_THAT(forward::check(call), has_text("k_scale and v_scale are for keys and values in f8_e4m3"));
    call.kv_dtype = dtype::f8_e4m3;
    CHECK(call.alignment() == 16);
    CHECK_THAT(forward::check(call), no_text());
  }
}

TEST_CASE("bytes of keys in e4m3 count for the alignment of a prompt") {
  using forward = operators::attention_forward;
  auto call = legal<forward>();
  call.kv_dtype = dtype::f8_e4m3;
  CHECK(call.alignment() == 16);
  auto changed = call;
  changed.k_stride_token = 8;
  CHECK(changed.alignment() == 8);
  changed = call;
  changed.q_stride_token = 4;  // of two bytes each
  CHECK(changed.alignment() == 8);
  changed = call;
  changed.v = storage.data() + 1;
  CHECK(changed.alignment() == 1);
  CHECK_THAT(forward::check(changed), no_text());
  changed.q = storage.data() + 1;
  CHECK_THAT(forward::check(changed), has_text("aligned to their element size"));
  changed = call;
  changed.bias = storage.data() + 2;
  changed.bias_stride_batch = changed.bias_stride_head = changed.bias_stride_row = 0;
  CHECK(changed.alignment() == 2);
  CHECK_THAT(forward::check(changed), no_text());
  changed.bias = storage.data() + 1;
  CHECK_THAT(forward::check(changed), has_text("aligned to their element size"));
  changed = call;
  changed.k = nullptr;
  CHECK(changed.alignment() == 0);
  CHECK_THAT(forward::check(changed), has_text("must not be null"));
  changed = call;
  changed.v_stride_head = unset;
  CHECK(changed.alignment() == 0);
  CHECK(forward::check(changed) == "v_stride_head is not set");
}

TEST_CASE("the key of a prompt is that of its problem, whichever flags it has") {
  using forward = operators::attention_forward;
  const auto* const floats = reinterpret_cast<const float*>(storage.data());
  std::set<std::uint64_t> seen;
  for (unsigned flags = 0; flags < 1U << 10U; ++flags) {
    const auto is = [flags](unsigned bit) { return (flags >> bit & 1U) != 0; };
    auto call = legal<forward>();
    call.bias_stride_batch = call.bias_stride_head = call.bias_stride_row = 0;
    if (is(0)) call.window_left = 3;
    if (is(1)) call.soft_cap = -0.0F;  // none
    if (is(2)) call.soft_cap = 30.0F;
    if (is(3)) call.bias = storage.data();
    if (is(4)) call.alibi_slopes = floats;
    if (is(5)) call.sinks = floats;
    if (is(6)) call.dropout_p = 0.5F;
    if (is(7)) call.cu_seqlens_q = integers();
    if (is(8)) call.seqused_q = integers();
    if (is(9)) call.kv_dtype = dtype::f8_e4m3;
    const auto problem = make_problem<forward>(call);
    const auto key = make_key<forward>(call);
    const erased_key erased = make_key(describe<forward>(), problem);
    REQUIRE(erased.parts == key.size());
    const auto words = words_of(key);
    REQUIRE(std::equal(words.begin(), words.end(), erased.words.begin()));
    REQUIRE(hash(erased) == hash(key));
    REQUIRE(axis<forward>(call, "soft_capped") == (is(2) ? 1 : 0));
    seen.insert(hash(key));
  }
  CHECK(seen.size() == 1U << 9U);
}

TEST_CASE("attention refuses a block table without its data", "[operators]") {
  namespace sy = switchyard;
  alignas(16) static float memory[64];
  static const std::int32_t lengths[2]{1, 1};
  const sy::tensor q{memory, sy::dtype::f32, {2, 1, 2, 4}};
  sy::operators::paged cache;
  cache.k = cache.v = sy::const_tensor{memory, sy::dtype::f32, {4, 2, 2, 4}};
  cache.block_table = sy::const_tensor{nullptr, sy::dtype::i32, {2, 2}};
  cache.used = sy::const_tensor{lengths, sy::dtype::i32, {2}};
  const auto message = [&]<class Operator>(Operator /*of*/) -> std::string {
    return sy::test::refusal_by<sy::call_error>([&] { return Operator::call(q, cache, q); });
  };
  for (const std::string& text :
       {message(sy::operators::attention_forward{}), message(sy::operators::attention_decode{})})
    CHECK(text.find("block_table has entries but its data is null") != std::string::npos);
}

/// A legal call of 200 queries and 300 keys with a block mask.
template <class Operator>
typename Operator::arguments masked() {
  auto out = legal<Operator>();
  out.seqlen_q = 200;
  out.seqlen_k = 300;
  out.kv_num_blocks = out.kv_indices = out.kv_bits = integers();
  out.mask_bits = reinterpret_cast<const std::uint32_t*>(integers());
  out.mask_batch = out.mask_heads = out.mask_tiles = 1;
  out.mask_query_blocks = 2;
  out.mask_key_blocks = 3;
  out.mask_block_q = 128;
  out.mask_words = 4;
  if constexpr (requires { out.dout; }) {
    out.dout = out.dq = out.dk = out.dv = storage.data();
    out.lse = reinterpret_cast<const float*>(storage.data());
    out.q_num_blocks = out.q_indices = out.q_bits = integers();
    switchyard::test::set_strides<Operator>(out);
  }
  return out;
}

/// What both operators say of a changed call; a call that is refused has an alignment of 0, whatever ran
/// before it.
template <class Change>
std::string refusal_of_mask(const Change& change) {
  const auto of = [&]<class Operator>(Operator /*of*/) {
    auto call = masked<Operator>();
    change(call);
    std::string wrong = Operator::check(call);
    CHECK((call.alignment() == 0) == !wrong.empty());
    return wrong;
  };
  std::string wrong = of(operators::attention_forward{});
  CHECK(of(operators::attention_backward{}) == wrong);
  return wrong;
}

TEST_CASE("a block mask is of the call's sizes, and excludes what it can have itself", "[operators]") {
  using operators::attention_backward;
  using operators::attention_forward;
  CHECK_THAT(refusal_of_mask([](auto&) {}), no_text());
  CHECK(axis<attention_forward>(masked<attention_forward>(), "block_masked") == 1);
  CHECK(axis<attention_backward>(masked<attention_backward>(), "block_masked") == 1);
  CHECK(axis<attention_forward>(legal<attention_forward>(), "block_masked") == 0);

  const auto excluded = [](std::string_view name) {
    return "a block mask excludes " + std::string{name} + ": put what it masks into the block mask";
  };
  CHECK(refusal_of_mask([](auto& a) { a.mask = operators::attention_mask::causal_top_left; }) ==
        excluded("mask"));
  CHECK(refusal_of_mask([](auto& a) { a.window_left = 3; }) == excluded("window_left"));
  CHECK(refusal_of_mask([](auto& a) { a.window_right = 3; }) == excluded("window_right"));
  CHECK(refusal_of_mask([](auto& a) { a.soft_cap = 3; }) == excluded("soft_cap"));
  CHECK(refusal_of_mask([](auto& a) { a.dropout_p = 0.5F; }) == excluded("dropout_p"));
  CHECK(refusal_of_mask([](auto& a) {
          a.bias = storage.data();
          a.bias_stride_batch = a.bias_stride_head = a.bias_stride_row = 0;
        }) == excluded("bias"));
  CHECK(refusal_of_mask([](auto& a) { a.alibi_slopes = reinterpret_cast<const float*>(integers()); }) ==
        excluded("alibi_slopes"));
  CHECK(refusal_of_mask([](auto& a) { a.cu_seqlens_q = integers(); }) == excluded("cu_seqlens_q"));
  CHECK(refusal_of_mask([](auto& a) { a.cu_seqlens_k = integers(); }) == excluded("cu_seqlens_k"));
  CHECK(refusal_of_mask([](auto& a) { a.seqused_q = integers(); }) == excluded("seqused_q"));
  CHECK(refusal_of_mask([](auto& a) { a.seqused_k = integers(); }) == excluded("seqused_k"));

  CHECK(refusal_of_mask([](auto& a) { a.mask_key_blocks = 2; }) ==
        "mask_key_blocks is 2, but seqlen_k 300 has 3 blocks of 128");
  CHECK(refusal_of_mask([](auto& a) { a.mask_block_q = 256; }) ==
        "mask_query_blocks is 2, but seqlen_q 200 has 1 blocks of 256");
  CHECK(refusal_of_mask([](auto& a) { a.mask_block_q = 64; }) ==
        "mask_block_q is 64 and mask_words 4: blocks are multiples of 128 queries and of as many keys, 32 a "
        "word, and at most 1048576");
  CHECK_THAT(refusal_of_mask([](auto& a) { a.mask_words = 3; }), has_text("mask_words 3: blocks are"));
  CHECK_THAT(refusal_of_mask([](auto& a) { a.mask_words = INT32_MAX; }), has_text("blocks are"));
  CHECK(refusal_of_mask([](auto& a) { a.mask_batch = 3; }) == "mask_batch must be 1 or batch, not 3");
  CHECK(refusal_of_mask([](auto& a) { a.mask_heads = 2; }) == "mask_heads must be 1 or heads, not 2");
  CHECK(refusal_of_mask([](auto& a) { a.mask_tiles = -1; }) == "mask_tiles must not be negative");
  CHECK(refusal_of_mask([](auto& a) { a.kv_num_blocks = nullptr; }) ==
        "kv_num_blocks is missing from the block mask");
  CHECK(refusal_of_mask([](auto& a) { a.kv_bits = nullptr; }) == "kv_bits is missing from the block mask");
  CHECK(refusal_of_mask([](auto& a) { a.mask_bits = nullptr; }) ==
        "mask_bits is missing from the block mask");
  CHECK(refusal_of_mask([](auto& a) { a.full_kv_indices = integers(); }) ==
        "full_kv_num_blocks is missing from the block mask");
  CHECK(refusal_of_mask([](auto& a) {
          a.kv_indices = reinterpret_cast<const std::int32_t*>(storage.data() + 2);
        }) == "the tensors of a block mask must be aligned to 4 bytes");

  auto backward = masked<attention_backward>();
  backward.q_bits = nullptr;
  CHECK(attention_backward::check(backward) == "q_bits is missing from the block mask");
  auto paged = masked<attention_forward>();
  paged.block_table = integers();
  paged.page_size = 16;
  CHECK(attention_forward::check(paged) == excluded("block_table"));
  auto narrow = masked<attention_forward>();
  narrow.kv_dtype = dtype::f8_e4m3;
  CHECK(attention_forward::check(narrow) == excluded("kv_dtype f8_e4m3"));
}

TEST_CASE("a block mask is called with lists that agree", "[operators]") {
  using operators::attention_forward;
  const auto list = [](std::int64_t heads, std::int64_t keys) {
    return const_tensor{storage.data(), dtype::i32, {1, heads, 2, keys}};
  };
  const tensor q{storage.data(), dtype::f16, {1, 200, 4, 64}};
  const tensor k{storage.data(), dtype::f16, {1, 300, 2, 64}};
  attention_forward::options with{.kv_num_blocks = {storage.data(), dtype::i32, {1, 4, 2}},
                                  .kv_indices = list(4, 3),
                                  .kv_bits = list(4, 3),
                                  .mask_bits = {storage.data(), dtype::i32, {7, 128, 4}}};
  const auto call = attention_forward::call(q, k, k, q, with);
  CHECK_THAT(attention_forward::check(call), no_text());
  CHECK(call.mask_heads == 4);
  CHECK(call.mask_query_blocks == 2);
  CHECK(call.mask_key_blocks == 3);
  CHECK(call.mask_tiles == 7);
  CHECK(call.mask_words == 4);
  CHECK(call.full_kv_indices == nullptr);
  const auto refusal = [&] {
    return switchyard::test::refusal_by<error>([&] { return attention_forward::call(q, k, k, q, with); });
  };
  with.kv_bits = list(1, 3);
  CHECK_THAT(refusal(), has_text("kv_bits [1, 1, 2, 3]: mask_heads is 1, but 4 in kv_num_blocks [1, 4, 2]"));
  with.kv_bits = {};
  CHECK(attention_forward::check(attention_forward::call(q, k, k, q, with)) ==
        "kv_bits is missing from the block mask");
}

}  // namespace attention_calls
