// SPDX-License-Identifier: MIT
// Serves rotary calls of a few shapes from several threads until standard input ends, taking tables as they
// come.
//
//   serve host | gpu
//
// Exit status 77: there is no GPU, or no kernel of this build serves the calls on it.
// A line of JSON on standard output every 50 ms says how many calls there were, how many failed, the slowest
// since the line before, and what is chosen for each shape.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/workloads/rotary.hpp>

namespace sy = switchyard;

namespace {

using operator_type = sy::operators::rotary;

struct shape {
  std::int64_t batch;
  std::int64_t seqlen;
};
constexpr shape shapes[] = {{1, 16}, {4, 24}, {1, 160}};  // NOLINT(modernize-avoid-c-arrays)

[[nodiscard]] sy::tune::prepared_call<operator_type> make_call(const sy::device& device, const shape& of,
                                                               std::uint64_t seed) {
  const sy::tune::request want{{{"batch", of.batch},
                                {"seqlen", of.seqlen},
                                {"heads", 4},
                                {"heads_kv", 2},
                                {"head_dim", 64},
                                {"dtype", static_cast<std::int64_t>(sy::dtype::f32)}}};
  return sy::tune::workload<operator_type>::make(device.driver(), want, seed);
}

struct shared_counts {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::int64_t> slowest_ns{0};
  std::atomic<bool> stop{false};
};

void serve(sy::dispatcher<operator_type>& run, const sy::device& device, std::uint64_t seed,
           shared_counts& counts) {
  std::vector<sy::tune::prepared_call<operator_type>> calls;
  for (const shape& sizes : shapes) calls.push_back(make_call(device, sizes, seed));
  for (std::size_t i = 0; !counts.stop; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      run({}, calls[i % calls.size()].arguments);
    } catch (const std::exception& problem) {
      ++counts.failed;
      std::fprintf(stderr, "%s\n", problem.what());
    }
    const std::int64_t took = (std::chrono::steady_clock::now() - begin).count();
    std::int64_t before = counts.slowest_ns;
    while (took > before && !counts.slowest_ns.compare_exchange_weak(before, took)) {
    }
    ++counts.calls;
    if (i % 64 == 63 && device.driver()->synchronize({}) != 0) ++counts.failed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_host = argc > 1 && std::strcmp(argv[1], "host") == 0;
  sy::catalog catalog;
  const sy::device device = on_host ? sy::device::host() : sy::device::current();
  if (!on_host && device.properties().backend == "host") return 77;
  sy::dispatcher<operator_type> run{catalog, device};
  catalog.watch();
  if (!on_host && run.explain(make_call(device, shapes[0], 9).arguments).variant.empty()) return 77;
  shared_counts counts;
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (std::uint64_t i = 0; i < 2; ++i) threads.emplace_back([&, i] { serve(run, device, i + 1, counts); });
  std::vector<sy::tune::prepared_call<operator_type>> asked;
  for (const shape& sizes : shapes) asked.push_back(make_call(device, sizes, 9));
  for (pollfd input{0, POLLIN, 0}; ::poll(&input, 1, 50) == 0;) {
    std::printf(R"({"calls":%llu,"failed":%llu,"slowest_us":%.1f,"choices":[)",
                static_cast<unsigned long long>(counts.calls.load()),
                static_cast<unsigned long long>(counts.failed.load()),
                static_cast<double>(counts.slowest_ns.exchange(0)) / 1e3);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto why = run.explain(asked[i].arguments);
      std::printf(R"(%s{"at":[%lld,%lld],"variant":"%s","reason":"%s"})", i > 0 ? "," : "",
                  static_cast<long long>(shapes[i].batch), static_cast<long long>(shapes[i].seqlen),
                  why.variant.c_str(), std::string{sy::to_string(why.chosen.why)}.c_str());
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }
  counts.stop = true;
  for (std::thread& thread : threads) thread.join();
  return counts.failed == 0 ? 0 : 1;
}
