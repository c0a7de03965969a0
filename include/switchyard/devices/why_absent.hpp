// SPDX-License-Identifier: MIT
// Why this machine has no device of a backend, in the words of the driver library or of its loader.
#pragma once

#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Why the devices of a target's backend ("cuda sm_90a") cannot be used; empty: they can. Opens the backend's
/// library.
[[nodiscard]] std::string why_absent(std::string_view target);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/devices/why_absent_impl.hpp>
#endif
