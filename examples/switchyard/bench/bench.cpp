// SPDX-License-Identifier: MIT
// switchyard bench: measures a table's shapes again. Does the chosen variant still win?
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/error.hpp>

#include "bench/result.hpp"
#include "bench/shape_bench.hpp"
#include "bench/shapes.hpp"
#include "command.hpp"
#include "tables/predictions.hpp"
#include "tables/table_files.hpp"
#include "tables/threshold.hpp"
#include "tune/benches.hpp"
#include "tune/measure.hpp"
#include "tune/process.hpp"
#include "tune/progress.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

struct bench_arguments {
  std::string table;
  shape_wishes shapes;
  bench_settings how;
  measure_arguments how_text;
  std::string threshold_text = "5%";
};

/// The session itself if the catalog finds the table, otherwise with the table as another overlay.
[[nodiscard]] session asking(const session& given, const table_file& table) {
  sy::catalog catalog{given.options()};
  const auto files = catalog.files(table.op());
  std::error_code ignored;
  for (const auto& list : {files.overlays, files.tables}) {
    for (const std::shared_ptr<const sy::table>& known : list) {
      if (fs::equivalent(known->path, table.content.path, ignored)) return given;
    }
  }
  session out = given;
  out.tables.push_back(table.content.path);
  return out;
}

/// Throws if the table is of another device than the process uses.
void require_same_device(const table_file& table, const sy::device_properties& device) {
  const std::string other = other_device_text(table.content.device, device);
  if (other.empty()) return;
  throw sy::file_error{sy::error_code::invalid_entry,
                       table.content.path + ": /device: " + other + "; their times are not comparable"};
}

[[nodiscard]] std::vector<bench_result> measure_all(bench_run& run, const std::vector<bench_shape>& shapes,
                                                    std::vector<std::unique_ptr<worker_process>>& workers) {
  std::vector<bench_result> out;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  const std::exception_ptr failure = run_workers(workers, [&](std::size_t i) {
    try {
      shape_bench bench{run, *workers[i], i};
      for (std::size_t mine = next++; mine < shapes.size() && !interrupted(); mine = next++) {
        bench_result found = bench.measure(shapes[mine]);
        run.bar->finished(i, line_of(found));
        const std::scoped_lock lock{mutex};
        out.push_back(std::move(found));
      }
    } catch (const worker_lost&) {  // interrupted
    }
  });
  run.bar->close();
  if (failure) std::rethrow_exception(failure);
  return out;
}

void run(bench_arguments arguments, session& session) {
  read_measure_options(arguments.how.how, arguments.how_text);
  arguments.how.threshold = 1 + require_threshold(arguments.threshold_text);
  const table_file table = read_measured_table(arguments.table);
  if (find_bench(table.op().name) == nullptr) {
    throw usage_error{
        "operator '" + std::string{table.op().name} +
        "' has no workload to measure it with (those that have: " + sy::text::join(bench_names()) + ")"};
  }
  const std::vector<bench_shape> shapes = shapes_of(table, arguments.shapes);
  catch_signals();
  std::vector<std::unique_ptr<worker_process>> workers;
  for (const device_place& place : require_devices(arguments.how.how.devices)) {
    workers.push_back(
        std::make_unique<worker_process>(session, std::string{table.op().name}, place, interrupted()));
    workers.back()->start(std::chrono::seconds{60});
    require_same_device(table, workers.back()->device());
    // A worker process ends with the thread that started it, so each thread starts its own.
    workers.back()->kill();
  }
  sy::catalog catalog{asking(session, table).options()};
  const auto rules = catalog.make_selector(table.op(), workers.front()->device());
  bench_run shared{arguments.how, table, rules, tables_only(*rules),
                   std::make_unique<progress>(stderr, shapes.size(), 0, std::nullopt)};
  std::vector<bench_result> results = measure_all(shared, shapes, workers);
  settle(table, results);
  std::stable_sort(results.begin(), results.end(), [](const bench_result& a, const bench_result& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.behind.value > b.behind.value;
  });
  const bench_summary found = summarise(results);
  if (interrupted()) {
    session.status = status_interrupted();
  } else if (found.compared == 0 && found.of(bench_outcome::failed) == 0) {
    session.status = status_error;
  } else if (found.of(bench_outcome::behind) + found.of(bench_outcome::failed) + found.rows_left_out > 0) {
    session.status = status_finding;
  }
  if (session.json) {
    print_results_as_json(table, arguments.how.threshold, results, session.status);
  } else {
    print_results(table, arguments.how.threshold, results);
  }
}

}  // namespace

void add_bench(CLI::App& app, session& session) {
  CLI::App* const command = app.add_subcommand(
      "bench",
      "Measure a table's shapes again on this machine's devices: does the chosen variant still win?");
  const auto arguments = std::make_shared<bench_arguments>();
  command
      ->add_option("table", arguments->table,
                   "The table. One outside the search path is used as an overlay, as with --tables")
      ->required();
  command->add_option("filter", arguments->shapes.filter,
                      "Only shapes with these axis values: axis=value ...");
  command
      ->add_option("--rows", arguments->shapes.rows,
                   "Measure this many of its rows, spread evenly. Default: all")
      ->check(CLI::PositiveNumber);
  command->add_flag(
      "--between", arguments->shapes.between,
      "Also measure shapes halfway between neighbouring rows, which the table does not contain");
  command
      ->add_option("--candidates", arguments->how.candidates,
                   "Time this many rivals of the chosen variant, the best predicted ones")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  command->add_flag("--exhaustive", arguments->how.exhaustive,
                    "Time every variant that may serve, with full precision");
  add_threshold(*command, arguments->threshold_text,
                "The chosen variant may take this share longer than the best one");
  add_measure_options(*command, arguments->how.how, arguments->how_text);
  command->footer(
      "A shape is behind if the ratio of the chosen variant's time to the best time exceeds the threshold, "
      "even at the lower end of its uncertainty, and unclear if only the ratio itself does. It has failed if "
      "the chosen variant is wrong, crashes or "
      "hangs. Whether a row's recorded time still holds is printed, but does not affect the exit status. "
      "Exit status: 0: every shape is within the threshold. 1: a shape is behind or failed, or a row could "
      "not be measured. 2: no shape could be measured. 130 or 143: interrupted.");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
