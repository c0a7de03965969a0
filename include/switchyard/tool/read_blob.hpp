// SPDX-License-Identifier: MIT
// Reads what a blob says of itself, whatever kind of file it is. No device and no driver is needed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/devices/hip/code_object.hpp>
#include <switchyard/devices/host/shared_object.hpp>
#include <switchyard/object_files/elf.hpp>
#include <switchyard/tool/blob_facts.hpp>
#include <switchyard/tool/read_cubin.hpp>
#include <switchyard/tool/read_ptx.hpp>
#include <switchyard/tool/read_shared_object.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

namespace detail {

[[nodiscard]] inline blob_facts broken_blob(std::string problem) {
  blob_facts out;
  out.problem = std::move(problem);
  return out;
}

/// "400 bytes that are neither ...": as a driver's message has it.
[[nodiscard]] inline blob_facts broken_blob(std::span<const std::byte> image, std::string_view kinds) {
  return broken_blob("has " + std::to_string(image.size()) + " bytes that are " + std::string{kinds} +
                     ": it was cut off, or is another kind of file");
}

[[nodiscard]] inline blob_facts read_cuda_blob(std::span<const std::byte> image) {
  switch (cuda::kind_of(image)) {
    case cuda::image_kind::cubin:
      return read_cubin(image);
    case cuda::image_kind::ptx:
      return read_ptx({reinterpret_cast<const char*>(image.data()), image.size()});
    case cuda::image_kind::fatbin: {
      blob_facts out;
      out.backend = "cuda";
      out.is_listed = false;
      return out;
    }
    case cuda::image_kind::broken:
      break;
  }
  return broken_blob(image, "neither a whole cubin, nor a fatbin, nor PTX");
}

[[nodiscard]] inline blob_facts read_hip_blob(std::span<const std::byte> image) {
  if (hip::kind_of(image) == hip::image_kind::broken)
    return broken_blob(image, "neither a whole code object nor a bundle of them");
  blob_facts out;
  out.backend = "hip";
  const auto content = hip::read_code_object(image);
  out.is_listed = content.has_value();  // of a bundle, a device takes one entry
  if (!content) return out;
  out.arch = content->target;
  for (const hip::kernel_description& found : content->kernels) {
    kernel_facts& kernel = out.kernels.emplace_back();
    kernel.name = found.name;
    kernel.parameters = found.parameters;
    kernel.max_threads = found.max_threads_per_block;
    kernel.static_shared = found.shared_bytes;
    kernel.parameter_bytes = found.parameter_bytes;
    kernel.warp_size = found.warp_size;
  }
  return out;
}

}  // namespace detail

/// Reads a blob of a backend.
[[nodiscard]] inline blob_facts read_blob(std::span<const std::byte> image, std::string_view backend) {
  if (backend == "cuda") return detail::read_cuda_blob(image);
  if (backend == "hip") return detail::read_hip_blob(image);
  if (!elf::is_whole(image)) return detail::broken_blob(image, "no whole shared object");
  const host::shared_object content{image};
  if (!content.problem().empty())
    return detail::broken_blob("cannot be loaded as a shared object: it " + content.problem());
  blob_facts out = read_shared_object(image);
  out.needs.libraries = content.libraries();
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
