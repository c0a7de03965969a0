// SPDX-License-Identifier: MIT
// Catalogs, and the thread's last error, of the shared library behind switchyard/c_api.h. No exception leaves
// it.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/c_api.h>
#include <switchyard/observing/open_ranges.hpp>
#include <switchyard/observing/prometheus.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/switchyard.hpp>

#include "c_api_catalog.hpp"
#include "c_api_function.hpp"

namespace sy = switchyard;
using namespace switchyard::c_api;

namespace {

/// Runs a function with a catalog, which must not be null.
template <class Catalog, class Function>
[[nodiscard]] int with_catalog(Catalog* catalog, const Function& run) noexcept {
  return guarded([&] {
    require(catalog, "catalog");
    run(catalog->of);
  });
}

[[nodiscard]] std::chrono::milliseconds interval_of(std::uint64_t milliseconds) {
  constexpr std::uint64_t day = 86'400'000;
  if (milliseconds == 0 || milliseconds > day)
    fail("milliseconds is " + std::to_string(milliseconds) + ", but must be 1 to " + std::to_string(day));
  return std::chrono::milliseconds{milliseconds};
}

}  // namespace

int switchyard_open(const switchyard_options* options, switchyard_catalog** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    const switchyard_options given = options == nullptr ? no_options() : any_version(*options);
    *out = new switchyard_catalog{to_cpp(given), given};
  });
}

void switchyard_close(switchyard_catalog* catalog) {
  delete catalog;
}

int switchyard_reload(switchyard_catalog* catalog) {
  return with_catalog(catalog, [](sy::catalog& files) { (void)files.reload(); });
}

int switchyard_watch(switchyard_catalog* catalog, std::uint64_t milliseconds) {
  return with_catalog(catalog, [&](sy::catalog& files) { files.watch(interval_of(milliseconds)); });
}

int switchyard_stop_watching(switchyard_catalog* catalog) {
  return with_catalog(catalog, [](sy::catalog& files) { files.stop_watching(); });
}

int switchyard_unload_unused(switchyard_catalog* catalog, std::uint64_t* blobs) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    const std::size_t count = files.unload_unused();
    if (blobs != nullptr) *blobs = count;
  });
}

int switchyard_seal(switchyard_catalog* catalog, std::int32_t load, std::int32_t plan,
                    std::int32_t fallback) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    const auto action = [](const char* name, std::int32_t of) {
      if (of < SWITCHYARD_SEAL_COUNT || of > SWITCHYARD_SEAL_REFUSE)
        fail(std::string{name} + " is " + std::to_string(of) + ", but must be 0, 1 or 2");
      return static_cast<sy::seal_action>(of);
    };
    files.seal({action("load", load), action("plan", plan), action("fallback", fallback)});
  });
}

int switchyard_unseal(switchyard_catalog* catalog) {
  return with_catalog(catalog, [](sy::catalog& files) { files.unseal(); });
}

int switchyard_sealed(const switchyard_catalog* catalog, std::uint64_t* plans, std::uint64_t* loads,
                      std::uint64_t* fallbacks, std::uint64_t* refused) {
  return with_catalog(catalog, [&](const sy::catalog& files) {
    const sy::seal_report found = files.sealed();
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
  return with_catalog(catalog, [&](const sy::catalog& files) {
    const std::string_view wanted = find(operator_name).name;
    switchyard_counters found{};
    for (const sy::operator_counters& counted : files.counters().operators) {
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
  return with_catalog(catalog, [&](const sy::catalog& files) {
    give(to_prometheus(files.counters()), text, capacity, length);
  });
}

int switchyard_write_metrics(switchyard_catalog* catalog, const char* path, std::uint64_t milliseconds) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    require(path, "path");
    files.write_counters(path, interval_of(milliseconds));
  });
}

int switchyard_use_ranges(switchyard_options* options, const char* which) {
  return guarded([&] {
    require(options, "options");
    require(which, "which");
    if (options->size < sizeof *options) fail_size("options", "switchyard_options", options->size);
    const sy::range_hooks found = sy::open_ranges(which);
    options->begin_range = found.push;
    options->end_range = found.pop;
    options->range_context = found.context;
  });
}

int switchyard_set_canary_share(switchyard_catalog* catalog, double share) {
  return with_catalog(catalog, [&](sy::catalog& files) { (void)files.set_canary_share(share); });
}

int switchyard_fingerprint(switchyard_catalog* catalog, const char* operator_name, const char* device,
                           char* text, std::size_t capacity, std::size_t* length) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    std::vector<const sy::operator_description*> operators;
    if (operator_name != nullptr) {
      operators.push_back(&find(operator_name));
    } else {
      const std::vector<std::string> installed = files.operators();
      sy::operators::built_in::for_each([&]<class Operator>() {
        if (std::find(installed.begin(), installed.end(), Operator::name) != installed.end())
          operators.push_back(&sy::describe<Operator>());
      });
    }
    const sy::device of = is_host(device) ? sy::device::host() : sy::device::current();
    give(to_string(files.fingerprint(operators, of.properties())), text, capacity, length);
  });
}

int switchyard_fingerprint_of_choices(switchyard_catalog* catalog, char* text, std::size_t capacity,
                                      std::size_t* length) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    give(to_string(files.fingerprint_of_choices()), text, capacity, length);
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
  return with_catalog(catalog, [](sy::catalog& files) { files.poll_live(); });
}

int switchyard_live(switchyard_catalog* catalog, char* text, std::size_t capacity, std::size_t* length) {
  return with_catalog(catalog,
                      [&](sy::catalog& files) { give(to_string(files.live()), text, capacity, length); });
}

int switchyard_write_live_tables(switchyard_catalog* catalog, const char* folder, std::uint64_t* tables) {
  return with_catalog(catalog, [&](sy::catalog& files) {
    require(folder, "folder");
    const std::size_t count = files.write_live_tables(folder).size();
    if (tables != nullptr) *tables = count;
  });
}

int switchyard_last_error(void) {
  return mine().code;
}

const char* switchyard_last_error_text(void) {
  return mine().text.c_str();
}
