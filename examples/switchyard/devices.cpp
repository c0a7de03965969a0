// SPDX-License-Identifier: MIT
#include "devices.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include <switchyard/base/text.hpp>
#include <switchyard/device.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/tool/device_limits.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] std::string lower(std::string_view text) {
  std::string out{text};
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

void set_attribute(sy::device_properties& device, const std::string& word) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  if (equals == std::string::npos) throw usage_error{"--attribute: expected name=value, got '" + word + "'"};
  if (sy::find_attribute(name) == sy::attribute_names.size()) {
    throw usage_error{"--attribute: devices have no attribute '" + name + "'" +
                      sy::text::suggestion(name, sy::attribute_names) + " (they have " +
                      sy::text::join(sy::attribute_names, sy::attribute_names.size()) + ")"};
  }
  std::int64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, problem] = std::from_chars(word.data() + equals + 1, end, value);
  if (problem != std::errc{} || stop != end || equals + 1 == word.size()) {
    throw usage_error{"--attribute: '" + word.substr(equals + 1) + "' is not an integer"};
  }
  device.set(name, value);
}

/// "3g.40gb", "1g.10gb+me": slices of the seven that a whole card has, their memory, and engines for media.
struct slice_size {
  std::int64_t slices = 0;
  std::int64_t gigabytes = 0;
};

[[nodiscard]] std::optional<slice_size> parse_slice(const std::string& text) {
  slice_size out;
  const char* const end = text.data() + text.size();
  const auto [g, first] = std::from_chars(text.data(), end, out.slices);
  if (first != std::errc{} || !std::string_view{g, end}.starts_with("g.")) return std::nullopt;
  const auto [gb, second] = std::from_chars(g + 2, end, out.gigabytes);
  const bool known = out.slices >= 1 && out.slices <= 7 && out.gigabytes > 0;
  if (second != std::errc{} || !known) return std::nullopt;
  const std::string unit = lower(std::string_view{gb, end});
  if (unit != "gb" && !unit.starts_with("gb+")) return std::nullopt;
  return out;
}

/// How many of the eight parts of a card's memory a slice has. One of the slices with one part of the
/// multiprocessors has two of the memory: 20 GB of 80, 24 of 94, 35 of 141.
[[nodiscard]] std::int64_t memory_parts_of(const slice_size& slice) {
  if (slice.slices == 1) return slice.gigabytes < 20 ? 1 : 2;
  if (slice.slices == 3) return 4;
  return slice.slices == 7 ? 8 : slice.slices;
}

/// The multiprocessors of a MIG slice. A card of 132 multiprocessors has seven slices of at least 16; a slice
/// of three sevenths gets what remains of its half of the card.
[[nodiscard]] std::int64_t multiprocessors_of(const slice_size& slice, std::int64_t whole) {
  if (slice.slices == 7) return whole;
  if (whole == 132) return slice.slices == 3 ? 60 : 16 * slice.slices;
  return whole / 7 / 2 * 2 * slice.slices;
}

/// A MIG slice of a known card, by the driver's name for it: "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
[[nodiscard]] std::optional<known_device> find_slice(const std::vector<known_device>& known,
                                                     const std::string& name) {
  const std::size_t mig = lower(name).find(" mig ");
  if (mig == std::string::npos) return std::nullopt;
  const auto slice = parse_slice(name.substr(mig + 5));
  if (!slice) {
    throw usage_error{"--device: '" + name.substr(mig + 5) +
                      "' is no MIG slice; expected slices and memory, such as 3g.40gb"};
  }
  for (const known_device& device : known) {
    if (lower(device.properties.name) != lower(name.substr(0, mig))) continue;
    known_device out = device;
    out.properties.name = name;
    const std::int64_t memory = memory_parts_of(*slice);
    for (const char* const attribute : {"memory_bandwidth", "memory_bytes", "l2_bytes"})
      out.properties.set(attribute, device.properties.attribute(attribute) / 8 * memory);
    out.properties.set("multiprocessors",
                       multiprocessors_of(*slice, device.properties.attribute("multiprocessors")));
    out.source = "a slice of " + device.properties.name + " with " +
                 std::to_string(out.properties.attribute("multiprocessors")) + " multiprocessors, from " +
                 device.source;
    return out;
  }
  return std::nullopt;
}

[[nodiscard]] known_device find_device(sy::catalog& catalog, const std::string& name) {
  const std::vector<known_device> known = known_devices(catalog);
  if (name.empty()) return known.front();
  for (const known_device& device : known) {
    if (device.properties.name == name) return device;
  }
  const std::size_t colon = name.find(':');
  const std::string backend = name.substr(0, colon);
  if (colon != std::string::npos && (backend == "cuda" || backend == "hip" || backend == "host")) {
    known_device out;
    out.properties.backend = backend;
    out.properties.arch = name.substr(colon + 1);
    out.properties.name = name;
    out.source = "the command line";
    complete_properties(out.properties);
    return out;
  }
  if (auto slice = find_slice(known, name)) return *std::move(slice);
  std::vector<const known_device*> partial;
  for (const known_device& device : known) {
    const std::string full = lower(device.properties.name);
    if (full == lower(name)) return device;
    if (full.find(lower(name)) != std::string::npos) partial.push_back(&device);
  }
  if (partial.size() == 1) return *partial.front();
  std::vector<std::string> names;
  for (const known_device& device : known) names.push_back(device.properties.name);
  throw usage_error{
      (partial.empty() ? "no table was measured on a device '" : "several devices have a name like '") +
      name + "'" + sy::text::suggestion(name, names) + " Known devices: " + sy::text::join(names, 40) +
      "; or invent one, such as cuda:sm_90"};
}

}  // namespace

void complete_properties(sy::device_properties& device) {
  if (device.backend == "cuda") {
    if (const auto arch = sy::detail::parse_cuda_arch(device.arch); arch && !arch->virtual_code) {
      if (device.attribute("compute_capability") == 0) {
        device.set("compute_capability", arch->major * 10 + arch->minor);
      }
    }
  }
  if (device.attribute("warp_size") == 0 && device.backend != "host") {
    device.set("warp_size", sy::tool::usual_warp_size({device.backend, device.arch}));
  }
  if (device.attribute("shared_bytes_per_block") == 0)
    device.set("shared_bytes_per_block", sy::tool::max_shared_bytes({device.backend, device.arch}));
  if (device.backend == "host" && device.arch == "aarch64") device.set("neon", 1);
}

std::vector<known_device> known_devices(sy::catalog& catalog) {
  std::vector<known_device> out{{sy::device::current().properties(), "this machine"}};
  const auto add = [&out](const std::shared_ptr<const sy::table>& table) {
    const sy::device_properties& found = table->device;
    if (found.name.empty()) return;
    const bool known = std::any_of(out.begin(), out.end(), [&found](const known_device& other) {
      return other.properties.name == found.name && other.properties.arch == found.arch;
    });
    if (known) return;
    out.push_back({found, table->path});
    complete_properties(out.back().properties);
  };
  if (out.front().properties.backend != "host") {
    out.push_back({sy::device::host().properties(), "this machine"});
  }
  for (const known_operator& known : known_operators()) {
    const auto files = catalog.files(*known.description);
    std::for_each(files.overlays.begin(), files.overlays.end(), add);
    std::for_each(files.tables.begin(), files.tables.end(), add);
  }
  return out;
}

known_device require_device(sy::catalog& catalog, const std::string& name,
                            const std::vector<std::string>& attributes) {
  known_device out = find_device(catalog, name);
  for (const std::string& attribute : attributes) set_attribute(out.properties, attribute);
  return out;
}

}  // namespace tool
