// SPDX-License-Identifier: MIT
// The tuner's calls of attention_decode: how many keys of its cache each sequence has in use.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/workloads/attention_decode.hpp>

#include "catch.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;
using axis_values = std::map<std::string, std::int64_t, std::less<>>;

/// A call of four sequences of up to 256 keys.
[[nodiscard]] auto call_of(axis_values values) {
  values.insert({{"dtype", static_cast<std::int64_t>(sy::dtype::f32)}, {"batch", 4}, {"heads", 2}});
  values.insert({{"heads_kv", 1}, {"seqlen_q", 1}, {"seqlen_k", 256}, {"head_dim", 64}});
  return sy::tune::workload<sy::operators::attention_decode>::make(sy::device::host().driver(),
                                                                   sy::tune::request{values}, 1);
}

[[nodiscard]] std::vector<std::int32_t> lengths_of(const axis_values& values) {
  const auto call = call_of(values);
  return {call.arguments.seqused_k, call.arguments.seqused_k + 4};
}

}  // namespace

TEST_CASE("length_kind says how many keys sequences of a measured cache have") {
  using lengths = std::vector<std::int32_t>;
  CHECK(lengths_of({{"seqused", 1}}) == lengths{256, 256, 256, 256});
  CHECK(lengths_of({{"seqused", 1}, {"length_kind", 1}}) == lengths{64, 128, 192, 256});
  CHECK(lengths_of({{"seqused", 1}, {"length_kind", 2}}) == lengths{256, 4, 4, 4});
  const auto paged = static_cast<std::int64_t>(sy::operators::attention_kv::paged);
  CHECK(lengths_of({{"kv", paged}, {"length_kind", 2}}) == lengths{256, 4, 4, 4});
}

TEST_CASE("bytes and operations of a measured cache are those of the keys in use") {
  const double all = call_of({{"seqused", 1}}).flops;
  CHECK(call_of({{"seqused", 1}, {"length_kind", 1}}).flops == all * 640 / 1024);
  CHECK(call_of({{"seqused", 1}, {"length_kind", 2}}).flops == all * 268 / 1024);
  const double difference =
      call_of({{"seqused", 1}}).bytes - call_of({{"seqused", 1}, {"length_kind", 2}}).bytes;
  CHECK(difference == (1024 - 268) * 2 * 64 * 4);
}

TEST_CASE("a length_kind that does not exist is refused") {
  const std::string refusal =
      switchyard::test::refusal_by<sy::call_error>(sy::error_code::invalid_argument, [] {
        return call_of({{"seqused", 1}, {"length_kind", 3}});
      });
  CHECK_THAT(refusal, has_text("length_kind is 3: there are 0 (equal), 1 (spread) and 2 (one long)"));
}
