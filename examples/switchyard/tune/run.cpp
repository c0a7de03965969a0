// SPDX-License-Identifier: MIT
#include "tune/run.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/read_table.hpp>

#include "tables/table_files.hpp"
#include "tune/problem_tuner.hpp"
#include "tune/problems.hpp"
#include "tune/progress.hpp"
#include "tune/rebuilt_kernels.hpp"
#include "tune/shared_run.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

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

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw sy::file_error{sy::error_code::unreadable_file,
                         folder.string() + ": cannot be made: " + problem.message()};
  }
}

/// One thread: takes the next problem until none is left.
void work(shared_run& run, worker_process& worker, std::size_t index, std::atomic<std::size_t>& next,
          std::mutex& mutex, tune_outcome& outcome) {
  problem_tuner tuner{run, worker, index};
  while (!run.interrupted) {
    const std::size_t mine = next++;
    if (mine >= run.problems.size()) return;
    const tuning_problem& problem = run.problems[mine];
    std::string line;
    try {
      std::vector<std::string> left_out_kinds;
      const auto result = tuner.measure(problem, line, left_out_kinds);
      const std::scoped_lock lock{mutex};
      outcome.left_out_kinds.insert(outcome.left_out_kinds.end(), left_out_kinds.begin(),
                                    left_out_kinds.end());
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

std::string table_name_of(const sy::device_properties& device) {
  return file_name_of(device.name) + ".json";
}

std::string table_path(const tune_settings& settings, const sy::operator_description& op,
                       const sy::device_properties& device) {
  const std::string& out = settings.output.empty() ? settings.refresh : settings.output;
  std::error_code ignored;
  if (!out.ends_with('/') && !fs::is_directory(out, ignored)) return out;
  return (fs::path{out} / std::string{op.name} / table_name_of(device)).string();
}

bool learn_properties(const session& session, const known_operator& known, tuned_devices& devices,
                      const std::atomic<bool>& interrupted) {
  if (devices.properties) return true;
  std::optional<sy::device_properties> first;
  for (const device_place& place : devices.places) {
    // A worker process ends with the thread that started it, so each thread starts its own later.
    worker_process worker{session, std::string{known.description->name}, place, interrupted};
    try {
      worker.start(seconds{60});
    } catch (const worker_lost&) {  // nothing was begun yet
      return false;
    }
    if (!first) first = worker.device();
    if (full_name_of(worker.device()) != full_name_of(*first)) {
      throw usage_error{"--devices: " + devices.places.front().text() + " is " + full_name_of(*first) +
                        " and " + place.text() + " is " + full_name_of(worker.device()) +
                        "; a table describes one device: tune the devices one by one, into separate tables"};
    }
  }
  devices.properties = std::move(first);
  return true;
}

problem_list list_problems(const session& session, const tune_settings& settings,
                           const known_operator& known) {
  const sy::operator_description& op = *known.description;
  problem_list list{op};
  if (!settings.words.empty()) list.add_grid(settings.words);
  problem_list listed{op};
  problem_list& into = settings.refresh.empty() ? list : listed;
  for (const std::string& recording : settings.recordings) into.add_file(recording);
  for (const std::string& complaint : into.complaints())
    std::fprintf(stderr, "switchyard: %s\n", sy::text::printable(complaint).c_str());
  if (!settings.refresh.empty()) {
    sy::warnings warned;
    const rebuilt_kernels rebuilt{session, op};
    list.add_table(sy::read_table(settings.refresh, op, warned), [&](const auto& group, std::size_t i) {
      return (settings.variant.empty() || group.ids[i].find(settings.variant) != std::string::npos) &&
             (!settings.stale || rebuilt.has(group, i));
    });
    for (const std::string& message : warned.messages)
      std::fprintf(stderr, "switchyard: %s\n", message.c_str());
    list.take_options(std::move(listed));
  }
  list.finish();
  return list;
}

tune_outcome tune(const session& session, const tune_settings& settings, const known_operator& known,
                  const problem_list& list, tuned_devices& devices, const sy::tune::shard& part,
                  const std::atomic<bool>& interrupted) {
  const sy::operator_description& op = *known.description;
  const auto begin = clock::now();
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
  if (!learn_properties(session, known, devices, interrupted)) {
    tune_outcome out;
    out.interrupted = true;
    return out;
  }
  std::vector<std::unique_ptr<worker_process>> workers;
  for (const device_place& place : devices.places)
    workers.push_back(std::make_unique<worker_process>(session, std::string{op.name}, place, interrupted));

  const std::string path = table_path(settings, op, *devices.properties);
  if (path != settings.output && path != settings.refresh) make_folder(fs::path{path}.parent_path());
  shared_run run{settings, op, *devices.properties, part.file(path), interrupted};
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
      if (!settings.refresh.empty()) run.remember(list.problems()[i]);
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
      (settings.worth.empty() ? "" : " (" + settings.worth + ")") +
      (part.count > 1 ? " of shard " + std::to_string(part.index) + " of " + std::to_string(part.count) +
                            " (" + part.source + ")"
                      : std::string{}) +
      (outcome.before > 0 ? ", " + std::to_string(outcome.before) + " measured before" : std::string{}) +
      (outcome.resumed > 0
           ? ", resuming after " + std::to_string(outcome.resumed) + " times of an interrupted run"
           : std::string{}));

  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  const std::exception_ptr failure =
      run_workers(workers, [&](std::size_t i) { work(run, *workers[i], i, next, mutex, outcome); });
  run.write();
  run.bar->close();
  outcome.failures = run.bar->failures();
  outcome.interrupted = interrupted;
  for (const bad_variant& bad : run.notes.bad()) outcome.bad.push_back(bad.variant + ": " + bad.reason);
  outcome.seconds = seconds{clock::now() - begin}.count();
  if (failure) std::rethrow_exception(failure);
  if (!outcome.interrupted && !outcome.out_of_time) run.notes.finish();
  return outcome;
}

}  // namespace tool
