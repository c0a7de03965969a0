// SPDX-License-Identifier: MIT
// Reads a device's properties from the library: those that expressions use, and those that launches depend
// on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <switchyard/base/search.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

struct device_facts {
  device_properties properties;
  std::int64_t shared_bytes_per_block = 0;
  bool cooperative = false;
};

namespace detail {

/// The architecture as the library spells it; empty if it cannot tell.
[[nodiscard, gnu::cold]] inline std::string read_target(const api& library, int ordinal) {
  namespace layout = property_layout;
  const auto read = [&library, ordinal](int (*get)(void*, int), std::size_t offset) -> std::string {
    if (get == nullptr) return {};
    // Larger than the structure, in case a later version of it has grown.
    auto properties = std::make_unique<std::array<std::uint64_t, layout::max_bytes / 8>>();
    if (get(properties->data(), ordinal) != result::success) {
      library.get_last_error();
      return {};
    }
    std::array<char, layout::architecture_bytes + 1> text{};
    std::memcpy(text.data(), reinterpret_cast<const std::byte*>(properties->data()) + offset,
                layout::architecture_bytes);
    const std::string_view name{text.data()};
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             std::string_view{":+-_"}.find(c) != std::string_view::npos;
    };
    return switchyard::detail::all_of(name.begin(), name.end(), allowed) ? std::string{name} : std::string{};
  };
  std::string name = read(library.get_device_properties_r0600, layout::architecture_since_6);
  if (name.empty()) name = read(library.get_device_properties, layout::architecture_before_6);
  return name;
}

}  // namespace detail

/// Throws driver_error: unsupported_device without an architecture, or driver_failed.
[[nodiscard, gnu::cold]] inline device_facts read_facts(const api& library, int ordinal) {
  device_facts out;
  device_properties& properties = out.properties;
  const auto ask = [&library, ordinal](int attribute) -> std::int64_t {
    int value = 0;
    if (library.device_get_attribute(&value, attribute, ordinal) == result::success) return value;
    library.get_last_error();
    return 0;
  };
  std::array<char, 256> name{};
  if (library.device_get_name(name.data(), static_cast<int>(name.size()) - 1, ordinal) == result::success)
    properties.name = name.data();
  std::size_t memory_bytes = 0;
  require(library, library.device_total_mem(&memory_bytes, ordinal), properties.name, "hipDeviceTotalMem");
  int version = 0;
  require(library, library.runtime_get_version(&version), properties.name, "hipRuntimeGetVersion");
  properties.arch = detail::read_target(library, ordinal);
  if (properties.arch.empty()) {
    throw driver_error{error_code::unsupported_device,
                       "HIP device " + std::to_string(ordinal) + " (" + properties.name + ", ROCm " +
                           version_text(version) +
                           ") reports no architecture, so no kernels can be matched to it"};
  }

  namespace query = device_query;
  out.cooperative = ask(query::cooperative_launch) != 0;
  properties.backend = "hip";
  properties.set("multiprocessors", ask(query::multiprocessors));
  // Both edges of the clock carry data. For memory whose clock the library reports before a multiplier, such
  // as HBM3, the result is too low.
  properties.set("memory_bandwidth",
                 ask(query::memory_clock_khz) * 1000 * 2 * ask(query::memory_bus_bits) / 8);
  properties.set("memory_bytes", static_cast<std::int64_t>(memory_bytes));
  properties.set("l2_bytes", ask(query::l2_bytes));
  out.shared_bytes_per_block = ask(query::max_shared_bytes_per_block);
  properties.set("shared_bytes_per_block", out.shared_bytes_per_block);
  properties.set("shared_bytes_per_multiprocessor", ask(query::max_shared_bytes_per_multiprocessor));
  properties.set("threads_per_multiprocessor", ask(query::max_threads_per_multiprocessor));
  properties.set("max_threads_per_block", ask(query::max_threads_per_block));
  properties.set("warp_size", ask(query::warp_size));
  properties.set("clock_khz", ask(query::clock_khz));
  properties.set("cooperative_launch", out.cooperative ? 1 : 0);
  properties.set("driver_version", version);
  return out;
}

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
