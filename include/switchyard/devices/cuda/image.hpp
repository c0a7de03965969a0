// SPDX-License-Identifier: MIT
// Classifies a loadable CUDA image by its first bytes, and checks that it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// What a device of a compute capability is called: "sm_90".
[[nodiscard]] inline std::string architecture_name(int compute_capability) {
  std::string name{"sm_"};
  name += std::to_string(compute_capability);
  return name;
}

/// What a loadable image is.
enum class image_kind { cubin, fatbin, ptx, broken };

/// Looks at an image's kind, and whether all the bytes its headers speak of are there.
[[nodiscard]] inline image_kind kind_of(std::span<const std::byte> image) noexcept {
  constexpr std::uint32_t fatbin_magic = 0xba55ed50;
  if (elf::is_elf(image)) {
    const auto file = elf::read_header(image);
    if (!file || file->machine != elf::machine_cuda || !elf::is_whole(image)) return image_kind::broken;
    return image_kind::cubin;
  }
  if (elf::integer<std::uint32_t>(image, 0) == fatbin_magic) {
    const auto header_bytes = elf::integer<std::uint16_t>(image, 6);
    const auto content_bytes = elf::integer<std::uint64_t>(image, 8);
    if (!header_bytes || !content_bytes || *header_bytes < 16) return image_kind::broken;
    return elf::part(image, *header_bytes, *content_bytes) ? image_kind::fatbin : image_kind::broken;
  }
  const std::string_view text{reinterpret_cast<const char*>(image.data()), image.size()};
  if (text.find(".version") == std::string_view::npos) return image_kind::broken;
  return text.find(".target") == std::string_view::npos ? image_kind::broken : image_kind::ptx;
}

/// The compute capability a cubin was built for, for messages; nothing for other images.
[[nodiscard]] inline std::optional<int> compute_capability_of(std::span<const std::byte> image) noexcept {
  const auto file = elf::read_header(image);
  if (!file || file->machine != elf::machine_cuda) return std::nullopt;
  // CUDA 13 moved the number one byte up and counted the ABI version to 8.
  const std::uint32_t shift = file->abi_version >= 8 ? 8 : 0;
  return static_cast<int>(file->flags >> shift & 0xffU);
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
