// SPDX-License-Identifier: MIT
// The bodies of seal.hpp.
#pragma once

#include <cstddef>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD void seal::close(const seal_rules& rules) {
  const locked lock{mutex_};
  rules_ = rules;
  counted_ = {};
  hashes_.clear();
  is_closed_.store(true, std::memory_order_release);
}

SWITCHYARD_COLD seal_rules seal::rules() const {
  const locked lock{mutex_};
  return rules_;
}

SWITCHYARD_COLD seal_report seal::report() const {
  const locked lock{mutex_};
  return counted_;
}

SWITCHYARD_COLD std::string to_string(const seal_report& of) {
  std::string out;
  for (const unprepared_problem& met : of.problems) {
    out += std::to_string(met.calls) + (met.calls == 1 ? " call of " : " calls of ") + met.text + ": " +
           (met.was_loaded ? "loaded its kernel" : "planned") +
           (met.is_fallback ? ", no rows decide it" : "") + (met.is_refused ? ", refused" : "") + "\n";
  }
  return out;
}

SWITCHYARD_COLD void seal::note(const operator_description& op, const device_properties& device,
                                problem_view problem, const event& met, log& messages) {
  std::string line = recorder::format(op, device, problem, 1);
  line.pop_back();  // its end
  const std::string text = std::string{op.name} + " {" + format_problem(op, problem) + "} on " + device.name;
  const std::size_t hash = std::hash<std::string>{}(line);
  bool is_first = true;
  bool is_reported = false;
  {
    const locked lock{mutex_};
    counted_.plans += 1;
    counted_.loads += met.loads ? 1 : 0;
    counted_.fallbacks += met.falls_back ? 1 : 0;
    counted_.refused += met.is_refused ? 1 : 0;
    std::size_t at = 0;
    while (at < hashes_.size() && (hashes_[at] != hash || counted_.problems[at].line != line)) ++at;
    is_first = at == hashes_.size();
    if (is_first && at < max_problems) {
      counted_.problems.push_back({std::move(line)});
      hashes_.push_back(hash);
    }
    if (at < hashes_.size()) {
      unprepared_problem& known = counted_.problems[at];
      known.calls += 1;
      known.was_loaded |= met.loads;
      known.is_fallback |= met.falls_back;
      known.is_refused |= met.is_refused;
      if (is_first) known.text = text;
    }
    is_reported = rules_.plan == seal_action::report || (met.loads && rules_.load == seal_action::report) ||
                  (met.falls_back && rules_.fallback == seal_action::report);
    if (at >= max_problems) is_first = false;  // too many to remember which were reported
  }
  if (!is_first || !is_reported || met.is_refused) return;
  messages.warn("[switchyard.306] " + text + ": not prepared before the catalog was sealed: " +
                (met.loads ? "its kernel was loaded during the call" : "it was planned during the call") +
                (met.falls_back ? ", and no rows decide it" : ""));
}

}  // namespace v0
}  // namespace switchyard
