// SPDX-License-Identifier: MIT
// switchyard diff: compares two tables shape by shape.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/measurement.hpp>

#include "command.hpp"
#include "tables/measured.hpp"
#include "tables/table_files.hpp"
#include "tables/threshold.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct diff_arguments {
  std::string before;
  std::string after;
  double threshold = 0.05;
  std::string threshold_text = "5%";
  bool strict = false;
  bool all = false;
};

/// The outcomes of a shape, worst first: the order of the output.
enum class verdict : std::uint8_t { lost, slower, changed, faster, gained, thinned, same };

constexpr std::array<std::string_view, 7> verdict_names{"lost",   "slower",  "changed", "faster",
                                                        "gained", "thinned", "same"};

struct shape {
  verdict kind = verdict::same;
  std::string text;  ///< "dtype=bf16 rows=64"
  std::string winner_before;
  std::string winner_after;  ///< of a thinned or lost shape: what NEW chooses there; may be empty
  double us_before = 0;
  double us_after = 0;   ///< of a thinned shape: by the old table's times; 0 when it has none
  bool flipped = false;  ///< the winner is another, be it by a hair
};

struct row_place {
  const sy::row_group* group = nullptr;
  std::size_t row = 0;
};

/// Rows by type and sizes, in the order of the axes.
using rows_by_shape = std::map<std::vector<std::pair<std::uint32_t, std::int64_t>>, row_place>;

[[nodiscard]] rows_by_shape index_rows(const sy::table& of) {
  rows_by_shape out;
  for (const sy::row_group& group : of.groups) {
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      std::vector<std::pair<std::uint32_t, std::int64_t>> key;
      for (const sy::axis_value& value : group.type) key.emplace_back(value.axis, value.value);
      for (std::size_t i = 0; i < group.axes.size(); ++i) {
        key.emplace_back(group.axes[i], group.coordinates(row)[i]);
      }
      std::sort(key.begin(), key.end());
      out.try_emplace(std::move(key), row_place{&group, row});
    }
  }
  return out;
}

[[nodiscard]] sy::measured_time best_of(const row_place& at) {
  return at.group->row_times(at.row).front();
}

[[nodiscard]] const std::string& winner_of(const row_place& at) {
  return at.group->ids[best_of(at).variant];
}

[[nodiscard]] double best_us(const row_place& at) {
  return static_cast<double>(best_of(at).microseconds);
}

class comparison {
 public:
  /// `installed`: the rules of what is installed for the tables' device.
  comparison(const diff_arguments& arguments, const table_file& before, const table_file& after,
             const sy::selector& installed)
      : factor_{1 + arguments.threshold},
        before_{before},
        rules_{rules_of(after, named_variants({&after, &before}, installed))} {
    const rows_by_shape old_rows = index_rows(before.content);
    const rows_by_shape new_rows = index_rows(after.content);
    for (const auto& [key, at] : old_rows) {
      const auto found = new_rows.find(key);
      if (found != new_rows.end()) {
        compare(at, found->second);
      } else {
        miss(at);
      }
    }
    for (const auto& [key, at] : new_rows) {
      if (old_rows.contains(key)) continue;
      shapes_.push_back({verdict::gained,
                         format_row(after.op(), *at.group, at.row),
                         {},
                         winner_of(at),
                         0,
                         best_us(at),
                         false});
    }
    std::stable_sort(shapes_.begin(), shapes_.end(),
                     [](const shape& a, const shape& b) { return a.kind < b.kind; });
  }

  [[nodiscard]] const std::vector<shape>& shapes() const noexcept { return shapes_; }
  [[nodiscard]] std::size_t count(verdict kind) const {
    return static_cast<std::size_t>(std::count_if(
        shapes_.begin(), shapes_.end(), [kind](const shape& compared) { return compared.kind == kind; }));
  }
  [[nodiscard]] std::size_t flips() const {
    return static_cast<std::size_t>(std::count_if(shapes_.begin(), shapes_.end(),
                                                  [](const shape& compared) { return compared.flipped; }));
  }
  [[nodiscard]] std::size_t shared() const noexcept { return shared_; }
  /// New over old time of the best variant, over the shapes of both; 1 without any.
  [[nodiscard]] double mean_ratio() const {
    return shared_ == 0 ? 1 : std::exp2(log_ratio_ / static_cast<double>(shared_));
  }

 private:
  void compare(const row_place& then, const row_place& now) {
    shape out{verdict::same,
              format_row(before_.op(), *then.group, then.row),
              winner_of(then),
              winner_of(now),
              best_us(then),
              best_us(now),
              false};
    out.flipped = out.winner_before != out.winner_after;
    ++shared_;
    log_ratio_ += std::log2(out.us_after / out.us_before);
    if (out.us_after > out.us_before * factor_) {
      out.kind = verdict::slower;
    } else if (out.us_before > out.us_after * factor_) {
      out.kind = verdict::faster;
    } else if (out.flipped) {
      // A new winner matters only if the old winner's new time is clearly longer.
      const double again = time_of(*now.group, now.row, out.winner_before);
      if (again == 0 || again > out.us_after * factor_) out.kind = verdict::changed;
    }
    shapes_.push_back(std::move(out));
  }

  /// A shape without a row in NEW is lost, unless rows near enough still decide it.
  void miss(const row_place& then) {
    shape out{
        verdict::lost, format_row(before_.op(), *then.group, then.row), winner_of(then), {}, best_us(then), 0,
        false};
    const sy::choice chosen = rules_->select(problem_of_row(before_.op(), *then.group, then.row));
    if (chosen.why == sy::reason::interpolated || chosen.why == sy::reason::exact ||
        chosen.why == sy::reason::pinned) {
      out.winner_after = rules_->candidates[chosen.variant].variant->id;
      out.us_after = time_of(*then.group, then.row, out.winner_after);
      out.kind = out.us_after > out.us_before * factor_ ? verdict::slower : verdict::thinned;
      out.flipped = out.winner_before != out.winner_after;
    }
    shapes_.push_back(std::move(out));
  }

  double factor_;
  const table_file& before_;
  std::shared_ptr<const sy::selector> rules_;
  std::vector<shape> shapes_;
  std::size_t shared_ = 0;
  double log_ratio_ = 0;
};

void print_shape(const shape& compared) {
  std::printf("%-8s %s: ", verdict_names[static_cast<std::size_t>(compared.kind)].data(),
              compared.text.c_str());
  if (compared.us_before == 0) {
    std::printf("%.4g us, %s\n", compared.us_after, compared.winner_after.c_str());
    return;
  }
  std::printf("%.4g us", compared.us_before);
  if (compared.us_after > 0) {
    std::printf(" -> %.4g us (%+.1f %%)", compared.us_after,
                100 * (compared.us_after / compared.us_before - 1));
  }
  std::printf(", %s", compared.winner_before.c_str());
  if (compared.flipped) std::printf(" -> %s", compared.winner_after.c_str());
  std::printf("\n");
}

/// The run that measured a table last.
void print_measured(const char* name, const table_file& table) {
  if (table.measured.empty()) return;
  const std::string text = describe_measurement(table.measured.front());
  if (!text.empty()) std::printf("%s: %s\n", name, sy::text::printable(text).c_str());
}

void add_measured_to(ordered_json& document, const char* name, const table_file& table) {
  if (!table.measured.empty())
    document[name] = ordered_json::parse("{" + sy::format_members(table.measured.front()) + "}");
}

void print_json(const comparison& found, const diff_arguments& arguments, int status,
                const table_file& before, const table_file& after) {
  ordered_json document{{"old", arguments.before},          {"new", arguments.after},
                        {"threshold", arguments.threshold}, {"status", status},
                        {"shapes_in_both", found.shared()}, {"mean_ratio", found.mean_ratio()},
                        {"other_winners", found.flips()}};
  for (std::size_t i = 0; i < verdict_names.size(); ++i) {
    document[std::string{verdict_names[i]}] = found.count(static_cast<verdict>(i));
  }
  add_measured_to(document, "old_measured", before);
  add_measured_to(document, "new_measured", after);
  document["shapes"] = ordered_json::array();
  for (const shape& compared : found.shapes()) {
    if (compared.kind == verdict::same && !arguments.all) continue;
    ordered_json entry{{"verdict", verdict_names[static_cast<std::size_t>(compared.kind)]},
                       {"shape", compared.text}};
    if (!compared.winner_before.empty()) entry["old_winner"] = compared.winner_before;
    if (!compared.winner_after.empty()) entry["new_winner"] = compared.winner_after;
    if (compared.us_before > 0) entry["old_us"] = compared.us_before;
    if (compared.us_after > 0) entry["new_us"] = compared.us_after;
    document["shapes"].push_back(std::move(entry));
  }
  std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

void run(const diff_arguments& arguments, session& session) {
  learn_operators({arguments.before, arguments.after});
  const table_file before = read_measured_table(arguments.before);
  const table_file after = read_measured_table(arguments.after);
  if (before.known != after.known) {
    throw sy::file_error{sy::error_code::unknown_operator,
                         arguments.after + ": is of operator '" + after.content.operator_name + "', but " +
                             arguments.before + " is of '" + before.content.operator_name + "'"};
  }
  if (const std::string difference = device_difference(before, after); !difference.empty()) {
    throw sy::file_error{sy::error_code::invalid_entry,
                         arguments.after + ": /device: " + difference + "; their times are not comparable"};
  }
  sy::catalog catalog{session.options()};
  const comparison found{arguments, before, after,
                         *installed_rules(catalog, after.op(), after.content.device)};
  const bool worse = found.count(verdict::slower) + found.count(verdict::lost) > 0;
  if (worse || (arguments.strict && found.count(verdict::changed) > 0)) session.status = status_finding;
  if (session.json) {
    print_json(found, arguments, session.status, before, after);
    return;
  }
  print_measured("old", before);
  print_measured("new", after);
  for (const shape& compared : found.shapes()) {
    if (compared.kind != verdict::same || arguments.all) print_shape(compared);
  }
  std::printf(
      "%s on %s: of %zu shapes in both, %zu are slower, %zu faster (by more than %.4g %%), %zu have another "
      "winner that is clearly better than the old one, %zu are the same; ratio of new to old time %.4f in "
      "the "
      "mean\n",
      before.content.operator_name.c_str(), before.content.device.name.c_str(), found.shared(),
      found.count(verdict::slower), found.count(verdict::faster), arguments.threshold * 100,
      found.count(verdict::changed), found.count(verdict::same), found.mean_ratio());
  std::printf(
      "%zu shapes are lost, %zu thinned out but still decided, %zu gained; at %zu another variant "
      "comes first, by however little\n",
      found.count(verdict::lost), found.count(verdict::thinned), found.count(verdict::gained), found.flips());
}

}  // namespace

void add_diff(CLI::App& app, session& session) {
  CLI::App* const command =
      app.add_subcommand("diff", "Compare two tables: faster, slower, changed winners, lost coverage");
  const auto arguments = std::make_shared<diff_arguments>();
  command->add_option("old", arguments->before, "The current table")->required();
  command->add_option("new", arguments->after, "The table that will replace it")->required();
  add_threshold(*command, arguments->threshold_text,
                "Times that differ by no more than this share are the same");
  command->add_flag("--strict", arguments->strict, "Exit with 1 for changed winners too");
  command->add_flag("--all", arguments->all, "Show shapes that stayed the same, too");
  command->footer(
      "A shape is slower or faster if the time of its best variant is. It has changed if the best variant "
      "is another one and the old one is clearly slower now. It is lost if the new table has neither a row "
      "for it nor one within its envelope. It is thinned out if the new table has no row for it but nearby "
      "rows decide; the choice is then judged by the old times. Nearby rows decide as in a process with the "
      "installed manifests, whose costs scale times between sizes. Exit status: 0: nothing is slower or "
      "lost. 1: a shape is slower or lost.");
  command->callback([arguments, &session] {
    arguments->threshold = require_threshold(arguments->threshold_text);
    run(*arguments, session);
  });
}

}  // namespace tool
