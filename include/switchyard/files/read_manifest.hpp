// SPDX-License-Identifier: MIT
// Reads a manifest. An error in the file as a whole is thrown. An error in a variant leaves that variant out
// and becomes a warning.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/inherited_place.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_expression.hpp>
#include <switchyard/files/read_parameters.hpp>
#include <switchyard/io/file.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Reads the variants of one manifest.
class manifest_reader {
 public:
  /// `shared` is the file's member of that name; null: it has none. It must outlive the reader.
  manifest_reader(const operator_description& op, std::string folder, const json_place* shared)
      : op_{op}, folder_{std::move(folder)}, shared_{shared}, expressions_{op} {}

  [[nodiscard]] variant read(const json_place& own);

  /// Adds the conditions on arguments that a variant requires, as far as it can be read.
  void find_conditions(const json_place& own);

 private:
  [[nodiscard]] condition read_cost(const json_place& entry);

  void read_conditions(const inherited_place& place, variant& out);

  /// A variant of every value of an axis serves calls whose implied axis has the same value, unless it says
  /// otherwise.
  void imply_conditions(variant& out) const;

  /// Adds a condition on arguments to the variant's type. False for one that reads no argument.
  [[nodiscard]] bool read_argument_condition(const json_place& entry, variant& out) const;

  void read_config(const inherited_place& place, variant& out);

  /// An expression's text, for messages; an integer has none.
  [[nodiscard]] static std::string text_of(const json_place& entry);

  void read_extent(const inherited_place& owner, const char* key, std::array<expression, 3>& out,
                   std::array<std::string, 3>& texts, bool per_plan);

  [[nodiscard]] launch read_launch(const inherited_place& place, const variant& owner);

  /// The parameters of a shared list, as far as they do not read the config.
  struct parameter_memory {
    std::vector<parameter> read;
    std::vector<bool> is_known;
  };

  /// Parameter `index` of a shared list.
  [[nodiscard]] parameter read_known(const json_place& place, std::size_t index,
                                     const parameter_reader& parameters, parameter_memory& memory) const;

  [[nodiscard]] static const std::string& checked_path(const json_place& place);

  const operator_description& op_;
  std::string folder_;
  const json_place* shared_;
  expression_reader expressions_;
  std::unordered_map<const nlohmann::json*, parameter_memory> known_;  // by shared list
};

/// What a manifest says of itself: all but its variants.
[[nodiscard]] manifest read_manifest_head(const json_place& file, const operator_description& op);

/// Adds the variants of a manifest to it, one by one.
class variant_list {
 public:
  /// `shared` as for manifest_reader.
  variant_list(const operator_description& op, manifest& into, const json_place* shared)
      : into_{into}, reader_{op, folder_of(into.path), shared} {}

  /// Adds a variant, or a warning.
  void add(const json_place& place, warnings& warned);

 private:
  [[nodiscard]] static std::string folder_of(const std::string& path);

  manifest& into_;
  manifest_reader reader_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> seen_;  // by id, the variants so far
};

}  // namespace detail

/// Parses a manifest's text. `path` names the file in messages, and its folder is where the blobs lie.
[[nodiscard]] manifest parse_manifest(std::string_view text, const std::string& path,
                                      const operator_description& op, warnings& warned);

/// Reads a manifest. Throws file_error for the file as a whole.
[[nodiscard]] inline manifest read_manifest(const std::string& path, const operator_description& op,
                                            warnings& warned) {
  return parse_manifest(read_file(path, max_json_bytes), path, op, warned);
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_manifest_impl.hpp>
#endif
