// SPDX-License-Identifier: MIT
// What variants require of a problem, and how the requirements of several relate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/problem/problem.hpp>

namespace sy = switchyard;

namespace tool {

/// Whether a problem can have both types.
[[nodiscard]] inline bool compatible(const std::vector<sy::axis_value>& a,
                                     const std::vector<sy::axis_value>& b) {
  return std::none_of(a.begin(), a.end(), [&b](const sy::axis_value& mine) {
    return std::any_of(b.begin(), b.end(), [&mine](const sy::axis_value& other) {
      return other.axis == mine.axis && other.value != mine.value;
    });
  });
}

/// Whether rows were measured with the values that a type has, as far as they record it.
[[nodiscard]] inline bool was_measured(const std::vector<sy::measured_values>& with,
                                       const std::vector<sy::axis_value>& type) {
  return std::all_of(with.begin(), with.end(), [&type](const sy::measured_values& measured) {
    return std::none_of(type.begin(), type.end(), [&measured](const sy::axis_value& wanted) {
      return wanted.axis == measured.axis &&
             std::find(measured.values.begin(), measured.values.end(), wanted.value) == measured.values.end();
    });
  });
}

/// Whether every problem of type `inner` is of type `outer`.
[[nodiscard]] inline bool covers(const std::vector<sy::axis_value>& outer,
                                 const std::vector<sy::axis_value>& inner) {
  return std::all_of(outer.begin(), outer.end(), [&inner](const sy::axis_value& value) {
    return std::find(inner.begin(), inner.end(), value) != inner.end();
  });
}

/// What a variant does at a launch, as text: equal for variants that do the same.
[[nodiscard]] inline std::string format_work(const sy::variant& variant) {
  std::string out;
  for (const sy::config_entry& entry : variant.config)
    out += entry.name + "=" + std::to_string(entry.value) + ";";
  for (const sy::launch& launch : variant.launches) {
    out += launch.is_fill ? "fill;" : launch.sha256 + ":" + launch.kernel + "(";
    for (const sy::parameter& parameter : launch.parameters) out += parameter.text + ",";
  }
  return out;
}

/// A type and its conditions as sorted numbers, one for each axis value and each text: a variant serves all
/// calls of another one if its numbers are among the other's.
using demand = std::vector<std::uint32_t>;

/// Numbers the requirements of a manifest's variants.
class demand_numbers {
 public:
  [[nodiscard]] demand of(const sy::variant& variant) {
    demand out;
    for (const sy::axis_value& value : variant.type)
      out.push_back(number(std::to_string(value.axis) + "=" + std::to_string(value.value)));
    for (const sy::condition& condition : variant.conditions) out.push_back(number(" " + condition.text));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    for (const std::uint32_t part : out) ++uses_[part];
    return out;
  }

  /// How many variants have this requirement.
  [[nodiscard]] std::size_t uses(std::uint32_t number) const { return uses_[number]; }

 private:
  [[nodiscard]] std::uint32_t number(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(uses_.size()));
    if (is_new) uses_.push_back(0);
    return at->second;
  }

  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::size_t> uses_;
};

/// Finds variants that serve all calls of another one without comparing all pairs: requirements are indexed
/// by their rarest number, which few variants share.
class demand_index {
 public:
  void add(const demand& of, const demand_numbers& numbers, const sy::variant& owner) {
    if (of.empty()) {
      if (of_all_ == nullptr) of_all_ = &owner;
      return;
    }
    const std::uint32_t rarest = *std::min_element(of.begin(), of.end(), [&](auto left, auto right) {
      return numbers.uses(left) < numbers.uses(right);
    });
    if (known_.insert(of).second) by_rarest_[rarest].push_back({of, &owner});
  }

  /// A variant that was added earlier and requires nothing else; null if there is none.
  [[nodiscard]] const sy::variant* find_within(const demand& of) const {
    if (of_all_ != nullptr) return of_all_;
    for (const std::uint32_t part : of) {
      const auto found = by_rarest_.find(part);
      if (found == by_rarest_.end()) continue;
      for (const auto& [other, owner] : found->second) {
        if (std::includes(of.begin(), of.end(), other.begin(), other.end())) return owner;
      }
    }
    return nullptr;
  }

 private:
  const sy::variant* of_all_ = nullptr;
  std::set<demand> known_;
  std::unordered_map<std::uint32_t, std::vector<std::pair<demand, const sy::variant*>>> by_rarest_;
};

}  // namespace tool
