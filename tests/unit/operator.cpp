#include <catch.hpp>
#include <cstddef>
#include <string>

#include <switchyard/operator.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

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
                                   .batch = 1,
                                   .heads = 4,
                                   .heads_kv = 2,
                                   .seqlen_q = 4,
                                   .seqlen_k = 4,
                                   .head_dim = 64,
                                   .head_dim_v = 64,
                                   .dtype = dtype::f16};
  if constexpr (requires { out.kv_dtype; }) out.kv_dtype = dtype::f16;
  return out;
}

/// Whether every element type among the axes is f32 in arguments that nobody has set.
template <class... Operators>
bool all_begin_with_f32() {
  const auto begins = []<class Operator>(const Operator&) {
    const problem_of<Operator> problem = make_problem<Operator>({});
    const operator_description& op = describe<Operator>();
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      if (op.axes[i].name.ends_with("dtype") && problem[i] != static_cast<std::int64_t>(dtype::f32))
        return false;
    }
    return true;
  };
  return (begins(Operators{}) && ...);
}
}  // namespace

TEST_CASE("no two fields or axes of the shipped operators share a name") {
  check_names_differ<operators::rotary>();
  check_names_differ<operators::attention_forward>();
  check_names_differ<operators::attention_decode>();
  check_names_differ<operators::attention_backward>();
  check_names_differ<operators::attention_dropout_mask>();
}

TEST_CASE("element types are f32 where a call does not say") {
  CHECK(all_begin_with_f32<
        operators::attention_forward, operators::attention_backward, operators::attention_decode,
        operators::rotary, operators::softmax, operators::softmax_backward, operators::gated_activation,
        operators::gated_activation_backward, operators::rms_norm, operators::rms_norm_backward,
        operators::layer_norm, operators::layer_norm_backward>());
}

TEST_CASE("rotary refuses illegal calls in words") {
  alignas(16) char memory[16] = {};
  const operators::rotary::arguments legal{.q = memory,
                                           .k = memory,
                                           .q_out = memory,
                                           .k_out = memory,
                                           .batch = 1,
                                           .seqlen = 4,
                                           .heads = 2,
                                           .heads_kv = 1,
                                           .head_dim = 64,
                                           .rotary_dim = 64};
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
  CHECK(operators::attention_backward::check(legal).empty());
  const auto refusal = refusal_of<operators::attention_backward>(legal);
  CHECK_THAT(refusal([](auto& a) { a.seqlen_k = -1; }), has_text("must not be negative"));
  CHECK_THAT(refusal([](auto& a) { a.lse = nullptr; }), has_text("lse must not be null"));
  CHECK_THAT(refusal([](auto& a) { a.dk = nullptr; }), has_text("must not be null"));
  CHECK_THAT(refusal([&](auto& a) { a.dbias = memory; }), has_text("there is no bias"));
  CHECK_THAT(refusal([&](auto& a) { a.dq = memory + 1; }), has_text("aligned to their element size"));
}
