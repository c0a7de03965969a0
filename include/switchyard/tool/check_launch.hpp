// SPDX-License-Identifier: MIT
// Compares a launch of a manifest with what its blob says of the kernel, and with the limits of its target.
// Finds, without a device, what loading and launching would refuse.
//
// Checks only what follows from the manifest, a variant's type and its config, not extents that depend on a
// call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/check_parameters.hpp>
#include <switchyard/tool/blob_facts.hpp>
#include <switchyard/tool/check_tensor_map.hpp>
#include <switchyard/tool/device_limits.hpp>

namespace switchyard {
inline namespace v0 {
namespace tool {

/// What is wrong with a launch, as a driver_error or call_error would have it.
struct launch_problem {
  error_code code;
  std::string text;
};

/// One launch of a variant, and the blob it names.
struct placed_launch {
  const target& on;
  const variant& owner;
  const launch& of;
  const blob_facts& blob;
  bool fields_known = true;  ///< whether the sizes of the operator's arguments are known
};

namespace detail {

[[nodiscard]] inline const kernel_facts* find_kernel(const blob_facts& in, std::string_view name) {
  for (const kernel_facts& kernel : in.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

/// An expression's value where the variant's type decides it.
[[nodiscard]] inline std::optional<std::int64_t> known_value(const expression& of, const variant& owner) {
  if (of.reads_attributes()) return std::nullopt;
  const expression folded = of.fold(owner.type, {});
  if (!folded.is_constant()) return std::nullopt;
  const integer_result out = folded.evaluate({});
  return out.why == fault::none ? std::optional{out.value} : std::nullopt;
}

inline void check_kernel_parameters(const placed_launch& at, const kernel_facts& kernel,
                                    std::vector<launch_problem>& out) {
  if (!kernel.parameters) return;
  launch copy = at.of;
  if (!at.fields_known) {
    // Of an argument only the blob knows the size.
    const std::size_t count = copy.parameters.size();
    for (std::size_t i = 0; i < count && i < kernel.parameters->size(); ++i) {
      if (copy.parameters[i].from == parameter::source::field || !copy.parameters[i].members.empty())
        copy.parameters[i].bytes = (*kernel.parameters)[i].bytes;
    }
  }
  try {
    check_parameters(copy, *kernel.parameters);
  } catch (const driver_error& problem) {
    std::string text = problem.what();
    if (text.starts_with('[')) text.erase(0, text.find("] ") + 2);
    if (text.starts_with(copy.blob + ": ")) text.erase(0, copy.blob.size() + 2);
    out.push_back({error_code::parameter_mismatch, std::move(text)});
  }
}

inline void check_block(const placed_launch& at, const kernel_facts* kernel,
                        std::vector<launch_problem>& out) {
  std::int64_t threads = 1;
  for (const expression& extent : at.of.block) {
    const auto value = known_value(extent, at.owner);
    if (!value) return;
    if (*value < 1) return;  // no value for any backend: value_checker tells
    if (*value > 1 << 20) {
      out.push_back({error_code::launch_failed,
                     "kernel '" + at.of.kernel + "': an extent of the block is " + std::to_string(*value)});
      return;
    }
    threads *= *value;
  }
  const auto complain = [&](std::int64_t limit, const char* whose) {
    out.push_back({error_code::launch_failed, "kernel '" + at.of.kernel + "': the block has " +
                                                  std::to_string(threads) + " threads, " + whose + " " +
                                                  std::to_string(limit)});
  };
  if (const std::int64_t most = max_threads(at.on); most > 0 && threads > most) {
    complain(most, "a device runs at most");
  } else if (kernel != nullptr && kernel->max_threads > 0 && threads > kernel->max_threads) {
    complain(kernel->max_threads, "but the kernel was compiled for at most");
  }
}

inline void check_shared(const placed_launch& at, const kernel_facts* kernel,
                         std::vector<launch_problem>& out) {
  const auto dynamic = known_value(at.of.shared_bytes, at.owner);
  const std::int64_t most = max_shared_bytes(at.on);
  if (!dynamic || most == 0) return;
  const auto fixed = kernel == nullptr ? 0 : static_cast<std::int64_t>(kernel->static_shared);
  if (*dynamic < 0 || *dynamic <= most - fixed) return;  // value_checker tells of the former
  out.push_back({error_code::unsupported_device,
                 "kernel '" + at.of.kernel + "' needs " + std::to_string(*dynamic) +
                     " bytes of shared memory" +
                     (fixed == 0 ? std::string{} : " and " + std::to_string(fixed) + " static ones") +
                     ", a block on " + at.on.arch + " has at most " + std::to_string(most)});
}

inline void check_tensor_maps(const placed_launch& at, const std::vector<parameter>& parameters,
                              std::vector<launch_problem>& out) {
  for (const parameter& formal : parameters) {
    check_tensor_maps(at, formal.members, out);
    for (const tensor_map_recipe& map : formal.map) {
      const auto value = [&at](const expression& of) { return known_value(of, at.owner); };
      if (const std::string problem = tensor_map_problem(map, value); !problem.empty()) {
        out.push_back({error_code::launch_failed, "kernel '" + at.of.kernel + "': tensor map: " + problem});
      }
    }
  }
}

/// Whether code of one architecture is what a manifest for another names.
[[nodiscard]] inline bool fits_target(const blob_facts& blob, const target& on) {
  if (blob.arch.empty() || on.arch == "any") return true;
  if (blob.backend != "cuda") {
    return switchyard::detail::before_features(blob.arch) == switchyard::detail::before_features(on.arch);
  }
  const auto built = switchyard::detail::parse_cuda_arch(blob.arch);
  const auto wanted = switchyard::detail::parse_cuda_arch(on.arch);
  if (!built || !wanted) return true;
  if (built->virtual_code) return built->major * 10 + built->minor <= wanted->major * 10 + wanted->minor;
  return !wanted->virtual_code && built->major == wanted->major && built->minor <= wanted->minor;
}

}  // namespace detail

/// Everything wrong with a launch, in the order in which a process would meet it.
[[nodiscard]] inline std::vector<launch_problem> check_launch(const placed_launch& at) {
  std::vector<launch_problem> out;
  if (!at.blob.problem.empty()) return {{error_code::blob_not_loadable, at.blob.problem}};
  if (!detail::fits_target(at.blob, at.on)) {
    return {{error_code::blob_not_loadable,
             "was built for " + at.blob.arch + ", the manifest's target is " + at.on.arch}};
  }
  const kernel_facts* const kernel = detail::find_kernel(at.blob, at.of.kernel);
  if (kernel == nullptr && at.blob.is_listed) {
    std::vector<std::string_view> names;
    for (const kernel_facts& known : at.blob.kernels) names.emplace_back(known.name);
    out.push_back({error_code::kernel_not_found,
                   "has no kernel '" + at.of.kernel + "'" + text::suggestion(at.of.kernel, names) +
                       (names.empty() ? " It has none. A kernel is extern \"C\"; one of a shared object is a "
                                        "switchyard::host::kernel with default visibility"
                                      : " It has " + text::join(names, 8))});
  }
  if (kernel != nullptr) {
    if (kernel->abi != 1) {
      out.push_back({error_code::blob_not_loadable,
                     "kernel '" + kernel->name + "' has version " + std::to_string(kernel->abi) +
                         " of the host kernel description; the library runs version 1"});
    }
    if (!kernel->has_code) {
      out.push_back({error_code::blob_not_loadable,
                     "kernel '" + kernel->name + "' names no function: its description's 'run' is null"});
    }
    detail::check_kernel_parameters(at, *kernel, out);
    const std::uint32_t warp = usual_warp_size(at.on);
    if (at.on.backend == "hip" && kernel->warp_size != 0 && kernel->warp_size != warp) {
      out.push_back({error_code::blob_not_loadable, "kernel '" + kernel->name + "' has wavefronts of " +
                                                        std::to_string(kernel->warp_size) + ", devices of " +
                                                        at.on.arch + " of " + std::to_string(warp)});
    }
  }
  detail::check_block(at, kernel, out);
  detail::check_shared(at, kernel, out);
  if (at.on.backend == "cuda") detail::check_tensor_maps(at, at.of.parameters, out);
  return out;
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
