// Runs the rotary and attention calls of a Llama-3.1-8B layer on the best device of the machine, and checks
// each result against a reference in double precision. Then replaces the tuning tables on disk and shows that
// the running process chooses other variants. Memory-bound calls are compared with the speed of a copy.
//
//   quickstart [--host]      --host: run on the CPU even if there is a GPU
//
// Exit status: 0: every result is right and the new tables were used. 1: otherwise. 2: nothing could run.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measure.hpp>

#include "copy_speed.hpp"
#include "layer.hpp"
#include "tree.hpp"
#include "verify.hpp"

namespace {

namespace sy = switchyard;
using quickstart::attention_call;
using quickstart::rotary_call;

using seconds = std::chrono::duration<double>;

/// The calls of a layer: three prompts and one decode step.
struct layer {
  std::vector<rotary_call> rotary;
  std::vector<attention_call> attention;

  explicit layer(const sy::device& device) {
    for (const std::int64_t length : {128, 512, 2048}) {
      rotary.emplace_back(device, "rotary, prompt of " + std::to_string(length), length, 0);
    }
    rotary.emplace_back(device, "rotary, decode at 2048", 1, 2047);
    for (const std::int64_t length : {128, 512, 2048}) {
      attention.emplace_back(device, "attention, prompt of " + std::to_string(length), length, length);
    }
    attention.emplace_back(device, "attention, decode at 2048", 1, 2048);
  }
};

/// Median time of a call in microseconds, over a third of a second.
template <class Call>
[[nodiscard]] double time_call(sy::dispatcher<typename Call::operator_type>& run, const Call& call) {
  const sy::tune::timing_options options{.warm_up_us = 30'000, .sample_us = 30'000, .samples = 9};
  return sy::tune::time_call(run.device_of().driver(), options, [&] { run({}, call.arguments); })
      .microseconds;
}

struct outcome {
  std::string name;
  std::string variant;
  bool right = false;
};

/// The speed of a memory-bound call as a share of the speed of a copy of as many bytes; blank for a
/// compute-bound call.
template <class Call>
[[nodiscard]] std::string share_of_copy(const Call& call, double microseconds,
                                        const quickstart::copy_speed& copies) {
  if (!Call::moves_memory) return std::string(26, ' ');
  std::array<char, 64> text{};
  const double ceiling = copies.of(call.work());
  std::snprintf(text.data(), text.size(), "%3.0f %% of a copy's %7.1f",
                100 * call.work() / microseconds / 1e3 / ceiling, ceiling);
  return text.data();
}

/// Runs, checks and times a call, and prints its line.
template <class Call>
[[nodiscard]] outcome run_call(sy::dispatcher<typename Call::operator_type>& run, Call& call,
                               const quickstart::copy_speed& copies) {
  const sy::explanation why = run.explain(call.arguments);
  call.reset();
  run({}, call.arguments);
  const quickstart::verdict verdict = verify(call);
  const double microseconds = time_call(run, call);
  std::printf("%-26s %-24s %-12s %10.1f us %8.1f %-8s %s  %.1e of %.1e, %lld rows: %s\n", call.name.c_str(),
              why.variant.c_str(), std::string{to_string(why.chosen.why)}.c_str(), microseconds,
              call.work() / microseconds / 1e3, Call::work_unit,
              share_of_copy(call, microseconds, copies).c_str(), verdict.error, verdict.tolerance,
              static_cast<long long>(verdict.rows), verdict.holds() ? "right" : "WRONG");
  std::fflush(stdout);
  return {call.name, why.variant, verdict.holds()};
}

struct dispatchers {
  sy::dispatcher<sy::operators::rotary> rotary;
  sy::dispatcher<sy::operators::attention_forward> attention;
};

[[nodiscard]] std::vector<outcome> run_layer(dispatchers& run, layer& calls,
                                             const quickstart::copy_speed& copies) {
  std::printf("%-26s %-24s %-12s %13s %17s %-26s  %s\n", "call", "variant", "reason", "median time",
              "achieved", "beside a copy of its bytes", "error of tolerance");
  std::vector<outcome> out;
  for (rotary_call& each : calls.rotary) out.push_back(run_call(run.rotary, each, copies));
  for (attention_call& each : calls.attention) out.push_back(run_call(run.attention, each, copies));
  return out;
}

/// The path of the table that was measured on the device, or the path where it would be.
[[nodiscard]] std::filesystem::path find_table(const std::filesystem::path& root, sy::catalog& catalog,
                                               const sy::operator_description& op,
                                               const sy::device_properties& device) {
  for (const auto& each : catalog.files(op).tables) {
    if (each->device.name == device.name && each->device.arch == device.arch) return each->path;
  }
  return root / "tables" / op.name / "quickstart.json";
}

/// Times one variant of each call, selected by `pick` from its explanation, and replaces the device's table
/// by these times. Returns the number of rows.
template <class Call, class Pick>
[[nodiscard]] std::size_t write_table(const std::filesystem::path& root, sy::catalog& catalog,
                                      sy::dispatcher<typename Call::operator_type>& run,
                                      std::vector<Call>& calls, const Pick& pick) {
  using operator_type = typename Call::operator_type;
  const sy::operator_description& op = sy::describe<operator_type>();
  const sy::device_properties& device = run.device_of().properties();
  std::vector<quickstart::measured_row> rows;
  for (Call& call : calls) {
    const std::string variant = pick(run.explain(call.arguments));
    if (variant.empty()) continue;
    sy::catalog_options options{.roots = {root.string()}, .tables = {}, .default_roots = false};
    options.settings = {};
    options.settings.forced = {{std::string{op.name}, variant}};
    sy::catalog forced_catalog{std::move(options)};
    sy::dispatcher<operator_type> forced{forced_catalog, run.device_of()};
    call.reset();
    const double microseconds = time_call(forced, call);
    const auto problem = sy::make_problem<operator_type>(call.arguments);
    rows.push_back({{problem.begin(), problem.end()}, variant, microseconds});
  }
  const std::filesystem::path path = find_table(root, catalog, op, device);
  const bool existed = std::filesystem::exists(path);
  quickstart::replace_file(path, quickstart::make_table(op, device, rows).dump(1));
  std::printf("%s %s: %zu rows\n", existed ? "replaced" : "wrote", path.c_str(), rows.size());
  return rows.size();
}

[[nodiscard]] std::string pick_chosen(const sy::explanation& why) {
  return why.variant;
}

/// The first other variant that may serve the call.
[[nodiscard]] std::string pick_other(const sy::explanation& why) {
  const auto other = std::find_if(why.candidates.begin(), why.candidates.end(), [&why](const auto& each) {
    return each.admissible && each.variant != why.variant;
  });
  return other == why.candidates.end() ? std::string{} : other->variant;
}

/// Writes a table with the times of the default choices if this device has no table, so that there is one to
/// replace.
template <class Call>
void write_missing_table(const std::filesystem::path& root, sy::catalog& catalog,
                         sy::dispatcher<typename Call::operator_type>& run, std::vector<Call>& calls) {
  const sy::operator_description& op = sy::describe<typename Call::operator_type>();
  if (std::filesystem::exists(find_table(root, catalog, op, run.device_of().properties()))) return;
  (void)write_table(root, catalog, run, calls, pick_chosen);
}

/// Waits until the watching catalog has read the new tables. False after ten seconds.
[[nodiscard]] bool wait_for_change(dispatchers& run, const layer& calls, const std::vector<outcome>& before) {
  const auto start = std::chrono::steady_clock::now();
  while (seconds{std::chrono::steady_clock::now() - start}.count() < 10) {
    const bool rotary = run.rotary.explain(calls.rotary.front().arguments).variant != before.front().variant;
    const bool attention =
        run.attention.explain(calls.attention.back().arguments).variant != before.back().variant;
    if (rotary && attention) {
      std::printf("the catalog read them after %.0f ms\n\n",
                  1e3 * seconds{std::chrono::steady_clock::now() - start}.count());
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  std::printf("the catalog did not read them within 10 s\n");
  return false;
}

[[nodiscard]] int run(bool on_host) {
  const auto start = std::chrono::steady_clock::now();
  const sy::device device = on_host ? sy::device::host() : sy::device::current();
  const sy::environment settings = sy::environment::read();
  const quickstart::temporary_tree tree{sy::catalog{}.roots(), {"rotary", "attention_forward"}};

  sy::catalog_options options{
      .roots = {tree.folder().string()}, .tables = settings.tables, .default_roots = false};
  sy::catalog catalog{std::move(options)};
  dispatchers dispatch{{catalog, device}, {catalog, device}};
  layer calls{device};
  std::printf("a layer of Llama-3.1-8B in bf16 on %s (%s %s)\n", device.properties().name.c_str(),
              device.properties().backend.c_str(), device.properties().arch.c_str());
  const quickstart::copy_speed copies{device};
  std::printf("copying %.1f GB moves %.1f GB/s, counting what is read and what is written\n\n",
              copies.most_bytes() / 2e9, copies.of(copies.most_bytes()));
  write_missing_table(tree.folder(), catalog, dispatch.rotary, calls.rotary);
  write_missing_table(tree.folder(), catalog, dispatch.attention, calls.attention);
  (void)catalog.reload();
  const std::vector<outcome> before = run_layer(dispatch, calls, copies);
  const auto all_right = [](const std::vector<outcome>& all) {
    return std::all_of(all.begin(), all.end(), [](const outcome& each) { return each.right; });
  };
  bool good = all_right(before);
  if (!settings.forced.empty()) {
    std::printf("\nSWITCHYARD_FORCE overrides every table, so none is replaced\n");
    return good ? 0 : 1;
  }

  // New tables without the variants that run now: a process that follows them must choose others.
  std::printf("\nmeasuring other variants\n");
  catalog.watch(std::chrono::milliseconds{50});
  const std::size_t rows =
      write_table(tree.folder(), catalog, dispatch.rotary, calls.rotary, pick_other) +
      write_table(tree.folder(), catalog, dispatch.attention, calls.attention, pick_other);
  if (!wait_for_change(dispatch, calls, before)) return 1;
  const std::vector<outcome> after = run_layer(dispatch, calls, copies);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) changed += after[i].variant != before[i].variant ? 1U : 0U;
  good = good && all_right(after) && changed == rows && rows > 0;
  std::printf("\n%zu of %zu choices changed, without a restart; %s; %.1f s in all\n", changed, after.size(),
              good ? "every result is right" : "FAILED",
              seconds{std::chrono::steady_clock::now() - start}.count());
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
