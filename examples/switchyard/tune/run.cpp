// SPDX-License-Identifier: MIT
#include "tune/run.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/measurement.hpp>
#include <switchyard/files/read_measurement.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/measuring/cache_bytes.hpp>
#include <switchyard/tune/tables/put_row.hpp>
#include <switchyard/tune/tables/ties.hpp>
#include <switchyard/version.hpp>

#include "tables/measured.hpp"
#include "tune/journal.hpp"
#include "tune/measure.hpp"
#include "tune/problems.hpp"
#include "tune/progress.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::json;

namespace tool {

namespace {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

[[nodiscard]] std::string percent(double share) {
  return sy::text::number(100 * share) + " %";
}

[[nodiscard]] std::string tool_name() {
  return "switchyard " + std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
         std::to_string(SWITCHYARD_VERSION_MINOR) + "." + std::to_string(SWITCHYARD_VERSION_PATCH);
}

/// "NVIDIA H200" as a file name: "nvidia-h200".
[[nodiscard]] std::string file_name_of(const std::string& device) {
  std::string out;
  for (const char c : device) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "device" : out;
}

/// Takes in what a device said of its clocks when a time was taken.
void add_clocks(sy::measured_clocks& into, const json& answer) {
  if (!answer.contains("clock_mhz")) return;
  const auto widen = [&answer](sy::least_and_most& range, const char* name) {
    const auto value = answer.at(name).get<std::int64_t>();
    range.add({value, value});
  };
  widen(into.mhz, "clock_mhz");
  widen(into.memory_mhz, "memory_clock_mhz");
  widen(into.celsius, "celsius");
  // nvmlClocksThrottleReason...: software and hardware power caps and thermal limits.
  constexpr std::uint64_t power = 0x4 | 0x80;
  constexpr std::uint64_t thermal = 0x20 | 0x40;
  const auto slowdowns = answer.at("slowdowns").get<std::uint64_t>();
  const auto limit = [&](std::uint64_t bits, const char* name) {
    auto& limits = into.limited_by;
    if ((slowdowns & bits) != 0 && std::find(limits.begin(), limits.end(), name) == limits.end())
      limits.emplace_back(name);
  };
  limit(power, "power");
  limit(thermal, "temperature");
}

/// Which times of a table are of kernels that were rebuilt since.
class rebuilt_kernels {
 public:
  rebuilt_kernels(const session& session, const sy::operator_description& op)
      : catalog_{session.options()}, files_{catalog_.files(op)} {}

  /// Whether the group's i-th variant is installed, but nowhere with the blob that was measured.
  [[nodiscard]] bool has(const sy::row_group& group, std::size_t i) const {
    const std::string& measured = i < group.blobs.size() ? group.blobs[i] : std::string{};
    if (measured.empty()) return false;
    bool installed = false;
    for (const auto& manifest : files_.manifests) {
      for (const auto& each : manifest->variants) {
        if (each.id != group.ids[i] || contradict(each.type, group.type)) continue;
        if (sy::blob_fingerprint(each) == measured) return false;
        installed = true;
      }
    }
    return installed;
  }

 private:
  [[nodiscard]] static bool contradict(const std::vector<sy::axis_value>& a,
                                       const std::vector<sy::axis_value>& b) {
    return std::any_of(a.begin(), a.end(), [&b](const sy::axis_value& one) {
      return std::any_of(b.begin(), b.end(), [&one](const sy::axis_value& other) {
        return one.axis == other.axis && one.value != other.value;
      });
    });
  }

  sy::catalog catalog_;
  sy::catalog::contents files_;
};

/// What all workers of a run share.
class shared_run {
 public:
  shared_run(const tune_settings& wanted, const sy::operator_description& of,
             const sy::device_properties& measured_on, std::string table_file, const std::atomic<bool>& stop)
      : settings{wanted},
        op{of},
        device{measured_on},
        path{std::move(table_file)},
        notes{path + ".tuning.jsonl", op, device.name, settings_text(settings)},
        interrupted{stop} {
    if (settings.retry_bad) notes.forget_bad();
  }

  const tune_settings& settings;
  const sy::operator_description& op;
  sy::device_properties device;
  std::string path;
  journal notes;
  const std::atomic<bool>& interrupted;
  std::optional<clock::time_point> deadline;
  std::vector<tuning_problem> problems;
  std::unique_ptr<progress> bar;

  /// Reads the table that is there, if it may be continued. A new one matches problems to rows as the other
  /// tables of the operator do, those of its backend first.
  void read_table(const session& session) {
    table.operator_name = op.name;
    table.match.axes.assign(op.axes.size(), sy::axis_rule{});
    sy::catalog catalog{session.options()};
    const auto files = catalog.files(op);
    const auto near = std::find_if(files.tables.begin(), files.tables.end(), [this](const auto& each) {
      return each->device.backend == device.backend;
    });
    if (near != files.tables.end()) {
      table.match = (*near)->match;
    } else if (!files.tables.empty()) {
      table.match = files.tables.front()->match;
    }
    std::error_code ignored;
    if (!settings.again && fs::exists(path, ignored)) {
      sy::warnings warned;
      const std::string text = sy::read_file(path, sy::max_json_bytes);
      table = sy::parse_table(text, path, op, warned);
      for (const std::string& message : warned.messages)
        std::fprintf(stderr, "switchyard: %s\n", message.c_str());
      read_earlier(sy::parse_json(text, path));
      if (!table.device.name.empty() && table.device.name != device.name) {
        throw usage_error{path + " was measured on " + table.device.name + ", and this is " + device.name +
                          "; name another file, or pass --again to start over"};
      }
    }
    table.device = device;
  }

  [[nodiscard]] bool has_row(const tuning_problem& problem, sy::problem_view full) const {
    const std::scoped_lock lock{mutex_};
    for (const sy::row_group& group : table.groups) {
      if (group.type == problem.type && sy::tune::find_row(group, full) < group.row_count()) return true;
    }
    return false;
  }

  /// Whether a problem needs no measuring, as far as that is known without a worker.
  [[nodiscard]] bool is_done(const tuning_problem& problem) const {
    if (!settings.refresh.empty()) return notes.done(key(problem));
    std::vector<std::int64_t> full(op.axes.size());
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      const auto found = problem.axes.find(static_cast<std::uint32_t>(i));
      if (found != problem.axes.end()) {
        full[i] = found->second;
      } else if (op.axes[i].kind == sy::axis_kind::size) {
        return false;  // its workload decides
      }
    }
    return has_row(problem, full);
  }

  [[nodiscard]] std::string key(const tuning_problem& problem) const {
    std::string out = problem.text(op) + " for";
    for (const sy::axis_value& each : problem.type) out += " " + std::string{op.axes[each.axis].name};
    return out;
  }

  void put(const tuning_problem& problem, sy::problem_view full, const std::vector<serving>& variants,
           std::vector<sy::tune::row_entry> times, double uncertainty) {
    const std::scoped_lock lock{mutex_};
    // Another worker may have found one of them to be bad meanwhile.
    std::erase_if(times, [&](const sy::tune::row_entry& each) {
      return std::any_of(variants.begin(), variants.end(), [&](const serving& other) {
        return other.id == each.variant && notes.find_bad(other.id, other.blob, other.type).has_value();
      });
    });
    if (times.empty()) return;
    rows_.insert(key(problem));
    sy::tune::put_row(table, op, full, problem.type, std::move(times), uncertainty, settings.most);
    sy::row_group& group = *sy::tune::find_group(table, op, problem.type);
    measured_.insert(place_of(group, sy::tune::find_row(group, full)));
    for (std::size_t i = 0; i < group.ids.size(); ++i) {
      for (const serving& each : variants) {
        if (each.id == group.ids[i] && (group.blobs[i].empty() || all_measured(group, i)))
          group.blobs[i] = each.blob;
      }
    }
    changed_ = true;
    write_soon();
  }

  /// A variant that must not be used: no row keeps it.
  void put_bad(const bad_variant& bad) {
    notes.add_bad(bad);
    const std::scoped_lock lock{mutex_};
    const std::size_t removed = sy::tune::remove_variant(table, bad.variant, bad.type);
    if (removed > 0 || settings.deny) {
      changed_ = true;
      write_soon();
    }
    if (removed > 0) bar->say(bad.variant + " was removed from " + std::to_string(removed) + " rows");
  }

  void add_clocks(const json& answer) {
    const std::scoped_lock lock{mutex_};
    tool::add_clocks(clocks_, answer);
  }
  void add_checked(const sy::tune::checked_extent& of) {
    const std::scoped_lock lock{mutex_};
    ++(of.all_rows == 0        ? checks_.unchecked
       : !of.smaller.empty()   ? checks_.smaller
       : of.rows < of.all_rows ? checks_.rows
                               : checks_.whole);
  }

  /// Brings the file up to date.
  void write() {
    const std::scoped_lock lock{mutex_};
    write_now();
  }

  sy::table table;

 private:
  [[nodiscard]] static std::string settings_text(const tune_settings& of) {
    return "cache=" + of.how.cache + " launches=" + of.how.launches +
           " sustained=" + sy::text::number(of.how.sustained_seconds) +
           " confidence=" + sy::text::number(of.how.confidence) +
           " samples=" + std::to_string(of.how.samples) + (of.exhaustive ? " exhaustive" : "");
  }

  /// Whether this run has measured every row that has a time of the group's i-th variant. Until then its blob
  /// is the one of the older rows, which stay marked as stale.
  [[nodiscard]] bool all_measured(const sy::row_group& group, std::size_t variant) const {
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      const auto times = group.row_times(row);
      const bool has_it = std::any_of(times.begin(), times.end(),
                                      [variant](const auto& each) { return each.variant == variant; });
      if (has_it && !measured_.contains(place_of(group, row))) return false;
    }
    return true;
  }
  [[nodiscard]] std::string place_of(const sy::row_group& group, std::size_t row) const {
    tuning_problem out;
    out.type = group.type;
    for (const sy::axis_value& each : group.type) out.axes[each.axis] = each.value;
    const auto at = group.coordinates(row);
    for (std::size_t i = 0; i < at.size(); ++i) out.axes[group.axes[i]] = at[i];
    return key(out);
  }

  /// After every problem; where writing a large table takes long, less often.
  void write_soon() {
    if (clock::now() - written_ > 20 * write_time_) write_now();
  }

  void write_now() {
    if (!changed_) return;
    const auto begin = clock::now();
    if (settings.deny) deny();
    sy::tune::settle_ties(table);
    std::vector<sy::measurement> runs{this_run()};
    // Rows of other runs keep what is said of those.
    if (rows_.size() < row_count()) runs.insert(runs.end(), earlier_.begin(), earlier_.end());
    if (runs.size() > 1 && is_same_run(runs[0], runs[1])) {  // one that was stopped and goes on
      join(runs[0], runs[1]);
      runs.erase(runs.begin() + 1);
    }
    finish_runs(runs, row_count());
    sy::write_file(path, sy::format_table(op, table, runs));
    changed_ = false;
    written_ = clock::now();
    write_time_ = written_ - begin;
  }

  void deny() {
    for (const bad_variant& each : notes.bad()) {
      const bool known =
          std::any_of(table.denials.begin(), table.denials.end(), [&each](const sy::denial& other) {
            return other.variant == each.variant && other.type == each.type;
          });
      if (!known) table.denials.push_back({each.variant, each.reason, each.type});
    }
  }

  [[nodiscard]] sy::measurement this_run() const {
    sy::measurement out;
    out.date = day_of(std::time(nullptr));
    out.tool = tool_name();
    out.driver = device.attribute("driver_version");
    out.rows = static_cast<std::int64_t>(rows_.size());
    out.statistic = "median";
    out.samples = sample_counts(settings.how, device.backend);
    out.precision = settings.how.confidence;
    out.drift = settings.how.drift;
    out.cache = settings.how.cache;
    if (out.cache != "warm") out.cache_bytes = static_cast<std::int64_t>(sy::tune::cache_bytes(device));
    out.launches = settings.how.launches;
    out.sustained = settings.how.sustained_seconds;
    out.clocks = clocks_;
    out.checks = checks_;
    return out;
  }

  /// The runs that measured the rows that the table has.
  void read_earlier(const json& document) {
    earlier_ = sy::read_measurements(document);
    if (!earlier_.empty() && earlier_.front().rows == 0)
      earlier_.front().rows = static_cast<std::int64_t>(row_count());
  }

  [[nodiscard]] std::size_t row_count() const {
    std::size_t out = 0;
    for (const sy::row_group& each : table.groups) out += each.row_count();
    return out;
  }

  sy::measured_clocks clocks_;
  sy::measured_checks checks_{"f64", 0, 0, 0, 0};
  std::set<std::string> rows_;            ///< of this run
  std::set<std::string> measured_;        ///< the same by their places in the table
  std::vector<sy::measurement> earlier_;  ///< runs before, newest first
  bool changed_ = false;
  clock::time_point written_{};
  clock::duration write_time_{};
  mutable std::mutex mutex_;
};

/// One worker, measuring one problem after the other.
class problem_tuner {
 public:
  problem_tuner(shared_run& run, worker_process& worker, std::size_t index)
      : run_{run}, index_{index}, worker_{run.op,
                                          run.settings.how,
                                          worker,
                                          run.interrupted,
                                          run.deadline,
                                          [this] { run_.bar->update(index_, text_ + ": set up", {}); }} {}

  enum class result { measured, unsteady, before };

  /// Measures a problem and puts its row into the table. `line` says what came out.
  [[nodiscard]] result measure(const tuning_problem& problem, std::string& line) {
    text_ = problem.text(run_.op);
    worker_.begin(problem);
    const std::vector<serving> serves = worker_.variants();
    const std::vector<std::int64_t> full = worker_.full();
    if (run_.settings.refresh.empty() && run_.has_row(problem, full)) {
      line = text_ + ": measured before";
      return result::before;
    }
    full_text_ = sy::format_problem(run_.op, full);
    std::vector<serving> variants;
    std::size_t known_bad = 0;
    for (const serving& each : serves) {
      if (run_.notes.find_bad(each.id, each.blob, each.type)) {
        ++known_bad;
      } else {
        variants.push_back(each);
      }
    }
    if (variants.empty()) {
      throw left_out{known_bad > 0 ? "all " + std::to_string(known_bad) +
                                         " variants that may serve it are known to be bad; --retry-bad gives "
                                         "them another chance"
                                   : std::string{"no variant may serve it"}};
    }
    const std::size_t offered = variants.size();
    race_outcome best_attempt;
    bool steady = false;
    constexpr int attempts = 3;
    for (int attempt = 0; attempt < attempts && !steady; ++attempt) {
      if (attempt > 0) run_.notes.drop(full_text_);
      race_outcome outcome = attempt == 0 ? resumed(variants) : race_outcome{};
      if (outcome.times.empty()) outcome = race(variants);
      steady = outcome.steady;
      if (attempt == 0 || (!outcome.times.empty() && outcome.drift < best_attempt.drift))
        best_attempt = std::move(outcome);
      if (variants.empty()) break;
    }
    const std::vector<raced_variant> times = confirmed(best_attempt.times);
    if (times.empty())
      throw left_out{"none of its " + std::to_string(offered) + " variants could be measured"};
    run_.add_checked(worker_.checks());
    std::vector<sy::tune::row_entry> entries;
    for (const raced_variant& each : times) entries.push_back({each.variant.id, each.time.microseconds});
    // What decides is how well the fastest are told apart, and what the device did meanwhile.
    constexpr double least_stated = 0.001;  // no clock is better over a sample
    double uncertainty = steady ? least_stated : std::max(best_attempt.drift, least_stated);
    for (const raced_variant& each : times) {
      if (each.final && each.time.microseconds < 1.1 * entries.front().microseconds)
        uncertainty = std::max(uncertainty, each.time.uncertainty());
    }
    run_.put(problem, full, serves, entries, uncertainty);
    run_.notes.add_done(run_.key(problem),
                        {{"drift", best_attempt.drift}, {"checked", extent_to_json(worker_.checks())}});
    line = text_ + ": " + entries[0].variant + " " + sy::text::number(entries[0].microseconds) + " us";
    if (entries.size() > 1) {
      line += ", then " + entries[1].variant + " +" +
              percent(entries[1].microseconds / entries[0].microseconds - 1);
    }
    line += " (" + std::to_string(offered) + " variants, +- " + percent(uncertainty) +
            (steady ? "" : ", unsteady") + ")";
    return steady ? result::measured : result::unsteady;
  }

 private:
  /// The times that an interrupted run left of the problem, if it had all of them.
  [[nodiscard]] race_outcome resumed(const std::vector<serving>& variants) const {
    race_outcome out;
    for (const serving& each : variants) {
      const auto known = run_.notes.time_of(full_text_, each.id, each.blob);
      if (!known) return {};
      out.times.push_back({each, known->time, known->final});
    }
    std::stable_sort(out.times.begin(), out.times.end(), [](const raced_variant& a, const raced_variant& b) {
      return a.time.microseconds < b.time.microseconds;
    });
    return out;
  }

  /// Times all variants in turns, and notes the times. Those that failed are gone from `variants`.
  [[nodiscard]] race_outcome race(std::vector<serving>& variants) {
    std::set<std::string> failed;
    const race_hooks hooks{[this](const std::string& doing, const std::string& best) {
                             run_.bar->update(index_, text_ + ": " + doing, best);
                           },
                           [&](const serving& variant, const std::string& why, bool to_blame) {
                             failed.insert(variant.id);
                             if (to_blame) {
                               condemn(variant, why);
                             } else {
                               run_.bar->failed(variant.id + " at " + text_ + ": " + why);
                             }
                           }};
    race_outcome out = worker_.race(variants, run_.settings.exhaustive, hooks);
    std::erase_if(variants, [&failed](const serving& each) { return failed.contains(each.id); });
    run_.add_clocks(out.clocks);
    for (const raced_variant& each : out.times)
      run_.notes.add_time(full_text_, each.variant.id, each.variant.blob, {each.time, each.final},
                          out.clocks);
    return out;
  }

  /// The fastest ones, as many as a row keeps, each checked again: none wins that was right only at first.
  [[nodiscard]] std::vector<raced_variant> confirmed(const std::vector<raced_variant>& times) {
    std::vector<raced_variant> out;
    for (const raced_variant& each : times) {
      if (out.size() == run_.settings.most) break;
      if (run_.notes.find_bad(each.variant.id, each.variant.blob, each.variant.type)) continue;
      run_.bar->update(index_, text_ + ": judging " + each.variant.id, {});
      try {
        worker_.confirm(each.variant);
        out.push_back(each);
      } catch (const worker_lost& lost) {
        if (lost.why() == worker_lost::kind::interrupted) throw;
        condemn(each.variant, lost.what());
      } catch (const not_measured& problem) {
        run_.bar->failed(each.variant.id + " at " + text_ + ": " + problem.what());
      }
    }
    return out;
  }

  void condemn(const serving& variant, const std::string& reason) {
    run_.bar->failed(variant.id + " at " + text_ + ": " + reason);
    run_.put_bad({variant.id, variant.blob, variant.type, reason + " (at " + text_ + ")", text_});
  }

  shared_run& run_;
  std::size_t index_;
  measuring_worker worker_;
  std::string text_;
  std::string full_text_;
};

[[nodiscard]] std::string table_path(const tune_settings& settings, const sy::operator_description& op,
                                     const sy::device_properties& device) {
  std::string out = settings.output.empty() ? settings.refresh : settings.output;
  std::error_code ignored;
  if (out.ends_with('/') || fs::is_directory(out, ignored)) {
    const fs::path folder = fs::path{out} / std::string{op.name};
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) {
      throw sy::file_error{sy::error_code::unreadable_file,
                           folder.string() + ": cannot be made: " + problem.message()};
    }
    out = (folder / (file_name_of(device.name) + ".json")).string();
  }
  return out;
}

/// What one thread does: the next problem that nobody has, until none is left.
void work(shared_run& run, worker_process& worker, std::size_t index, std::atomic<std::size_t>& next,
          std::mutex& mutex, tune_outcome& outcome) {
  problem_tuner tuner{run, worker, index};
  while (!run.interrupted) {
    const std::size_t mine = next++;
    if (mine >= run.problems.size()) return;
    const tuning_problem& problem = run.problems[mine];
    std::string line;
    try {
      const auto result = tuner.measure(problem, line);
      const std::scoped_lock lock{mutex};
      ++(result == problem_tuner::result::before ? outcome.before : outcome.measured);
      if (result == problem_tuner::result::unsteady) ++outcome.unsteady;
    } catch (const left_out& why) {
      line = problem.text(run.op) + ": left out: " + why.what();
      const std::scoped_lock lock{mutex};
      outcome.left_out.push_back(problem.text(run.op) + ": " + why.what());
    } catch (const out_of_time&) {
      const std::scoped_lock lock{mutex};
      outcome.out_of_time = true;
      return;
    } catch (const worker_lost&) {  // interrupted
      return;
    }
    run.bar->finished(index, line);
  }
}

}  // namespace

tune_outcome tune(const session& session, const tune_settings& settings, const known_operator& known,
                  const std::vector<device_place>& devices, const sy::tune::shard& part,
                  const std::atomic<bool>& interrupted) {
  const sy::operator_description& op = *known.description;
  const auto begin = clock::now();
  problem_list list{op};
  if (!settings.words.empty()) list.add_grid(settings.words);
  for (const std::string& each : settings.recordings) list.add_file(each);
  for (const std::string& each : list.complaints())
    std::fprintf(stderr, "switchyard: %s\n", sy::text::printable(each).c_str());
  if (!settings.refresh.empty()) {
    sy::warnings warned;
    const rebuilt_kernels rebuilt{session, op};
    list.add_table(sy::read_table(settings.refresh, op, warned), [&](const auto& group, std::size_t i) {
      return (settings.variant.empty() || group.ids[i].find(settings.variant) != std::string::npos) &&
             (!settings.stale || rebuilt.has(group, i));
    });
    for (const std::string& each : warned.messages) std::fprintf(stderr, "switchyard: %s\n", each.c_str());
  }
  if (list.problems().empty() && (settings.stale || !settings.variant.empty())) {
    std::fprintf(
        stderr, "switchyard: %s: no row %s\n", settings.refresh.c_str(),
        settings.stale ? "has times of kernels that were rebuilt since" : "has times of such a variant");
    tune_outcome out;
    out.table = settings.refresh;
    out.up_to_date = true;
    return out;
  }
  if (list.problems().empty()) {
    throw usage_error{"there is no problem of operator '" + std::string{op.name} +
                      "' to measure; name axes and values, a recording or a table that has rows"};
  }
  list.finish();

  std::vector<std::unique_ptr<worker_process>> workers;
  for (const device_place& each : devices) {
    workers.push_back(std::make_unique<worker_process>(session, std::string{op.name}, each, interrupted));
    try {
      workers.back()->start(seconds{60});
    } catch (const worker_lost&) {  // nothing was begun yet
      tune_outcome out;
      out.interrupted = true;
      return out;
    }
    const auto& first = workers.front()->device();
    const auto& last = workers.back()->device();
    if (last.name != first.name || last.arch != first.arch) {
      throw usage_error{"--devices: " + workers.front()->place().text() + " is " + first.name + " and " +
                        workers.back()->place().text() + " is " + last.name +
                        "; a table describes one device: tune the devices one by one, into separate tables"};
    }
    // A process dies with the thread that started it; each thread starts its own.
    workers.back()->kill();
  }

  shared_run run{settings, op, workers.front()->device(),
                 part.file(table_path(settings, op, workers.front()->device())), interrupted};
  run.read_table(session);
  tune_outcome outcome;
  outcome.table = run.path;
  outcome.journal = run.notes.path();
  outcome.resumed = run.notes.resumed();
  for (std::size_t i = 0; i < list.problems().size(); ++i) {
    if (!part.has(i)) continue;
    ++outcome.problems;
    if (run.is_done(list.problems()[i])) {
      ++outcome.before;
    } else {
      run.problems.push_back(list.problems()[i]);
    }
  }
  if (settings.budget_seconds) {
    const auto after = [](clock::time_point from, double time) {
      return from + std::chrono::duration_cast<clock::duration>(seconds{time});
    };
    run.deadline = std::min(after(clock::now(), *settings.budget_seconds),
                            after(begin, settings.whole_budget_seconds.value_or(*settings.budget_seconds)));
  }
  run.bar = std::make_unique<progress>(stderr, outcome.problems, outcome.before, settings.budget_seconds);
  run.bar->say(
      std::string{op.name} + " on " + run.device.name +
      (workers.size() > 1 ? " (" + std::to_string(workers.size()) + " of them)" : std::string{}) + ": " +
      std::to_string(outcome.problems) + " problems" +
      (part.count > 1 ? " of shard " + std::to_string(part.index) + " of " + std::to_string(part.count) +
                            " (" + part.source + ")"
                      : std::string{}) +
      (outcome.before > 0 ? ", " + std::to_string(outcome.before) + " measured before" : std::string{}) +
      (outcome.resumed > 0
           ? ", resuming after " + std::to_string(outcome.resumed) + " times of an interrupted run"
           : std::string{}));

  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::exception_ptr> failures(workers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(run, *workers[i], i, next, mutex, outcome);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      workers[i]->kill();
    });
  }
  for (std::thread& each : threads) each.join();
  run.write();
  run.bar->close();
  outcome.failures = run.bar->failures();
  outcome.interrupted = interrupted;
  for (const bad_variant& each : run.notes.bad()) outcome.bad.push_back(each.variant + ": " + each.reason);
  outcome.seconds = seconds{clock::now() - begin}.count();
  for (const std::exception_ptr& each : failures) {
    if (each) std::rethrow_exception(each);
  }
  if (!outcome.interrupted && !outcome.out_of_time) run.notes.finish();
  return outcome;
}

nlohmann::ordered_json tune_outcome::json() const {
  return {{"table", table},       {"notes", journal},           {"problems", problems},
          {"measured", measured}, {"before", before},           {"resumed_times", resumed},
          {"unsteady", unsteady}, {"left_out", left_out},       {"failures", failures},
          {"bad", bad},           {"out_of_time", out_of_time}, {"interrupted", interrupted},
          {"seconds", seconds}};
}

std::string tune_outcome::text() const {
  const std::size_t open = problems - measured - before - left_out.size();
  std::string out = table + ": " + std::to_string(measured) + " of " + std::to_string(problems) +
                    " problems measured in " + duration_text(seconds);
  if (before > 0) out += ", " + std::to_string(before) + " before";
  if (open > 0) {
    out += ", " + std::to_string(open) + " remaining" +
           (interrupted   ? " (interrupted; the same command resumes)"
            : out_of_time ? " (the budget is used up; the same command resumes)"
                          : "");
  }
  if (unsteady > 0) {
    out += ", " + std::to_string(unsteady) +
           " unsteady: the device drifted each time; their rows record by how much";
  }
  out += "\n";
  if (!left_out.empty()) {
    out += std::to_string(left_out.size()) + " problems were left out:\n";
    for (const std::string& each : left_out) out += "  " + each + "\n";
  }
  if (!bad.empty()) {
    out += std::to_string(bad.size()) + " variants are known to be bad (see " + journal +
           "; --deny puts them into the table, --retry-bad tries them again):\n";
    for (const std::string& each : bad) out += "  " + each + "\n";
  }
  return out;
}

}  // namespace tool
