// What is known of a device without touching it, and which blobs can run on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard::inline v0 {

/// Names that expressions may read of a device. One that a device does not have is 0 there.
inline constexpr std::array<std::string_view, 24> attribute_names{
    "multiprocessors",
    "memory_bandwidth",  // bytes per second
    "memory_bytes",
    "l2_bytes",
    "shared_bytes_per_block",  // the most one block can ask for
    "shared_bytes_per_multiprocessor",
    "registers_per_multiprocessor",
    "threads_per_multiprocessor",
    "max_threads_per_block",
    "warp_size",
    "clock_khz",
    "compute_capability",  // 90 for sm_90; CUDA only
    "cluster_launch",
    "cooperative_launch",
    "tensor_maps",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "neon",
    "driver_version",
};

/// Values of the attributes above, in their order.
using attribute_values = std::array<std::int64_t, attribute_names.size()>;

[[nodiscard]] constexpr std::optional<std::size_t> find_attribute(std::string_view name) noexcept {
  for (std::size_t i = 0; i < attribute_names.size(); ++i) {
    if (attribute_names[i] == name) return i;
  }
  return std::nullopt;
}

/// Tables name a device by these, and selection compares them.
struct device_properties {
  std::string backend;  ///< "cuda", "hip" or "host"
  std::string arch;     ///< "sm_90", "gfx942", "x86_64"
  std::string name;     ///< as its driver spells it
  attribute_values attributes{};

  /// Value of a named attribute; 0 for one that is not known.
  [[nodiscard]] std::int64_t attribute(std::string_view which) const noexcept {
    const auto index = find_attribute(which);
    return index ? attributes[*index] : 0;
  }
  void set(std::string_view which, std::int64_t value) noexcept {
    if (const auto index = find_attribute(which)) attributes[*index] = value;
  }
};

namespace detail {

/// "sm_90a" -> major 9, minor 0, suffix 'a'.
struct cuda_arch {
  bool virtual_code = false;  // compute_XX: PTX, which the driver compiles
  int major = 0;
  int minor = 0;
  char suffix = '\0';
};

[[nodiscard]] constexpr std::optional<cuda_arch> parse_cuda_arch(std::string_view text) noexcept {
  cuda_arch out;
  if (text.starts_with("compute_")) {
    out.virtual_code = true;
    text.remove_prefix(8);
  } else if (text.starts_with("sm_")) {
    text.remove_prefix(3);
  } else {
    return std::nullopt;
  }
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f')) {
    out.suffix = text.back();
    text.remove_suffix(1);
  }
  if (text.size() < 2 || text.size() > 4) return std::nullopt;
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  out.major = number / 10;
  out.minor = number % 10;
  return out;
}

[[nodiscard]] constexpr std::string_view before_features(std::string_view gfx) noexcept {
  return gfx.substr(0, gfx.find(':'));
}

/// Whether every feature that a blob was built for ("sramecc+", "xnack-") is the device's.
[[nodiscard]] constexpr bool has_features(std::string_view device, std::string_view blob) noexcept {
  for (std::size_t colon = blob.find(':'); colon != std::string_view::npos; colon = blob.find(':')) {
    blob.remove_prefix(colon + 1);
    const std::string_view feature = blob.substr(0, blob.find(':'));
    std::string_view rest = device;
    bool found = false;
    for (std::size_t at = rest.find(':'); at != std::string_view::npos; at = rest.find(':')) {
      rest.remove_prefix(at + 1);
      found = found || rest.substr(0, rest.find(':')) == feature;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace detail

/// Whether a blob built for a backend's architecture runs on a device, and how well it fits: larger is more
/// specific. CUDA: arch-specific code of this very architecture, then family-specific code, then code of the
/// same major version with no larger minor one (nearest first), then PTX (newest first). HIP: the
/// architecture and every feature named. Host: the architecture. "any" runs everywhere on its backend.
[[nodiscard]] constexpr std::optional<int> target_fit(const device_properties& device,
                                                      std::string_view backend,
                                                      std::string_view arch) noexcept {
  if (device.backend != backend) return std::nullopt;
  if (arch == "any") return 0;
  if (backend == "cuda") {
    const auto here = detail::parse_cuda_arch(device.arch);
    const auto built = detail::parse_cuda_arch(arch);
    if (!here || !built) return device.arch == arch ? std::optional{1000} : std::nullopt;
    const int here_number = here->major * 10 + here->minor;
    const int built_number = built->major * 10 + built->minor;
    if (built->suffix == 'a') {
      return here_number == built_number ? std::optional{built->virtual_code ? 900 : 1000} : std::nullopt;
    }
    if (built->major == here->major && built->minor <= here->minor) {
      if (built->suffix == 'f') return (built->virtual_code ? 700 : 800) + built->minor;
      if (!built->virtual_code) return 500 + built->minor;
    }
    if (built->suffix == 'f') return std::nullopt;
    return built->virtual_code && built_number <= here_number ? std::optional{built_number} : std::nullopt;
  }
  if (backend == "hip") {
    if (detail::before_features(device.arch) != detail::before_features(arch)) return std::nullopt;
    if (!detail::has_features(device.arch, arch)) return std::nullopt;
    return arch.find(':') == std::string_view::npos ? 1 : 2;
  }
  return device.arch == arch ? std::optional{1} : std::nullopt;
}

}  // namespace switchyard::inline v0
