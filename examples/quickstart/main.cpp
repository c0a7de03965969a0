// SPDX-License-Identifier: MIT
// Runs the rotary and attention calls of a Llama-3.1-8B layer on the best device of the machine, and checks
// each result against a reference in double precision. It measures the variants of each call, runs with
// tuning tables that name slow ones, then replaces the tables on disk: the running process chooses the
// fastest. Memory-bound calls are compared with the speed of a copy.
//
//   quickstart [--host]      --host: run on the CPU even if there is a GPU
//
// Exit status: 0: every result is right and the new tables were used. 1: otherwise. 2: nothing could run.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/measure.hpp>

#include "copy_speed.hpp"
#include "layer.hpp"
#include "tree.hpp"
#include "verify.hpp"

namespace {

namespace sy = switchyard;
using quickstart::attention_call;
using quickstart::copy_speed;
using quickstart::rotary_call;
using quickstart::timed_variant;

/// Seconds since it was made.
class clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>{std::chrono::steady_clock::now() - start_}.count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The calls of a layer: three prompts, shorter ones on the CPU, and one decode step.
struct layer {
  std::vector<rotary_call> rotary;
  std::vector<attention_call> attention;

  explicit layer(const sy::device& device) {
    const std::int64_t shortest = device.properties().backend == "host" ? 32 : 128;
    const std::array lengths{shortest, 4 * shortest, 16 * shortest};
    for (const std::int64_t length : lengths) {
      rotary.emplace_back(device, "rotary, prompt of " + std::to_string(length), length, 0);
    }
    rotary.emplace_back(device, "rotary, decode at 2048", 1, 2047);
    for (const std::int64_t length : lengths) {
      attention.emplace_back(device, "attention, prompt of " + std::to_string(length), length, length);
    }
    attention.emplace_back(device, "attention, decode at 2048", 1, 2048);
  }
};

struct dispatchers {
  sy::dispatcher<sy::operators::rotary> rotary;
  sy::dispatcher<sy::operators::attention_forward> attention;

  /// Runs `visit(dispatcher, call)` for every call of the layer, and returns what it returns.
  template <class Visit>
  [[nodiscard]] auto for_each(layer& calls, const Visit& visit) {
    std::vector<decltype(visit(rotary, calls.rotary.front()))> out;
    for (rotary_call& call : calls.rotary) out.push_back(visit(rotary, call));
    for (attention_call& call : calls.attention) out.push_back(visit(attention, call));
    return out;
  }
};

/// Median microseconds of a call, over `samples` of 20 ms. Calls of a third of a second and more are timed
/// twice, so that nothing is silent for long.
template <class Call>
[[nodiscard]] double time_call(sy::dispatcher<typename Call::operator_type>& run, const Call& call,
                               std::size_t samples) {
  const auto driver = run.device_of().driver();
  const auto once = [&] {
    const clock since;
    run({}, call.arguments);
    (void)driver->synchronize({});
    return 1e6 * since.seconds();
  };
  (void)once();  // loads the kernel
  const double first = once();
  if (first > 300'000) return std::min(first, once());
  const sy::tune::timing_options options{.warm_up_us = 10'000, .sample_us = 20'000, .samples = samples};
  return sy::tune::time_call(driver, options, [&] { run({}, call.arguments); }).microseconds;
}

/// What was measured of a call.
struct measured_call {
  std::vector<std::int64_t> problem;
  timed_variant by_default;  ///< what runs without tables
  timed_variant fastest;
  timed_variant slowest;
};

/// The variants that may serve a call, best general choice first, without the plain loops that tests compare
/// with; the one in the middle of that order comes second, so that a slow one is measured early.
[[nodiscard]] std::vector<std::string> variants_of(const sy::explanation& why) {
  std::vector<std::string> out;
  for (const sy::candidate_report& candidate : why.candidates) {  // targets may have variants of one name
    if (candidate.admissible && candidate.variant != "reference" &&
        std::find(out.begin(), out.end(), candidate.variant) == out.end())
      out.push_back(candidate.variant);
  }
  if (out.size() > 3) {
    const auto middle = out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2);
    std::rotate(out.begin() + 1, middle, middle + 1);
  }
  return out;
}

/// Times variants of a call until the slow ones are reached, for at most two seconds. Prints a line.
template <class Call>
[[nodiscard]] measured_call measure(const std::filesystem::path& root,
                                    sy::dispatcher<typename Call::operator_type>& run, Call& call,
                                    int name_width) {
  using operator_type = typename Call::operator_type;
  std::printf("%-26s ", call.name.c_str());
  std::fflush(stdout);
  const clock since;
  const auto problem = sy::make_problem<operator_type>(call.arguments);
  measured_call out{{problem.begin(), problem.end()}, {}, {}, {}};
  std::size_t count = 0;
  const std::vector<std::string> variants = variants_of(run.explain(call.arguments));
  if (variants.empty())
    throw std::runtime_error{call.name + ": no kernel in " + root.string() + " serves it on this device"};
  for (const std::string& variant : variants) {
    sy::catalog_options options{.roots = {root.string()}, .tables = {}, .default_roots = false};
    options.settings.forced = {{std::string{operator_type::name}, variant}};
    sy::catalog catalog{std::move(options)};
    sy::dispatcher<operator_type> forced{catalog, run.device_of()};
    call.reset();
    const timed_variant found{variant, time_call(forced, call, 3)};
    if (++count == 1) out.by_default = out.fastest = out.slowest = found;
    if (found.microseconds < out.fastest.microseconds) out.fastest = found;
    if (found.microseconds > out.slowest.microseconds) out.slowest = found;
    if (count > 2 && found.microseconds > 4 * out.fastest.microseconds) break;
    if (count > 1 && since.seconds() > 2) break;
  }
  std::printf("%8zu  %-*s %9.1f us  %-*s %9.1f us\n", count, name_width, out.fastest.variant.c_str(),
              out.fastest.microseconds, name_width, out.slowest.variant.c_str(), out.slowest.microseconds);
  std::fflush(stdout);
  return out;
}

struct outcome {
  std::string variant;
  double microseconds = 0;
  bool right = false;
};

/// The speed of a memory-bound call as a share of the speed of a copy of as many bytes; blank for a
/// compute-bound call, and for a small one, which caches serve.
template <class Call>
[[nodiscard]] std::string share_of_copy(const Call& call, double microseconds, const copy_speed& copies) {
  if (!Call::moves_memory || call.work() < 1e6) return "";
  return std::to_string(std::lround(call.work() / microseconds / 10 / copies.of(call.work()))) + " %";
}

/// Runs, checks and times a call, and prints its line; with the time `before`, also how much faster it is.
template <class Call>
[[nodiscard]] outcome run_call(sy::dispatcher<typename Call::operator_type>& run, Call& call,
                               const copy_speed& copies, int name_width, double before = 0) {
  std::printf("%-26s ", call.name.c_str());
  std::fflush(stdout);
  const sy::explanation why = run.explain(call.arguments);
  call.reset();
  run({}, call.arguments);
  const quickstart::verdict verdict = verify(call);
  const double microseconds = time_call(run, call, 9);
  std::printf("%-*s %9.1f us %8.1f %-8s %8s %9.1e %9.1e %7lld  %s", name_width, why.variant.c_str(),
              microseconds, call.work() / microseconds / 1e3, Call::work_unit,
              share_of_copy(call, microseconds, copies).c_str(), verdict.error, verdict.tolerance,
              static_cast<long long>(verdict.rows), verdict.holds() ? "right" : "WRONG");
  if (before > 0) std::printf(" %6.2fx", before / microseconds);
  std::printf("\n");
  std::fflush(stdout);
  return {why.variant, microseconds, verdict.holds()};
}

void print_head(const char* last, int name_width) {
  std::printf("%-26s %-*s %12s %17s %8s %9s %9s %7s  %s\n", "call", name_width, "variant", "median time",
              "speed", "of copy", "error", "allowed", "rows", last);
}

/// Writes a table for the device with one of the measured variants for each call.
void write_table(const std::filesystem::path& root, const sy::operator_description& op,
                 const sy::device_properties& device, const std::vector<measured_call>& calls,
                 timed_variant measured_call::*which) {
  std::vector<quickstart::measured_row> rows;
  for (const measured_call& call : calls) rows.push_back({call.problem, call.*which});
  const std::filesystem::path path = root / "tables" / op.name / "quickstart.json";
  quickstart::replace_file(path, quickstart::make_table(op, device, rows).dump(1));
  std::printf("wrote %s: %zu rows\n", path.c_str(), rows.size());
}

void write_tables(const std::filesystem::path& root, const sy::device_properties& device, const layer& calls,
                  const std::vector<measured_call>& measured, timed_variant measured_call::*which) {
  const auto split = measured.begin() + static_cast<std::ptrdiff_t>(calls.rotary.size());
  write_table(root, sy::describe<sy::operators::rotary>(), device, {measured.begin(), split}, which);
  write_table(root, sy::describe<sy::operators::attention_forward>(), device, {split, measured.end()}, which);
}

/// Waits until the watching catalog has read the new tables. False after ten seconds.
[[nodiscard]] bool wait_for_change(dispatchers& run, layer& calls,
                                   const std::vector<measured_call>& measured) {
  const clock since;
  while (since.seconds() < 10) {
    const auto chosen = run.for_each(
        calls, [](auto& dispatcher, auto& call) { return dispatcher.explain(call.arguments).variant; });
    bool all = true;
    for (std::size_t i = 0; i < chosen.size(); ++i) all = all && chosen[i] == measured[i].fastest.variant;
    if (all) {
      std::printf("the running process read them after %.0f ms\n\n", 1e3 * since.seconds());
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  std::printf("the running process did not read them within 10 s\n");
  return false;
}

[[nodiscard]] int run(bool on_host) {
  const clock since;
  const sy::device device = on_host ? sy::device::host() : sy::device::current();
  const quickstart::temporary_tree tree{sy::catalog{}.roots(), {"rotary", "attention_forward"}};
  sy::catalog_options options{.roots = {tree.folder().string()}, .tables = {}, .default_roots = false};
  options.settings.forced.clear();  // tables decide here
  sy::catalog catalog{std::move(options)};
  dispatchers dispatch{{catalog, device}, {catalog, device}};
  std::printf("The rotary and attention calls of a layer of Llama-3.1-8B in bf16 on %s (%s %s)\n",
              device.properties().name.c_str(), device.properties().backend.c_str(),
              device.properties().arch.c_str());
  std::fflush(stdout);
  layer calls{device};
  const copy_speed copies{device};
  std::printf("A copy of %.1f GB moves %.1f GB/s, counting what is read and what is written.\n",
              copies.max_bytes() / 2e9, copies.of(copies.max_bytes()));

  std::size_t longest = 24;
  (void)dispatch.for_each(calls, [&](auto& dispatcher, auto& call) {
    for (const std::string& name : variants_of(dispatcher.explain(call.arguments)))
      longest = std::max(longest, name.size());
    return true;
  });
  const int name_width = static_cast<int>(longest);

  std::printf("\n1. Time variants of each call.\n\n");
  std::printf("%-26s %8s  %-*s %12s  %-*s %12s\n", "call", "variants", name_width, "fastest", "median time",
              name_width, "slowest", "median time");
  const std::vector<measured_call> measured = dispatch.for_each(calls, [&](auto& dispatcher, auto& call) {
    return measure(tree.folder(), dispatcher, call, name_width);
  });

  std::printf(
      "\n2. Run with tuning tables that name the slowest, as tables made on another machine may. `of copy` "
      "is\n"
      "   the speed beside that of a copy of as many bytes. `rows` of the result are compared with a "
      "reference\n"
      "   in double precision: `error` is the largest difference, relative to the row's largest value.\n\n");
  write_tables(tree.folder(), device.properties(), calls, measured, &measured_call::slowest);
  (void)catalog.reload();
  std::printf("\n");
  print_head("result", name_width);
  const std::vector<outcome> before = dispatch.for_each(
      calls, [&](auto& dispatcher, auto& call) { return run_call(dispatcher, call, copies, name_width); });

  std::printf(
      "\n3. Replace the tables on disk with ones that name the fastest, and go on in this process.\n\n");
  catalog.watch(std::chrono::milliseconds{50});
  write_tables(tree.folder(), device.properties(), calls, measured, &measured_call::fastest);
  if (!wait_for_change(dispatch, calls, measured)) return 1;
  print_head("result speedup", name_width);
  std::size_t next = 0;
  const std::vector<outcome> after = dispatch.for_each(calls, [&](auto& dispatcher, auto& call) {
    return run_call(dispatcher, call, copies, name_width, before[next++].microseconds);
  });

  bool right = true;
  std::size_t to_change = 0;
  std::size_t changed = 0;
  double times[] = {0, 0, 0};
  for (std::size_t i = 0; i < after.size(); ++i) {
    right = right && before[i].right && after[i].right;
    to_change += measured[i].slowest.variant != measured[i].fastest.variant ? 1U : 0U;
    changed += after[i].variant != before[i].variant ? 1U : 0U;
    times[0] += before[i].microseconds / 1e3;
    times[1] += after[i].microseconds / 1e3;
    times[2] += measured[i].by_default.microseconds / 1e3;
  }
  const bool good = right && changed == to_change && changed > 0;
  std::printf("\n%zu of %zu choices changed without a restart. %s\n", changed, after.size(),
              good ? "Every result is right." : "FAILED");
  std::printf(
      "The %zu calls together took %.1f ms with the first tables and %.1f ms with the new ones: %.2f times "
      "as "
      "fast.\nWithout tables, the manifests' order gives %.1f ms.\n%.1f s in all\n",
      after.size(), times[0], times[1], times[0] / times[1], times[2], since.seconds());
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_host = argc == 2 && std::string_view{argv[1]} == "--host";
  if (argc > 2 || (argc == 2 && !on_host)) {
    std::fprintf(stderr, "usage: quickstart [--host]\n");
    return 2;
  }
  try {
    return run(on_host);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "quickstart: %s\n", problem.what());
    return 2;
  }
}
