// SPDX-License-Identifier: MIT
// switchyard merge: merges tables of one operator and device, for example the shards of a cluster's ranks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "tables/contained_table.hpp"
#include "tables/gathered_group.hpp"
#include "tables/measured.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct merge_arguments {
  std::vector<std::string> paths;
  std::string output;
  std::string conflict = "median";
  std::string match;  ///< the table whose rule the result gets; empty: the first of `paths`
  bool without_blobs = false;
  bool keep_stale = false;
};

[[noreturn]] void refuse(sy::error_code code, const std::string& message) {
  throw sy::file_error{code, message};
}

/// The tables to merge, in the order of the arguments. Refuses those of several operators or devices.
[[nodiscard]] std::vector<table_file> read_shards(const std::vector<std::string>& paths) {
  std::vector<table_file> out;
  learn_operators(paths);
  for (const std::string& path : paths) {
    out.push_back(read_table_file(path));
    const table_file& first = out.front();
    const table_file& last = out.back();
    if (last.known != first.known) {
      refuse(sy::error_code::unknown_operator,
             path + ": is of operator '" + last.content.operator_name + "', but " + paths.front() +
                 " is of '" + first.content.operator_name + "'; merge the tables of one operator");
    }
    if (const std::string difference = device_difference(first, last); !difference.empty()) {
      refuse(sy::error_code::invalid_entry,
             std::string{path}
                 .append(": /device: ")
                 .append(difference)
                 .append("; times of different devices are not comparable: keep one table for each"));
    }
  }
  return out;
}

/// Tables in the order of their measurement: by the newest date that they state, then in the order of the
/// arguments.
void sort_by_date(std::vector<table_file>& shards) {
  std::stable_sort(shards.begin(), shards.end(), [](const table_file& a, const table_file& b) {
    return a.content.measured_on < b.content.measured_on;
  });
}

/// How the result matches problems to rows, and a sentence for each table that states another rule. Times do
/// not depend on the rule that a table states, so rows of tables with different rules may be merged.
[[nodiscard]] std::pair<sy::match_rule, std::vector<std::string>> choose_match(
    const merge_arguments& arguments, const std::vector<table_file>& shards) {
  sy::match_rule out = shards.front().content.match;
  const std::string& from = arguments.match.empty() ? arguments.paths.front() : arguments.match;
  if (!arguments.match.empty()) {
    const table_file named = read_table_file(from);
    if (named.known != shards.front().known) {
      refuse(sy::error_code::unknown_operator, from + ": is of operator '" + named.content.operator_name +
                                                   "', but the tables to merge are of '" +
                                                   shards.front().content.operator_name + "'");
    }
    out = named.content.match;
  }
  std::vector<std::string> lines;
  for (const table_file& shard : shards) {
    const sy::match_rule& other = shard.content.match;
    if (other == out) continue;
    std::vector<std::string> differing;
    if (!(other.axes == out.axes && other.features == out.features)) differing.emplace_back("'match'");
    if (other.neighbours != out.neighbours) {
      differing.push_back("'neighbours' (" + std::to_string(other.neighbours) + ", not " +
                          std::to_string(out.neighbours) + ")");
    }
    if (other.envelope < out.envelope || out.envelope < other.envelope) {
      differing.push_back("'envelope' (" + sy::text::number(other.envelope) + ", not " +
                          sy::text::number(out.envelope) + ")");
    }
    lines.push_back(shard.content.path + ": its " + sy::text::join(differing) +
                    (differing.size() == 1 ? " differs" : " differ") + " from that of " + from +
                    ", which the result has");
  }
  return {std::move(out), std::move(lines)};
}

/// Removes shards whose rows are all in another shard, and returns a sentence for each. `newest`: the newest
/// row of the same sizes wins, so the order of the shards matters.
[[nodiscard]] std::vector<std::string> drop_contained(std::vector<table_file>& shards, bool newest) {
  std::vector<std::string> out;
  std::vector<named_rows> rows;
  for (const table_file& shard : shards) rows.push_back(name_rows(shard));
  std::vector<bool> is_gone(shards.size());
  for (std::size_t part = 0; part < shards.size(); ++part) {
    for (std::size_t whole = 0; whole < shards.size() && !is_gone[part]; ++whole) {
      if (whole == part || is_gone[whole]) continue;
      // Rows of a shard between the two would replace those of the first, but not those of the second.
      const auto next =
          std::find(is_gone.begin() + static_cast<std::ptrdiff_t>(whole) + 1, is_gone.end(), false);
      if (newest && whole < part && next - is_gone.begin() != static_cast<std::ptrdiff_t>(part)) continue;
      if (!contains(shards[whole], rows[whole], shards[part], rows[part])) continue;
      is_gone[part] = true;
      if (rows[part].empty()) continue;  // nothing to say of denials alone
      out.push_back(shards[part].content.path + ": its rows are in " + shards[whole].content.path +
                    " too, and count once");
    }
  }
  std::vector<table_file> kept;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (!is_gone[i]) kept.push_back(std::move(shards[i]));
  }
  shards = std::move(kept);
  return out;
}

/// Denials of all shards, each once; of equal ones the reason of the first.
void unite_denials(sy::table& into, const sy::table& from) {
  for (const sy::denial& denial : from.denials) {
    const bool known =
        std::any_of(into.denials.begin(), into.denials.end(), [&denial](const sy::denial& other) {
          return other.variant == denial.variant && other.type == denial.type;
        });
    if (!known) into.denials.push_back(denial);
  }
}

void unite_pins(const sy::operator_description& op, sy::table& into, const sy::table& from) {
  const auto same_place = [](const sy::pin& a, const sy::pin& b) {
    return a.type == b.type && std::equal(a.at.begin(), a.at.end(), b.at.begin(), b.at.end(),
                                          [](const sy::axis_range& x, const sy::axis_range& y) {
                                            return x.axis == y.axis && x.first == y.first && x.last == y.last;
                                          });
  };
  for (const sy::pin& pin : from.pins) {
    const auto other = std::find_if(into.pins.begin(), into.pins.end(),
                                    [&](const sy::pin& has) { return same_place(has, pin); });
    if (other == into.pins.end()) {
      into.pins.push_back(pin);
    } else if (other->variant != pin.variant) {
      refuse(sy::error_code::invalid_entry, from.path + ": /pin: pins '" + pin.variant +
                                                "' where another table of '" + std::string{op.name} +
                                                "' pins '" + other->variant + "'; remove one of the pins");
    }
  }
}

/// The runs that measured the rows of all shards, the oldest shard first.
[[nodiscard]] std::vector<sy::measurement> unite_runs(const std::vector<table_file>& shards,
                                                      const std::string& conflict,
                                                      const merge_counts& counted) {
  if (shards.size() == 1) return shards.front().measured;
  std::vector<std::pair<std::vector<sy::measurement>, std::set<std::string>>> tables;
  for (const table_file& shard : shards) {
    std::set<std::string> names;
    for (const auto& [name, row] : name_rows(shard)) names.insert(name);
    tables.emplace_back(shard.measured, std::move(names));
  }
  if (conflict == "newest") {  // of a table whose rows were all measured again, nothing remains
    std::set<std::string> newer;
    for (std::size_t i = tables.size(); i-- > 0;) {
      auto& [runs, names] = tables[i];
      if (std::includes(newer.begin(), newer.end(), names.begin(), names.end())) runs.clear();
      newer.insert(names.begin(), names.end());
    }
  }
  std::vector<sy::measurement> out = join_runs(tables);
  if (out.empty()) out.emplace_back();
  sy::measured_merge& merged = out.front().merged;
  merged.tables = static_cast<std::int64_t>(shards.size());
  merged.repeated_rows = static_cast<std::int64_t>(counted.repeated);
  if (counted.repeated > 0) merged.conflict = conflict;
  finish_runs(out, counted.rows);
  return out;
}

/// What became of the tables of one operator and device.
struct merge_outcome {
  std::string output;
  std::string conflict;
  sy::table merged;  ///< its groups are written
  std::size_t tables = 0;
  std::vector<std::string> dropped;
  std::vector<std::string> other_matches;
  merge_counts counted;

  [[nodiscard]] ordered_json json() const {
    return {{"output", output},
            {"operator", merged.operator_name},
            {"device", merged.device.name},
            {"tables", tables},
            {"dropped", dropped},
            {"other_matches", other_matches},
            {"groups", merged.groups.size()},
            {"rows", counted.rows},
            {"repeated", counted.repeated},
            {"conflict", conflict},
            {"widest_ratio", counted.widest},
            {"stale_times", counted.stale},
            {"kept_stale_times", counted.kept_stale},
            {"denials", merged.denials.size()},
            {"pins", merged.pins.size()}};
  }

  void print() const {
    std::printf("%s: %zu rows in %zu groups, %zu denials and %zu pins of %zu tables of %s on %s\n",
                output.c_str(), counted.rows, merged.groups.size(), merged.denials.size(), merged.pins.size(),
                tables, merged.operator_name.c_str(),
                merged.device.name.empty() ? "any device" : merged.device.name.c_str());
    for (const std::string& line : other_matches) std::printf("%s\n", line.c_str());
    for (const std::string& line : dropped) std::printf("%s\n", line.c_str());
    if (counted.repeated > 0) {
      std::printf("%zu rows were measured more than once: %s", counted.repeated,
                  conflict == "newest" ? "the newest row is used" : "each variant's median is used");
      if (counted.widest > 1) {
        std::printf("; the times differ by at most %.1f %% (%s)", 100 * (counted.widest - 1),
                    counted.widest_at.c_str());
      }
      std::printf("\n");
    }
    if (counted.stale > 0)
      std::printf("%zu times of kernels that were rebuilt since were dropped\n", counted.stale);
    if (counted.kept_stale > 0) {
      std::printf("%zu times of kernels that were rebuilt since were kept, marked as stale\n",
                  counted.kept_stale);
    }
  }
};

[[nodiscard]] merge_outcome merge(const merge_arguments& arguments) {
  std::vector<table_file> shards = read_shards(arguments.paths);
  merge_outcome out;
  out.output = arguments.output;
  out.conflict = arguments.conflict;
  sy::table& merged = out.merged;
  std::tie(merged.match, out.other_matches) = choose_match(arguments, shards);
  sort_by_date(shards);
  const merge_rules rules{arguments.conflict == "newest", arguments.keep_stale, !arguments.without_blobs};
  const sy::operator_description& op = shards.front().op();
  merged.operator_name = op.name;
  merged.device = shards.front().content.device;
  merged.other_devices = std::all_of(shards.begin(), shards.end(),
                                     [](const table_file& shard) { return shard.content.other_devices; });
  for (const table_file& shard : shards) {
    unite_denials(merged, shard.content);
    unite_pins(op, merged, shard.content);
  }
  out.dropped = drop_contained(shards, rules.newest);
  out.tables = shards.size();
  std::vector<gathered_group> groups;
  for (const table_file& shard : shards) {
    for (const sy::row_group& group : shard.content.groups) {
      auto into = std::find_if(groups.begin(), groups.end(),
                               [&group](const gathered_group& has) { return has.is(group); });
      if (into == groups.end()) {
        groups.emplace_back(op, group, rules);
        into = groups.end() - 1;
      }
      into->add(group, shard.content.path, out.counted);
    }
  }
  for (const gathered_group& group : groups) {
    sy::row_group finished = group.finish(out.counted);
    if (finished.row_count() > 0) merged.groups.push_back(std::move(finished));
  }
  sy::write_file(arguments.output,
                 sy::format_table(op, merged, unite_runs(shards, arguments.conflict, out.counted)));
  return out;
}

void run(const merge_arguments& arguments, const session& session) {
  if (arguments.keep_stale && arguments.conflict != "newest")
    throw usage_error{"--keep-stale: older times are kept beside newer rows: pass --conflict newest as well"};
  const auto is_folder = [](const std::string& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  };
  const auto folders = std::count_if(arguments.paths.begin(), arguments.paths.end(), is_folder);
  if (folders == 0) {
    const merge_outcome done = merge(arguments);
    if (session.json) {
      std::printf("%s\n", done.json().dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    } else {
      done.print();
    }
    return;
  }
  if (static_cast<std::size_t>(folders) != arguments.paths.size()) {
    for (const std::string& path : arguments.paths) {
      std::error_code ignored;
      if (!fs::exists(path, ignored))
        refuse(sy::error_code::unreadable_file, path + ": no such file or folder");
    }
    throw usage_error{"name tables or folders of tables, not both"};
  }
  if (!arguments.match.empty()) throw usage_error{"--match: names one table; folders have many"};
  auto document = ordered_json::array();
  const auto tables = tables_of(arguments.paths);
  if (tables.empty()) {
    refuse(sy::error_code::unreadable_file,
           sy::text::join(arguments.paths) + ": no tables; a folder of tables has OPERATOR/DEVICE.json");
  }
  for (const auto& [name, paths] : tables) {
    merge_arguments one = arguments;
    one.paths = paths;
    one.output = (fs::path{arguments.output} / name).string();
    std::error_code ignored;
    if (paths.size() == 1 && fs::equivalent(paths.front(), one.output, ignored)) continue;
    fs::create_directories(fs::path{one.output}.parent_path());
    const merge_outcome done = merge(one);
    if (session.json) {
      document.push_back(done.json());
    } else {
      done.print();
    }
  }
  if (session.json)
    std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

void add_merge(CLI::App& app, session& session) {
  CLI::App* const command =
      app.add_subcommand("merge", "Merge tables of one operator and device, such as shards, into one");
  const auto arguments = std::make_shared<merge_arguments>();
  command
      ->add_option("table", arguments->paths,
                   "Tables; or folders with OPERATOR/DEVICE.json, whose tables of one name are merged")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "The table, or the folder of tables; may be one of those merged")
      ->required();
  command
      ->add_option("--conflict", arguments->conflict,
                   "How to merge rows of the same sizes: median takes each variant's median, newest takes "
                   "the newest row (by the date in 'measured', then by the order given here)")
      ->check(CLI::IsMember({"median", "newest"}))
      ->capture_default_str();
  command->add_option(
      "--match", arguments->match,
      "The table whose 'match', 'neighbours' and 'envelope' the result gets; it need not be one "
      "of those merged. Default: the first table named");
  command->add_flag(
      "--keep-stale", arguments->keep_stale,
      "With --conflict newest: keep times of kernels that were rebuilt where no newer table has the "
      "row, marked as stale, as `tune --refresh` keeps them until it has measured all rows");
  command->add_flag("--without-blobs", arguments->without_blobs,
                    "Leave out the hashes of the blobs that were measured: for kernels that every build "
                    "compiles anew, such as those of the CPU, whose rows would be marked stale elsewhere");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
