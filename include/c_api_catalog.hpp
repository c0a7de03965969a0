// SPDX-License-Identifier: MIT
// A catalog of the C API: the C++ one, whose hooks call the program's callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/c_api.h>
#include <switchyard/catalog.hpp>

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
