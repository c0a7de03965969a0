// SPDX-License-Identifier: MIT
// What a caller demands of the variants that may serve its calls: bounds of the workspace and of the error,
// and a class of variants that give the same bits.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// Variants that exceed a limit are not admissible: the best of the others serves, whatever tables and
/// manifests arrive later. Error 302 where none is left.
///     catalog files{{.limits = {.workspace_bytes = 64 << 20}}};
///     dispatcher<softmax> exact{files, device::current(), {.max_error = 0.5}};
struct choice_limits {
  static constexpr std::int64_t any_workspace = INT64_MAX;

  /// Most bytes of workspace of a call, its buffers aligned to 256.
  std::int64_t workspace_bytes = any_workspace;
  /// How far results may be off, in units of what `switchyard tune` and `check --run` tolerate of the
  /// operator; more than 0. Variants that state no `max_error` are taken to be off by up to 1.
  double max_error = 1;
  /// The class that variants must state as `reproducible`: all variants of a class that run on a device give
  /// a row or sequence the same bits, whatever else is in the batch. Empty: any variant.
  std::string reproducible{};

  /// Throws call_error invalid_argument for what no variant could keep to.
  void require_valid() const;

  [[nodiscard]] bool is_none() const noexcept {
    return workspace_bytes == any_workspace && max_error >= 1 && reproducible.empty();
  }
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/choice_limits_impl.hpp>
#endif
