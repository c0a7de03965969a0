// SPDX-License-Identifier: MIT
#include "tune/batches.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>

#include <nlohmann/json.hpp>

#include <switchyard/error.hpp>
#include <switchyard/files/read_table.hpp>

#include "tune/interrupt.hpp"
#include "tune/worth.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// The next of `count` operators' share of the remaining time. Half of the time is divided equally, so that
/// each operator is begun, and half by calls. `weight_left` is a difference: of large weights and small ones,
/// nothing is left.
[[nodiscard]] double share_of(double weight, double weight_left, std::size_t count) {
  if (weight_left <= weight) return 1;
  return 0.5 / static_cast<double>(count) + 0.5 * weight / weight_left;
}

void print_not_begun(const std::vector<batch>& batches, std::size_t from) {
  std::string list;
  for (std::size_t i = from; i < batches.size(); ++i) {
    const bool is_new = i == from || batches[i].worth != batches[i - 1].worth;
    const std::string head = batches[i].worth.empty() ? "" : batches[i].worth + ": ";
    list += is_new ? (list.empty() ? "" : "; ") + head : ", ";
    list += batches[i].known->description->name;
  }
  std::printf("not begun, since the budget is used up (the same command resumes): %s\n", list.c_str());
}

/// The batches of one worth after another.
class batch_run {
 public:
  batch_run(session& session, tune_settings settings, const std::vector<batch>& batches,
            tuned_devices& devices, const sy::tune::shard& part)
      : session_{session},
        settings_{std::move(settings)},
        batches_{batches},
        devices_{devices},
        part_{part},
        left_{settings_.budget_seconds.value_or(1)} {}

  std::size_t run() {
    for (std::size_t first = 0; first < batches_.size() && !is_over();) {
      std::size_t last = first;
      while (last < batches_.size() && batches_[last].worth == batches_[first].worth) ++last;
      std::vector<std::size_t> open(last - first);
      std::iota(open.begin(), open.end(), first);
      // Those that need more than their share go on with what the others left.
      while (!open.empty()) open = measure(open);
      first = last;
    }
    if (begun_ < batches_.size() && !interrupted()) report_not_begun();
    if (session_.json) {
      std::printf("%s\n",
                  document_.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    }
    return rows_;
  }

 private:
  /// Measures these batches once. Returns those that may go on.
  std::vector<std::size_t> measure(const std::vector<std::size_t>& open) {
    std::vector<std::size_t> late;
    std::size_t measured = 0;
    double weight_left = 0;
    for (const std::size_t index : open) weight_left += batches_[index].weight;
    for (std::size_t i = 0; i < open.size() && !is_over(); ++i) {
      begun_ = std::max(begun_, open[i] + 1);
      const batch& next = batches_[open[i]];
      tune_settings mine = settings_;
      mine.worth = next.worth;
      if (settings_.budget_seconds) {
        mine.whole_budget_seconds = settings_.budget_seconds;
        mine.budget_seconds = *settings_.budget_seconds * share_of(next.weight, weight_left, open.size() - i);
      }
      weight_left -= next.weight;
      const tune_outcome outcome =
          tune(session_, mine, *next.known, next.problems, devices_, part_, interrupted());
      if (outcome.table.empty()) return {};  // interrupted before it began
      if (settings_.budget_seconds) {
        left_ = *settings_.budget_seconds - outcome.seconds;
        settings_.budget_seconds = left_;
      }
      measured += outcome.measured;
      if (outcome.out_of_time) late.push_back(open[i]);
      report(next, outcome);
    }
    return left_ > 0 && measured > 0 ? late : std::vector<std::size_t>{};
  }

  /// No batch but the first begins where so little is left: starting a process on a device takes seconds.
  static constexpr double least_seconds = 0.1;

  [[nodiscard]] bool is_over() const { return interrupted() || (begun_ > 0 && left_ < least_seconds); }

  void report_not_begun() {
    if (!session_.json) return print_not_begun(batches_, begun_);
    for (std::size_t i = begun_; i < batches_.size(); ++i) {
      tune_outcome none;
      none.table = part_.file(table_path(settings_, *batches_[i].known->description, *devices_.properties));
      none.journal = none.table + ".tuning.jsonl";
      for (std::size_t k = 0; k < batches_[i].problems.problems().size(); ++k) {
        if (part_.has(k)) ++none.problems;
      }
      none.out_of_time = true;
      report(batches_[i], none);
    }
  }

  void report(const batch& of, const tune_outcome& outcome) {
    rows_ += outcome.measured + outcome.before + (outcome.up_to_date ? 1 : 0);
    if (!outcome.left_out.empty() || !outcome.left_out_kinds.empty()) session_.status = status_finding;
    if (session_.json) {
      auto entry = outcome.json();
      entry["operator"] = of.known->description->name;
      if (!of.worth.empty()) entry["worth"] = of.worth;
      document_.push_back(std::move(entry));
    } else {
      std::printf("%s%s", of.worth.empty() ? "" : (of.worth + ": ").c_str(), outcome.text().c_str());
    }
  }

  session& session_;
  tune_settings settings_;
  const std::vector<batch>& batches_;
  tuned_devices& devices_;
  const sy::tune::shard& part_;
  double left_;
  std::size_t begun_ = 0;
  std::size_t rows_ = 0;
  nlohmann::ordered_json document_ = nlohmann::ordered_json::array();
};

}  // namespace

std::vector<batch> batches_of(const session& session, const tune_settings& settings,
                              const std::vector<std::pair<const known_operator*, double>>& operators,
                              tuned_devices& devices) {
  std::vector<batch> out;
  if (settings.replaces.empty()) {
    for (const auto& [known, weight] : operators)
      out.push_back({known, weight, {}, list_problems(session, settings, *known)});
    return out;
  }
  if (!learn_properties(session, *operators.front().first, devices, interrupted())) return out;
  std::vector<std::vector<batch>> by_worth(all_worths.size());
  for (const auto& [known, weight] : operators) {
    const replaced_table old{session, *known->description, *devices.properties, settings.replaces};
    const problem_list all = list_problems(session, settings, *known);
    for (auto& of_one : by_worth) {
      const auto kind = static_cast<worth>(&of_one - by_worth.data());
      of_one.push_back({known, 0, std::string{to_string(kind)}, problem_list{*known->description}});
    }
    for (const tuning_problem& problem : all.problems()) {
      batch& into = by_worth[static_cast<std::size_t>(old.worth_of(*known, problem))].back();
      into.problems.problems().push_back(problem);
      into.weight += problem.weight;
    }
  }
  for (auto& of_one : by_worth) {
    for (batch& next : of_one) {
      if (!next.problems.problems().empty()) out.push_back(std::move(next));
    }
  }
  return out;
}

void print_plan(const session& session, const tune_settings& settings, const std::vector<batch>& batches,
                tuned_devices& devices, const sy::tune::shard& part) {
  auto document = nlohmann::ordered_json::array();
  std::map<std::string, std::size_t> rebuilt;  // rows of older builds that the new tables have
  for (const batch& next : batches) {
    if (!learn_properties(session, *next.known, devices, interrupted())) return;
    const sy::operator_description& op = *next.known->description;
    std::map<std::string, bool> rows;
    const std::string path = part.file(table_path(settings, op, *devices.properties));
    std::error_code ignored;
    if (!settings.again && settings.refresh.empty() && std::filesystem::exists(path, ignored)) {
      sy::warnings warned;
      rows = rows_of(session, op, sy::read_table(path, op, warned));
    }
    std::vector<std::string> open;
    std::size_t kinds = 0;
    std::size_t before = 0;
    for (std::size_t i = 0; i < next.problems.problems().size(); ++i) {
      if (!part.has(i)) continue;
      const tuning_problem& problem = next.problems.problems()[i];
      const auto row = rows.find(row_of(op, problem));
      if (row == rows.end()) {
        open.push_back(problem.text(op));
        kinds += std::max<std::size_t>(problem.kinds.size(), 1);
      } else {
        ++before;
        if (row->second) ++rebuilt[path];
      }
    }
    if (session.json) {
      document.push_back({{"worth", next.worth},
                          {"operator", op.name},
                          {"before", before},
                          {"kinds", kinds},
                          {"problems", open}});
      continue;
    }
    std::printf("%s%s: %zu problems%s\n", next.worth.empty() ? "" : (next.worth + ": ").c_str(),
                std::string{op.name}.c_str(), open.size(),
                before > 0 ? (", and " + std::to_string(before) + " measured before").c_str() : "");
    for (const std::string& line : open) std::printf("  %s\n", line.c_str());
  }
  for (const auto& [path, count] : rebuilt) {
    std::fprintf(
        stderr,
        "switchyard: %s: %zu rows have times of kernels that were rebuilt since, and are not measured "
        "again; `tune --refresh TABLE --stale`, with the same --problems, does so\n",
        path.c_str(), count);
  }
  if (session.json) {
    std::printf("%s\n",
                document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  }
}

std::size_t measure_batches(session& session, tune_settings settings, const std::vector<batch>& batches,
                            tuned_devices& devices, const sy::tune::shard& part) {
  return batch_run{session, std::move(settings), batches, devices, part}.run();
}

}  // namespace tool
