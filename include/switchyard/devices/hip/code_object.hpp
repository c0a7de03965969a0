// SPDX-License-Identifier: MIT
// Reads the kernels' parameters from an AMD code object (.hsaco, or a bundle of several). HIP has no call
// that returns them, but the compiler writes them into a note of the file.
//
// Pure: no device, no library. Any bytes may be given; reading is bounded by their number and never recurses.
//
// Source of the formats: LLVM, "User Guide for AMDGPU Backend", code object metadata V3 and up; the
// MessagePack specification; "Clang Offload Bundler".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/hip/message_pack.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/object_files/elf.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

/// What a code object says of one kernel.
struct kernel_description {
  std::string name;                        ///< as hipModuleGetFunction takes it
  std::vector<parameter_slot> parameters;  ///< those the program passes; the compiler's hidden ones left out
  std::uint32_t parameter_bytes = 0;       ///< of the whole argument segment, hidden ones included
  std::uint32_t shared_bytes = 0;          ///< static, of a block
  std::uint32_t private_bytes = 0;         ///< of a thread: stack and spills
  std::uint32_t spilled_registers = 0;     ///< vector and scalar registers
  std::uint32_t warp_size = 0;
  std::uint32_t max_threads_per_block = 0;
};

/// What a code object says of itself.
struct code_object {
  std::string target;  ///< "gfx942:sramecc+:xnack-"
  std::vector<kernel_description> kernels;
};

namespace detail {

[[nodiscard, gnu::cold]] inline bool read_parameter(message_reader& message,
                                                    const message_reader::item& begun,
                                                    kernel_description& kernel) {
  parameter_slot slot;
  bool hidden = false;
  const bool read = read_map(message, begun, [&](std::string_view key, const message_reader::item& value) {
    if (key == ".offset") return to_uint32(value, slot.offset);
    if (key == ".size") return to_uint32(value, slot.bytes);
    if (key == ".value_kind") hidden = value.text.starts_with("hidden_");
    return message.skip_rest(value);
  });
  if (read && !hidden) kernel.parameters.push_back(slot);
  return read;
}

[[nodiscard, gnu::cold]] inline bool read_kernel(message_reader& message, const message_reader::item& begun,
                                                 kernel_description& kernel) {
  return read_map(message, begun, [&](std::string_view key, const message_reader::item& value) {
    if (key == ".name") kernel.name = value.text;
    if (key == ".kernarg_segment_size") return to_uint32(value, kernel.parameter_bytes);
    if (key == ".group_segment_fixed_size") return to_uint32(value, kernel.shared_bytes);
    if (key == ".private_segment_fixed_size") return to_uint32(value, kernel.private_bytes);
    if (key == ".wavefront_size") return to_uint32(value, kernel.warp_size);
    if (key == ".max_flat_workgroup_size") return to_uint32(value, kernel.max_threads_per_block);
    if (key == ".sgpr_spill_count" || key == ".vgpr_spill_count") {
      std::uint32_t spilled = 0;
      if (!to_uint32(value, spilled)) return false;
      kernel.spilled_registers += spilled;
      return true;
    }
    if (key == ".args") {
      if (value.type != message_reader::kind::array) return false;
      for (std::uint64_t i = 0; i < value.number; ++i) {
        const auto parameter = message.next();
        if (!parameter || !read_parameter(message, *parameter, kernel)) return false;
      }
      return true;
    }
    return message.skip_rest(value);
  });
}

}  // namespace detail

/// What the code object says of itself and its kernels; nothing when it is not a whole one, or is one of
/// before metadata version 3.
[[nodiscard, gnu::cold]] inline std::optional<code_object> read_code_object(
    std::span<const std::byte> image) {
  constexpr std::uint32_t metadata_note = 32;
  const auto file = elf::read_header(image);
  if (!file || file->machine != elf::machine_amdgpu) return std::nullopt;
  std::optional<code_object> result;
  elf::find_note(image, [&result](std::string_view owner, std::uint32_t type,
                                  std::span<const std::byte> metadata) {
    if (owner != "AMDGPU" || type != metadata_note) return false;
    detail::message_reader message{metadata};
    const auto begun = message.next();
    code_object found;
    const bool read =
        begun && detail::read_map(
                     message, *begun, [&](std::string_view key, const detail::message_reader::item& value) {
                       if (key == "amdhsa.target") {
                         // "amdgcn-amd-amdhsa--gfx942:xnack-": a triple with an empty environment, then the
                         // target.
                         found.target = value.text.substr(
                             value.text.find("--") == std::string_view::npos ? 0 : value.text.find("--") + 2);
                       }
                       if (key != "amdhsa.kernels") return message.skip_rest(value);
                       if (value.type != detail::message_reader::kind::array) return false;
                       for (std::uint64_t i = 0; i < value.number; ++i) {
                         const auto kernel = message.next();
                         if (!kernel || !detail::read_kernel(message, *kernel, found.kernels.emplace_back()))
                           return false;
                       }
                       return true;
                     });
    if (read) result = std::move(found);
    return true;
  });
  return result;
}

/// What a loadable image is.
enum class image_kind { code_object, bundle, compressed_bundle, broken };

namespace detail {

inline constexpr std::string_view bundle_magic = "__CLANG_OFFLOAD_BUNDLE__";

[[nodiscard]] inline bool begins_with(std::span<const std::byte> image, std::string_view magic) noexcept {
  return std::string_view{reinterpret_cast<const char*>(image.data()), image.size()}.starts_with(magic);
}

/// Calls `visit(target, image)` for each entry of a bundle; false when one does not lie in it.
template <class Visitor>
[[nodiscard]] bool for_each_bundled(std::span<const std::byte> bundle, Visitor&& visit) {
  const auto count = elf::integer<std::uint64_t>(bundle, bundle_magic.size());
  if (!count) return false;
  std::uint64_t at = bundle_magic.size() + 8;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto offset = elf::integer<std::uint64_t>(bundle, at);
    const auto bytes = elf::integer<std::uint64_t>(bundle, at + 8);
    const auto name_bytes = elf::integer<std::uint64_t>(bundle, at + 16);
    if (!offset || !bytes || !name_bytes) return false;
    const auto name = elf::part(bundle, at + 24, *name_bytes);
    const auto image = elf::part(bundle, *offset, *bytes);
    if (!name || !image) return false;
    at += 24 + *name_bytes;
    // "hipv4-amdgcn-amd-amdhsa--gfx942"; the host's entry has another triple and is empty.
    constexpr std::string_view triple = "amdgcn-amd-amdhsa-";
    std::string_view target{reinterpret_cast<const char*>(name->data()), name->size()};
    const auto found = target.find(triple);
    if (found == std::string_view::npos) continue;
    target.remove_prefix(found + triple.size());
    if (target.starts_with('-')) target.remove_prefix(1);
    visit(target, *image);
  }
  return true;
}

}  // namespace detail

/// Looks at an image's kind, and whether all the bytes its headers speak of are there. An ELF file of another
/// machine is left to the library to judge.
[[nodiscard]] inline image_kind kind_of(std::span<const std::byte> image) noexcept {
  constexpr std::size_t compressed_header_bytes = 24;
  if (elf::is_elf(image)) return elf::is_whole(image) ? image_kind::code_object : image_kind::broken;
  if (detail::begins_with(image, "CCOB"))
    return image.size() > compressed_header_bytes ? image_kind::compressed_bundle : image_kind::broken;
  if (!detail::begins_with(image, detail::bundle_magic)) return image_kind::broken;
  bool whole = true;
  const bool read =
      detail::for_each_bundled(image, [&whole](std::string_view, std::span<const std::byte> entry) {
        whole = whole && elf::is_whole(entry);
      });
  return read && whole ? image_kind::bundle : image_kind::broken;
}

/// The code object in an image that a device would take: the image itself, or the entry of a bundle that fits
/// `device` best. Nothing when there is none, or the bundle is compressed.
[[nodiscard]] inline std::optional<std::span<const std::byte>> code_object_for(
    std::span<const std::byte> image, const device_properties& device) noexcept {
  switch (kind_of(image)) {
    case image_kind::code_object:
      return image;
    case image_kind::bundle: {
      std::optional<std::span<const std::byte>> best;
      int best_score = 0;
      const bool read =
          detail::for_each_bundled(image, [&](std::string_view target, std::span<const std::byte> entry) {
            const auto score = target_fit(device, "hip", target);
            if (!score || *score <= best_score) return;
            best = entry;
            best_score = *score;
          });
      return read ? best : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
