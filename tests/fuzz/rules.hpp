// SPDX-License-Identifier: MIT
// What the fuzzers do with manifests and tables that were read: choose, explain, and check what choosing
// promises.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace fuzz {

namespace sy = switchyard;

/// The axes that the files of one run add. Files that are kept for all runs add none.
inline std::unique_ptr<sy::added_axes>& file_axes() {
  static auto all = std::make_unique<sy::added_axes>(sy::describe<sy::operators::rotary>());
  return all;
}

inline const sy::operator_description& rotary() {
  return file_axes()->live();
}

inline void begin_run() {
  file_axes() = std::make_unique<sy::added_axes>(sy::describe<sy::operators::rotary>());
}

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline sy::device_properties device() {
  sy::device_properties out;
  out.backend = "host";
  out.arch = "any";
  out.name = "corpus";
  out.set("multiprocessors", 8);
  out.set("avx2", 1);
  out.set("shared_bytes_per_block", 65536);
  return out;
}

/// A file that was refused must say so with a number and its name, briefly.
inline void check_refusal(const sy::file_error& problem, const std::string& path) {
  const std::string_view said = problem.what();
  require(said.starts_with("[switchyard.1") && said.find(path) != std::string_view::npos &&
          said.size() < 2000);
}

inline void choose(const std::shared_ptr<const sy::manifest>& kernels,
                   std::shared_ptr<const sy::table> overlay, std::shared_ptr<const sy::table> measured,
                   const std::string& force) {
  sy::selector_sources sources;
  sources.op = &rotary();
  sources.device = device();
  sources.manifests.push_back(kernels);
  if (overlay != nullptr) sources.overlays.push_back(std::move(overlay));
  if (measured != nullptr) sources.tables.push_back(std::move(measured));
  sources.force = force;
  std::vector<std::string> warned;
  const auto rules = sy::build_selector(sources, warned);

  const auto ask = [&rules](const std::vector<std::int64_t>& problem) {
    const sy::choice chosen = rules->select(problem);
    bool any = false;
    for (std::uint32_t i = 0; i < rules->candidates.size(); ++i) {
      const bool may = rules->admissible(i, problem, {});
      any = any || may;
      require(may == sy::detail::find_obstacle(*rules, i, problem, {}).empty());
    }
    if (chosen.variant == sy::no_index) {
      require(rules->is_forced || !any);
      require(!sy::explain_failure(*rules, problem).empty());
      return;
    }
    require(rules->admissible(chosen.variant, problem, {}));
    require(std::isfinite(chosen.microseconds) && chosen.microseconds >= 0);
    require(std::isfinite(chosen.distance) && chosen.distance >= 0);
    require(!to_string(sy::explain(*rules, problem, chosen)).empty());
  };
  constexpr std::array<std::int64_t, 8> sizes{0,
                                              1,
                                              128,
                                              4096,
                                              std::int64_t{1} << 40,
                                              -1,
                                              std::numeric_limits<std::int64_t>::max(),
                                              std::numeric_limits<std::int64_t>::min()};
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> problem(rotary().axes.size(), size);
    ask(problem);
    for (std::size_t i = 0; i < problem.size(); ++i) {
      if (rotary().axes[i].kind == sy::axis_kind::type) problem[i] = 0;
    }
    problem[0] = 2;
    ask(problem);
  }
  // The problems that the rows themselves name.
  for (const sy::indexed_group& group : rules->groups) {
    for (std::size_t row = 0; row < group.row_count() && row < 4; ++row) {
      std::vector<std::int64_t> problem(rotary().axes.size());
      for (const sy::axis_value& value : group.type) problem[value.axis] = value.value;
      for (std::size_t i = 0; i < group.axes.size(); ++i)
        problem[group.axes[i]] = group.at[row * group.axes.size() + i];
      ask(problem);
      for (std::int64_t& value : problem) {
        if (value < std::numeric_limits<std::int64_t>::max()) ++value;
      }
      ask(problem);
    }
  }
}

}  // namespace fuzz
