// SPDX-License-Identifier: MIT
// Runs random calls on the GPU by every variant that may serve them: what the tests of all operators share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "device_memory.hpp"
#include "environment.hpp"
#include "every_variant.hpp"
#include "random_attention.hpp"

namespace {

/// A call that attends, forward or decode, with what all of them have in device memory.
template <class Arguments>
struct attention_on_gpu {
  Arguments a;

  attention_on_gpu(device_memory& memory, const sy::test::random_attention<Arguments>& call)
      : a{call.a},
        call_{call},
        out_bytes_{static_cast<std::size_t>(call.out_elements * sy::size_of(a.dtype))},
        lse_bytes_{static_cast<std::size_t>(call.lse_elements) * sizeof(float)},
        out_{memory.poisoned(out_bytes_)},
        lse_{memory.poisoned(lse_bytes_)} {
    const auto copied = [&](const std::vector<std::byte>& tensor, const void* first) {
      return memory.copy(tensor) + (static_cast<const std::byte*>(first) - tensor.data());
    };
    a.q = copied(call.q, call.a.q);
    a.k = copied(call.k, call.a.k);
    a.v = call.a.v == call.a.k ? a.k : copied(call.v, call.a.v);
    a.out = out_ + call.first * sy::size_of(a.dtype);
    a.lse = call.with_lse ? reinterpret_cast<float*>(lse_) : nullptr;
    if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(call.slopes);
    if (a.sinks != nullptr) a.sinks = memory.copy(call.sinks);
    if (a.block_table != nullptr) a.block_table = memory.copy(call.table);
  }

  /// What is wrong with what `launch` writes; empty when nothing is.
  [[nodiscard]] std::string wrong(const std::function<void()>& launch) const {
    poison(out_, out_bytes_);
    poison(lse_, lse_bytes_);
    launch();
    std::string result =
        sy::test::differences("out", call_.expected, call_.limit, a.dtype, fetch(out_, out_bytes_).data());
    if (result.empty()) {
      result = sy::test::differences("lse", call_.expected_lse, call_.limit_lse, sy::dtype::f32,
                                     fetch(lse_, lse_bytes_).data());
    }
    return result;
  }

 private:
  const sy::test::random_attention<Arguments>& call_;
  std::size_t out_bytes_, lse_bytes_;
  std::byte *out_, *lse_;
};

template <class Function>
void on_all_cores(std::size_t count, const Function& function) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) function(i);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

/// The arguments of a call whose tensors are still on the host, for choosing.
template <class Call>
[[nodiscard]] auto chosen_by(const Call& call) {
  auto a = call.a;
  if constexpr (requires { call.with_lse; }) {
    static float lse = 0;
    if (call.with_lse) a.lse = &lse;
  }
  return a;
}

/// What tells the kernels of one variant from those of another of the same name.
template <class Arguments>
[[nodiscard]] std::string kind_of(const Arguments& a) {
  std::string kind{sy::name_of(a.dtype)};
  if constexpr (requires { a.type_of_kv(); }) {
    kind += '/' + std::string{sy::name_of(a.type_of_kv())};
  } else if constexpr (requires { a.kv_dtype; }) {
    kind += '/' + std::string{sy::name_of(a.kv_dtype)};
  }
  if constexpr (requires { a.block_table; }) {
    if (a.block_table != nullptr) kind += " paged";
  }
  return kind;
}

/// SWITCHYARD_TEST_CALLS random calls, otherwise `usually`, from SWITCHYARD_TEST_SEED on: `Call{seed}` is
/// one, whose `compute()` fills what is expected of it, on all cores at once; `put(memory, call)` gives it
/// with its arguments `a` in device memory and with `wrong(launch)`, what is wrong with a launch's results.
///
/// For a GPU on which a call takes seconds: SWITCHYARD_TEST_SMALL makes the calls small, and
/// SWITCHYARD_TEST_SHARE is the percentage of calls that a variant is run on, besides its first. Of so many
/// more calls as SWITCHYARD_TEST_MORE says, those run that a variant serves which has not run yet. Of
/// SWITCHYARD_TEST_PARTS runs, each with another SWITCHYARD_TEST_PART, one sees to a variant's first call.
template <class Operator, class Call, class Put>
void run_random_calls(std::uint32_t usually, const Put& put) {
  every_variant<Operator> variants{tested_gpu()};
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", usually);
  const std::uint32_t seed = sy::test::fresh_seed();
  const std::uint32_t share = sy::test::number("SWITCHYARD_TEST_SHARE", 100);
  const std::uint32_t more = sy::test::number("SWITCHYARD_TEST_MORE", 0);
  const std::uint32_t parts = std::max(1U, sy::test::number("SWITCHYARD_TEST_PARTS", 1));
  const std::uint32_t part = sy::test::number("SWITCHYARD_TEST_PART", 0);
  const auto is_ours = [&](const std::string& variant) {
    return std::hash<std::string>{}(variant) % parts == part;
  };
  std::mt19937 sampling{seed};
  std::set<std::string> met;
  std::size_t launches = 0;
  std::size_t failures = 0;
  std::size_t not_served = 0;
  std::size_t others = 0;
  constexpr std::uint32_t portion = 64;
  for (std::uint32_t from = 0; from < calls + more;) {
    const bool wants_new = from >= calls;
    std::vector<std::unique_ptr<Call>> some(std::min(portion, (wants_new ? calls + more : calls) - from));
    on_all_cores(some.size(), [&](std::size_t i) {
      some[i] = std::make_unique<Call>(seed + from + static_cast<std::uint32_t>(i));
    });
    for (auto& call : some) {
      variants.skip_without_any(call->a);
      if (full_kernels && !wants_new) continue;
      const std::vector<std::string> serving = variants.serving(chosen_by(*call));
      const auto is_new = [&](const std::string& id) {
        const std::string variant = id + ' ' + kind_of(call->a);
        return is_ours(variant) && !met.contains(variant);
      };
      if (!wants_new && serving.empty()) ++not_served;
      if (wants_new ? std::any_of(serving.begin(), serving.end(), is_new) : !serving.empty()) continue;
      call = nullptr;
    }
    on_all_cores(some.size(), [&](std::size_t i) {
      if (some[i] != nullptr) some[i]->compute();
    });

    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i] == nullptr) continue;
      if (wants_new) ++others;
      const Call& call = *some[i];
      REQUIRE_THAT(Operator::check(call.a), no_text());
      device_memory memory;
      const auto on_gpu = put(memory, call);
      const auto check = [&](const std::string& id, sy::dispatcher<Operator>& dispatcher) {
        const std::string wrong = on_gpu.wrong([&] {
          wait_for_gpu();  // the kernel's stream does not wait for fills
          dispatcher(sy::stream{}, on_gpu.a);
          wait_for_gpu();
          ++launches;
        });
        if (wrong.empty()) return;
        ++failures;
        UNSCOPED_INFO("seed " << seed + from + i << ": " << call.text() << ", " << id << ": " << wrong);
        if (failures < 50) CHECK(wrong.empty());
      };
      const std::vector<std::string> serving = variants.serving(on_gpu.a);
      INFO(call.text());
      REQUIRE(!serving.empty());
      const auto sampled = [&](const std::string& id) {
        const std::string variant = id + ' ' + kind_of(call.a);
        const bool is_first = is_ours(variant) && met.insert(variant).second;
        return sampling() % 100 < share || is_first;
      };
      for (const std::string& id : serving) {
        if (sampled(id)) check(id, variants.forced(id));
      }
      if (sampled("the chosen")) check("the chosen", variants.free());
    }
    from += static_cast<std::uint32_t>(some.size());
  }
  std::printf(
      "%zu launches for %u calls from seed %u and %zu of %u more; no kernel of this build serves %zu\n",
      launches, calls, seed, others, more, not_served);
  REQUIRE(failures == 0);
  if (launches == 0) skip_program("no kernel of this build serves any of the calls");
}

}  // namespace
