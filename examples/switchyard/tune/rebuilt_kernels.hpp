// SPDX-License-Identifier: MIT
// Which times of a table were measured with kernels that have been rebuilt since.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/files/table.hpp>

#include "command.hpp"

namespace tool {

class rebuilt_kernels {
 public:
  rebuilt_kernels(const session& session, const switchyard::operator_description& op)
      : catalog_{session.options()}, files_{catalog_.files(op)} {}

  /// Whether the group's i-th variant is installed, but nowhere with the blob that was measured.
  [[nodiscard]] bool has(const switchyard::row_group& group, std::size_t i) const {
    const std::string& measured = i < group.blobs.size() ? group.blobs[i] : std::string{};
    if (measured.empty()) return false;
    bool installed = false;
    for (const auto& manifest : files_.manifests) {
      for (const auto& variant : manifest->variants) {
        if (variant.id != group.ids[i] || contradict(variant.type, group.type)) continue;
        if (switchyard::blob_fingerprint(variant) == measured) return false;
        installed = true;
      }
    }
    return installed;
  }

 private:
  [[nodiscard]] static bool contradict(const std::vector<switchyard::axis_value>& a,
                                       const std::vector<switchyard::axis_value>& b) {
    return std::any_of(a.begin(), a.end(), [&b](const switchyard::axis_value& one) {
      return std::any_of(b.begin(), b.end(), [&one](const switchyard::axis_value& other) {
        return one.axis == other.axis && one.value != other.value;
      });
    });
  }

  switchyard::catalog catalog_;
  switchyard::catalog::contents files_;
};

}  // namespace tool
