// SPDX-License-Identifier: MIT
#include "tune/problem_tuner.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/tables/mean_times.hpp>
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

problem_tuner::result problem_tuner::measure(const tuning_problem& problem, std::string& line,
                                             std::vector<std::string>& left_out_kinds) {
  const bool is_one = problem.kinds.empty();
  std::vector<timed_kind> timed;
  std::vector<double> weights;
  std::string why;  // the first kind could not be measured
  for (const tuning_problem& kind : is_one ? std::span{&problem, 1} : std::span{problem.kinds}) {
    text_ = kind.text(run_.op);
    try {
      worker_.begin(kind);
      if (timed.empty() && run_.settings.refresh.empty() && run_.has_row(problem, worker_.full())) {
        line = problem.text(run_.op) + ": measured before";
        return result::before;
      }
      full_text_ = sy::format_problem(run_.op, worker_.full());
      for (const auto& [name, value] : kind.options) full_text_ += " " + name + "=" + std::to_string(value);
      timed.push_back(time_kind());
      timed.back().problem = &kind;
      weights.push_back(kind.weight);
    } catch (const left_out& of_this) {
      if (is_one) throw;
      if (why.empty()) why = of_this.what();
      left_out_kinds.push_back(text_ + ": " + of_this.what());
    }
  }
  text_ = problem.text(run_.op);
  if (timed.empty()) {
    left_out_kinds.clear();
    throw left_out{why};
  }
  std::vector<std::vector<std::int64_t>> full;
  std::vector<serving> serves;
  nlohmann::json checked = nlohmann::json::array();
  double drift = 0;
  double uncertainty = 0;
  bool steady = true;
  std::size_t offered = 0;
  for (const timed_kind& kind : timed) {
    full.push_back(kind.full);
    serves.insert(serves.end(), kind.serves.begin(), kind.serves.end());
    checked.push_back(extent_to_json(kind.checks));
    run_.add_checked(kind.checks);
    drift = std::max(drift, kind.drift);
    uncertainty = std::max(uncertainty, kind.uncertainty);
    steady = steady && kind.steady;
    offered = std::max(offered, kind.offered);
  }
  std::vector<sy::tune::row_entry> entries;
  do {
    entries = entries_of(timed, weights);
    entries.resize(std::min(entries.size(), run_.settings.most));
  } while (!is_one && !confirm_at_all(timed, entries));
  text_ = problem.text(run_.op);
  if (entries.empty()) throw left_out{"each of its variants is bad at one of its kinds"};
  run_.put(problem, full, serves, entries, uncertainty);
  blobs_by_variant blobs;
  for (const sy::tune::row_entry& entry : entries) {
    const auto of = std::find_if(serves.begin(), serves.end(),
                                 [&entry](const serving& variant) { return variant.id == entry.variant; });
    if (of != serves.end()) blobs[of->id] = of->blob;
  }
  run_.notes.add_done(run_.key(problem), blobs,
                      {{"drift", drift}, {"checked", is_one ? checked[0] : checked}});
  line = text_ + ": " + entries[0].variant + " " + sy::text::number(entries[0].microseconds) + " us";
  if (entries.size() > 1) {
    line += ", then " + entries[1].variant + " +" +
            percent(entries[1].microseconds / entries[0].microseconds - 1);
  }
  line += " (" + std::to_string(offered) + " variants, " +
          (is_one ? std::string{} : "the mean of " + std::to_string(timed.size()) + " kinds, ") + "+- " +
          percent(uncertainty) + (steady ? "" : ", unsteady") + ")";
  return steady ? result::measured : result::unsteady;
}

problem_tuner::timed_kind problem_tuner::time_kind() {
  timed_kind out;
  out.serves = worker_.variants();
  out.full = worker_.full();
  std::vector<serving> variants;
  std::size_t known_bad = 0;
  for (const serving& variant : out.serves) {
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
  out.offered = variants.size();
  race_outcome best_attempt;
  constexpr int attempts = 3;
  for (int attempt = 0; attempt < attempts && !out.steady; ++attempt) {
    if (attempt > 0) run_.notes.drop(full_text_);
    race_outcome outcome = attempt == 0 ? resumed(variants) : race_outcome{};
    if (outcome.times.empty()) outcome = race(variants);
    out.steady = outcome.steady;
    if (attempt == 0 || (!outcome.times.empty() && outcome.drift < best_attempt.drift))
      best_attempt = std::move(outcome);
    if (variants.empty()) break;
  }
  out.times = confirmed(best_attempt.times);
  if (out.times.empty())
    throw left_out{"none of its " + std::to_string(out.offered) + " variants could be measured"};
  for (const raced_variant& raced : best_attempt.times) {
    const auto& last = out.times.back().time;
    if (raced.time.microseconds > last.microseconds) out.slower_times.push_back(raced);
  }
  out.drift = best_attempt.drift;
  out.checks = worker_.checks();
  // The uncertainty covers how well the fastest are told apart, and the drift of the device.
  constexpr double least_stated = 0.001;  // no clock is better over a sample
  out.uncertainty = out.steady ? least_stated : std::max(out.drift, least_stated);
  for (const raced_variant& raced : out.times) {
    if (raced.final && raced.time.microseconds < 1.1 * out.times.front().time.microseconds)
      out.uncertainty = std::max(out.uncertainty, raced.time.uncertainty());
  }
  return out;
}

std::vector<sy::tune::row_entry> problem_tuner::entries_of(const std::vector<timed_kind>& kinds,
                                                           const std::vector<double>& weights) const {
  const auto add = [](std::vector<sy::tune::row_entry>& to, const std::vector<raced_variant>& from) {
    for (const raced_variant& raced : from) to.push_back({raced.variant.id, raced.time.microseconds});
  };
  std::vector<sy::tune::kind_times> all;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    sy::tune::kind_times& next = all.emplace_back();
    next.weight = weights[i];
    add(next.times, kinds[i].times);
    // What is slow at one kind of calls may be fast at another.
    if (kinds.size() > 1) add(next.times, kinds[i].slower_times);
  }
  if (all.size() == 1) return std::move(all.front().times);
  std::vector<sy::tune::row_entry> out = sy::tune::mean_times(all);
  std::erase_if(out, [&](const sy::tune::row_entry& entry) {
    // Found bad at one kind, it is bad at all, and timed again at none.
    return std::any_of(kinds.begin(), kinds.end(), [&](const timed_kind& kind) {
      return std::any_of(kind.serves.begin(), kind.serves.end(), [&](const serving& variant) {
        return variant.id == entry.variant && run_.notes.find_bad(variant.id, variant.blob, variant.type);
      });
    });
  });
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.microseconds < b.microseconds; });
  return out;
}

bool problem_tuner::confirm_at_all(std::vector<timed_kind>& kinds,
                                   const std::vector<sy::tune::row_entry>& entries) {
  bool all = true;
  for (timed_kind& kind : kinds) {
    std::vector<raced_variant> open;
    for (const raced_variant& raced : kind.slower_times) {
      const bool is_in_row = std::any_of(entries.begin(), entries.end(), [&raced](const auto& entry) {
        return entry.variant == raced.variant.id;
      });
      if (is_in_row && !worker_.trusts(raced.variant)) open.push_back(raced);
    }
    if (open.empty()) continue;
    text_ = kind.problem->text(run_.op);
    worker_.begin(*kind.problem);
    for (const raced_variant& raced : open) {
      std::erase_if(kind.slower_times,
                    [&raced](const raced_variant& other) { return other.variant.id == raced.variant.id; });
      const bool is_right = !confirmed({raced}).empty();
      if (is_right) kind.times.push_back(raced);
      all = all && is_right;
    }
  }
  return all;
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
