// SPDX-License-Identifier: MIT
#include "tune/problem_tuner.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/tables/put_row.hpp>

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] std::string percent(double share) {
  return sy::text::number(100 * share) + " %";
}

}  // namespace

problem_tuner::problem_tuner(shared_run& run, worker_process& worker, std::size_t index)
    : run_{run}, index_{index}, worker_{run.op,
                                        run.settings.how,
                                        worker,
                                        run.interrupted,
                                        run.deadline,
                                        [this] { run_.bar->update(index_, text_ + ": set up", {}); }} {}

problem_tuner::result problem_tuner::measure(const tuning_problem& problem, std::string& line) {
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
  for (const serving& variant : serves) {
    if (run_.notes.find_bad(variant.id, variant.blob, variant.type)) {
      ++known_bad;
    } else {
      variants.push_back(variant);
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
  if (times.empty()) throw left_out{"none of its " + std::to_string(offered) + " variants could be measured"};
  run_.add_checked(worker_.checks());
  std::vector<sy::tune::row_entry> entries;
  for (const raced_variant& raced : times) entries.push_back({raced.variant.id, raced.time.microseconds});
  // The uncertainty covers how well the fastest are told apart, and the drift of the device.
  constexpr double least_stated = 0.001;  // no clock is better over a sample
  double uncertainty = steady ? least_stated : std::max(best_attempt.drift, least_stated);
  for (const raced_variant& raced : times) {
    if (raced.final && raced.time.microseconds < 1.1 * entries.front().microseconds)
      uncertainty = std::max(uncertainty, raced.time.uncertainty());
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

race_outcome problem_tuner::resumed(const std::vector<serving>& variants) const {
  race_outcome out;
  for (const serving& variant : variants) {
    const auto known = run_.notes.time_of(full_text_, variant.id, variant.blob);
    if (!known) return {};
    out.times.push_back({variant, known->time, known->final});
  }
  std::stable_sort(out.times.begin(), out.times.end(), [](const raced_variant& a, const raced_variant& b) {
    return a.time.microseconds < b.time.microseconds;
  });
  return out;
}

race_outcome problem_tuner::race(std::vector<serving>& variants) {
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
  std::erase_if(variants, [&failed](const serving& variant) { return failed.contains(variant.id); });
  run_.add_clocks(out.clocks);
  for (const raced_variant& raced : out.times)
    run_.notes.add_time(full_text_, raced.variant.id, raced.variant.blob, {raced.time, raced.final},
                        out.clocks);
  return out;
}

std::vector<raced_variant> problem_tuner::confirmed(const std::vector<raced_variant>& times) {
  std::vector<raced_variant> out;
  for (const raced_variant& raced : times) {
    if (out.size() == run_.settings.most) break;
    if (run_.notes.find_bad(raced.variant.id, raced.variant.blob, raced.variant.type)) continue;
    run_.bar->update(index_, text_ + ": judging " + raced.variant.id, {});
    try {
      worker_.confirm(raced.variant);
      out.push_back(raced);
    } catch (const worker_lost& lost) {
      if (lost.why() == worker_lost::kind::interrupted) throw;
      condemn(raced.variant, lost.what());
    } catch (const not_measured& problem) {
      run_.bar->failed(raced.variant.id + " at " + text_ + ": " + problem.what());
    }
  }
  return out;
}

void problem_tuner::condemn(const serving& variant, const std::string& reason) {
  run_.bar->failed(variant.id + " at " + text_ + ": " + reason);
  run_.put_bad({variant.id, variant.blob, variant.type, reason + " (at " + text_ + ")", text_});
}

}  // namespace tool
