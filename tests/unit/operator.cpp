// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/operators/built_in.hpp>

#include "../strides.hpp"
#include "sample_operator.hpp"

using namespace switchyard;

TEST_CASE("an operator's fields have the names, kinds and offsets of its members") {
  using arguments = sample::scale::arguments;
  struct expected {
    const char* name;
    value_kind kind;
    std::size_t offset;
  };
  const std::vector<expected> wanted{{"factor", value_kind::f32, offsetof(arguments, factor)},
                                     {"x", value_kind::pointer, offsetof(arguments, x)},
                                     {"y", value_kind::pointer, offsetof(arguments, y)},
                                     {"rows", value_kind::i64, offsetof(arguments, rows)},
                                     {"columns", value_kind::i64, offsetof(arguments, columns)},
                                     {"stride", value_kind::i32, offsetof(arguments, stride)},
                                     {"offset", value_kind::f64, offsetof(arguments, offset)},
                                     {"flags", value_kind::u8, offsetof(arguments, flags)},
                                     {"width", value_kind::i64, offsetof(arguments, width)},
                                     {"dtype", value_kind::i32, offsetof(arguments, dtype)},
                                     {"layout", value_kind::i32, offsetof(arguments, layout)},
                                     {"masked", value_kind::u8, offsetof(arguments, masked)}};
  const operator_description& op = sample::description();
  CHECK(op.name == "scale");
  CHECK(op.argument_bytes == sizeof(arguments));
  REQUIRE(op.fields.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(op.fields[i].name == wanted[i].name);
    CHECK(op.fields[i].kind == wanted[i].kind);
    CHECK(op.fields[i].offset == wanted[i].offset);
  }
}

TEST_CASE("an operator's axes have the names, kinds and value names of their types") {
  const operator_description& op = sample::description();
  REQUIRE(op.axes.size() == 7);
  CHECK(op.axes[0].name == "dtype");
  CHECK(op.axes[0].value_names[1] == "bf16");
  CHECK(op.axes[1].name == "layout");
  CHECK(op.axes[1].value_names.size() == 3);
  CHECK(op.axes[2].value_names[1] == "true");
  CHECK(op.axes[3].value_names.empty());
  CHECK(op.axes[4].name == "alignment");
  for (std::size_t i = 0; i < 7; ++i) CHECK(op.axes[i].kind == (i < 5 ? axis_kind::type : axis_kind::size));
  CHECK(&op == &describe<sample::scale>());
}

TEST_CASE("a problem has the values of the axes in their order") {
  sample::scale::arguments a;
  alignas(16) char memory[32] = {};
  a.x = memory;
  a.y = memory + 4;
  a.rows = 3;
  a.columns = 1000;
  a.width = 64;
  a.dtype = dtype::bf16;
  a.layout = sample::layout::paged;
  a.masked = true;
  CHECK(make_problem<sample::scale>(a) == problem_of<sample::scale>{1, 2, 1, 64, 4, 3, 1000});
}

namespace {
struct weighted_sum {
  static constexpr std::string_view name = "weighted_sum";
  struct arguments {
    const void* x = nullptr;
    float w[3] = {1, 2, 3};     // NOLINT(modernize-avoid-c-arrays)
    std::int64_t pad[11] = {};  // NOLINT(modernize-avoid-c-arrays)
    std::int64_t n = 0;
    [[nodiscard]] std::int64_t padding() const noexcept { return pad[0] + pad[10]; }
    [[nodiscard]] bool padded() const noexcept { return padding() != 0; }
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::w, &arguments::pad, &arguments::n>;
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::padded>(), switchyard::size_axis<&arguments::n>(),
                       switchyard::size_axis<&arguments::padding>("border"));
};
}  // namespace

TEST_CASE("the elements of an array are arguments of their own") {
  const operator_description& op = describe<weighted_sum>();
  REQUIRE(op.fields.size() == 16);
  CHECK(op.fields[0].name == "x");
  CHECK(op.fields[1].name == "w[0]");
  CHECK(op.fields[1].kind == value_kind::f32);
  CHECK(op.fields[1].offset == offsetof(weighted_sum::arguments, w));
  CHECK(op.fields[3].name == "w[2]");
  CHECK(op.fields[3].offset == op.fields[1].offset + 8);
  CHECK(op.fields[13].name == "pad[9]");
  CHECK(op.fields[14].name == "pad[10]");
  CHECK(op.fields[14].kind == value_kind::i64);
  CHECK(op.fields[14].offset == offsetof(weighted_sum::arguments, pad) + 80);
  CHECK(op.fields[15].name == "n");
  const auto made = default_arguments<weighted_sum::arguments>(weighted_sum::fields);
  CHECK(made.w[2] == 3.0F);
}

TEST_CASE("an axis may be what a member function of the arguments returns") {
  const operator_description& op = describe<weighted_sum>();
  CHECK(op.axes[0].name == "padded");
  CHECK(op.axes[0].is_flag);
  CHECK(op.axes[0].kind == axis_kind::type);
  CHECK(op.axes[2].name == "border");
  CHECK(op.axes[2].kind == axis_kind::size);
  weighted_sum::arguments a;
  a.n = 5;
  a.pad[0] = 1;
  a.pad[10] = 6;
  CHECK(make_problem<weighted_sum>(a) == problem_of<weighted_sum>{1, 5, 7});
}

TEST_CASE("null pointers, strides that are not set and optional tensors decide an alignment") {
  alignas(64) char memory[64] = {};
  const char* const null = nullptr;
  CHECK(count_null(memory, memory + 1) == 0);
  CHECK(count_null(null, memory, null) == -2);
  CHECK(any_given(null, memory));
  CHECK_FALSE(any_given(null, null));
  CHECK(reinterpret_cast<std::uintptr_t>(optional_tensors(null, null)) == 16);
  CHECK(alignment_of_strided(dtype::f32, 64, 0, memory) == 16);
  CHECK(alignment_of_strided(dtype::f32, 64 | 2, 0, memory) == 8);
  CHECK(alignment_of_strided(dtype::f16, 64 | 1, 0, memory) == 2);
  CHECK(alignment_of_strided(dtype::f32, unset, 0, memory) == 0);
  CHECK(alignment_of_strided(dtype::f32, 64, unset, memory) == 0);
  CHECK(alignment_of_strided(dtype::f32, 64, 0, memory, null) == 0);
  CHECK(alignment_of_strided(dtype::f32, 64, count_null(null), memory) == 0);
  CHECK(alignment_of_strided(dtype::f32, 64, 1, memory) == 16);  // what is required need not be aligned
  CHECK(alignment_of_strided(dtype::f32, 64, 0, memory, optional_tensors(memory + 4, null)) == 4);
}

TEST_CASE("a scale that is not set is told from other numbers, and 0 from what is not") {
  CHECK(is_unset(unset_scale));
  CHECK(is_unset(-std::numeric_limits<float>::quiet_NaN()));
  CHECK(is_unset(std::numeric_limits<float>::signaling_NaN()));
  CHECK_FALSE(is_unset(0.0F));
  CHECK_FALSE(is_unset(-std::numeric_limits<float>::infinity()));
  CHECK_FALSE(is_nonzero(0.0F));
  CHECK_FALSE(is_nonzero(-0.0F));
  CHECK(is_nonzero(std::numeric_limits<float>::denorm_min()));
  CHECK(is_nonzero(-1.0F));
  CHECK(is_nonzero(unset_scale));
}

TEST_CASE("alignment is the largest power of two up to 16 that divides every pointer") {
  alignas(64) char memory[64] = {};
  CHECK(alignment_of(memory) == 16);
  CHECK(alignment_of(memory, memory + 8) == 8);
  CHECK(alignment_of(memory + 1) == 1);
  CHECK(alignment_of(memory + 6, memory + 4) == 2);
  CHECK(alignment_of(memory, static_cast<const char*>(nullptr)) == 0);
}

TEST_CASE("sizes of values are those of their C types") {
  CHECK(size_of(value_kind::pointer) == sizeof(void*));
  CHECK(size_of(value_kind::i8) == 1);
  CHECK(size_of(value_kind::u16) == 2);
  CHECK(size_of(value_kind::bf16) == 2);
  CHECK(size_of(value_kind::f32) == 4);
  CHECK(size_of(value_kind::f64) == 8);
}

namespace {
template <operator_type Operator>
void check_names_differ() {
  const operator_description& op = describe<Operator>();
  for (std::size_t i = 0; i < op.fields.size(); ++i) {
    CHECK_FALSE(op.fields[i].name.empty());
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(op.fields[i].name != op.fields[j].name);
      CHECK(op.fields[i].offset != op.fields[j].offset);
    }
  }
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(op.axes[i].name != op.axes[j].name);
  }
}

/// Whether fields lie behind one another with no more than alignment between them, to the end of the
/// arguments: a member that is not listed leaves a gap. Default arguments are made from fields in this order.
bool are_all_members(std::span<const field_description> fields, std::size_t argument_bytes) {
  std::size_t end = 0;
  std::size_t alignment = 1;
  for (const field_description& field : fields) {
    const std::size_t size = size_of(field.kind);
    alignment = std::max(alignment, size);
    if (field.offset != (end + size - 1) / size * size) return false;
    end = field.offset + size;
  }
  return argument_bytes == (end + alignment - 1) / alignment * alignment;
}

/// Says what an operator has against a legal call after a change.
template <class Operator>
auto refusal_of(const typename Operator::arguments& legal) {
  return [legal](auto change) {
    auto changed = legal;
    change(changed);
    return Operator::check(changed);
  };
}

template <class Operator>
typename Operator::arguments legal_attention(void* memory) {
  typename Operator::arguments out{.q = memory,
                                   .k = memory,
                                   .v = memory,
                                   .out = memory,
                                   .batch = 2,
                                   .heads = 4,
                                   .heads_kv = 2,
                                   .seqlen_q = 4,
                                   .seqlen_k = 4,
                                   .head_dim = 64,
                                   .head_dim_v = 64,
                                   .dtype = dtype::f16};
  if constexpr (requires { out.kv_dtype; }) out.kv_dtype = dtype::f16;
  switchyard::test::set_strides<Operator>(out);
  return out;
}

/// Whether every element type among the axes is f32 in arguments that nobody has set.
template <operator_type Operator>
bool begins_with_f32() {
  const problem_of<Operator> problem = make_problem<Operator>({});
  const operator_description& op = describe<Operator>();
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    if (op.axes[i].name.ends_with("dtype") && problem[i] != static_cast<std::int64_t>(dtype::f32))
      return false;
  }
  return true;
}
}  // namespace

TEST_CASE("no two fields or axes of the shipped operators share a name") {
  operators::built_in::for_each([]<class Operator>() { check_names_differ<Operator>(); });
}

TEST_CASE("the fields of the shipped operators are all of their arguments, in their order") {
  operators::built_in::for_each([]<class Operator>() {
    INFO(Operator::name);
    CHECK(are_all_members(describe<Operator>().fields, sizeof(typename Operator::arguments)));
  });
  const operator_description& op = describe<operators::softmax>();
  std::vector<field_description> fields{op.fields.begin(), op.fields.end()};
  CHECK_FALSE(are_all_members(std::span{fields}.subspan(1), op.argument_bytes));
  std::swap(fields[0], fields[1]);
  CHECK_FALSE(are_all_members(fields, op.argument_bytes));
}

TEST_CASE("element types are f32 where a call does not say") {
  operators::built_in::for_each([]<class Operator>() {
    INFO(Operator::name);
    CHECK(begins_with_f32<Operator>());
  });
}

TEST_CASE("rotary refuses illegal calls in words") {
  alignas(16) char memory[16] = {};
  operators::rotary::arguments legal{.q = memory,
                                     .k = memory,
                                     .q_out = memory,
                                     .k_out = memory,
                                     .batch = 1,
                                     .seqlen = 4,
                                     .heads = 2,
                                     .heads_kv = 1,
                                     .head_dim = 64,
                                     .rotary_dim = 64};
  switchyard::test::set_strides<operators::rotary>(legal);
  CHECK(operators::rotary::check(legal).empty());
  const auto refusal = refusal_of<operators::rotary>(legal);
  CHECK_THAT(refusal([](auto& a) { a.seqlen = -1; }), has_text("must not be negative"));
  CHECK_THAT(refusal([](auto& a) { a.rotary_dim = 63; }), has_text("rotary_dim must be even"));
  CHECK_THAT(refusal([](auto& a) { a.rotary_dim = 128; }), has_text("at most head_dim"));
  CHECK_THAT(refusal([](auto& a) { a.dtype = dtype::i8; }), has_text("dtype must be"));
  CHECK_THAT(refusal([&](auto& a) { a.cos = memory; }), has_text("cos and sin"));
  CHECK_THAT(refusal([](auto& a) { a.q = nullptr; }), has_text("must not be null"));
  CHECK_THAT(refusal([](auto& a) { a.k_out = nullptr; }), has_text("must not be null"));
  CHECK(refusal([](auto& a) {
          a.k = a.k_out = nullptr;
          a.heads_kv = 0;
        }).empty());
  CHECK_THAT(refusal([&](auto& a) { a.q = memory + 2; }), has_text("aligned to their element size"));
}

TEST_CASE("attention refuses illegal calls in words") {
  alignas(16) char memory[16] = {};
  const auto legal = legal_attention<operators::attention_forward>(memory);
  CHECK(operators::attention_forward::check(legal).empty());
  const auto refusal = refusal_of<operators::attention_forward>(legal);
  CHECK_THAT(refusal([](auto& a) { a.batch = -1; }), has_text("must not be negative"));
  CHECK_THAT(refusal([](auto& a) { a.heads_kv = 3; }), has_text("multiple of heads_kv"));
  CHECK_THAT(refusal([](auto& a) { a.heads_kv = 0; }), has_text("multiple of heads_kv"));
  CHECK_THAT(refusal([](auto& a) { a.head_dim_v = 0; }), has_text("must be positive"));
  CHECK_THAT(refusal([](auto& a) { a.dropout_p = 1; }), has_text("dropout_p"));
  CHECK_THAT(refusal([](auto& a) { a.soft_cap = -1; }), has_text("soft_cap"));
  CHECK_THAT(refusal([](auto& a) { a.window_left = -2; }), has_text("window_left"));
  CHECK_THAT(refusal([](auto& a) { a.v = nullptr; }), has_text("must not be null"));
  CHECK_THAT(refusal([&](auto& a) { a.out = memory + 1; }), has_text("aligned to their element size"));
  CHECK_THAT(refusal([&](auto& a) { a.block_table = reinterpret_cast<const std::int32_t*>(memory); }),
             has_text("page_size must be positive"));
}

TEST_CASE("decoding refuses illegal calls in words") {
  alignas(16) char memory[16] = {};
  auto legal = legal_attention<operators::attention_decode>(memory);
  legal.seqlen_q = 16;
  CHECK(operators::attention_decode::check(legal).empty());
  const auto refusal = refusal_of<operators::attention_decode>(legal);
  CHECK_THAT(refusal([](auto& a) { a.seqlen_k = -1; }), has_text("must not be negative"));
  CHECK_THAT(refusal([](auto& a) { a.heads_kv = 3; }), has_text("multiple of heads_kv"));
  CHECK_THAT(refusal([](auto& a) { a.seqlen_q = 17; }), has_text("attention_forward takes more"));
  CHECK_THAT(refusal([](auto& a) { a.seqlen_q = 0; }), has_text("1 to 16, not 0"));
  CHECK_THAT(refusal([](auto& a) { a.dtype = dtype::f32; }), has_text("f16 or bf16"));
  CHECK_THAT(refusal([](auto& a) { a.kv_dtype = dtype::bf16; }), has_text("f8_e4m3"));
  CHECK_THAT(refusal([](auto& a) { a.k_scale_stride = 2; }), has_text("must be 0 or 1"));
  CHECK_THAT(refusal([](auto& a) { a.window_left = -2; }), has_text("window_left"));
  CHECK_THAT(refusal([](auto& a) { a.mask = operators::attention_mask::causal_top_left; }),
             has_text("a sequence's last tokens"));
  CHECK_THAT(refusal([](auto& a) { a.out = nullptr; }), has_text("must not be null"));
  CHECK_THAT(refusal([&](auto& a) { a.k = memory + 1; }), has_text("aligned to their element size"));
  CHECK_THAT(refusal([&](auto& a) {
               a.q = memory + 1;
               a.kv_dtype = dtype::f8_e4m3;
             }),
             has_text("aligned to their element size"));
  CHECK_THAT(refusal([&](auto& a) {
               a.block_table = reinterpret_cast<const std::int32_t*>(memory);
               a.page_size = 16;
             }),
             has_text("seqused_k must be given"));
  CHECK(refusal([&](auto& a) {
          a.k = a.v = memory + 1;
          a.kv_dtype = dtype::f8_e4m3;
        }).empty());
}

TEST_CASE("attention backward refuses illegal calls in words") {
  alignas(16) char memory[16] = {};
  operators::attention_backward::arguments legal{.q = memory, .k = memory, .v = memory, .out = memory};
  legal.dout = legal.dq = legal.dk = legal.dv = memory;
  legal.dtype = dtype::f16;
  legal.lse = reinterpret_cast<const float*>(memory);
  legal.batch = legal.heads = legal.heads_kv = 1;
  legal.head_dim = legal.head_dim_v = 64;
  switchyard::test::set_strides<operators::attention_backward>(legal);
  CHECK(operators::attention_backward::check(legal).empty());
  const auto refusal = refusal_of<operators::attention_backward>(legal);
  CHECK_THAT(refusal([](auto& a) { a.seqlen_k = -1; }), has_text("must not be negative"));
  CHECK_THAT(refusal([](auto& a) { a.lse = nullptr; }), has_text("lse must not be null"));
  CHECK_THAT(refusal([](auto& a) { a.dk = nullptr; }), has_text("must not be null"));
  CHECK_THAT(refusal([&](auto& a) { a.dbias = memory; }), has_text("there is no bias"));
  CHECK_THAT(refusal([&](auto& a) { a.dlse = reinterpret_cast<const float*>(memory + 2); }),
             has_text("dlse must be aligned to its element size, 4 bytes"));
  CHECK_THAT(refusal([&](auto& a) { a.dq = memory + 1; }), has_text("aligned to their element size"));
}

namespace {

/// Unsets one stride after the other of a legal call, and then the scale: each is named, and takes the
/// alignment that no legal call has, so that no plan is kept for it.
template <class Operator>
void check_unset(const typename Operator::arguments& legal, const std::vector<std::string_view>& free) {
  REQUIRE_THAT(Operator::check(legal), no_text());
  REQUIRE(legal.alignment() > 0);
  std::size_t strides = 0;
  for (const field_description& field : describe<Operator>().fields) {
    if (field.name.find("stride") == std::string_view::npos) continue;
    if (std::find(free.begin(), free.end(), field.name) != free.end()) continue;
    ++strides;
    INFO(Operator::name << " " << field.name);
    auto call = legal;
    auto* const at = reinterpret_cast<std::byte*>(&call) + field.offset;
    std::memcpy(at, &unset, sizeof unset);
    CHECK(Operator::check(call) == std::string{field.name} + " is not set");
    CHECK(call.alignment() == 0);
    const std::int64_t negative = -4096;
    std::memcpy(at, &negative, sizeof negative);
    CHECK(Operator::check(call) == std::string{field.name} + " must not be negative: it is -4096");
    CHECK(call.alignment() == 0);
  }
  CHECK(strides > 0);
  if constexpr (requires { legal.soft_cap; }) {
    auto call = legal;
    call.scale = unset_scale;
    CHECK(Operator::check(call) == "scale is not set");
    CHECK(call.alignment() == 0);
  }
}

alignas(16) char unset_memory[16] = {};

template <class Operator>
typename Operator::arguments legal_rows() {
  typename Operator::arguments out;
  for (const field_description& field : describe<Operator>().fields) {
    void* const address = unset_memory;
    if (field.kind == value_kind::pointer)
      std::memcpy(reinterpret_cast<std::byte*>(&out) + field.offset, &address, sizeof address);
  }
  out.rows = 2;
  out.columns = 1;
  switchyard::test::set_strides<Operator>(out);
  return out;
}

}  // namespace

TEST_CASE("a stride or a scale that is not set is named, and one of 0 is legal") {
  check_unset<operators::softmax>(legal_rows<operators::softmax>(), {});
  check_unset<operators::softmax_backward>(legal_rows<operators::softmax_backward>(), {});
  check_unset<operators::gated_activation>(legal_rows<operators::gated_activation>(), {});
  check_unset<operators::gated_activation_backward>(legal_rows<operators::gated_activation_backward>(), {});
  check_unset<operators::rms_norm>(legal_rows<operators::rms_norm>(), {});
  check_unset<operators::rms_norm_backward>(legal_rows<operators::rms_norm_backward>(), {});
  check_unset<operators::layer_norm>(legal_rows<operators::layer_norm>(), {});
  check_unset<operators::layer_norm_backward>(legal_rows<operators::layer_norm_backward>(), {});

  operators::rotary::arguments rotary{.q = unset_memory,
                                      .k = unset_memory,
                                      .q_out = unset_memory,
                                      .k_out = unset_memory,
                                      .cos = unset_memory,
                                      .sin = unset_memory,
                                      .batch = 2,
                                      .seqlen = 2,
                                      .heads = 2,
                                      .heads_kv = 2,
                                      .head_dim = 64,
                                      .rotary_dim = 64};
  switchyard::test::set_strides<operators::rotary>(rotary);
  check_unset<operators::rotary>(rotary, {});

  const auto* const numbers = reinterpret_cast<const std::int32_t*>(unset_memory);
  auto forward = legal_attention<operators::attention_forward>(unset_memory);
  forward.lse = reinterpret_cast<float*>(unset_memory);
  forward.bias = unset_memory;
  forward.block_table = forward.seqused_k = numbers;
  forward.page_size = 16;
  check_unset<operators::attention_forward>(forward, {"q_scale_stride", "k_scale_stride", "v_scale_stride"});

  auto decode = legal_attention<operators::attention_decode>(unset_memory);
  decode.lse = reinterpret_cast<float*>(unset_memory);
  decode.block_table = decode.seqused_k = numbers;
  decode.page_size = 16;
  check_unset<operators::attention_decode>(
      decode, {"k_scale_stride", "v_scale_stride", "k_rotary_stride_batch", "k_rotary_stride_token",
               "k_scale_stride_batch", "k_scale_stride_token"});  // attention_latent.cpp

  auto backward = legal_attention<operators::attention_backward>(unset_memory);
  backward.dout = backward.bias = unset_memory;
  backward.dq = backward.dk = backward.dv = backward.dbias = unset_memory;
  backward.lse = backward.dlse = reinterpret_cast<const float*>(unset_memory);
  check_unset<operators::attention_backward>(backward, {});
}

TEST_CASE("strides of tensors that are not given need not be set") {
  auto forward = legal_attention<operators::attention_forward>(unset_memory);
  forward.lse_stride_batch = forward.bias_stride_row = forward.block_table_stride = unset;
  CHECK_THAT(operators::attention_forward::check(forward), no_text());
  CHECK(forward.alignment() > 0);
  auto norm = legal_rows<operators::rms_norm>();
  norm.residual = nullptr;
  norm.residual_out = nullptr;
  norm.residual_stride_row = norm.residual_out_stride_row = unset;
  CHECK_THAT(operators::rms_norm::check(norm), no_text());
  CHECK(norm.alignment() > 0);
}

TEST_CASE("a stride of a dimension with at most one element need not be set") {
  auto norm = legal_rows<operators::rms_norm>();
  norm.x_stride_row = norm.out_stride_row = norm.residual_stride_row = norm.residual_out_stride_row = unset;
  CHECK(norm.alignment() == 0);
  norm.rows = 1;
  CHECK_THAT(operators::rms_norm::check(norm), no_text());
  CHECK(norm.alignment() > 0);

  const auto* const numbers = reinterpret_cast<const std::int32_t*>(unset_memory);
  auto packed = legal_attention<operators::attention_forward>(unset_memory);
  packed.q_stride_batch = packed.out_stride_batch = packed.k_stride_batch = packed.v_stride_batch = unset;
  CHECK(operators::attention_forward::check(packed) == "q_stride_batch is not set");
  packed.cu_seqlens_q = numbers;
  CHECK(operators::attention_forward::check(packed) == "k_stride_batch is not set");
  packed.cu_seqlens_k = numbers;
  CHECK_THAT(operators::attention_forward::check(packed), no_text());
  CHECK(packed.alignment() > 0);
  packed.q_stride_token = unset;
  CHECK(operators::attention_forward::check(packed) == "q_stride_token is not set");

  auto single = legal_attention<operators::attention_decode>(unset_memory);
  single.batch = single.heads = single.heads_kv = single.seqlen_q = 1;
  single.q_stride_batch = single.q_stride_head = single.q_stride_token = unset;
  single.k_stride_batch = single.k_stride_head = unset;
  CHECK_THAT(operators::attention_decode::check(single), no_text());
  CHECK(single.alignment() > 0);
  single.k_stride_token = unset;
  CHECK(operators::attention_decode::check(single) == "k_stride_token is not set");
}
