// SPDX-License-Identifier: MIT
#include "tune/measure.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/problem/problem.hpp>

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

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

double measuring_worker::judge(const serving& variant) {
  return with_second_chance(variant, [&] {
    check(variant);
    if (const std::string wrong = find_mistake(variant, settings_.judged_runs); !wrong.empty())
      throw worker_lost{worker_lost::kind::garbage, "wrong results: " + wrong};
    return largest_error_;
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

measuring_worker::seconds measuring_worker::limit(double factor) const {
  const seconds own{settings_.limit_seconds * factor};
  if (!deadline_) return own;
  // A step that began in time may end slightly late.
  const seconds left = *deadline_ - clock::now();
  return std::min(own, std::max(left, seconds{0}) + seconds{2});
}

void measuring_worker::require_time() const {
  if (interrupted_) throw worker_lost{worker_lost::kind::interrupted, "interrupted"};
  if (deadline_ && clock::now() >= *deadline_) throw out_of_time{};
}

/// An answer, or out_of_time if the budget ended first.
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
  // An earlier variant may have damaged the process: the problem is set up once more, in a fresh one.
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
  for (const std::string& axis : added) static_cast<void>(require_axis(op_, axis));
  full_.assign(op_.axes.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) full_.at(axis_of(i)) = values[i];
  checks_ = extent_of(answer.at("checked"));
  serving_.clear();
  for (const json& entry : answer.at("variants")) {
    serving next{entry.at("id").get<std::string>(), entry.at("blob").get<std::string>(), {}};
    for (const json& axis : entry.at("type"))
      next.type.push_back({axis_of(axis.at(0).get<std::uint32_t>()), axis.at(1).get<std::int64_t>()});
    std::sort(next.type.begin(), next.type.end(),
              [](const sy::axis_value& a, const sy::axis_value& b) { return a.axis < b.axis; });
    serving_.push_back(std::move(next));
  }
  ready_ = true;
}

/// A workload makes calls of one layout. Refuses a problem of another one.
void measuring_worker::require_asked() const {
  for (const auto& [axis, value] : problem_->axes) {
    if (full_[axis] == value) continue;
    const sy::axis_description& of = op_.axes[axis];
    throw left_out{"the tuner's calls have " + std::string{of.name} + "=" +
                   sy::format_value(of, full_[axis]) + " where " + sy::format_value(of, value) +
                   " is asked for; its workload makes no such calls"};
  }
}

bool measuring_worker::trusts(const serving& variant) const {
  return settings_.checks == "never" || (settings_.checks == "first" && trusted_.contains(key_of(variant)));
}

/// Distinguishes a variant from those of the same id for other types.
std::string measuring_worker::key_of(const serving& variant) const {
  return variant.id + " " + variant.blob + type_key(problem_->type);
}

/// The same for calls of one kind: what is slow for one block mask may be the best for another.
std::string measuring_worker::kind_key_of(const serving& variant) const {
  std::string out = key_of(variant);
  for (std::size_t axis = 0; axis < full_.size(); ++axis) {
    if (op_.axes[axis].kind == sy::axis_kind::type) out += " " + std::to_string(full_[axis]);
  }
  for (const auto& [name, value] : problem_->options) out += " " + name + "=" + std::to_string(value);
  return out;
}

/// The same for problems of about the same sizes: a variant that is slow for one long sequence may be the
/// best for many short ones.
std::string measuring_worker::size_key_of(const serving& variant) const {
  std::string out = kind_key_of(variant);
  for (std::size_t axis = 0; axis < full_.size(); ++axis) {
    if (op_.axes[axis].kind != sy::axis_kind::type)
      out += " " + std::to_string(
                       std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(full_[axis], 0))));
  }
  return out;
}

/// Before a variant is timed for a problem, once.
void measuring_worker::check(const serving& variant) {
  if (checked_.contains(variant.id) || trusts(variant)) return;
  if (const std::string wrong = find_mistake(variant, 1); !wrong.empty())
    throw worker_lost{worker_lost::kind::garbage, "wrong results: " + wrong};
  checked_.insert(variant.id);
}

/// After it was timed: thoroughly once for each problem, and briefly if it is timed again.
void measuring_worker::check_again(const serving& variant) {
  const bool first = judged_.insert(variant.id).second;
  if (const std::string wrong = find_mistake(variant, first ? settings_.judged_runs : least_judged_runs);
      !wrong.empty()) {
    checked_.erase(variant.id);
    throw worker_lost{worker_lost::kind::garbage,
                      "right before it was timed, wrong results afterwards: " + wrong};
  }
}

/// What is wrong with a variant's results; empty if nothing is.
std::string measuring_worker::find_mistake(const serving& variant, std::size_t runs) {
  const json answer = require_answer(variant, {{"check", variant.id}, {"runs", runs}});
  auto wrong = answer.at("wrong").get<std::string>();
  checks_ = extent_of(answer.at("checked"));
  largest_error_ = answer.at("largest_error").get<double>();
  // Such a kernel may have written anywhere: the next one gets fresh tensors.
  if (!wrong.empty()) drop_process();
  return wrong;
}

/// Threads that a variant leaves running may end or change the process a little later, so this waits for
/// them, once for each variant: libraries keep threads for the next call.
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
