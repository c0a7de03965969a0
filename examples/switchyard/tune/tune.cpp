// SPDX-License-Identifier: MIT
// switchyard tune: the command line.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/io/file.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "tune/batches.hpp"
#include "tune/benches.hpp"
#include "tune/measure.hpp"
#include "tune/problems.hpp"
#include "tune/process.hpp"
#include "tune/run.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] sy::tune::shard require_shard(const std::string& text) {
  if (text.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet
    return sy::tune::shard_of([](const char* name) { return std::getenv(name); });
  }
  sy::tune::shard out;
  const char* const end = text.data() + text.size();
  const auto [slash, problem] = std::from_chars(text.data(), end, out.index);
  if (problem == std::errc{} && slash != end && *slash == '/') {
    const auto [stop, other] = std::from_chars(slash + 1, end, out.count);
    out.source = "--shard";
    if (other == std::errc{} && stop == end && out.index < out.count) return out;
  }
  throw usage_error{"--shard: expected K/N with K below N, such as 0/4, got '" + text + "'"};
}

/// On a host with several ranks, each rank uses its own device.
[[nodiscard]] std::vector<device_place> devices_of_rank(const tune_settings& settings,
                                                        const sy::tune::shard& part) {
  if (!settings.how.devices.empty() || !part.local) return require_devices(settings.how.devices);
  const auto all = require_devices("all");
  return {all[*part.local % all.size()]};
}

/// The operators to tune, each with its share of the time.
[[nodiscard]] std::vector<std::pair<const known_operator*, double>> operators_of(
    const tune_settings& settings) {
  std::vector<std::pair<const known_operator*, double>> out;
  const auto add = [&out](const std::string& name, double weight) {
    const known_operator& known = require_operator(name);
    if (find_bench(name) == nullptr) {
      throw usage_error{"operator '" + name + "' has no workload to measure it with (those that have: " +
                        sy::text::join(bench_names()) + ")"};
    }
    out.emplace_back(&known, weight);
  };
  if (!settings.operator_name.empty()) {
    add(settings.operator_name, 1);
  } else if (!settings.refresh.empty()) {
    const auto document =
        sy::parse_json(sy::read_file(settings.refresh, sy::max_json_bytes), settings.refresh);
    const sy::json_place file{document, settings.refresh};
    add(file.at("operator").string(), 1);
  } else {
    for (const auto& [name, calls] : recorded_operators(settings.recordings)) {
      if (find_operator(name) == nullptr || find_bench(name) == nullptr) {
        std::fprintf(stderr,
                     "switchyard: operator '%s' of the recording cannot be measured by this program; "
                     "skipped\n",
                     sy::text::printable(name).c_str());
        continue;
      }
      add(name, calls);
    }
  }
  return out;
}

struct raw_arguments {
  tune_settings settings;
  measure_arguments how;
  std::string budget;
};

void run(raw_arguments arguments, session& session) {
  tune_settings& settings = arguments.settings;
  read_measure_options(settings.how, arguments.how);
  if (!arguments.budget.empty()) settings.budget_seconds = require_duration("--budget", arguments.budget);
  if (settings.operator_name.empty() && !settings.words.empty())
    throw usage_error{"name the operator before its axes"};
  if (settings.words.empty() && settings.recordings.empty() && settings.refresh.empty()) {
    throw usage_error{
        "nothing to measure: name axes and values, such as seqlen=128..8192*2, or a recording "
        "(--problems), or a table (--refresh)"};
  }
  if ((settings.stale || !settings.variant.empty()) && settings.refresh.empty())
    throw usage_error{"--stale and --variant choose among the rows of a table: name it with --refresh"};
  if (settings.output.empty() && settings.refresh.empty())
    throw usage_error{"--output: name the table to write, or a folder that ends in '/'"};
  const auto operators = operators_of(settings);
  if (operators.empty()) throw usage_error{"the recording contains no problem that this program can measure"};
  const std::string& output = settings.output.empty() ? settings.refresh : settings.output;
  std::error_code ignored;
  if (operators.size() > 1 && !output.ends_with('/') && !std::filesystem::is_directory(output, ignored)) {
    throw usage_error{
        "the recording has problems of " + std::to_string(operators.size()) +
        " operators, and each gets its own table: name a folder that ends in '/', or one operator"};
  }
  if (!settings.replaces.empty() && settings.recordings.empty()) {
    throw usage_error{"--replaces: name lists of the problems that the new tables are to have (--problems)"};
  }
  const sy::tune::shard part = require_shard(settings.shard);
  catch_signals();
  const auto begin = std::chrono::steady_clock::now();
  tuned_devices devices{devices_of_rank(settings, part)};
  const std::vector<batch> batches = batches_of(session, settings, operators, devices);
  if (settings.plan) {
    print_plan(session, settings, batches, devices, part);
    if (interrupted()) session.status = status_interrupted();
    return;
  }
  if (settings.budget_seconds) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    settings.budget_seconds = std::max(0.1, *settings.budget_seconds - spent.count());
  }
  const std::size_t measured = measure_batches(session, settings, batches, devices, part);
  if (interrupted()) {
    session.status = status_interrupted();
  } else if (measured == 0 && !settings.budget_seconds) {
    session.status = status_error;
  }
}

}  // namespace

void add_tune(CLI::App& app, session& session) {
  const auto arguments = std::make_shared<raw_arguments>();
  tune_settings& wanted = arguments->settings;
  CLI::App* const command = app.add_subcommand("tune",
                                               "Check and time every variant that may serve each problem, on "
                                               "this machine's devices, and write a table");
  command->add_option("operator", wanted.operator_name,
                      "Name of the operator; optional if a recording or a table names it");
  command->add_option("axes", wanted.words,
                      "axis=1,2,8..64*2,100..400+100: values and ranges; every combination is measured. "
                      "The type axes named here form the type of the rows; the rows serve every value of the "
                      "other type axes");
  command
      ->add_option(
          "--problems", wanted.recordings,
          "A recording (SWITCHYARD_RECORD, `switchyard record`) or a list such as those of tables/problems; "
          "most frequent first. May be repeated. With --refresh, it says with which kinds and options rows "
          "are measured")
      ->allow_extra_args(false);
  command->add_option("--refresh", wanted.refresh,
                      "Measure the rows of this table again; overwrites it unless -o is given");
  command->add_flag("--stale", wanted.stale,
                    "With --refresh: only the rows that have times of kernels that were rebuilt since");
  command->add_option("--variant", wanted.variant,
                      "With --refresh: only the rows that have times of variants whose id has this text");
  command->add_option("-o,--output", wanted.output,
                      "The table; problems that it contains are not measured again. A folder, with a final "
                      "'/', gets OPERATOR/DEVICE.json");
  command
      ->add_option("--replaces", wanted.replaces,
                   "A folder of tables that the new ones are to replace. Rows of kernels that changed come "
                   "first, then those of other programs, then calls that no row decides, calls between "
                   "rows, and the rest")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--plan", wanted.plan,
                    "Print what would be measured, in this order, and measure nothing");
  command->add_option("--shard", wanted.shard,
                      "K/N: every N-th problem, into TABLE.shard-K-of-N.json. Default: from torchrun, MPI or "
                      "Slurm");
  command->add_option(
      "--budget", arguments->budget,
      "Stop after this time (90s, 10m, 2h); the most frequent and most distant problems come first. "
      "Several operators share the time: half of it in equal parts, half by calls");
  add_measure_options(*command, wanted.how, arguments->how);
  command->add_option("--most", wanted.most, "Keep this many of the fastest variants in a row")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_flag("--exhaustive", wanted.exhaustive,
                    "Time every variant with full precision; otherwise each round drops the slower half");
  command->add_flag("--deny", wanted.deny,
                    "Write variants that are known to be bad into the table's deny list");
  command->add_flag("--retry-bad", wanted.retry_bad, "Retry variants that are known to be bad");
  command->add_flag("--again", wanted.again, "Start over if the table exists");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
