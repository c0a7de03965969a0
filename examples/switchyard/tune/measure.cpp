// SPDX-License-Identifier: MIT
#include "tune/measure.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/problem/problem.hpp>

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

namespace {

/// Each old content of results twice.
constexpr std::size_t least_judged_runs = 6;

std::atomic<bool> was_interrupted{false};
std::atomic<int> signal_number{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  // Another one of the same kind ends the program at once: the journal loses nothing by it.
  if (was_interrupted.exchange(true)) ::_exit(128 + number);
  signal_number = number;
}

/// "1%" or "0.01" as a share. Throws usage_error.
[[nodiscard]] double require_share(const std::string& option, const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string unit{stop, end};
  if (unit == "%") value /= 100;
  if (problem != std::errc{} || (!unit.empty() && unit != "%") || !(value > 0 && value < 1)) {
    throw usage_error{option + ": expected a share such as 1% or 0.01, got '" + text + "'"};
  }
  return value;
}

}  // namespace

double require_duration(const std::string& option, const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string unit{stop, end};
  const double factor = unit.empty() || unit == "s"    ? 1
                        : unit == "m" || unit == "min" ? 60
                        : unit == "h"                  ? 3600
                                                       : 0;
  if (problem != std::errc{} || factor == 0 || !(value > 0)) {
    throw usage_error{option + ": expected a time such as 90s, 10m or 2h, got '" + text + "'"};
  }
  return value * factor;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = &note_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): a worker that died shows in the write
}

const std::atomic<bool>& interrupted() noexcept {
  return was_interrupted;
}

int status_interrupted() noexcept {
  return 128 + signal_number;
}

void add_measure_options(CLI::App& command, measure_settings& settings, measure_arguments& arguments) {
  command.add_option(
      "--devices", settings.devices,
      "all, host, or numbers such as 0,1: problems are distributed over them. Default: the first");
  command.add_option("--limit", arguments.limit, "Give up a variant that does not answer within this time")
      ->capture_default_str();
  command
      .add_option("--confidence", arguments.confidence,
                  "Sample until the median is 95 % certain to this share of it")
      ->capture_default_str();
  command.add_option("--samples", settings.samples, "Maximum number of samples of a variant")
      ->capture_default_str()
      ->check(CLI::Range(6, 1000));
  command
      .add_option(
          "--judged-runs", settings.judged_runs,
          "Compare so many results of a variant that was among the fastest, for at most 0.5 s. A fault "
          "in one run of 100 shows in 300 with 95 %")
      ->capture_default_str()
      ->check(CLI::Range(least_judged_runs, std::size_t{100'000}));
  command
      .add_option("--drift", arguments.drift,
                  "Measure a problem again if its first variant changed by more by the end")
      ->capture_default_str();
  command
      .add_option("--cache", settings.cache,
                  "rotating: tensors take turns past the cache; cold: it is flushed before each call; warm")
      ->capture_default_str()
      ->check(CLI::IsMember({"rotating", "cold", "warm"}));
  command
      .add_option(
          "--launches", settings.launches,
          "device: calls wait on the device, so that no launch counts, and short ones are replayed as "
          "a graph; stream: one by one, as a program's launches come; graph: always as a graph")
      ->capture_default_str()
      ->check(CLI::IsMember({"device", "stream", "graph"}));
  command.add_option(
      "--sustained", arguments.sustained,
      "Keep the device busy with each variant for this time (2s) before and while it is timed: a "
      "power limit then lowers the clocks as it does under load");
  command
      .add_option(
          "--checks", settings.checks,
          "every: compare each variant's results at every problem; first: at the first problem of each "
          "type that it serves; never: kernels that were checked elsewhere")
      ->capture_default_str()
      ->check(CLI::IsMember({"every", "first", "never"}));
}

void read_measure_options(measure_settings& settings, const measure_arguments& arguments) {
  settings.confidence = require_share("--confidence", arguments.confidence);
  settings.drift = require_share("--drift", arguments.drift);
  settings.limit_seconds = require_duration("--limit", arguments.limit);
  if (!arguments.sustained.empty())
    settings.sustained_seconds = require_duration("--sustained", arguments.sustained);
}

sy::least_and_most sample_counts(const measure_settings& settings, const std::string& backend) {
  const std::int64_t least = backend == "host" ? static_cast<std::int64_t>(sy::tune::least_samples) : 3;
  return {least, std::max(static_cast<std::int64_t>(settings.samples), least)};
}

json extent_to_json(const sy::tune::checked_extent& of) {
  json out{{"rows", of.rows}, {"of", of.all_rows}};
  if (!of.smaller.empty()) out["smaller"] = of.smaller;
  return out;
}

[[nodiscard]] static sy::tune::checked_extent extent_of(const json& of) {
  return {of.at("rows").get<std::int64_t>(), of.at("of").get<std::int64_t>(),
          of.value("smaller", std::string{})};
}

void measuring_worker::begin(const tuning_problem& problem) {
  problem_ = &problem;
  ready_ = false;
  checked_.clear();
  judged_.clear();
  set_up();
  require_asked();
}

template <class Step>
auto measuring_worker::with_second_chance(const serving& variant, const Step& step) {
  try {
    return step();
  } catch (const worker_lost& lost) {
    if (lost.why() == worker_lost::kind::interrupted || ran_alone(variant)) throw;
  }
  checked_.erase(variant.id);
  judged_.erase(variant.id);
  drop_process();
  return step();
}

void measuring_worker::judge(const serving& variant) {
  with_second_chance(variant, [&] {
    check(variant);
    if (const std::string wrong = find_mistake(variant, settings_.judged_runs); !wrong.empty())
      throw worker_lost{worker_lost::kind::garbage, "wrong results: " + wrong};
  });
}

void measuring_worker::confirm(const serving& variant) {
  if (trusts(variant)) return;
  with_second_chance(variant, [&] {
    check(variant);
    check_again(variant);
  });
  trusted_.insert(key_of(variant));
}

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

/// How slow a variant may be, over the fastest, to be timed in a round.
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

/// A turn of a contender, which is out of the race where that fails.
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

/// A short look at each, so that the hopeless are known.
void measuring_worker::quick_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks) {
  double best = 0;
  std::string best_text;
  for (contender& each : all) {
    const auto known = last_share_.find(key_of(each.variant));
    if (!exhaustive && best > 300 && known != last_share_.end() && known->second > 4) {
      each.out = true;  // it was hopeless at the problem before, and such calls take long
      continue;
    }
    hooks.doing("quick " + each.variant.id, best_text);
    double first = 0;
    const auto least_of = [&first](double time) { first = first == 0 ? time : std::min(first, time); };
    if (!take_turn(each, {}, hooks, least_of)) continue;
    const auto is_hopeless = [&] {
      return !exhaustive && best > 0 && first > (best > 100 ? 2.5 : 20) * best;
    };
    // Or it was held up. The first one of all finds the device at rest, with low clocks.
    if ((is_hopeless() || best == 0) && !take_turn(each, {}, hooks, least_of)) continue;
    each.quick = first;
    if (is_hopeless()) continue;
    // The less of two, so that a hiccup costs no variant its place. What takes milliseconds has none.
    double more = 0;
    const auto least_of_more = [&more](double time) { more = more == 0 ? time : std::min(more, time); };
    const turn_options few{3, 0, first, false};
    if (first <= long_us) {
      if (!take_turn(each, few, hooks, least_of_more) || !take_turn(each, few, hooks, least_of_more))
        continue;
      each.quick = more;
    }
    if (best == 0 || each.quick < best) {
      best = each.quick;
      best_text = each.variant.id + " " + sy::text::number(best) + " us";
    }
  }
}

/// Samples of all, in turns. Those that fall behind take no part in later rounds.
void measuring_worker::timed_turns(std::vector<contender>& all, bool exhaustive, const race_hooks& hooks) {
  const bool on_host = worker_.device().backend == "host";
  const bool sustained = settings_.sustained_seconds > 0;
  const auto counts = sample_counts(settings_, worker_.device().backend);
  double leader = 0;
  const contender* first = nullptr;
  const auto find_leader = [&] {
    leader = 0;
    for (const contender& each : all) {
      if (each.out || each.quick == 0) continue;
      if (const double median = each.median(); leader == 0 || median < leader) {
        leader = median;
        first = &each;
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
    return std::all_of(all.begin(), all.end(), [&](const contender& each) {
      return each.out || each.samples.empty() || each.median() > still_in(least) * leader ||
             each.time().uncertainty() <= settings_.confidence;
    });
  };
  for (std::size_t round = 0; !settled(round); ++round) {
    for (contender& each : all) {
      if (each.out || each.quick == 0) continue;
      const double share = sustained && round > 0 ? 1.15 : still_in(round);
      if (!exhaustive && each.median() > leader * share) continue;
      hooks.doing(each.variant.id + " " + std::to_string(round + 1),
                  first->variant.id + " " + sy::text::number(leader) + " us");
      turn_options turn = usual;
      turn.expected_us = each.quick;
      if (sustained) {
        // The first half of its time warms up: clocks follow the power of the calls before.
        turn.untimed = static_cast<std::size_t>(std::ceil(settings_.sustained_seconds * 5e5 / each.quick));
        turn.calls = std::max<std::size_t>(turn.untimed, 1);
        turn.short_calls = false;
      } else if (on_host) {
        turn.calls = static_cast<std::size_t>(std::clamp(5 * sample_us / each.quick, 1.0, 1000.0));
        turn.untimed = 1;
      } else {
        turn.calls = static_cast<std::size_t>(
            std::clamp(sample_us / each.quick, each.quick > long_us ? 1.0 : 2.0, 50.0));
      }
      if (settings_.cache == "cold") turn.calls = 1;
      static_cast<void>(take_turn(each, turn, hooks, [&each](double time) { each.samples.push_back(time); }));
    }
    find_leader();
    if (leader == 0) return;
  }
}

race_outcome measuring_worker::race(const std::vector<serving>& variants, bool exhaustive,
                                    const race_hooks& hooks) {
  std::vector<contender> all;
  for (const serving& each : variants) all.push_back({each, 0, {}, false});
  // Those that were good at the last problem first, so that hopeless ones are known early.
  const auto share_of = [this](const contender& each) {
    const auto found = last_share_.find(key_of(each.variant));
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
  std::erase_if(all, [](const contender& each) { return each.out || each.quick == 0; });
  if (all.empty()) return out;
  std::stable_sort(all.begin(), all.end(),
                   [](const contender& a, const contender& b) { return a.median() < b.median(); });
  const contender& winner = all.front();
  for (const contender& each : all) {
    last_share_[key_of(each.variant)] = each.median() / winner.median();
    out.times.push_back({each.variant, each.time(), each.samples.size() >= winner.samples.size()});
  }
  if (winner.samples.size() >= 2) {
    const auto half = static_cast<std::ptrdiff_t>(winner.samples.size() / 2);
    const double early = median_of({winner.samples.begin(), winner.samples.begin() + half});
    const double late = median_of({winner.samples.end() - half, winner.samples.end()});
    out.drift = std::abs(late / early - 1);
    out.steady = out.drift <= std::max(settings_.drift, 2 * winner.time().uncertainty());
  }
  if (!ready_) return out;  // the last one cost the process
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

measuring_worker::seconds measuring_worker::limit(double factor) const {
  const seconds own{settings_.limit_seconds * factor};
  if (!deadline_) return own;
  // A step that was begun in time may end a little late, and no more.
  const seconds left = *deadline_ - clock::now();
  return std::min(own, std::max(left, seconds{0}) + seconds{2});
}

void measuring_worker::require_time() const {
  if (interrupted_) throw worker_lost{worker_lost::kind::interrupted, "interrupted"};
  if (deadline_ && clock::now() >= *deadline_) throw out_of_time{};
}

/// An answer, or what the budget's end makes of its absence.
json measuring_worker::ask(const json& request, double factor) {
  try {
    return worker_.ask(request, limit(factor));
  } catch (const worker_lost& lost) {
    ready_ = false;
    if (lost.why() == worker_lost::kind::hang) require_time();
    throw;
  }
}

/// Makes the worker hold the problem.
void measuring_worker::set_up() {
  if (ready_) return;
  require_time();
  setting_up_();
  json axes = json::object();
  for (const auto& [axis, value] : problem_->axes) axes[std::string{op_.axes[axis].name}] = value;
  for (const auto& [name, value] : problem_->options) axes[name] = value;
  json answer;
  if (!worker_.running()) ran_.clear();
  // What a variant did that ran before costs no problem: it is set up once more, in a fresh process.
  const bool may_be_spoilt = !ran_.empty();
  try {
    worker_.start(seconds{60});
    // The reference is computed here, and a large problem's tensors are filled.
    answer = ask(
        {{"set_up", axes}, {"cache", settings_.cache}, {"seed", 1}, {"checked", settings_.checks == "every"}},
        6);
  } catch (const worker_lost& lost) {
    if (lost.why() == worker_lost::kind::interrupted) throw;
    if (may_be_spoilt && lost.why() == worker_lost::kind::crash) return set_up();
    throw left_out{std::string{"the process died while setting it up: "} + lost.what()};
  }
  if (answer.contains("changed")) {
    drop_process();
    if (may_be_spoilt) return set_up();
    throw left_out{"the process changed while setting it up: " + answer.at("changed").get<std::string>()};
  }
  if (answer.contains("error")) throw left_out{answer.at("error").get<std::string>()};
  // The worker has read its files by itself: axes that files add may have other numbers there.
  const auto values = answer.at("problem").get<std::vector<std::int64_t>>();
  const auto added = answer.at("added").get<std::vector<std::string>>();
  const std::size_t own = op_.own_axes();
  const auto axis_of = [&](std::size_t axis) {
    return axis < own ? static_cast<std::uint32_t>(axis) : require_axis(op_, added.at(axis - own));
  };
  for (const std::string& each : added) static_cast<void>(require_axis(op_, each));
  full_.assign(op_.axes.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) full_.at(axis_of(i)) = values[i];
  checks_ = extent_of(answer.at("checked"));
  serving_.clear();
  for (const json& each : answer.at("variants")) {
    serving next{each.at("id").get<std::string>(), each.at("blob").get<std::string>(), {}};
    for (const json& axis : each.at("type"))
      next.type.push_back({axis_of(axis.at(0).get<std::uint32_t>()), axis.at(1).get<std::int64_t>()});
    std::sort(next.type.begin(), next.type.end(),
              [](const sy::axis_value& a, const sy::axis_value& b) { return a.axis < b.axis; });
    serving_.push_back(std::move(next));
  }
  ready_ = true;
}

/// A workload makes calls of one layout; a problem of another one cannot be had from it.
void measuring_worker::require_asked() const {
  for (const auto& [axis, value] : problem_->axes) {
    if (full_[axis] == value) continue;
    const sy::axis_description& of = op_.axes[axis];
    throw left_out{"the tuner's calls have " + std::string{of.name} + "=" +
                   sy::format_value(of, full_[axis]) + " where " + sy::format_value(of, value) +
                   " is asked for; its workload makes no such calls"};
  }
}

/// Whether a variant's results need no comparing at this problem.
bool measuring_worker::trusts(const serving& variant) const {
  return settings_.checks == "never" || (settings_.checks == "first" && trusted_.contains(key_of(variant)));
}

/// Tells a variant from its namesakes of other types.
std::string measuring_worker::key_of(const serving& variant) const {
  std::string out = variant.id + " " + variant.blob;
  for (const sy::axis_value& each : problem_->type)
    out += " " + std::to_string(each.axis) + "=" + std::to_string(each.value);
  return out;
}

/// Before a variant is timed for a problem, once.
void measuring_worker::check(const serving& variant) {
  if (checked_.contains(variant.id) || trusts(variant)) return;
  if (const std::string wrong = find_mistake(variant, 1); !wrong.empty())
    throw worker_lost{worker_lost::kind::garbage, "wrong results: " + wrong};
  checked_.insert(variant.id);
}

/// After its times were taken: thoroughly once for a problem, and shortly where it is timed again.
void measuring_worker::check_again(const serving& variant) {
  const bool first = judged_.insert(variant.id).second;
  if (const std::string wrong = find_mistake(variant, first ? settings_.judged_runs : least_judged_runs);
      !wrong.empty()) {
    checked_.erase(variant.id);
    throw worker_lost{worker_lost::kind::garbage,
                      "right before it was timed, wrong results afterwards: " + wrong};
  }
}

/// What is wrong with a variant's results; empty when nothing is.
std::string measuring_worker::find_mistake(const serving& variant, std::size_t runs) {
  const json answer = require_answer(variant, {{"check", variant.id}, {"runs", runs}});
  auto wrong = answer.at("wrong").get<std::string>();
  checks_ = extent_of(answer.at("checked"));
  // Such a kernel may have written anywhere: the next one gets fresh tensors.
  if (!wrong.empty()) drop_process();
  return wrong;
}

/// A variant that leaves threads running may end its process with one, or change it, a little later. Once for
/// each: libraries keep threads for the next call.
void measuring_worker::outlive(const serving& variant) {
  constexpr double long_enough = 1.5;  // seconds
  if (outlived_.contains(variant.id + " " + variant.blob)) return;
  json answer;
  try {
    answer = ask({{"outlive", long_enough}});
  } catch (const worker_lost& lost) {
    if (lost.why() != worker_lost::kind::crash) throw;
    throw worker_lost{worker_lost::kind::crash, std::string{"a thread that it left running: "} + lost.what()};
  }
  if (answer.contains("changed")) {
    drop_process();
    throw worker_lost{worker_lost::kind::garbage,
                      "a thread that it left running changes the state of its process: " +
                          answer.at("changed").get<std::string>()};
  }
  outlived_.insert(variant.id + " " + variant.blob);
}

bool measuring_worker::ran_alone(const serving& variant) const {
  return ran_.empty() || (ran_.size() == 1 && ran_.contains(variant.id));
}

/// An answer that is no error. Errors of the device end the worker: nothing works after some of them.
json measuring_worker::require_answer(const serving& variant, const json& request) {
  require_time();
  set_up();
  ran_.insert(variant.id);
  json answer = ask(request);
  if (answer.contains("changed")) {
    drop_process();
    throw worker_lost{worker_lost::kind::garbage,
                      "changes the state of its process: " + answer.at("changed").get<std::string>()};
  }
  if (answer.contains("threads")) outlive(variant);
  if (!answer.contains("error")) return answer;
  const auto code = static_cast<sy::error_code>(answer.at("code").get<int>());
  const auto text = answer.at("error").get<std::string>();
  if (code == sy::error_code::launch_failed || code == sy::error_code::driver_failed) {
    drop_process();
    throw worker_lost{worker_lost::kind::crash, text};
  }
  throw not_measured{text};
}

void measuring_worker::drop_process() noexcept {
  worker_.kill();
  ready_ = false;
}

}  // namespace tool
