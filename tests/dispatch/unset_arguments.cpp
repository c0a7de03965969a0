// A stride or a scale that is not set is an error of every call, also of a problem that was called before.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>

#include "catch.hpp"
#include "test_disk.hpp"

namespace {

using namespace test;
using sy::operators::attention_forward;
using sy::operators::rotary;

/// A variant that takes every argument in order.
template <class Operator>
json variant_of_all() {
  json names = json::array();
  for (const auto& field : sy::describe<Operator>().fields) names.push_back(std::string{field.name});
  return {{"id", "only"},
          {"launches",
           {{{"blob", "nothing.so"},
             {"kernel", "nothing_" + std::string{Operator::name}},
             {"grid", {1, 1, 1}},
             {"block", {1, 1, 1}},
             {"parameters", names}}}}};
}

/// What a call is refused with after it was made twice with all that it needs.
template <class Operator>
class known_call {
 public:
  explicit known_call(const typename Operator::arguments& complete) : complete_{complete} {
    run_(nullptr, complete_);
    run_(nullptr, complete_);
  }

  /// Empty where it is launched.
  template <class Change>
  [[nodiscard]] std::string refusal(const Change& change) {
    auto changed = complete_;
    change(changed);
    try {
      run_(nullptr, changed);
    } catch (const sy::call_error& problem) {
      CHECK(problem.code() == sy::error_code::invalid_argument);
      return problem.what();
    }
    return {};
  }

 private:
  struct files_of_one : disk {
    files_of_one() { put_manifest(Operator::name, {variant_of_all<Operator>()}); }
  };

  files_of_one files_;
  sy::catalog catalog_{files_.options()};
  sy::dispatcher<Operator> run_{catalog_, sy::device::host()};
  typename Operator::arguments complete_;
};

alignas(16) std::array<std::byte, 64> memory{};

}  // namespace

TEST_CASE("attention: what is not set is named at the second call as at the first") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 64, 4, 128}};
  const sy::tensor k{memory.data(), sy::dtype::bf16, {2, 96, 2, 128}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, k, k, q)};
  CHECK(known.refusal([](arguments&) {}).empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.k_stride_token = sy::unset; }),
             has_text("k_stride_token is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.out_stride_batch = sy::unset; }),
             has_text("out_stride_batch is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.scale = sy::unset_scale; }), has_text("scale is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.v = nullptr; }), has_text("null"));
  CHECK(known.refusal([](arguments& a) { a.k_stride_batch = a.v_stride_batch = 0; })
            .empty());  // shared by both
  CHECK(known.refusal([](arguments& a) { a.scale = 0; }).empty());
  CHECK(known.refusal([](arguments&) {}).empty());
}

TEST_CASE("attention: strides of tensors that may be absent are named where these are given") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 64, 4, 128}};
  const sy::tensor lse{memory.data(), sy::dtype::f32, {2, 4, 64}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, q, q, q, {.lse = lse})};
  CHECK_THAT(known.refusal([](arguments& a) { a.lse_stride_head = sy::unset; }),
             has_text("lse_stride_head is not set"));
  CHECK(known
            .refusal([](arguments& a) {
              a.lse = nullptr;
              a.lse_stride_head = a.lse_stride_batch = sy::unset;
            })
            .empty());
}

TEST_CASE("attention: a stride that leads to no second element need not be set") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {1, 64, 1, 128}};
  using arguments = attention_forward::arguments;
  known_call<attention_forward> known{attention_forward::call(q, q, q, q)};
  CHECK(known
            .refusal([](arguments& a) {
              a.q_stride_batch = a.k_stride_batch = a.v_stride_batch = a.out_stride_batch = sy::unset;
              a.q_stride_head = a.k_stride_head = a.v_stride_head = a.out_stride_head = sy::unset;
            })
            .empty());
  CHECK_THAT(known.refusal([](arguments& a) { a.q_stride_token = sy::unset; }),
             has_text("q_stride_token is not set"));
}

TEST_CASE("rotary: what is not set is named at the second call as at the first") {
  const sy::tensor q{memory.data(), sy::dtype::bf16, {2, 16, 4, 128}};
  const sy::tensor k{memory.data(), sy::dtype::bf16, {2, 16, 2, 128}};
  const sy::const_tensor table{memory.data(), sy::dtype::f32, {64, 64}};
  using arguments = rotary::arguments;
  known_call<rotary> known{rotary::in_place(q, k, {.cos = table, .sin = table})};
  CHECK_THAT(known.refusal([](arguments& a) { a.table_stride = sy::unset; }),
             has_text("table_stride is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.k_out_stride_head = sy::unset; }),
             has_text("k_out_stride_head is not set"));
  CHECK_THAT(known.refusal([](arguments& a) { a.k = a.k_out = nullptr; }), has_text("null"));
  CHECK(known.refusal([](arguments& a) { a.q_stride_batch = a.q_out_stride_batch = 0; }).empty());
}
