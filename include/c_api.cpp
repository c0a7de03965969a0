// SPDX-License-Identifier: MIT
// The shared library behind switchyard/c_api.h. No exception leaves it.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/c_api.h>
#include <switchyard/observing/open_ranges.hpp>
#include <switchyard/observing/prometheus.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/switchyard.hpp>

#include "c_api_calls.hpp"
#include "c_api_catalog.hpp"
#include "c_api_operators.hpp"

namespace sy = switchyard;
using sy::c_api::fail;
using sy::c_api::find;
using sy::c_api::named_arguments;

namespace {

struct last_error {
  int code = 0;
  std::string text;
};
[[nodiscard]] last_error& mine() {
  thread_local last_error out;
  return out;
}

/// Runs a function and keeps its error.
template <class Function>
[[nodiscard]] int guarded(const Function& run) noexcept {
  try {
    run();
    return 0;
  } catch (const sy::error& problem) {
    mine() = {static_cast<int>(problem.code()), problem.what()};
  } catch (const std::exception& problem) {
    mine() = {1, problem.what()};
  } catch (...) {
    mine() = {1, "an unknown exception"};
  }
  return mine().code;
}

template <class Value>
void require(const Value* value, const char* name) {
  if (value == nullptr) fail(std::string{name} + " is null");
}

/// Fills a struct of the caller, which states its size.
template <class Struct>
void fill(Struct* out, Struct value, const char* type) {
  require(out, "out");
  if (out->size < sizeof(Struct)) named_arguments::fail_size("out", type, out->size);
  value.size = out->size;
  *out = value;
}

[[nodiscard]] switchyard_options no_options() {
  switchyard_options out{};
  out.default_roots = 1;
  return out;
}

/// Options as they are now; members that a caller's version did not have are 0.
[[nodiscard]] switchyard_options any_version(const switchyard_options& given) {
  constexpr std::uint64_t first_version = offsetof(switchyard_options, tables);
  constexpr std::uint64_t second_version = offsetof(switchyard_options, allocate);
  constexpr std::uint64_t third_version = offsetof(switchyard_options, accept);
  const std::uint64_t size = given.size;
  if (size != first_version && size != second_version && size != third_version &&
      size < sizeof(switchyard_options))
    named_arguments::fail_size("options", "switchyard_options", given.size);
  switchyard_options out{};
  std::memcpy(&out, &given, std::min<std::uint64_t>(given.size, sizeof out));
  return out;
}

[[nodiscard]] std::chrono::milliseconds interval_of(std::uint64_t milliseconds) {
  constexpr std::uint64_t day = 86'400'000;
  if (milliseconds == 0 || milliseconds > day)
    fail("milliseconds is " + std::to_string(milliseconds) + ", but must be 1 to " + std::to_string(day));
  return std::chrono::milliseconds{milliseconds};
}

/// Gives a text to a caller's buffer.
void give(const std::string& from, char* text, std::size_t capacity, std::size_t* length) {
  if (length != nullptr) *length = from.size();
  if (capacity == 0) return;
  require(text, "text");
  const std::size_t kept = std::min(from.size(), capacity - 1);
  std::memcpy(text, from.data(), kept);
  text[kept] = 0;
}

[[nodiscard]] std::vector<sy::axis_span> spans_of(const switchyard_range* ranges, std::size_t count) {
  if (count > 0) require(ranges, "ranges");
  std::vector<sy::axis_span> out;
  for (std::size_t i = 0; i < count; ++i) {
    const switchyard_range& range = ranges[i];
    const std::string name = "ranges[" + std::to_string(i) + "]";
    if (range.size < sizeof range) named_arguments::fail_size(name, "switchyard_range", range.size);
    require(range.axis, (name + ".axis").c_str());
    out.push_back({range.axis, range.first, range.last});
  }
  return out;
}

[[nodiscard]] std::vector<std::string> texts(const char* const* from, std::uint64_t count, const char* name) {
  if (count > 0) require(from, name);
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    require(from[i], (std::string{name} + "[" + std::to_string(i) + "]").c_str());
    out.emplace_back(from[i]);
  }
  return out;
}

}  // namespace

int switchyard_open(const switchyard_options* options, switchyard_catalog** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    const switchyard_options given = options == nullptr ? no_options() : any_version(*options);
    sy::catalog_options with;
    with.default_roots = given.default_roots != 0;
    with.roots = texts(given.roots, given.root_count, "roots");
    with.tables = texts(given.tables, given.table_count, "tables");
    if (given.debug < 0 || given.debug > 2)
      fail("debug is " + std::to_string(given.debug) + ", but must be 0, 1 or 2");
    if (given.debug > 0) with.settings.debug = static_cast<sy::debug_level>(given.debug);
    if ((given.allocate == nullptr) != (given.release == nullptr))
      fail("one of allocate and release is null: give both or neither");
    if ((given.begin_range == nullptr) != (given.end_range == nullptr))
      fail("one of begin_range and end_range is null: give both or neither");
    with.canary.tables = texts(given.canary_tables, given.canary_table_count, "canary_tables");
    with.canary.share = given.canary_share;
    if (given.canary_max_regret != 0) with.canary.max_regret = std::max(given.canary_max_regret, 0.0);
    constexpr std::uint64_t most = UINT32_MAX;
    if (given.canary_least_comparisons > most || given.live_one_in > most)
      fail("canary_least_comparisons and live_one_in must be at most " + std::to_string(most));
    if (given.canary_least_comparisons > 0)
      with.canary.least_comparisons = static_cast<std::uint32_t>(given.canary_least_comparisons);
    with.live.one_in = static_cast<std::uint32_t>(given.live_one_in);
    *out = new switchyard_catalog{std::move(with), given};
  });
}

void switchyard_close(switchyard_catalog* catalog) {
  delete catalog;
}

int switchyard_reload(switchyard_catalog* catalog) {
  return guarded([&] {
    require(catalog, "catalog");
    (void)catalog->of.reload();
  });
}

int switchyard_watch(switchyard_catalog* catalog, std::uint64_t milliseconds) {
  return guarded([&] {
    require(catalog, "catalog");
    catalog->of.watch(interval_of(milliseconds));
  });
}

int switchyard_stop_watching(switchyard_catalog* catalog) {
  return guarded([&] {
    require(catalog, "catalog");
    catalog->of.stop_watching();
  });
}

int switchyard_unload_unused(switchyard_catalog* catalog, std::uint64_t* blobs) {
  return guarded([&] {
    require(catalog, "catalog");
    const std::size_t count = catalog->of.unload_unused();
    if (blobs != nullptr) *blobs = count;
  });
}

int switchyard_seal(switchyard_catalog* catalog, std::int32_t load, std::int32_t plan,
                    std::int32_t fallback) {
  return guarded([&] {
    require(catalog, "catalog");
    const auto action = [](const char* name, std::int32_t of) {
      if (of < SWITCHYARD_SEAL_COUNT || of > SWITCHYARD_SEAL_REFUSE)
        fail(std::string{name} + " is " + std::to_string(of) + ", but must be 0, 1 or 2");
      return static_cast<sy::seal_action>(of);
    };
    catalog->of.seal({action("load", load), action("plan", plan), action("fallback", fallback)});
  });
}

int switchyard_unseal(switchyard_catalog* catalog) {
  return guarded([&] {
    require(catalog, "catalog");
    catalog->of.unseal();
  });
}

int switchyard_sealed(const switchyard_catalog* catalog, std::uint64_t* plans, std::uint64_t* loads,
                      std::uint64_t* fallbacks, std::uint64_t* refused) {
  return guarded([&] {
    require(catalog, "catalog");
    const sy::seal_report found = catalog->of.sealed();
    if (plans != nullptr) *plans = found.plans;
    if (loads != nullptr) *loads = found.loads;
    if (fallbacks != nullptr) *fallbacks = found.fallbacks;
    if (refused != nullptr) *refused = found.refused;
  });
}

std::uint64_t switchyard_generation(const switchyard_catalog* catalog) {
  return catalog == nullptr ? 0 : catalog->of.generation();
}

int switchyard_count(const switchyard_catalog* catalog, const char* operator_name, switchyard_counters* out) {
  return guarded([&] {
    require(catalog, "catalog");
    const std::string_view wanted = find(operator_name).description->name;
    switchyard_counters found{};
    for (const sy::operator_counters& counted : catalog->of.counters().operators) {
      if (counted.name != wanted) continue;
      found = {0,
               counted.plans,
               counted.displaced_plans,
               counted.passed_over,
               counted.loads,
               counted.failed_loads,
               counted.replacements,
               counted.refused_replacements,
               counted.unprepared_plans,
               counted.unprepared_loads,
               counted.unprepared_fallbacks,
               counted.refused_calls,
               0,
               {}};
      for (const sy::counted_code& error : counted.errors) found.errors += error.count;
      std::copy(counted.choices.begin(), counted.choices.end(), found.choices);
    }
    fill(out, found, "switchyard_counters");
  });
}

int switchyard_metrics(const switchyard_catalog* catalog, char* text, std::size_t capacity,
                       std::size_t* length) {
  return guarded([&] {
    require(catalog, "catalog");
    give(to_prometheus(catalog->of.counters()), text, capacity, length);
  });
}

int switchyard_write_metrics(switchyard_catalog* catalog, const char* path, std::uint64_t milliseconds) {
  return guarded([&] {
    require(catalog, "catalog");
    require(path, "path");
    catalog->of.write_counters(path, interval_of(milliseconds));
  });
}

int switchyard_use_ranges(switchyard_options* options, const char* which) {
  return guarded([&] {
    require(options, "options");
    require(which, "which");
    if (options->size < sizeof *options)
      named_arguments::fail_size("options", "switchyard_options", options->size);
    const sy::range_hooks found = sy::open_ranges(which);
    options->begin_range = found.push;
    options->end_range = found.pop;
    options->range_context = found.context;
  });
}

int switchyard_set_canary_share(switchyard_catalog* catalog, double share) {
  return guarded([&] {
    require(catalog, "catalog");
    (void)catalog->of.set_canary_share(share);
  });
}

int switchyard_fingerprint(switchyard_catalog* catalog, const char* operator_name, const char* device,
                           char* text, std::size_t capacity, std::size_t* length) {
  return guarded([&] {
    require(catalog, "catalog");
    std::vector<const sy::operator_description*> operators;
    if (operator_name != nullptr) {
      operators.push_back(find(operator_name).description);
    } else {
      const std::vector<std::string> installed = catalog->of.operators();
      sy::operators::built_in::for_each([&]<class Operator>() {
        if (std::find(installed.begin(), installed.end(), Operator::name) != installed.end())
          operators.push_back(&sy::describe<Operator>());
      });
    }
    const std::string_view wanted = device == nullptr ? "" : device;
    if (!wanted.empty() && wanted != "host")
      fail("unknown device '" + std::string{wanted} + "'; known are NULL and host");
    const sy::device of = wanted.empty() ? sy::device::current() : sy::device::host();
    give(to_string(catalog->of.fingerprint(operators, of.properties())), text, capacity, length);
  });
}

int switchyard_fingerprint_of_choices(switchyard_catalog* catalog, char* text, std::size_t capacity,
                                      std::size_t* length) {
  return guarded([&] {
    require(catalog, "catalog");
    give(to_string(catalog->of.fingerprint_of_choices()), text, capacity, length);
  });
}

int switchyard_compare_fingerprints(const char* here, const char* there, char* text, std::size_t capacity,
                                    std::size_t* length) {
  return guarded([&] {
    require(here, "here");
    require(there, "there");
    give(describe_difference(sy::parse_fingerprint(here), sy::parse_fingerprint(there)), text, capacity,
         length);
  });
}

int switchyard_poll_live(switchyard_catalog* catalog) {
  return guarded([&] {
    require(catalog, "catalog");
    catalog->of.poll_live();
  });
}

int switchyard_live(switchyard_catalog* catalog, char* text, std::size_t capacity, std::size_t* length) {
  return guarded([&] {
    require(catalog, "catalog");
    give(to_string(catalog->of.live()), text, capacity, length);
  });
}

int switchyard_write_live_tables(switchyard_catalog* catalog, const char* folder, std::uint64_t* tables) {
  return guarded([&] {
    require(catalog, "catalog");
    require(folder, "folder");
    const std::size_t count = catalog->of.write_live_tables(folder).size();
    if (tables != nullptr) *tables = count;
  });
}

int switchyard_describe(const char* name, switchyard_description* out) {
  return guarded([&] {
    const sy::operator_description& op = *find(name).description;
    fill(out, {0, op.name.data(), op.argument_bytes, op.fields.size(), op.axes.size()},
         "switchyard_description");
  });
}

int switchyard_describe_field(const char* name, std::uint64_t index, switchyard_field* out) {
  return guarded([&] {
    const sy::operator_description& op = *find(name).description;
    if (index >= op.fields.size()) fail(std::string{op.name} + " has no field " + std::to_string(index));
    const sy::field_description& field = op.fields[index];
    fill(out, {0, field.name.data(), field.name.size(), static_cast<std::uint32_t>(field.kind), field.offset},
         "switchyard_field");
  });
}

int switchyard_describe_axis(const char* name, std::uint64_t index, switchyard_axis* out) {
  return guarded([&] {
    const sy::operator_description& op = *find(name).description;
    if (index >= op.axes.size()) fail(std::string{op.name} + " has no axis " + std::to_string(index));
    const sy::axis_description& axis = op.axes[index];
    fill(out,
         {0, axis.name.data(), axis.name.size(), axis.kind == sy::axis_kind::size ? 1 : 0,
          axis.is_flag ? 1 : 0},
         "switchyard_axis");
  });
}

int switchyard_operator_open(switchyard_catalog* catalog, const char* name, const char* device,
                             switchyard_operator** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(catalog, "catalog");
    *out = find(name).open(catalog->of, device == nullptr ? "" : device, nullptr).release();
  });
}

int switchyard_operator_open_limited(switchyard_catalog* catalog, const char* name, const char* device,
                                     const switchyard_limits* limits, switchyard_operator** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(catalog, "catalog");
    require(limits, "limits");
    if (limits->size < sizeof *limits)
      named_arguments::fail_size("limits", "switchyard_limits", limits->size);
    sy::choice_limits with;
    if (limits->workspace_bytes >= 0) with.workspace_bytes = limits->workspace_bytes;
    if (limits->max_error != 0) with.max_error = limits->max_error;
    if (limits->reproducible != nullptr) with.reproducible = limits->reproducible;
    *out = find(name).open(catalog->of, device == nullptr ? "" : device, &with).release();
  });
}

void switchyard_operator_close(switchyard_operator* op) {
  delete op;
}

int switchyard_call(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                    std::size_t count) {
  return guarded([&] {
    require(op, "op");
    op->call(sy::stream{stream}, arguments, count, {});
  });
}

int switchyard_call_with_workspace(switchyard_operator* op, void* stream,
                                   const switchyard_argument* arguments, std::size_t count, void* workspace,
                                   std::size_t workspace_bytes) {
  return guarded([&] {
    require(op, "op");
    require(workspace, "workspace");
    op->call(sy::stream{stream}, arguments, count, {workspace, workspace_bytes});
  });
}

int switchyard_workspace_bytes(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                               std::size_t count, std::size_t* bytes) {
  return guarded([&] {
    require(op, "op");
    require(bytes, "bytes");
    *bytes = op->workspace_bytes(sy::stream{stream}, arguments, count);
  });
}

int switchyard_workspace_bytes_of_ranges(switchyard_operator* op, void* stream,
                                         const switchyard_argument* arguments, std::size_t count,
                                         const switchyard_range* ranges, std::size_t range_count,
                                         std::size_t* bytes) {
  return guarded([&] {
    require(op, "op");
    require(bytes, "bytes");
    *bytes = op->workspace_bytes(sy::stream{stream}, arguments, count, spans_of(ranges, range_count));
  });
}

int switchyard_prepare(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                       std::size_t count) {
  return guarded([&] {
    require(op, "op");
    op->prepare(sy::stream{stream}, arguments, count);
  });
}

int switchyard_prepare_ranges(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                              std::size_t count, const switchyard_range* ranges, std::size_t range_count) {
  return guarded([&] {
    require(op, "op");
    op->prepare(sy::stream{stream}, arguments, count, spans_of(ranges, range_count));
  });
}

int switchyard_explain(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                       std::size_t count, char* text, std::size_t capacity, std::size_t* length) {
  return guarded([&] {
    require(op, "op");
    give(op->explain(sy::stream{stream}, arguments, count), text, capacity, length);
  });
}

int switchyard_compare_live(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                            std::size_t count, std::uint32_t runner_up, std::int32_t* outcome, char* text,
                            std::size_t capacity, std::size_t* length) {
  return guarded([&] {
    require(op, "op");
    if (runner_up == 0) fail("runner_up is 0, but must be 1 or more");
    sy::live_compare_options options;
    options.runner_up = runner_up;
    const sy::live_comparison found = op->compare(sy::stream{stream}, arguments, count, options);
    if (outcome != nullptr) *outcome = static_cast<std::int32_t>(found.outcome);
    give(found.text, text, capacity, length);
  });
}

int switchyard_last_error(void) {
  return mine().code;
}

const char* switchyard_last_error_text(void) {
  return mine().text.c_str();
}
