// SPDX-License-Identifier: MIT
// The bodies of manifest.hpp.
#pragma once

#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool matches(const std::vector<axis_value>& wanted, problem_view problem) noexcept {
  for (const axis_value& required : wanted) {
    if (problem[required.axis] != required.value) return false;
  }
  return true;
}

SWITCHYARD_FUNCTION bool contradict(const std::vector<axis_value>& a,
                                    const std::vector<axis_value>& b) noexcept {
  for (const axis_value& mine : a) {
    for (const axis_value& other : b) {
      if (mine.axis == other.axis && mine.value != other.value) return true;
    }
  }
  return false;
}

SWITCHYARD_FUNCTION double variant::time_at(const evaluation& values) const noexcept {
  const bool is_stated = !cost_ns.text.empty();
  const integer_result out = (is_stated ? cost_ns : cost).value.evaluate(values);
  if (out.why != fault::none || out.value < 1) return __builtin_inf();
  return static_cast<double>(out.value) * (is_stated ? 1e-3 : cost_us);
}

SWITCHYARD_FUNCTION std::string format_config(const variant& of) {
  std::string out;
  for (const config_entry& entry : of.config) {
    if (!out.empty()) out += ',';
    out += entry.name + '=' + std::to_string(entry.value);
  }
  return out;
}

SWITCHYARD_FUNCTION std::string blob_fingerprint(const variant& of) {
  std::string out;
  for (const launch& launch : of.launches) {
    if (!launch.is_fill) out += launch.sha256.substr(0, 16);
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
