// SPDX-License-Identifier: MIT
// Attention backward on the CPU, through catalog and dispatcher: random calls over all axes, each by every
// variant that may serve it, against the f64 reference, and twice for the same bits. SWITCHYARD_TEST_CALLS
// says how many calls, SWITCHYARD_TEST_SEED from which seed on.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <switchyard/device.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "gpu/attention/every_variant.hpp"
#include "gpu/attention/random_backward_call.hpp"

TEST_CASE("attention backward on the CPU: random calls by every variant", "[attention]") {
  every_variant<attention_backward> variants{sy::device::host()};
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", 60);
  const std::uint32_t seed = sy::test::fresh_seed();
  constexpr std::array<const char*, 4> names{"dq", "dk", "dv", "dbias"};
  std::size_t launches = 0;
  for (std::uint32_t n = 0; n < calls; ++n) {
    backward_call call{seed + n};
    call.compute();
    INFO("seed " << seed + n << ": " << call.text());
    REQUIRE_THAT(attention_backward::check(call.a), no_text());
    const auto before = call.forward.first * sy::size_of(call.a.dtype);
    const auto run = [&](sy::dispatcher<attention_backward>& dispatcher) {
      std::array<std::vector<std::byte>, 4> found;
      for (std::size_t i = 0; i < found.size(); ++i) {
        found[i].assign(std::max<std::size_t>(call.bytes(i), 16), std::byte{0xFF});
      }
      attention_backward::arguments a = call.a;
      a.dq = found[0].data() + before;
      a.dk = found[1].data() + before;
      a.dv = found[2].data() + before;
      if (a.dbias != nullptr) a.dbias = found[3].data();
      dispatcher(sy::stream{}, a);
      ++launches;
      return found;
    };
    const std::vector<std::string> serving = variants.serving(call.a);
    REQUIRE(!serving.empty());
    for (const std::string& id : serving) {
      const auto found = run(variants.forced(id));
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::string wrong =
            differences(names[i], call.expected[i], call.limits[i], call.a.dtype, found[i].data());
        INFO(id << ": " << wrong);
        CHECK(wrong.empty());
      }
      CHECK(run(variants.forced(id)) == found);
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
}

TEST_CASE("attention backward on the CPU: packed sequences without tokens leave dbias zero", "[attention]") {
  every_variant<attention_backward> variants{sy::device::host()};
  const std::array<std::int32_t, 3> starts{};
  const sy::const_tensor cu_seqlens{std::span{starts}, {3}};
  std::array<float, 140> memory{};  // a bias of which nothing is read
  const auto none = std::span{memory}.first(0);
  const sy::tensor q{none, {0, 2, 16}};
  const sy::tensor k{none, {0, 1, 16}};
  const sy::tensor lse{none, {2, 0}};
  for (int shared = 0; shared < 8; ++shared) {
    const std::array<std::int64_t, 3> extents{(shared & 1) != 0 ? 1 : 2, (shared & 2) != 0 ? 1 : 2,
                                              (shared & 4) != 0 ? 1 : 5};
    const auto count = static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * 7);
    std::vector<float> found(count, std::numeric_limits<float>::quiet_NaN());
    const auto scores = [&](std::span<float> of) {
      return sy::tensor{of.first(count), {extents[0], extents[1], extents[2], 7}};
    };
    const auto call = attention_backward::call(
        {.q = q, .k = k, .v = k, .out = q, .dout = q, .lse = lse, .dq = q, .dk = k, .dv = k},
        {.bias = scores(memory),
         .dbias = scores(found),
         .cu_seqlens_q = cu_seqlens,
         .cu_seqlens_k = cu_seqlens,
         .longest_q = 5,
         .longest_k = 7});
    const std::vector<std::string> serving = variants.serving(call);
    REQUIRE(!serving.empty());
    for (const std::string& id : serving) {
      INFO(id << ", dbias [" << extents[0] << ", " << extents[1] << ", " << extents[2] << ", 7]");
      found.assign(count, std::numeric_limits<float>::quiet_NaN());
      variants.forced(id)(sy::stream{}, call);
      CHECK(found == std::vector<float>(count));
    }
  }
}
