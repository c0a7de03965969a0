// SPDX-License-Identifier: MIT
// Selectors made from manifests and tables on disk, for one device. Variants and rows are parsed when a
// problem of their type is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/serving/operator_selectors.hpp>

namespace switchyard {
inline namespace v0 {

/// The files of an operator that serve now.
struct operator_files {
  std::vector<std::shared_ptr<const manifest_file>> manifests;
  std::vector<std::shared_ptr<const table_file>> overlays;
  std::vector<std::shared_ptr<const table_file>> tables;
  std::vector<std::shared_ptr<const table_file>>
      canary{};  ///< of a share of the problems, before the overlays
  double canary_share = 0;
  std::uint64_t version = 0;  ///< grows whenever one of them changes
  /// The operator with the axes that they add; null: as it is.
  const operator_description* described = nullptr;
};

class file_selectors final : public operator_selectors {
 public:
  /// Takes messages about the files: of what was read, and of what does not fit together.
  struct listener {
    std::function<void(const warnings&, const std::string& path)> of_reading;
    std::function<void(const std::vector<std::string>&)> of_building;
    /// What an explanation of a failure adds: where files were looked for, and why a backend that has kernels
    /// cannot be used.
    std::function<void(failure_context&)> of_failing = {};
  };

  /// `force`: SWITCHYARD_FORCE's part for the operator; empty: none.
  file_selectors(const operator_description& op, device_properties running, const operator_files& files,
                 std::string force, listener told, choice_limits limits = {});

  [[nodiscard]] type_signature signature_of(problem_view problem) const noexcept override {
    return signatures_.of(problem);
  }

  [[nodiscard]] SWITCHYARD_FUNCTION std::shared_ptr<const selector> read(
      const type_signature& signature) const override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::shared_ptr<const selector> read_nearest(
      problem_view problem) const override;

  [[nodiscard]] SWITCHYARD_FUNCTION std::string explain_failure(problem_view problem, const selector& from,
                                                                unusable_flags unusable) const override;

 private:
  /// Names entries of a file.
  using picker = std::function<entry_list(const outlined_file&)>;

  static constexpr std::size_t max_near = 3;

  /// What is wrong with the first variant for this device that cannot be read; empty where there is none.
  [[nodiscard]] std::string first_fault() const;

  void add_types(const outlined_file& file) {
    for (const std::vector<axis_value>& type : file.types()) signatures_.add(type);
  }

  [[nodiscard]] entry_list entries_of(const outlined_file& file, const type_signature& signature) const;

  /// Picks the first few variants among those whose types differ least from a problem.
  [[nodiscard]] picker nearest_to(problem_view problem) const;

  template <class File>
  [[nodiscard]] auto parse(const File& file, const entry_list& entries) const {
    warnings warned;
    auto out = file.read(entries, warned);
    told_.of_reading(warned, file.path());
    return out;
  }

  /// Builds the selector of a type signature from the variants that `pick` names, file by file.
  [[nodiscard]] std::shared_ptr<const selector> build(const picker& pick,
                                                      const type_signature& signature) const;

  /// Whether any manifest has a variant of this id, for whatever target and type.
  [[nodiscard]] bool is_installed(const std::string& id) const;

  [[nodiscard]] std::vector<std::string> targets() const;

  operator_files files_;
  std::string force_;
  choice_limits limits_;
  listener told_;
  std::vector<std::shared_ptr<const manifest_file>> fitting_;
  std::size_t variant_count_ = 0;
  type_signatures signatures_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/file_selectors_impl.hpp>
#endif
