// SPDX-License-Identifier: MIT
#include "bench/shape_bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/choosing/find_unfit.hpp>

#include "command.hpp"
#include "tables/predictions.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] time_ratio ratio_of(const sy::tune::timed& a, const sy::tune::timed& b) {
  return {a.microseconds / b.microseconds, a.low / b.high, a.high / b.low};
}

}  // namespace

shape_bench::shape_bench(bench_run& run, worker_process& worker, std::size_t index)
    : run_{run}, index_{index}, worker_{run.table.op(),
                                        run.settings.how,
                                        worker,
                                        interrupted(),
                                        {},
                                        [this] { show("set up"); }} {}

bench_result shape_bench::measure(const bench_shape& shape) {
  result_ = {};
  seen_.clear();
  result_.text = shape.problem.text(run_.table.op());
  result_.between = shape.between;
  result_.type = shape.problem.type;
  try {
    measure_all(shape.problem);
  } catch (const left_out& why) {
    result_.kind = bench_outcome::left_out;
    result_.why = why.what();
  }
  return std::move(result_);
}

void shape_bench::show(const std::string& doing) {
  run_.bar->update(index_, result_.text + ": " + doing, {});
}

void shape_bench::measure_all(const tuning_problem& problem) {
  worker_.begin(problem);
  result_.full = worker_.full();
  const sy::choice choice = sy::select_fitting(*run_.rules, result_.full);
  if (choice.variant == sy::no_index) throw left_out{"no variant may serve it"};
  result_.chosen = run_.rules->candidates[choice.variant].variant->id;
  result_.reason = choice.why;
  const std::vector<serving> wanted = rivals(choice.variant);
  const race_outcome all = race(wanted, run_.settings.exhaustive);
  const raced_variant* rival = nullptr;
  bool has_chosen = false;
  for (const raced_variant& raced : all.times) {
    result_.times.push_back({raced.variant.id, raced.time.microseconds});
    if (raced.variant.id == result_.chosen) {
      has_chosen = true;
    } else if (rival == nullptr) {
      rival = &raced;
    }
  }
  if (!has_chosen || !compare(wanted.front(), rival == nullptr ? nullptr : &rival->variant)) return fail();
  judge();
}

/// Notes that the chosen variant cannot be used.
void shape_bench::fail() {
  result_.kind = bench_outcome::failed;
  result_.why = result_.failures.back();
}

/// The chosen variant, then its rivals: those with a predicted time by that time, then the others in the
/// manifests' order.
std::vector<serving> shape_bench::rivals(std::uint32_t chosen) {
  struct ranked {
    serving variant;
    double predicted;
  };
  std::vector<ranked> others;
  std::vector<serving> out;
  for (const serving& variant : worker_.variants()) {
    for (std::uint32_t i = 0; i < run_.rules->candidates.size(); ++i) {
      // A denied variant is no rival, and of equal ids the most specific target runs.
      if (run_.rules->candidates[i].variant->id != variant.id) continue;
      if (!run_.rules->admissible(i, result_.full, {})) continue;
      ++result_.serving;
      if (variant.id == run_.rules->candidates[chosen].variant->id) {
        out.push_back(variant);
      } else {
        others.push_back({variant, predict(run_.of_tables, i, result_.full).microseconds});
      }
      break;
    }
  }
  if (out.empty()) throw left_out{"the files have changed since the run began"};
  std::stable_sort(others.begin(), others.end(), [](const ranked& a, const ranked& b) {
    if ((a.predicted > 0) != (b.predicted > 0)) return a.predicted > 0;
    return a.predicted < b.predicted;
  });
  if (!run_.settings.exhaustive && others.size() > run_.settings.candidates)
    others.resize(run_.settings.candidates);
  for (ranked& rival : others) out.push_back(std::move(rival.variant));
  return out;
}

/// Times variants in turns. Keeps those that were correct before and after.
race_outcome shape_bench::race(const std::vector<serving>& variants, bool exhaustive) {
  const auto fail_one = [this](const serving& variant, const std::string& why) {
    result_.failures.push_back(variant.id + ": " + why);
    run_.bar->failed(variant.id + " at " + result_.text + ": " + why);
  };
  race_outcome out =
      worker_.race(variants, exhaustive,
                   {[this](const std::string& doing, const std::string& /*best*/) { show(doing); },
                    [&](const serving& variant, const std::string& why, bool) { fail_one(variant, why); }});
  std::erase_if(out.times, [&](const raced_variant& raced) {
    std::string why;
    try {
      worker_.confirm(raced.variant);
      if (std::find(seen_.begin(), seen_.end(), raced.variant.id) == seen_.end())
        seen_.push_back(raced.variant.id);
      return false;
    } catch (const worker_lost& lost) {
      if (lost.why() == worker_lost::kind::interrupted) throw;
      why = lost.what();
    } catch (const not_measured& problem) {
      why = problem.what();
    }
    fail_one(raced.variant, why);
    return true;
  });
  return out;
}

/// Times the chosen variant and its strongest rival again: the rival has the shortest of many times, which is
/// probably too short. Returns false if the chosen variant fails.
bool shape_bench::compare(const serving& chosen, const serving* rival) {
  std::vector<serving> both{chosen};
  if (rival != nullptr) both.push_back(*rival);
  constexpr int attempts = 3;
  double least_drift = HUGE_VAL;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const race_outcome found = race(both, true);
    const sy::tune::timed* first = nullptr;
    const sy::tune::timed* other = nullptr;
    for (const raced_variant& raced : found.times)
      (raced.variant.id == chosen.id ? first : other) = &raced.time;
    if (first == nullptr) return false;
    if (found.drift < least_drift) {
      least_drift = found.drift;
      result_.chosen_time = *first;
      const bool wins = other == nullptr || first->microseconds <= other->microseconds;
      result_.best = wins ? chosen.id : rival->id;
      result_.best_time = wins ? *first : *other;
      for (sy::tune::row_entry& entry : result_.times) {
        if (entry.variant == chosen.id) entry.microseconds = first->microseconds;
        if (other != nullptr && entry.variant == rival->id) entry.microseconds = other->microseconds;
      }
    }
    result_.unsteady = !found.steady;
    if (found.steady) break;
  }
  if (result_.best != result_.chosen) result_.behind = ratio_of(result_.chosen_time, result_.best_time);
  return true;
}

void shape_bench::judge() {
  result_.measured = seen_.size();
  const double threshold = run_.settings.threshold;
  result_.kind = result_.behind.low > threshold     ? bench_outcome::behind
                 : result_.behind.value > threshold ? bench_outcome::unclear
                                                    : bench_outcome::within;
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

}  // namespace tool
