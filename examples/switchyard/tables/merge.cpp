// SPDX-License-Identifier: MIT
// switchyard merge: merges tables of one operator and device, for example the shards of a cluster's ranks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/add_measured.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/tune/tables/ties.hpp>

#include "command.hpp"
#include "tables/contained_table.hpp"
#include "tables/measured.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct merge_arguments {
  std::vector<std::string> paths;
  std::string output;
  std::string conflict = "median";
  std::string match;  ///< the table whose rule the result gets; empty: the first of `paths`
  bool without_blobs = false;
};

struct merge_counts {
  std::size_t rows = 0;
  std::size_t repeated = 0;  ///< rows that several tables measured
  double widest = 1;         ///< largest ratio of two times of one variant in one row
  std::string widest_at;
  std::size_t stale = 0;  ///< times of blobs that a newer table has replaced
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

/// One group of the result, being collected: times by sizes and variant, oldest first.
class gathered_group {
 public:
  gathered_group(const sy::operator_description& op, const sy::row_group& like,
                 const merge_arguments& arguments)
      : op_{op},
        type_{like.type},
        axes_{like.axes},
        newest_{arguments.conflict == "newest"},
        timed_{like.timed} {}

  [[nodiscard]] bool is(const sy::row_group& of) const {
    return of.type == type_ && of.timed == timed_ &&
           std::is_permutation(of.axes.begin(), of.axes.end(), axes_.begin(), axes_.end());
  }

  void add(const sy::row_group& from, const std::string& path, merge_counts& counted) {
    for (std::size_t i = 0; i < from.ids.size(); ++i) add_blob(from, i, path, counted);
    for (const sy::measured_values& values : from.measured_with)
      sy::add_measured(measured_with_, values.axis, values.values);
    for (std::size_t row = 0; row < from.row_count(); ++row) {
      std::vector<std::int64_t> at;
      for (const std::uint32_t axis : axes_) {
        const auto place = std::find(from.axes.begin(), from.axes.end(), axis);
        at.push_back(from.coordinates(row)[static_cast<std::size_t>(place - from.axes.begin())]);
      }
      gathered_row& into = rows_[at];
      ++into.tables;
      // The newer row replaces the older one with all its variants.
      if (newest_) into.times.clear();
      const double uncertainty = from.row_uncertainty(row);
      into.uncertainty = newest_ ? uncertainty : std::max(into.uncertainty, uncertainty);
      const auto measured = from.row_times(row);
      const auto fastest = std::min_element(measured.begin(), measured.end(), faster);
      const bool prefers = measured.front().microseconds > fastest->microseconds;
      into.preferred = prefers ? from.ids[measured.front().variant] : std::string{};
      for (const sy::measured_time& time : measured) {
        into.times[from.ids[time.variant]].push_back(static_cast<double>(time.microseconds));
      }
    }
  }

  [[nodiscard]] sy::row_group finish(merge_counts& counted, bool with_blobs) const {
    sy::row_group out;
    out.type = type_;
    out.axes = axes_;
    out.measured_with = measured_with_;
    out.timed = timed_;
    std::map<std::string, std::uint32_t, std::less<>> ids;
    for (const auto& [at, row] : rows_) {
      const auto& times = row.times;
      if (times.empty()) continue;
      out.at.insert(out.at.end(), at.begin(), at.end());
      const std::size_t begin = out.times.size();
      for (const auto& [id, samples] : times) {
        const auto [found, is_new] = ids.try_emplace(id, static_cast<std::uint32_t>(ids.size()));
        if (is_new) out.ids.push_back(id);
        out.times.push_back({found->second, static_cast<float>(median(samples))});
        const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
        if (timed_ && *high / *low > counted.widest) {  // else they are made up
          counted.widest = *high / *low;
          sy::row_group one;
          one.type = type_;
          one.axes = axes_;
          one.at = at;
          counted.widest_at = id + " at " + format_row(op_, one, 0);
        }
      }
      const auto first = out.times.begin() + static_cast<std::ptrdiff_t>(begin);
      std::stable_sort(first, out.times.end(), faster);
      // The newest table's preference among indistinguishable variants, if it still holds.
      const double reach = sy::tune::tied_up_to(first->microseconds, row.uncertainty);
      const auto preferred = std::find_if(
          first, out.times.end(), [&out, &wanted = row.preferred, reach](const sy::measured_time& time) {
            return out.ids[time.variant] == wanted && static_cast<double>(time.microseconds) <= reach;
          });
      if (preferred != out.times.end()) std::rotate(first, preferred, preferred + 1);
      if (row.uncertainty > 0) {
        out.uncertainty.resize(out.row_count());
        out.uncertainty.push_back(static_cast<float>(row.uncertainty));
      }
      out.first_time.push_back(static_cast<std::uint32_t>(out.times.size()));
      ++counted.rows;
      if (row.tables > 1) ++counted.repeated;
    }
    for (const std::string& id : out.ids) {
      const auto found = with_blobs ? blobs_.find(id) : blobs_.end();
      out.blobs.push_back(found == blobs_.end() ? std::string{} : found->second);
    }
    return out;
  }

 private:
  struct gathered_row {
    std::size_t tables = 0;
    std::map<std::string, std::vector<double>, std::less<>> times;
    double uncertainty = 0;
    std::string preferred;  ///< the variant that the newest row names though another is faster; may be empty
  };

  [[nodiscard]] static bool faster(const sy::measured_time& a, const sy::measured_time& b) {
    return a.microseconds < b.microseconds;
  }

  /// The median; of two times the mean, so that neither shard is preferred.
  [[nodiscard]] static double median(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const std::size_t middle = samples.size() / 2;
    return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  }

  /// Drops times of older blobs: a changed blob is another kernel.
  void add_blob(const sy::row_group& from, std::size_t id, const std::string& path, merge_counts& counted) {
    if (id >= from.blobs.size() || from.blobs[id].empty()) return;
    std::string& known = blobs_[from.ids[id]];
    if (!known.empty() && known != from.blobs[id]) {
      if (!newest_) {
        refuse(sy::error_code::blob_hash_differs,
               path + ": variant '" + from.ids[id] + "' was measured with another build of its kernel (" +
                   from.blobs[id] + ") than in the table before it (" + known +
                   "); measure with one build, or pass --conflict newest to drop the older times");
      }
      for (auto& [at, row] : rows_) counted.stale += row.times.erase(from.ids[id]);
    }
    known = from.blobs[id];
  }

  const sy::operator_description& op_;
  std::vector<sy::axis_value> type_;
  std::vector<std::uint32_t> axes_;
  bool newest_;
  bool timed_;
  std::vector<sy::measured_values> measured_with_;
  std::map<std::vector<std::int64_t>, gathered_row> rows_;
  std::map<std::string, std::string, std::less<>> blobs_;
};

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

/// The runs that measured the rows of all shards.
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
  std::vector<sy::measurement> out = join_runs(tables);
  if (out.empty()) out.emplace_back();
  sy::measured_merge& merged = out.front().merged;
  merged.tables = static_cast<std::int64_t>(shards.size());
  merged.repeated_rows = static_cast<std::int64_t>(counted.repeated);
  if (counted.repeated > 0) merged.conflict = conflict;
  finish_runs(out, counted.rows);
  return out;
}

void run(const merge_arguments& arguments, const session& session) {
  std::vector<table_file> shards = read_shards(arguments.paths);
  const auto [match, other_matches] = choose_match(arguments, shards);
  sort_by_date(shards);
  const bool newest = arguments.conflict == "newest";
  const sy::operator_description& op = shards.front().op();
  sy::table merged;
  merged.operator_name = op.name;
  merged.device = shards.front().content.device;
  merged.match = match;
  merged.other_devices = std::all_of(shards.begin(), shards.end(),
                                     [](const table_file& shard) { return shard.content.other_devices; });
  for (const table_file& shard : shards) {
    unite_denials(merged, shard.content);
    unite_pins(op, merged, shard.content);
  }
  const std::vector<std::string> dropped = drop_contained(shards, newest);
  merge_counts counted;
  std::vector<gathered_group> groups;
  for (const table_file& shard : shards) {
    for (const sy::row_group& group : shard.content.groups) {
      auto into = std::find_if(groups.begin(), groups.end(),
                               [&group](const gathered_group& has) { return has.is(group); });
      if (into == groups.end()) {
        groups.emplace_back(op, group, arguments);
        into = groups.end() - 1;
      }
      into->add(group, shard.content.path, counted);
    }
  }
  for (const gathered_group& group : groups) {
    sy::row_group finished = group.finish(counted, !arguments.without_blobs);
    if (finished.row_count() > 0) merged.groups.push_back(std::move(finished));
  }
  sy::write_file(arguments.output,
                 sy::format_table(op, merged, unite_runs(shards, arguments.conflict, counted)));
  if (session.json) {
    ordered_json document{{"output", arguments.output},
                          {"operator", merged.operator_name},
                          {"device", merged.device.name},
                          {"tables", shards.size()},
                          {"dropped", dropped},
                          {"other_matches", other_matches},
                          {"groups", merged.groups.size()},
                          {"rows", counted.rows},
                          {"repeated", counted.repeated},
                          {"conflict", arguments.conflict},
                          {"widest_ratio", counted.widest},
                          {"stale_times", counted.stale},
                          {"denials", merged.denials.size()},
                          {"pins", merged.pins.size()}};
    std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%s: %zu rows in %zu groups, %zu denials and %zu pins of %zu tables of %s on %s\n",
              arguments.output.c_str(), counted.rows, merged.groups.size(), merged.denials.size(),
              merged.pins.size(), shards.size(), merged.operator_name.c_str(),
              merged.device.name.empty() ? "any device" : merged.device.name.c_str());
  for (const std::string& line : other_matches) std::printf("%s\n", line.c_str());
  for (const std::string& line : dropped) std::printf("%s\n", line.c_str());
  if (counted.repeated > 0) {
    std::printf("%zu rows were measured more than once: %s", counted.repeated,
                newest ? "the newest row is used" : "each variant's median is used");
    if (counted.widest > 1) {
      std::printf("; the times differ by at most %.1f %% (%s)", 100 * (counted.widest - 1),
                  counted.widest_at.c_str());
    }
    std::printf("\n");
  }
  if (counted.stale > 0) {
    std::printf("%zu times of kernels that were rebuilt since were dropped\n", counted.stale);
  }
}

}  // namespace

void add_merge(CLI::App& app, session& session) {
  CLI::App* const command =
      app.add_subcommand("merge", "Merge tables of one operator and device, such as shards, into one");
  const auto arguments = std::make_shared<merge_arguments>();
  command->add_option("table", arguments->paths, "Tables")->required();
  command->add_option("-o,--output", arguments->output, "The table; may be one of those merged")->required();
  command
      ->add_option("--conflict", arguments->conflict,
                   "How to merge rows of the same sizes: median takes each variant's median, newest takes "
                   "the newest row (by the date in 'measured', then by the order given here)")
      ->check(CLI::IsMember({"median", "newest"}))
      ->capture_default_str();
  command->add_option(
      "--match", arguments->match,
      "The table whose 'match', 'neighbours' and 'envelope' the result has; it need not be one "
      "of those merged. Default: the first one named");
  command->add_flag("--without-blobs", arguments->without_blobs,
                    "Leave out the hashes of the blobs that were measured: for kernels that every build "
                    "compiles anew, such as those of the CPU, whose rows would be marked stale elsewhere");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
