// SPDX-License-Identifier: MIT
// Everything that decides choices on a device, as a hash that processes can compare: catalog::fingerprint().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/serving/made_choice.hpp>

namespace switchyard {
inline namespace v0 {

struct operator_files;

/// A file, or something else that a choice depends on.
struct fingerprint_part {
  std::string name;  ///< "tables/softmax/nvidia-h200.json": the same on hosts that keep files elsewhere
  std::string hash;  ///< 16 hexadecimal digits
};

/// Equal where the same calls lead to the same choices: the same library, device, manifests (which pin
/// blobs), tables and overlays, in the same order, and the same SWITCHYARD_FORCE.
struct fingerprint {
  std::string hash;  ///< of all parts: 64 hexadecimal digits
  std::vector<fingerprint_part> parts;
};

/// One line for each part, for another process to read.
[[nodiscard]] std::string to_string(const fingerprint& of);

/// Throws call_error invalid_argument for a text that to_string() did not write.
[[nodiscard]] fingerprint parse_fingerprint(std::string_view text);

/// Names the first part in which two fingerprints differ; empty: none. Choices are compared for problems that
/// both have met.
[[nodiscard]] std::string describe_difference(const fingerprint& here, const fingerprint& there);

namespace detail {

/// Adds the parts of an operator, whose files may serve a device.
void add_operator(fingerprint& to, const operator_description& op, const device_properties& device,
                  const operator_files& files, const std::string& forced);

/// Begins with what all operators share: the library and the device.
[[nodiscard]] fingerprint begin_fingerprint(const device_properties& device);

/// Adds choices as parts, in the order of their problems; each once.
void add_choices(fingerprint& to, std::vector<made_choice> choices);

/// Adds what a caller demands of variants, where it demands anything.
void add_limits(fingerprint& to, const choice_limits& limits);

/// Makes `hash` of the parts.
void finish(fingerprint& of);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/fingerprint_impl.hpp>
#endif
