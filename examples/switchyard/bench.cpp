// SPDX-License-Identifier: MIT
// switchyard bench: measures a table's shapes again. Does the chosen variant still win?
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tune/tables/put_row.hpp>
#include <switchyard/tune/tables/ties.hpp>

#include "bench_shapes.hpp"
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
using nlohmann::ordered_json;

namespace tool {

namespace {

struct bench_arguments {
  std::string table;
  shape_wishes shapes;
  measure_settings how;
  measure_arguments how_text;
  std::size_t candidates = 8;
  bool exhaustive = false;
  double threshold = 1.05;  ///< as a ratio
  std::string threshold_text = "5%";
};

/// A ratio of two times and the interval that both times' intervals leave it.
struct time_ratio {
  double value = 1;
  double low = 1;
  double high = 1;
};

[[nodiscard]] time_ratio ratio_of(const sy::tune::timed& a, const sy::tune::timed& b) {
  return {a.microseconds / b.microseconds, a.low / b.high, a.high / b.low};
}

/// What became of a shape, worst first: the order of the output.
/// Unclear: the ratio is beyond the threshold, but not beyond what the measurements may be off by.
enum class outcome : std::uint8_t { failed, behind, left_out, unclear, within };
constexpr std::array<std::string_view, 5> outcome_names{"failed", "behind", "left out", "unclear", "within"};

struct result {
  outcome kind = outcome::within;
  sy::reason reason = sy::reason::none;  ///< of the choice
  bool between = false;
  bool unsteady = false;  ///< the device drifted in every attempt
  bool drifted = false;   ///< the row's time is off by more than the threshold, beyond the uncertainty
  bool holds = false;     ///< the row's time is within the threshold; neither: the measurements cannot tell
  std::string text;       ///< "dtype=f32 rows=64"
  std::string why;        ///< of one that failed or was left out
  std::string chosen;
  std::string best;
  sy::tune::timed chosen_time;
  sy::tune::timed best_time;
  time_ratio behind;                ///< chosen over best
  double recorded = 0;              ///< the row's time of the chosen variant; 0: it has none
  std::optional<time_ratio> drift;  ///< measured over recorded
  std::size_t measured = 0;         ///< variants
  std::size_t serving = 0;          ///< that may serve it
  std::vector<std::string> failures;
  // For settling ties as the tuner does.
  std::vector<std::int64_t> full;
  std::vector<sy::axis_value> type;
  std::vector<sy::tune::row_entry> times;
  std::optional<std::string> settled;  ///< what the tuner would put first, where that is not the chosen one

  [[nodiscard]] bool has_ratio() const noexcept {
    return kind == outcome::within || kind == outcome::unclear || kind == outcome::behind;
  }
};

/// What the workers of a run share.
struct bench_run {
  const bench_arguments& arguments;
  const table_file& table;
  std::shared_ptr<const sy::selector> rules;
  sy::selector of_tables;
  std::unique_ptr<progress> bar;
};

/// One worker, measuring one shape after the other.
class shape_bench {
 public:
  shape_bench(bench_run& run, worker_process& worker, std::size_t index)
      : run_{run}, index_{index}, worker_{run.table.op(),
                                          run.arguments.how,
                                          worker,
                                          interrupted(),
                                          {},
                                          [this] { show("set up"); }} {}

  [[nodiscard]] result measure(const bench_shape& shape) {
    result_ = {};
    seen_.clear();
    result_.text = shape.problem.text(run_.table.op());
    result_.between = shape.between;
    result_.type = shape.problem.type;
    try {
      measure_all(shape.problem);
    } catch (const left_out& why) {
      result_.kind = outcome::left_out;
      result_.why = why.what();
    }
    return std::move(result_);
  }

 private:
  void show(const std::string& doing) { run_.bar->update(index_, result_.text + ": " + doing, {}); }

  void measure_all(const tuning_problem& problem) {
    worker_.begin(problem);
    result_.full = worker_.full();
    const sy::choice choice = sy::select_fitting(*run_.rules, result_.full);
    if (choice.variant == sy::no_index) throw left_out{"no variant may serve it"};
    result_.chosen = run_.rules->candidates[choice.variant].variant->id;
    result_.reason = choice.why;
    const std::vector<serving> wanted = rivals(choice.variant);
    const race_outcome all = race(wanted, run_.arguments.exhaustive);
    const raced_variant* rival = nullptr;
    bool has_chosen = false;
    for (const raced_variant& each : all.times) {
      result_.times.push_back({each.variant.id, each.time.microseconds});
      if (each.variant.id == result_.chosen) {
        has_chosen = true;
      } else if (rival == nullptr) {
        rival = &each;
      }
    }
    if (!has_chosen || !compare(wanted.front(), rival == nullptr ? nullptr : &rival->variant)) return fail();
    judge();
  }

  /// The chosen variant cannot be used.
  void fail() {
    result_.kind = outcome::failed;
    result_.why = result_.failures.back();
  }

  /// The chosen variant, then the others that may serve: best predicted first, those of which the tables say
  /// nothing in the manifests' order.
  [[nodiscard]] std::vector<serving> rivals(std::uint32_t chosen) {
    struct ranked {
      serving variant;
      double predicted;
    };
    std::vector<ranked> others;
    std::vector<serving> out;
    for (const serving& each : worker_.variants()) {
      for (std::uint32_t i = 0; i < run_.rules->candidates.size(); ++i) {
        // What a table denies is no rival, and of one id the most specific target runs.
        if (run_.rules->candidates[i].variant->id != each.id) continue;
        if (!run_.rules->admissible(i, result_.full, {})) continue;
        ++result_.serving;
        if (each.id == run_.rules->candidates[chosen].variant->id) {
          out.push_back(each);
        } else {
          others.push_back({each, predict(run_.of_tables, i, result_.full).microseconds});
        }
        break;
      }
    }
    if (out.empty()) throw left_out{"the files have changed since the run began"};
    std::stable_sort(others.begin(), others.end(), [](const ranked& a, const ranked& b) {
      if ((a.predicted > 0) != (b.predicted > 0)) return a.predicted > 0;
      return a.predicted < b.predicted;
    });
    if (!run_.arguments.exhaustive && others.size() > run_.arguments.candidates)
      others.resize(run_.arguments.candidates);
    for (ranked& each : others) out.push_back(std::move(each.variant));
    return out;
  }

  /// Times in turns, of those that were right before and after.
  [[nodiscard]] race_outcome race(const std::vector<serving>& variants, bool exhaustive) {
    const auto fail_one = [this](const serving& variant, const std::string& why) {
      result_.failures.push_back(variant.id + ": " + why);
      run_.bar->failed(variant.id + " at " + result_.text + ": " + why);
    };
    race_outcome out =
        worker_.race(variants, exhaustive,
                     {[this](const std::string& doing, const std::string& /*best*/) { show(doing); },
                      [&](const serving& variant, const std::string& why, bool) { fail_one(variant, why); }});
    std::erase_if(out.times, [&](const raced_variant& each) {
      std::string why;
      try {
        worker_.confirm(each.variant);
        if (std::find(seen_.begin(), seen_.end(), each.variant.id) == seen_.end())
          seen_.push_back(each.variant.id);
        return false;
      } catch (const worker_lost& lost) {
        if (lost.why() == worker_lost::kind::interrupted) throw;
        why = lost.what();
      } catch (const not_measured& problem) {
        why = problem.what();
      }
      fail_one(each.variant, why);
      return true;
    });
    return out;
  }

  /// Times that count: of the chosen variant and its strongest rival. That rival is the least of many times,
  /// and so likely to have been lucky; here it is measured anew. False where the chosen one fails.
  [[nodiscard]] bool compare(const serving& chosen, const serving* rival) {
    std::vector<serving> both{chosen};
    if (rival != nullptr) both.push_back(*rival);
    constexpr int attempts = 3;
    double least_drift = HUGE_VAL;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const race_outcome found = race(both, true);
      const sy::tune::timed* first = nullptr;
      const sy::tune::timed* other = nullptr;
      for (const raced_variant& each : found.times)
        (each.variant.id == chosen.id ? first : other) = &each.time;
      if (first == nullptr) return false;
      if (found.drift < least_drift) {
        least_drift = found.drift;
        result_.chosen_time = *first;
        const bool wins = other == nullptr || first->microseconds <= other->microseconds;
        result_.best = wins ? chosen.id : rival->id;
        result_.best_time = wins ? *first : *other;
        for (sy::tune::row_entry& each : result_.times) {
          if (each.variant == chosen.id) each.microseconds = first->microseconds;
          if (other != nullptr && each.variant == rival->id) each.microseconds = other->microseconds;
        }
      }
      result_.unsteady = !found.steady;
      if (found.steady) break;
    }
    if (result_.best != result_.chosen) result_.behind = ratio_of(result_.chosen_time, result_.best_time);
    return true;
  }

  void judge() {
    result_.measured = seen_.size();
    const double threshold = run_.arguments.threshold;
    result_.kind = result_.behind.low > threshold     ? outcome::behind
                   : result_.behind.value > threshold ? outcome::unclear
                                                      : outcome::within;
    if (result_.between) return;
    for (const sy::row_group& group : run_.table.content.groups) {
      if (group.type != result_.type) continue;
      const std::size_t row = sy::tune::find_row(group, result_.full);
      if (row == group.row_count()) continue;
      result_.recorded = time_of(group, row, result_.chosen);
      if (result_.recorded == 0) return;
      const double off = group.row_uncertainty(row);
      const sy::tune::timed then{result_.recorded, result_.recorded / (1 + off), result_.recorded * (1 + off),
                                 0, 0};
      result_.drift = ratio_of(result_.chosen_time, then);
      result_.drifted = result_.drift->low > threshold || result_.drift->high < 1 / threshold;
      result_.holds = result_.drift->value <= threshold && result_.drift->value >= 1 / threshold;
      return;
    }
  }

  bench_run& run_;
  std::size_t index_;
  measuring_worker worker_;
  result result_;
  std::vector<std::string> seen_;
};

/// Tells what the tuner would put first in each row, were it to tune today: ties are settled by what lies
/// around, so that a flip which noise alone makes is none.
void settle(const table_file& of, std::vector<result>& results) {
  sy::table tuned;
  tuned.operator_name = of.content.operator_name;
  tuned.match = of.content.match;
  for (const result& each : results) {
    if (!each.has_ratio()) continue;
    const double off = std::max(each.chosen_time.uncertainty(), each.best_time.uncertainty());
    sy::tune::put_row(tuned, of.op(), each.full, each.type, each.times, off, each.times.size());
  }
  sy::tune::settle_ties(tuned);
  for (result& each : results) {
    if (!each.has_ratio()) continue;
    const sy::row_group* const group = sy::tune::find_group(tuned, of.op(), each.type);
    const std::size_t row = sy::tune::find_row(*group, each.full);
    const std::string& first = group->ids[group->row_times(row).front().variant];
    if (first != each.chosen) each.settled = first;
  }
}

struct summary {
  std::size_t count[outcome_names.size()]{};  // NOLINT(modernize-avoid-c-arrays): by outcome
  std::size_t compared = 0;
  double mean = 1;
  double p99 = 1;
  const result* worst = nullptr;  ///< null where every choice won
  std::size_t flips = 0;          ///< another variant was faster
  std::size_t clear_flips = 0;    ///< beyond the uncertainty
  std::size_t settled_flips = 0;  ///< the tuner would put another first
  std::size_t with_record = 0;
  std::size_t drifted = 0;
  std::size_t unsteady = 0;
  std::size_t rows_left_out = 0;

  [[nodiscard]] std::size_t of(outcome kind) const { return count[static_cast<std::size_t>(kind)]; }
};

[[nodiscard]] summary summarise(const std::vector<result>& results) {
  summary out;
  std::vector<double> ratios;
  double logarithms = 0;
  for (const result& each : results) {
    ++out.count[static_cast<std::size_t>(each.kind)];
    if (each.kind == outcome::left_out && !each.between) ++out.rows_left_out;
    if (!each.has_ratio()) continue;
    ratios.push_back(each.behind.value);
    logarithms += std::log(each.behind.value);
    if (each.behind.value > (out.worst == nullptr ? 1 : out.worst->behind.value)) out.worst = &each;
    out.flips += each.best != each.chosen ? 1U : 0U;
    out.clear_flips += each.behind.low > 1 ? 1U : 0U;
    out.settled_flips += each.settled ? 1U : 0U;
    out.with_record += each.drift ? 1U : 0U;
    out.drifted += each.drifted ? 1U : 0U;
    out.unsteady += each.unsteady ? 1U : 0U;
  }
  out.compared = ratios.size();
  if (ratios.empty()) return out;
  std::sort(ratios.begin(), ratios.end());
  out.mean = std::exp(logarithms / static_cast<double>(ratios.size()));
  out.p99 = ratios[(99 * ratios.size() + 99) / 100 - 1];  // the nearest rank
  return out;
}

[[nodiscard]] std::string interval_text(const time_ratio& of) {
  char text[64];  // NOLINT(modernize-avoid-c-arrays): for snprintf
  std::snprintf(text, sizeof text, "%.3f (%.3f to %.3f)", of.value, of.low, of.high);
  return text;
}

[[nodiscard]] std::string line_of(const result& each) {
  std::string out = std::string{outcome_names[static_cast<std::size_t>(each.kind)]} + "  " + each.text +
                    (each.between ? " (between rows)" : "") + ": ";
  if (!each.has_ratio()) return out + each.why;
  out += each.chosen + " " + sy::text::number(each.chosen_time.microseconds) + " us";
  if (each.best == each.chosen) {
    out += " wins, " + std::to_string(each.measured) + " of " + std::to_string(each.serving) +
           " variants measured";
  } else {
    out += ", best " + each.best + " " + sy::text::number(each.best_time.microseconds) + " us, ratio " +
           interval_text(each.behind);
  }
  if (each.drift) {
    out += "; recorded " + sy::text::number(each.recorded) + " us " +
           (each.holds ? std::string{"holds"}
                       : (each.drifted ? "no longer holds, ratio " : "may no longer hold, ratio ") +
                             interval_text(*each.drift));
  }
  if (each.unsteady) out += "; unsteady";
  return out;
}

void print_text(const bench_arguments& arguments, const table_file& table,
                const std::vector<result>& results) {
  for (const result& each : results) std::printf("%s\n", line_of(each).c_str());
  const summary found = summarise(results);
  std::printf(
      "%s on %s: of %zu shapes, %zu are within %.4g %% of the best, %zu unclear, %zu behind, %zu failed, %zu "
      "left "
      "out\n",
      table.content.operator_name.c_str(), table.content.device.name.c_str(), results.size(),
      found.of(outcome::within), (arguments.threshold - 1) * 100, found.of(outcome::unclear),
      found.of(outcome::behind), found.of(outcome::failed), found.of(outcome::left_out));
  if (found.compared == 0) return;
  std::printf("chosen over best: %.4f in the geometric mean, %.4f at the 99th percentile\n", found.mean,
              found.p99);
  if (found.worst != nullptr) {
    std::printf("worst: %s: %s behind %s, ratio %s\n", found.worst->text.c_str(), found.worst->chosen.c_str(),
                found.worst->best.c_str(), interval_text(found.worst->behind).c_str());
  }
  std::printf(
      "flips: another variant is faster at %zu, beyond the uncertainty at %zu; `tune` would put "
      "another first at %zu\n",
      found.flips, found.clear_flips, found.settled_flips);
  std::printf("recorded times: %zu of %zu no longer hold; unsteady shapes: %zu\n", found.drifted,
              found.with_record, found.unsteady);
}

[[nodiscard]] ordered_json json_of(const time_ratio& of) {
  return {{"value", of.value}, {"low", of.low}, {"high", of.high}};
}

[[nodiscard]] ordered_json json_of(const result& each) {
  ordered_json out{{"outcome", outcome_names[static_cast<std::size_t>(each.kind)]},
                   {"shape", each.text},
                   {"between", each.between}};
  if (!each.why.empty()) out["why"] = each.why;
  if (!each.chosen.empty()) {
    out["chosen"] = each.chosen;
    out["reason"] = to_string(each.reason);
  }
  if (each.has_ratio()) {
    out["chosen_us"] = each.chosen_time.microseconds;
    out["best"] = each.best;
    out["best_us"] = each.best_time.microseconds;
    out["ratio"] = json_of(each.behind);
    out["unsteady"] = each.unsteady;
    out["variants_measured"] = each.measured;
    out["variants_serving"] = each.serving;
    if (each.settled) out["tune_would_choose"] = *each.settled;
  }
  if (each.drift) {
    out["recorded_us"] = each.recorded;
    out["drift"] = json_of(*each.drift);
    out["drifted"] = each.drifted;
    out["holds"] = each.holds;
  }
  if (!each.failures.empty()) out["failures"] = each.failures;
  return out;
}

void print_json(const bench_arguments& arguments, const table_file& table, const std::vector<result>& results,
                int status) {
  const summary found = summarise(results);
  ordered_json document{{"table", arguments.table},
                        {"operator", table.content.operator_name},
                        {"device", table.content.device.name},
                        {"threshold", arguments.threshold - 1},
                        {"status", status},
                        {"within", found.of(outcome::within)},
                        {"unclear", found.of(outcome::unclear)},
                        {"behind", found.of(outcome::behind)},
                        {"failed", found.of(outcome::failed)},
                        {"left_out", found.of(outcome::left_out)}};
  if (found.compared > 0) {
    document["geometric_mean"] = found.mean;
    document["p99"] = found.p99;
    if (found.worst != nullptr) document["worst"] = found.worst->text;
    document["flips"] = {{"faster", found.flips},
                         {"beyond_uncertainty", found.clear_flips},
                         {"tune_would_choose", found.settled_flips}};
    document["drifted"] = found.drifted;
    document["unsteady"] = found.unsteady;
  }
  document["shapes"] = ordered_json::array();
  for (const result& each : results) document["shapes"].push_back(json_of(each));
  std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

/// The session as it is where the catalog finds the table; else with the table as one more overlay.
[[nodiscard]] session asking(const session& given, const table_file& table) {
  sy::catalog catalog{given.options()};
  const auto files = catalog.files(table.op());
  std::error_code ignored;
  for (const auto& list : {files.overlays, files.tables}) {
    for (const std::shared_ptr<const sy::table>& each : list) {
      if (fs::equivalent(each->path, table.content.path, ignored)) return given;
    }
  }
  session out = given;
  out.tables.push_back(table.content.path);
  return out;
}

/// Throws where the table is of another device than the process's.
void require_same_device(const table_file& table, const sy::device_properties& device) {
  const std::string& name = table.content.device.name;
  if (name.empty() || name == device.name) return;
  throw sy::file_error{sy::error_code::invalid_entry, table.content.path + ": /device: was measured on " +
                                                          name + ", and this is " + device.name +
                                                          "; their times are not comparable"};
}

[[nodiscard]] std::vector<result> measure_all(bench_run& run, const std::vector<bench_shape>& shapes,
                                              std::vector<std::unique_ptr<worker_process>>& workers) {
  std::vector<result> out;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(workers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        shape_bench bench{run, *workers[i], i};
        for (std::size_t mine = next++; mine < shapes.size() && !interrupted(); mine = next++) {
          result found = bench.measure(shapes[mine]);
          run.bar->finished(i, line_of(found));
          const std::scoped_lock lock{mutex};
          out.push_back(std::move(found));
        }
      } catch (const worker_lost&) {  // interrupted
      } catch (...) {
        failures[i] = std::current_exception();
      }
      workers[i]->kill();
    });
  }
  for (std::thread& each : threads) each.join();
  run.bar->close();
  for (const std::exception_ptr& each : failures) {
    if (each) std::rethrow_exception(each);
  }
  return out;
}

void run(bench_arguments arguments, session& session) {
  read_measure_options(arguments.how, arguments.how_text);
  arguments.threshold = 1 + require_threshold(arguments.threshold_text);
  const table_file table = read_measured_table(arguments.table);
  if (find_bench(table.op().name) == nullptr) {
    throw usage_error{
        "operator '" + std::string{table.op().name} +
        "' has no workload to measure it with (those that have: " + sy::text::join(bench_names()) + ")"};
  }
  const std::vector<bench_shape> shapes = shapes_of(table, arguments.shapes);
  catch_signals();
  std::vector<std::unique_ptr<worker_process>> workers;
  for (const device_place& each : require_devices(arguments.how.devices)) {
    workers.push_back(
        std::make_unique<worker_process>(session, std::string{table.op().name}, each, interrupted()));
    workers.back()->start(std::chrono::seconds{60});
    require_same_device(table, workers.back()->device());
    // A process dies with the thread that started it; each thread starts its own.
    workers.back()->kill();
  }
  sy::catalog catalog{asking(session, table).options()};
  const auto rules = catalog.rules(table.op(), workers.front()->device());
  bench_run shared{arguments, table, rules, tables_only(*rules),
                   std::make_unique<progress>(stderr, shapes.size(), 0, std::nullopt)};
  std::vector<result> results = measure_all(shared, shapes, workers);
  settle(table, results);
  std::stable_sort(results.begin(), results.end(), [](const result& a, const result& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.behind.value > b.behind.value;
  });
  const summary found = summarise(results);
  if (interrupted()) {
    session.status = status_interrupted();
  } else if (found.compared == 0 && found.of(outcome::failed) == 0) {
    session.status = status_error;
  } else if (found.of(outcome::behind) + found.of(outcome::failed) + found.rows_left_out > 0) {
    session.status = status_finding;
  }
  if (session.json) {
    print_json(arguments, table, results, session.status);
  } else {
    print_text(arguments, table, results);
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
      ->add_option("--candidates", arguments->candidates,
                   "Time this many rivals of the chosen variant, the best predicted ones")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  command->add_flag("--exhaustive", arguments->exhaustive,
                    "Time every variant that may serve, with full precision");
  add_threshold(*command, arguments->threshold_text,
                "The chosen variant may take this share longer than the best one");
  add_measure_options(*command, arguments->how, arguments->how_text);
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
