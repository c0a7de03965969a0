// SPDX-License-Identifier: MIT
#include "tune/shared_run.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_measured_date.hpp>
#include <switchyard/files/read_measurement.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/tune/measuring/cache_bytes.hpp>
#include <switchyard/tune/tables/ties.hpp>
#include <switchyard/version.hpp>

#include "tables/measured.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::json;

namespace tool {

namespace {

[[nodiscard]] std::string tool_name() {
  return "switchyard " + std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
         std::to_string(SWITCHYARD_VERSION_MINOR) + "." + std::to_string(SWITCHYARD_VERSION_PATCH);
}

/// The values of all axes that a problem asks for; empty if its workload decides a size.
[[nodiscard]] std::vector<std::int64_t> asked_values(const sy::operator_description& op,
                                                     const tuning_problem& problem) {
  std::vector<std::int64_t> out(op.axes.size());
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const auto found = problem.axes.find(static_cast<std::uint32_t>(i));
    if (found != problem.axes.end()) {
      out[i] = found->second;
    } else if (op.axes[i].kind == sy::axis_kind::size) {
      return {};
    }
  }
  return out;
}

/// Adds the clock readings of one timing.
void add_clocks(sy::measured_clocks& into, const json& answer) {
  if (!answer.contains("clock_mhz")) return;
  const auto widen = [&answer](sy::least_and_most& range, const char* name) {
    const auto value = answer.at(name).get<std::int64_t>();
    range.add({value, value});
  };
  widen(into.mhz, "clock_mhz");
  widen(into.memory_mhz, "memory_clock_mhz");
  widen(into.celsius, "celsius");
  // nvmlClocksThrottleReason...: software and hardware power caps and thermal limits.
  constexpr std::uint64_t power = 0x4 | 0x80;
  constexpr std::uint64_t thermal = 0x20 | 0x40;
  const auto slowdowns = answer.at("slowdowns").get<std::uint64_t>();
  const auto limit = [&](std::uint64_t bits, const char* name) {
    auto& limits = into.limited_by;
    if ((slowdowns & bits) != 0 && std::find(limits.begin(), limits.end(), name) == limits.end())
      limits.emplace_back(name);
  };
  limit(power, "power");
  limit(thermal, "temperature");
}

}  // namespace

shared_run::shared_run(const tune_settings& wanted, const sy::operator_description& of,
                       const sy::device_properties& measured_on, std::string table_file,
                       const std::atomic<bool>& stop)
    : settings{wanted},
      op{of},
      device{measured_on},
      path{std::move(table_file)},
      notes{path + ".tuning.jsonl", op, full_name_of(device), settings_text(settings)},
      interrupted{stop} {
  if (settings.retry_bad) notes.forget_bad();
}

sy::match_rule shared_run::usual_match(const session& session) const {
  const fs::path replaced = fs::path{settings.replaces} / std::string{op.name} / table_name_of(device);
  std::error_code absent;
  if (!settings.replaces.empty() && fs::exists(replaced, absent)) {
    sy::warnings ignored;
    return sy::read_table(replaced.string(), op, ignored).match;
  }
  sy::catalog catalog{session.options()};
  auto tables = catalog.files(op).tables;
  // A table of pins or denials alone may leave its rule out.
  std::erase_if(tables, [](const auto& file) { return file->groups.empty(); });
  const auto ranked = sy::rank_tables(device, {}, tables);
  if (!ranked.empty()) return ranked.front().source->match;
  if (!tables.empty()) return tables.front()->match;
  sy::match_rule out;
  out.axes.assign(op.axes.size(), sy::axis_rule{});
  return out;
}

void shared_run::read_table(const session& session) {
  table.operator_name = op.name;
  table.match = usual_match(session);
  std::error_code ignored;
  if (!settings.again && fs::exists(path, ignored)) {
    sy::warnings warned;
    const std::string text = sy::read_file(path, sy::max_json_bytes);
    table = sy::parse_table(text, path, op, warned);
    for (const std::string& message : warned.messages)
      std::fprintf(stderr, "switchyard: %s\n", message.c_str());
    read_earlier(sy::parse_json(text, path));
    if (const std::string other = other_device_text(table.device, device); !other.empty())
      throw usage_error{path + " " + other + "; name another file, or pass --again to start over"};
  }
  table.device = device;
}

bool shared_run::has_row(const tuning_problem& problem, sy::problem_view full) const {
  const std::scoped_lock lock{mutex_};
  for (const sy::row_group& group : table.groups) {
    if (group.type == problem.type && sy::tune::find_row(group, full) < group.row_count()) return true;
  }
  return false;
}

bool shared_run::is_done(const tuning_problem& problem) const {
  if (!settings.refresh.empty()) return notes.done(key(problem));
  const auto full = asked_values(op, problem);
  return !full.empty() && has_row(problem, full);
}

void shared_run::remember(const tuning_problem& problem) {
  const auto full = asked_values(op, problem);
  const sy::row_group* const group = sy::tune::find_group(table, op, problem.type);
  if (full.empty() || group == nullptr) return;
  const std::size_t row = sy::tune::find_row(*group, full);
  if (row < group->row_count()) measured_[place_of(*group, row)] = notes.done_with(key(problem));
}

std::string shared_run::key(const tuning_problem& problem) const {
  std::string out = problem.text(op) + " for";
  for (const sy::axis_value& value : problem.type) out += " " + std::string{op.axes[value.axis].name};
  return out;
}

void shared_run::put(const tuning_problem& problem, const std::vector<std::vector<std::int64_t>>& full,
                     const std::vector<serving>& variants, std::vector<sy::tune::row_entry> times,
                     double uncertainty) {
  const std::scoped_lock lock{mutex_};
  // Another worker may have found one of the variants bad meanwhile.
  std::erase_if(times, [&](const sy::tune::row_entry& entry) {
    return std::any_of(variants.begin(), variants.end(), [&](const serving& other) {
      return other.id == entry.variant && notes.find_bad(other.id, other.blob, other.type).has_value();
    });
  });
  if (times.empty()) return;
  rows_.insert(key(problem));
  sy::tune::put_row(table, op, full.front(), problem.type, std::move(times), uncertainty, settings.most);
  sy::row_group& group = *sy::tune::find_group(table, op, problem.type);
  for (const auto& kind : full) sy::tune::record_type(group, op, kind);
  blobs_by_variant& blobs = measured_[place_of(group, sy::tune::find_row(group, full.front()))];
  for (const serving& variant : variants) blobs[variant.id] = variant.blob;
  for (std::size_t i = 0; i < group.ids.size(); ++i) {
    for (const serving& variant : variants) {
      if (variant.id == group.ids[i] && (group.blobs[i].empty() || all_measured(group, i, variant.blob)))
        group.blobs[i] = variant.blob;
    }
  }
  changed_ = true;
  write_soon();
}

void shared_run::put_bad(const bad_variant& bad) {
  notes.add_bad(bad);
  const std::scoped_lock lock{mutex_};
  const std::size_t removed = sy::tune::remove_variant(table, bad.variant, bad.type);
  if (removed > 0 || settings.deny) {
    changed_ = true;
    write_soon();
  }
  if (removed > 0) bar->say(bad.variant + " was removed from " + std::to_string(removed) + " rows");
}

void shared_run::add_clocks(const json& answer) {
  const std::scoped_lock lock{mutex_};
  tool::add_clocks(clocks_, answer);
}

void shared_run::add_checked(const sy::tune::checked_extent& of) {
  const std::scoped_lock lock{mutex_};
  ++(of.all_rows == 0        ? checks_.unchecked
     : !of.smaller.empty()   ? checks_.smaller
     : of.rows < of.all_rows ? checks_.rows
                             : checks_.whole);
}

void shared_run::write() {
  const std::scoped_lock lock{mutex_};
  write_now();
}

std::string shared_run::settings_text(const tune_settings& of) {
  return "cache=" + of.how.cache + " launches=" + of.how.launches +
         " sustained=" + sy::text::number(of.how.sustained_seconds) +
         " confidence=" + sy::text::number(of.how.confidence) + " samples=" + std::to_string(of.how.samples) +
         (of.exhaustive ? " exhaustive" : "");
}

bool shared_run::all_measured(const sy::row_group& group, std::size_t variant,
                              const std::string& blob) const {
  for (std::size_t row = 0; row < group.row_count(); ++row) {
    const auto times = group.row_times(row);
    const bool has_it = std::any_of(times.begin(), times.end(),
                                    [variant](const auto& time) { return time.variant == variant; });
    if (!has_it) continue;
    const auto measured = measured_.find(place_of(group, row));
    if (measured == measured_.end()) return false;
    const auto found = measured->second.find(group.ids[variant]);
    if (found == measured->second.end() || found->second != blob) return false;
  }
  return true;
}

std::string shared_run::place_of(const sy::row_group& group, std::size_t row) const {
  return key(make_problem(group, group.coordinates(row)));
}

void shared_run::write_soon() {
  if (std::chrono::steady_clock::now() - written_ > 20 * write_time_) write_now();
}

void shared_run::write_now() {
  if (!changed_) return;
  const auto begin = std::chrono::steady_clock::now();
  if (settings.deny) deny();
  sy::tune::settle_ties(table);
  std::vector<sy::measurement> runs{this_run()};
  // Rows of other runs keep the description of their run.
  if (rows_.size() < row_count()) runs.insert(runs.end(), earlier_.begin(), earlier_.end());
  if (runs.size() > 1 && is_same_run(runs[0], runs[1])) {  // one that was stopped and goes on
    join(runs[0], runs[1]);
    runs.erase(runs.begin() + 1);
  }
  finish_runs(runs, row_count());
  sy::write_file(path, sy::format_table(op, table, runs));
  changed_ = false;
  written_ = std::chrono::steady_clock::now();
  write_time_ = written_ - begin;
}

void shared_run::deny() {
  for (const bad_variant& bad : notes.bad()) {
    const bool known = std::any_of(
        table.denials.begin(), table.denials.end(),
        [&bad](const sy::denial& other) { return other.variant == bad.variant && other.type == bad.type; });
    if (!known) table.denials.push_back({bad.variant, bad.reason, bad.type});
  }
}

sy::measurement shared_run::this_run() const {
  sy::measurement out;
  out.date = sy::day_of(std::time(nullptr));
  out.tool = tool_name();
  out.driver = device.attribute("driver_version");
  out.rows = static_cast<std::int64_t>(rows_.size());
  out.statistic = "median";
  out.samples = sample_counts(settings.how, device.backend);
  out.precision = settings.how.confidence;
  out.drift = settings.how.drift;
  out.cache = settings.how.cache;
  if (out.cache != "warm") out.cache_bytes = static_cast<std::int64_t>(sy::tune::cache_bytes(device));
  out.launches = settings.how.launches;
  out.sustained = settings.how.sustained_seconds;
  out.clocks = clocks_;
  out.checks = checks_;
  return out;
}

void shared_run::read_earlier(const json& document) {
  earlier_ = sy::read_measurements(document);
  if (!earlier_.empty() && earlier_.front().rows == 0)
    earlier_.front().rows = static_cast<std::int64_t>(row_count());
}

std::size_t shared_run::row_count() const {
  std::size_t out = 0;
  for (const sy::row_group& group : table.groups) out += group.row_count();
  return out;
}

}  // namespace tool
