// SPDX-License-Identifier: MIT
// A worker's races: variants that are timed in turns.
#include <algorithm>
#include <cmath>
#include <utility>

#include <switchyard/base/text.hpp>

#include "tune/measure.hpp"

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

/// A variant in a race.
struct measuring_worker::contender {
  serving variant;
  double quick = 0;
  std::vector<double> samples;
  bool out = false;  ///< it failed, or is not worth a turn

  [[nodiscard]] sy::tune::timed time() const {
    return samples.empty() ? sy::tune::timed{quick, quick, quick, 0, 1} : sy::tune::summarise(samples);
  }
  [[nodiscard]] double median() const { return time().microseconds; }
};

namespace {

constexpr double long_us = 3000;   ///< from here on, fewer samples of a call say enough
constexpr double short_us = 20;    ///< calls up to here are replayed as a graph
constexpr double sample_us = 200;  ///< of one sample, about

/// How much slower than the fastest a variant may be to take part in a round.
[[nodiscard]] double still_in(std::size_t round) {
  return round == 0 ? 1.7 : round < 3 ? 1.3 : round < 5 ? 1.12 : 1.06;
}

[[nodiscard]] double median_of(std::vector<double> of) {
  return sy::tune::summarise(std::move(of)).microseconds;
}

}  // namespace

/// Microseconds of a call.
double measuring_worker::turn(const serving& variant, const turn_options& options) {
  const bool as_graph =
      settings_.launches == "graph" || (settings_.launches == "device" && options.short_calls);
  const json answer = require_answer(variant, {{"turn", variant.id},
                                               {"calls", options.calls},
                                               {"untimed", options.untimed},
                                               {"expected", options.expected_us},
                                               {"launches", as_graph ? "graph" : settings_.launches},
                                               {"cache", settings_.cache}});
  try {
    const auto out = answer.at("us").get<double>();
    if (out > 0) return out;
  } catch (const json::exception& problem) {
    drop_process();
    throw worker_lost{worker_lost::kind::garbage, std::string{"incomplete answer: "} + problem.what()};
  }
  drop_process();
  throw worker_lost{worker_lost::kind::garbage, "it took no time"};
}

/// One turn of a contender. A failed turn takes it out of the race.
bool measuring_worker::take_turn(contender& of, const turn_options& options, const race_hooks& hooks,
                                 const std::function<void(double)>& take) {
  try {
    take(with_second_chance(of.variant, [&] {
      check(of.variant);
      return turn(of.variant, options);
    }));
    return true;
  } catch (const worker_lost& lost) {
    if (lost.why() == worker_lost::kind::interrupted) throw;
    hooks.failed(of.variant, lost.what(), true);
  } catch (const not_measured& problem) {
    hooks.failed(of.variant, problem.what(), false);
  }
  of.out = true;
  return false;
}

/// Times each contender briefly, to find hopeless ones.
void measuring_worker::quick_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks) {
  double best = 0;
  std::string best_text;
  for (contender& racer : all) {
    if (!exhaustive && best > 300 && hopeless_.contains(size_key_of(racer.variant))) {
      racer.out = true;  // hopeless at a problem of about these sizes, and its calls take long
      continue;
    }
    hooks.doing("quick " + racer.variant.id, best_text);
    double first = 0;
    const auto least_of = [&first](double time) { first = first == 0 ? time : std::min(first, time); };
    if (!take_turn(racer, {}, hooks, least_of)) continue;
    const auto is_hopeless = [&] {
      return !exhaustive && best > 0 && first > (best > 100 ? 2.5 : 20) * best;
    };
    // It may have been delayed. The very first call finds the device idle, with low clocks.
    if ((is_hopeless() || best == 0) && !take_turn(racer, {}, hooks, least_of)) continue;
    racer.quick = first;
    if (is_hopeless()) continue;
    // The shorter of two, so that a hiccup eliminates no variant. Calls of milliseconds are not affected.
    double more = 0;
    const auto least_of_more = [&more](double time) { more = more == 0 ? time : std::min(more, time); };
    const turn_options few{3, 0, first, false};
    if (first <= long_us) {
      if (!take_turn(racer, few, hooks, least_of_more) || !take_turn(racer, few, hooks, least_of_more))
        continue;
      racer.quick = more;
    }
    if (best == 0 || racer.quick < best) {
      best = racer.quick;
      best_text = racer.variant.id + " " + sy::text::number(best) + " us";
    }
  }
}

/// Samples all contenders in turns. Those that fall behind skip later rounds.
void measuring_worker::timed_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks) {
  const bool on_host = worker_.device().backend == "host";
  const bool sustained = settings_.sustained_seconds > 0;
  const auto counts = sample_counts(settings_, worker_.device().backend);
  double leader = 0;
  const contender* first = nullptr;
  const auto find_leader = [&] {
    leader = 0;
    for (const contender& racer : all) {
      if (racer.out || racer.quick == 0) continue;
      if (const double median = racer.median(); leader == 0 || median < leader) {
        leader = median;
        first = &racer;
      }
    }
  };
  find_leader();
  if (leader == 0) return;
  const turn_options usual{1, 0, 0, leader < short_us};
  // Short calls vary more from sample to sample.
  const std::size_t wanted = sustained          ? 3
                             : on_host          ? sy::tune::least_samples
                             : leader < 6       ? 15
                             : leader < 2000    ? 9
                             : leader < long_us ? 5
                                                : 3;
  const auto most = static_cast<std::size_t>(counts.most);
  const std::size_t least = std::min(wanted, most);
  const auto settled = [&](std::size_t rounds) {
    if (rounds < least) return false;
    if (rounds >= most || sustained) return true;
    return std::all_of(all.begin(), all.end(), [&](const contender& racer) {
      return racer.out || racer.samples.empty() || racer.median() > still_in(least) * leader ||
             racer.time().uncertainty() <= settings_.confidence;
    });
  };
  for (std::size_t round = 0; !settled(round); ++round) {
    for (contender& racer : all) {
      if (racer.out || racer.quick == 0) continue;
      const double share = sustained && round > 0 ? 1.15 : still_in(round);
      if (!exhaustive && racer.median() > leader * share) continue;
      hooks.doing(racer.variant.id + " " + std::to_string(round + 1),
                  first->variant.id + " " + sy::text::number(leader) + " us");
      turn_options turn = usual;
      turn.expected_us = racer.quick;
      if (sustained) {
        // The first half of its time warms up: clocks follow the power of the calls before.
        turn.untimed = static_cast<std::size_t>(std::ceil(settings_.sustained_seconds * 5e5 / racer.quick));
        turn.calls = std::max<std::size_t>(turn.untimed, 1);
        turn.short_calls = false;
      } else if (on_host) {
        turn.calls = static_cast<std::size_t>(std::clamp(5 * sample_us / racer.quick, 1.0, 1000.0));
        turn.untimed = 1;
      } else {
        turn.calls = static_cast<std::size_t>(
            std::clamp(sample_us / racer.quick, racer.quick > long_us ? 1.0 : 2.0, 50.0));
      }
      if (settings_.cache == "cold") turn.calls = 1;
      static_cast<void>(
          take_turn(racer, turn, hooks, [&racer](double time) { racer.samples.push_back(time); }));
    }
    find_leader();
    if (leader == 0) return;
  }
}

race_outcome measuring_worker::race(const std::vector<serving>& variants, bool exhaustive,
                                    const race_hooks& hooks) {
  std::vector<contender> all;
  for (const serving& variant : variants) all.push_back({variant, 0, {}, false});
  // Variants that were fast at the previous problem go first, so that hopeless ones are found early.
  const auto share_of = [this](const contender& racer) {
    const auto found = last_share_.find(kind_key_of(racer.variant));
    return found == last_share_.end() ? 2.0 : found->second;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const contender& a, const contender& b) { return share_of(a) < share_of(b); });
  quick_turns(all, exhaustive, hooks);
  std::stable_sort(all.begin(), all.end(),
                   [](const contender& a, const contender& b) { return a.quick < b.quick; });
  timed_turns(all, exhaustive, hooks);
  race_outcome out;
  out.clocks = json::object();
  std::erase_if(all, [](const contender& racer) { return racer.out || racer.quick == 0; });
  if (all.empty()) return out;
  std::stable_sort(all.begin(), all.end(),
                   [](const contender& a, const contender& b) { return a.median() < b.median(); });
  const contender& winner = all.front();
  for (const contender& racer : all) {
    const double share = racer.median() / winner.median();
    last_share_[kind_key_of(racer.variant)] = share;
    if (share > 4) hopeless_.insert(size_key_of(racer.variant));
    out.times.push_back({racer.variant, racer.time(), racer.samples.size() >= winner.samples.size()});
  }
  if (winner.samples.size() >= 2) {
    const auto half = static_cast<std::ptrdiff_t>(winner.samples.size() / 2);
    const double early = median_of({winner.samples.begin(), winner.samples.begin() + half});
    const double late = median_of({winner.samples.end() - half, winner.samples.end()});
    out.drift = std::abs(late / early - 1);
    out.steady = out.drift <= std::max(settings_.drift, 2 * winner.time().uncertainty());
  }
  if (!ready_) return out;  // the last variant ended the process
  try {
    const json state = ask({{"state", true}});
    for (const char* const name : {"clock_mhz", "memory_clock_mhz", "celsius", "slowdowns"}) {
      if (state.contains(name)) out.clocks[name] = state.at(name);
    }
  } catch (const worker_lost& lost) {
    if (lost.why() == worker_lost::kind::interrupted) throw;
  }
  return out;
}

}  // namespace tool
