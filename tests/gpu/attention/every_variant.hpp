// SPDX-License-Identifier: MIT
// What tests through catalog and dispatcher share: a dispatcher for each variant.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace {

namespace sy = switchyard;

/// Whether every kernel was built, so that some variant serves any call; else those of a smaller set.
#ifdef SWITCHYARD_TEST_FULL_KERNELS
inline constexpr bool full_kernels = true;
#else
inline constexpr bool full_kernels = false;
#endif

/// A dispatcher for each variant, which is forced there.
template <class Operator>
class every_variant {
 public:
  explicit every_variant(sy::device device) : device_{std::move(device)}, free_{catalog_, device_} {}

  /// Ends the program as skipped where the device has no variant of the operator at all.
  void skip_without_any(const typename Operator::arguments& a) {
    if (!free_.explain(a).candidates.empty()) return;
    skip_program("no variant of " + std::string{Operator::name} + " for " + device_.properties().arch);
  }
  [[nodiscard]] std::vector<std::string> serving(const typename Operator::arguments& a) {
    std::vector<std::string> result;
    for (const sy::candidate_report& candidate : free_.explain(a).candidates) {
      if (candidate.admissible) result.push_back(candidate.variant);
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }
  [[nodiscard]] sy::dispatcher<Operator>& free() { return free_; }
  [[nodiscard]] sy::dispatcher<Operator>& forced(const std::string& id) {
    auto& entry = forced_[id];
    if (entry == nullptr) {
      sy::catalog_options options;
      options.settings.forced = {{std::string{Operator::name}, id}};
      entry = std::make_unique<one>(std::move(options), device_);
      sy::test::record_variant(Operator::name, id);
    }
    return entry->dispatcher;
  }

 private:
  struct one {
    one(sy::catalog_options options, const sy::device& device)
        : catalog{std::move(options)}, dispatcher{catalog, device} {}
    sy::catalog catalog;
    sy::dispatcher<Operator> dispatcher;
  };
  sy::device device_;
  sy::catalog catalog_;
  sy::dispatcher<Operator> free_;
  std::map<std::string, std::unique_ptr<one>> forced_;
};

}  // namespace
