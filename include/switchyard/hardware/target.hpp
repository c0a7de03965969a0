// SPDX-License-Identifier: MIT
// Which blobs can run on which device: a pure function of names, so that a choice can be explained without a
// device.
#pragma once

#include <optional>
#include <string_view>

#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

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

}  // namespace v0
}  // namespace switchyard
