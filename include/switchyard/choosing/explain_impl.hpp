// SPDX-License-Identifier: MIT
// The bodies of explain.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/explain_rows.hpp>
#include <switchyard/choosing/find_exceeded.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/group_query.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/lost_rows.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/workspace_need.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD std::string find_obstacle(const selector& from, std::uint32_t index, problem_view problem,
                                          unusable_flags unusable, bool of_any_class) {
  const candidate& refused = from.candidates[index];
  for (const axis_value& wanted : refused.variant->type) {
    if (problem[wanted.axis] == wanted.value) continue;
    const axis_description& axis = from.op->axes[wanted.axis];
    if (wanted.axis >= from.op->own_axes())
      return "requires " + std::string{axis.name} + (wanted.value != 0 ? "" : " to be false");
    return "serves " + std::string{axis.name} + "=" + format_value(axis, wanted.value) + ", not " +
           format_value(axis, problem[wanted.axis]);
  }
  const evaluation values{problem, from.device.attributes, {}, nullptr};
  choice_limits limits = from.limits;
  if (of_any_class) limits.reproducible = refused.variant->reproducible;
  if (std::string exceeded = find_exceeded(limits, *refused.variant); !exceeded.empty()) return exceeded;
  const std::int64_t need =
      refused.max_workspace == choice_limits::any_workspace ? 0 : workspace_need(*refused.variant, values);
  if (need < 0) return find_unfit(from, *refused.variant, problem);
  if (need > refused.max_workspace)
    return "needs " + std::to_string(need) + " bytes of workspace, more than the limit of " +
           std::to_string(refused.max_workspace);
  if ((!refused.fits && !of_any_class) || !refused.fits_problem(values)) {
    for (const expression* shared : refused.shared) {
      const fault why = shared->evaluate(values).why;
      if (why != fault::none && why != fault::overflow) return "shared_bytes " + std::string{to_string(why)};
    }
    return "needs more shared memory than the " + std::to_string(refused.max_shared) +
           " bytes a block can have";
  }
  for (const condition& condition : refused.variant->conditions) {
    const integer_result holds = condition.value.evaluate(values);
    if (holds.why != fault::none)
      return "requires " + condition.text + ", which " + std::string{to_string(holds.why)};
    if (holds.value == 0) return "requires " + condition.text;
  }
  for (const std::uint32_t denied : refused.denials) {
    const candidate_denial& denial = from.denials[denied];
    if (matches(denial.type, problem))
      return "denied by " + denial.table + (denial.reason.empty() ? "" : ": " + denial.reason);
  }
  if (index < unusable.size() && unusable[index].load(std::memory_order_relaxed))
    return "could not be loaded; see the warning";
  return {};
}

SWITCHYARD_COLD std::string find_reason(const selector& from, std::uint32_t index, problem_view problem,
                                        unusable_flags unusable) {
  std::string out = find_obstacle(from, index, problem, unusable);
  return out.empty() ? find_unfit(from, *from.candidates[index].variant, problem) : out;
}

SWITCHYARD_COLD std::int64_t least_workspace_need(const candidate_set& from, problem_view problem,
                                                  unusable_flags unusable) {
  candidate_set unlimited = from;
  for (candidate& freed : unlimited.candidates) freed.max_workspace = choice_limits::any_workspace;
  std::int64_t least = -1;
  for (std::uint32_t i = 0; i < unlimited.candidates.size(); ++i) {
    const variant& tried = *unlimited.candidates[i].variant;
    if (!unlimited.admissible(i, problem, unusable) || !find_unfit(unlimited, tried, problem).empty())
      continue;
    const std::int64_t need = workspace_need(tried, {problem, from.device.attributes, {}, nullptr});
    if (need >= 0 && (least < 0 || need < least)) least = need;
  }
  return least;
}

/// Names the reproducible classes of which a candidate may serve a problem but for the limit to another.
[[nodiscard]] inline std::string format_classes(const selector& from, problem_view problem,
                                                unusable_flags unusable) {
  std::string out;
  for (std::uint32_t i = 0; i < from.candidates.size(); ++i) {
    const std::string name = "'" + from.candidates[i].variant->reproducible + "'";
    if (name.size() > 2 && out.find(name) == out.npos &&
        find_obstacle(from, i, problem, unusable, true).empty())
      out += (out.empty() ? "" : ", ") + name;
  }
  return out.empty() ? " no reproducible class serves it;"
                     : " reproducible classes that serve it: " + out + ";";
}

[[nodiscard]] inline std::string format_target(const candidate& of) {
  return of.from->target.backend + " " + of.from->target.arch;
}

/// Time of a candidate in a row, carried to the problem as selection does, or 0.
[[nodiscard]] inline double find_time(const indexed_group& group, std::uint32_t row, const row_growth& growth,
                                      std::uint32_t candidate_index, problem_view problem) {
  for (const candidate_time& time : group.row_times(row)) {
    for (const std::uint32_t index : group.named[time.variant].candidates) {
      if (index != candidate_index) continue;
      joint_program::values computed{group.program, problem};
      const float grown = growth.of(time, group.cost_of(time.variant, computed));
      return static_cast<double>(time.microseconds) * __builtin_exp2(static_cast<double>(grown));
    }
  }
  return 0;
}

}  // namespace detail

SWITCHYARD_COLD explanation explain(const selector& from, problem_view asked, const choice& chosen,
                                    unusable_flags unusable, const std::byte* arguments) {
  const padded_problem padded{*from.op, asked};
  const problem_view problem = padded.view();
  explanation out;
  out.operator_name = from.op->name;
  out.problem = format_problem(*from.op, problem);
  out.device = from.device.name + " (" + from.device.backend + " " + from.device.arch + ")";
  out.chosen = chosen;
  if (chosen.variant != no_index) {
    const candidate& winner = from.candidates[chosen.variant];
    out.variant = winner.variant->id;
    out.config = format_config(*winner.variant);
    out.target = detail::format_target(winner);
    out.manifest = winner.from->path;
    out.max_error = winner.variant->max_error;
    out.reproducible = winner.variant->reproducible;
    for (const launch& launch : winner.variant->launches)
      out.launches.push_back(launch.is_fill
                                 ? "fill of " + winner.variant->workspace[launch.fill_workspace].name
                                 : launch.kernel + " of " + launch.blob);
  }
  if (chosen.group != no_index && chosen.row != no_index) {
    const indexed_group& group = from.groups[chosen.group];
    const indexed_group::origin& origin = group.origins[chosen.row];
    out.table = from.tables[origin.table]->path;
    out.table_group = origin.group;
    out.table_row = origin.row;
    out.lost = find_lost_rows(from, group, chosen.row);
    out.timed = group.timed;
    out.measured_with = detail::format_unmeasured(*from.op, group.measured_with, problem);
    for (std::size_t i = 0; i < group.axes.size(); ++i) {
      if (i > 0) out.row_at += ' ';
      out.row_at += std::string{from.op->axes[group.axes[i]].name} + "=" +
                    std::to_string(group.at[chosen.row * group.axes.size() + i]);
    }
  }
  if (chosen.why == reason::pinned) {
    out.table = from.pins[chosen.pin].table;
    out.note = from.pins[chosen.pin].reason;
  } else if (chosen.why == reason::forced) {
    out.note = "SWITCHYARD_FORCE=" + out.operator_name + ":" + from.force_text;
  } else if (chosen.why == reason::heuristic) {
    out.note =
        detail::explain_silence(from, problem, unusable) +
        (from.candidates[chosen.variant].variant->has_time() ? "; least cost of the variants that serve it"
                                                             : "; first admissible variant of the manifest");
  }
  const bool has_row = chosen.group != no_index && chosen.row != no_index;
  row_growth growth;
  if (has_row) {
    group_query query{from, from.groups[chosen.group], problem, unusable};
    (void)query.choose();
    out.weighs_stated = query.weighs_stated();
    growth = query.growth_of(chosen.row);
  }
  for (std::uint32_t i = 0; i < from.candidates.size(); ++i) {
    candidate_report report;
    report.variant = from.candidates[i].variant->id;
    report.target = detail::format_target(from.candidates[i]);
    report.config = format_config(*from.candidates[i].variant);
    report.reproducible = from.candidates[i].variant->reproducible;
    report.obstacle = detail::find_obstacle(from, i, problem, unusable);
    if (report.obstacle.empty()) {
      report.obstacle = detail::find_unfit(from, *from.candidates[i].variant, problem, arguments);
      report.passed_over = !report.obstacle.empty();
    }
    report.admissible = report.obstacle.empty();
    if (has_row && out.timed)
      report.microseconds = detail::find_time(from.groups[chosen.group], chosen.row, growth, i, problem);
    out.candidates.push_back(std::move(report));
  }
  return out;
}

SWITCHYARD_COLD std::string format_reason(const explanation& why) {
  const choice& chosen = why.chosen;
  const std::string row = "row " + std::to_string(why.table_row) + " of group " +
                          std::to_string(why.table_group) + " of " + why.table + " (" + why.row_at + ")";
  std::string distance = " at distance " + text::number(static_cast<double>(chosen.distance));
  if (chosen.growth > 0 && (chosen.growth < 0.995F || chosen.growth > 1.005F))
    distance += ", its cost here " + text::number(static_cast<double>(chosen.growth)) + " times the row's";
  const std::string limits =
      std::string{why.weighs_stated ? "; stated times count as one more row" : ""} +
      std::string{why.timed ? "" : "; a list of winners without times, not measured here"} +
      (why.measured_with.empty() ? "" : "; measured with " + why.measured_with) +
      std::string{chosen.stale ? "; stale: the blob changed since it was measured" : ""} +
      format_lost(why.lost);
  switch (chosen.why) {
    case reason::exact:
      return "exact: " + row + limits;
    case reason::interpolated:
      return "interpolated: nearest " + row + distance + limits;
    case reason::extrapolated:
      return "extrapolated: nearest " + row + distance + ", outside the table's envelope" + limits;
    case reason::other_device:
      return "other device (" + std::string{to_string(chosen.rank)} + "): nearest " + row + distance + limits;
    case reason::heuristic:
      return "heuristic: " + why.note;
    case reason::forced:
      return "forced: " + why.note;
    case reason::pinned:
      return "pinned by " + why.table + (why.note.empty() ? "" : ": " + why.note);
    case reason::none:
      break;
  }
  return "no variant serves it";
}

SWITCHYARD_COLD std::string to_string(const explanation& why) {
  std::string out = why.operator_name + " {" + why.problem + "} on " + why.device + ": ";
  if (why.variant.empty()) return text::printable(out + format_reason(why));
  out += why.variant;
  if (!why.config.empty()) out += " {" + why.config + "}";
  out += " [" + why.target + "], " + format_reason(why);
  if (why.chosen.microseconds > 0) {
    const bool measured = why.chosen.why == reason::exact;
    out += std::string{measured ? ", measured " : ", predicted "} +
           text::number(static_cast<double>(why.chosen.microseconds)) + " us";
  }
  return text::printable(std::move(out));
}

namespace detail {

/// "Searched: /a (does not exist), /b": where a program looks.
[[nodiscard]] inline std::string format_searched(const std::vector<std::string>& folders) {
  return folders.empty() ? std::string{} : ". Searched: " + text::join(folders);
}

}  // namespace detail

SWITCHYARD_COLD std::string explain_failure(const selector& from, problem_view asked, unusable_flags unusable,
                                            const failure_context& context) {
  const padded_problem padded{*from.op, asked};
  const problem_view problem = padded.view();
  const std::vector<std::string>& targets = context.targets;
  const bool has_forced = from.is_forced && !from.forced.empty();  // then that is the cause
  std::string out =
      context.absent.empty() || has_forced ? std::string{} : context.absent + ", so the CPU was asked. ";
  out += std::string{from.op->name} + " {" + format_problem(*from.op, problem) + "} on " + from.device.name +
         " (" + from.device.backend + " " + from.device.arch + "): ";
  if (from.is_forced) {
    out += "SWITCHYARD_FORCE asks for '" + from.force_text + "', ";
    if (from.forced.empty()) {
      std::vector<std::string> known;
      for (std::uint32_t i = 0; i < from.candidates.size(); ++i)
        if (detail::find_reason(from, i, problem, unusable).empty())
          known.push_back(from.candidates[i].variant->id);
      if (!known.empty())
        return out + "which is no variant" + text::suggestion(from.force_text, known) +
               "; these would serve the call: " + text::join(known);
      out += "which is no variant, and without it nothing serves the call either: ";
    }
  }
  if (has_forced) {
    out += "which may not serve it:";
    for (const std::uint32_t index : from.forced)
      out += " " + from.candidates[index].variant->id + " " +
             detail::find_reason(from, index, problem, unusable) + ";";
    return out + " unset the variable, or force another variant";
  }
  if (targets.empty()) {
    return out +
           "no manifest of this operator was found. Install its kernels (a CMake subproject builds them "
           "only with SWITCHYARD_BUILD_KERNELS=ON), or name their root in SWITCHYARD_PATH" +
           detail::format_searched(context.searched);
  }
  if (from.candidates.empty() && !context.fault.empty()) {
    return out +
           "every variant for this device was left out. Correct its manifest, or install another. The "
           "first: " +
           context.fault;
  }
  if (from.candidates.empty()) {
    return out + "none of the installed kernels runs on this device; they are built for " +
           text::join(targets) + ". Build them for " + from.device.arch +
           detail::format_searched(context.searched);
  }
  // Nearest: fewest type axes that differ, then those whose types match and whose conditions fail. Of the
  // class that is demanded, where it has any.
  std::vector<std::uint32_t> nearest;
  std::size_t fewest = 2 * max_axes + 1;
  const std::string& wanted_class = from.limits.reproducible;
  for (std::uint32_t i = 0; i < from.candidates.size(); ++i) {
    std::size_t differing = 0;
    for (const axis_value& wanted : from.candidates[i].variant->type)
      if (problem[wanted.axis] != wanted.value) ++differing;
    if (!wanted_class.empty() && from.candidates[i].variant->reproducible != wanted_class)
      differing += max_axes;
    if (differing < fewest) {
      fewest = differing;
      nearest.clear();
    }
    if (differing == fewest && nearest.size() < 3) nearest.push_back(i);
  }
  out += "none of " + std::to_string(context.count) + " variants serves it. Nearest:";
  bool is_limited = !wanted_class.empty();
  for (const std::uint32_t index : nearest) {
    const variant& one = *from.candidates[index].variant;
    out += " " + one.id + " (" + detail::find_reason(from, index, problem, unusable) + ");";
    is_limited = is_limited || (fewest == 0 && !detail::find_exceeded(from.limits, one).empty());
  }
  const std::int64_t least = detail::least_workspace_need(from, problem, unusable);
  if (least > from.limits.workspace_bytes)
    return out + " a workspace limit of at least " + std::to_string(least) + " bytes would do";
  if (!wanted_class.empty()) out += detail::format_classes(from, problem, unusable);
  return out + " change the call" + (is_limited ? ", its limits" : "") +
         ", or install a variant that serves it";
}

SWITCHYARD_COLD std::string explain_failure(const selector& from, problem_view problem,
                                            unusable_flags unusable) {
  std::vector<std::string> targets;
  for (const auto& file : from.manifests) targets.push_back(file->target.backend + " " + file->target.arch);
  return explain_failure(from, problem, unusable, {from.candidates.size(), std::move(targets), {}, {}, {}});
}

}  // namespace v0
}  // namespace switchyard
