// SPDX-License-Identifier: MIT
// The dropout mask against the definition, on the CPU and, where there is one, on the GPU.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <switchyard/base/philox.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "gpu/attention/device_memory.hpp"

namespace {

namespace sy = switchyard;
using sy::operators::attention_dropout_mask;

/// `run` computes a call whose pointers lead to host memory.
template <class Run>
void check_random_calls(Run&& run) {
  const std::uint32_t first = sy::test::fresh_seed();
  for (std::uint32_t n = 0; n < 40; ++n) {
    INFO("seed " << first + n);
    std::mt19937_64 random{first + n};
    const auto below = [&](std::int64_t end) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
    };
    attention_dropout_mask::arguments a;
    a.batch = 1 + below(3);
    a.heads = 1 + below(4);
    a.seqlen_q = below(70);
    a.seqlen_k = below(300);
    a.dropout_p = static_cast<float>(below(10)) / 10.0F;
    const std::vector<std::uint64_t> state{random(), random()};
    if (n % 2 == 0) {
      a.dropout_state = state.data();
    } else {
      a.dropout_seed = state[0];
      a.dropout_offset = state[1];
    }
    const auto elements = static_cast<std::size_t>(a.batch * a.heads * a.seqlen_q * a.seqlen_k);
    std::vector<float> mask(std::max<std::size_t>(elements, 1), std::nanf(""));
    a.mask = mask.data();
    REQUIRE_THAT(attention_dropout_mask::check(a), no_text());
    run(a, mask, state);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < elements; ++at) {
      const auto j = static_cast<std::int64_t>(at) % a.seqlen_k;
      const auto row = static_cast<std::int64_t>(at) / a.seqlen_k;
      const auto words =
          sy::dropout_words(state[0], state[1], static_cast<std::uint32_t>(row / a.seqlen_q),
                            static_cast<std::uint32_t>(row % a.seqlen_q), static_cast<std::uint32_t>(j / 4));
      const bool dropped = words[static_cast<std::size_t>(j % 4)] < sy::dropout_threshold(a.dropout_p);
      const double expected = dropped ? 0 : 1 / (1 - static_cast<double>(a.dropout_p));
      if (!(std::abs(static_cast<double>(mask[at]) - expected) <= 0x1p-22 * expected)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("dropout mask on the CPU", "[attention]") {
  sy::catalog catalog;
  sy::dispatcher<attention_dropout_mask> dispatcher{catalog, sy::device::host()};
  check_random_calls([&](const attention_dropout_mask::arguments& a, auto&, auto&) { dispatcher({}, a); });
}

TEST_CASE("dropout mask on the GPU", "[attention]") {
  if (tests_cuda() && !raw::available()) return;  // the case on the CPU counts
  sy::catalog catalog;
  sy::dispatcher<attention_dropout_mask> dispatcher{catalog, tested_gpu()};
  check_random_calls([&](attention_dropout_mask::arguments a, std::vector<float>& mask,
                         const std::vector<std::uint64_t>& state) {
    device_memory memory;
    std::byte* const on_device = memory.poisoned(mask.size() * sizeof(float));
    a.mask = reinterpret_cast<float*>(on_device);
    if (a.dropout_state != nullptr) a.dropout_state = memory.copy(state);
    wait_for_gpu();
    dispatcher({}, a);
    sy::test::record_variant(attention_dropout_mask::name, dispatcher.explain(a).variant);
    wait_for_gpu();
    std::memcpy(mask.data(), fetch(on_device, mask.size() * sizeof(float)).data(),
                mask.size() * sizeof(float));
  });
}
