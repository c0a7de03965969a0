// SPDX-License-Identifier: MIT
// A catalog of the C API: the C++ one, whose hooks call the program's callbacks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/c_api.h>
#include <switchyard/catalog.hpp>
#include <switchyard/observing/environment.hpp>

#include "c_api_function.hpp"

namespace switchyard::c_api {

[[nodiscard]] inline std::vector<std::string> texts(const char* const* from, std::uint64_t count,
                                                    const char* name) {
  if (count > 0) require(from, name);
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    require(from[i], (std::string{name} + "[" + std::to_string(i) + "]").c_str());
    out.emplace_back(from[i]);
  }
  return out;
}

[[nodiscard]] inline switchyard_options no_options() {
  switchyard_options out{};
  out.default_roots = 1;
  return out;
}

/// Options as they are now; members that a caller's version did not have are 0.
[[nodiscard]] inline switchyard_options any_version(const switchyard_options& given) {
  constexpr std::uint64_t first_version = offsetof(switchyard_options, tables);
  constexpr std::uint64_t second_version = offsetof(switchyard_options, allocate);
  constexpr std::uint64_t third_version = offsetof(switchyard_options, accept);
  const std::uint64_t size = given.size;
  if (size != first_version && size != second_version && size != third_version &&
      size < sizeof(switchyard_options))
    fail_size("options", "switchyard_options", given.size);
  switchyard_options out{};
  std::memcpy(&out, &given, std::min<std::uint64_t>(given.size, sizeof out));
  return out;
}

/// The options of the C++ catalog, without callbacks.
[[nodiscard]] inline catalog_options to_cpp(const switchyard_options& given) {
  catalog_options with;
  with.default_roots = given.default_roots != 0;
  with.roots = texts(given.roots, given.root_count, "roots");
  with.tables = texts(given.tables, given.table_count, "tables");
  if (given.debug < 0 || given.debug > 2)
    fail("debug is " + std::to_string(given.debug) + ", but must be 0, 1 or 2");
  if (given.debug > 0) with.settings.debug = static_cast<debug_level>(given.debug);
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
  return with;
}

}  // namespace switchyard::c_api

struct switchyard_catalog {
  switchyard_catalog(switchyard::catalog_options with, const switchyard_options& options)
      : given{options}, of{hooked(std::move(with))} {}

  switchyard_options given;  // its callbacks
  switchyard::catalog of;    // last: its summary goes to the callback

 private:
  [[nodiscard]] static const switchyard_options& options_of(const void* mine) noexcept {
    return static_cast<const switchyard_catalog*>(mine)->given;
  }

  [[nodiscard]] switchyard::catalog_options hooked(switchyard::catalog_options with) {
    if (given.log != nullptr) {
      with.receiver = {[](void* mine, const switchyard::log_line& line) noexcept {
                         const switchyard_options& to = options_of(mine);
                         to.log(to.log_context, static_cast<std::int32_t>(line.kind), line.code,
                                line.text.data());
                       },
                       this};
    }
    if (given.allocate != nullptr) {
      with.memory = {[](void* mine, std::size_t bytes, const switchyard::device_properties& device,
                        switchyard::stream on) noexcept {
                       const switchyard_options& to = options_of(mine);
                       return to.allocate(to.memory_context, device.backend.c_str(), bytes, on.handle());
                     },
                     [](void* mine, void* address, const switchyard::device_properties& device,
                        switchyard::stream on) noexcept {
                       const switchyard_options& to = options_of(mine);
                       to.release(to.memory_context, device.backend.c_str(), address, on.handle());
                     },
                     this};
    }
    if (given.accept != nullptr) {
      with.accept = [this](std::string_view bytes, const std::string& path) -> std::string {
        char why[512] = "";  // NOLINT(modernize-avoid-c-arrays): the callback's
        if (given.accept(given.accept_context, bytes.data(), bytes.size(), path.c_str(), why, sizeof why) ==
            0)
          return {};
        why[sizeof why - 1] = 0;
        return why[0] != 0 ? why : "the program gave no reason";
      };
    }
    if (given.begin_range != nullptr) {
      with.ranges = {[](void* mine, const char* name) noexcept {
                       const switchyard_options& to = options_of(mine);
                       to.begin_range(to.range_context, name);
                     },
                     [](void* mine) noexcept {
                       const switchyard_options& to = options_of(mine);
                       to.end_range(to.range_context);
                     },
                     this};
    }
    return with;
  }
};
