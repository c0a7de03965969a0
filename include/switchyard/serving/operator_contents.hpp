// SPDX-License-Identifier: MIT
// The content of an operator's files, as plain data.
#pragma once

#include <memory>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

/// What the files of an operator that serve now say, in full.
struct operator_contents {
  std::vector<std::shared_ptr<const manifest>> manifests;
  std::vector<std::shared_ptr<const table>> overlays;
  std::vector<std::shared_ptr<const table>> tables;
  /// The operator with the axes that they add; null: as it is.
  const operator_description* described = nullptr;
};

}  // namespace v0
}  // namespace switchyard
