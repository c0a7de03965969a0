// SPDX-License-Identifier: MIT
// Reads the expressions of manifests and tables: the names they may use, and parsing with the place in the
// file.
//
// Throws file_error invalid_expression.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_condition.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Parses an integer expression that `place` holds.
[[nodiscard]] expression parse_at(const json_place& place, std::string_view text, const scope& names);

/// Refuses an expression of sizes, as costs and quantities to match by are, that reads an argument: choices
/// depend on axes alone.
void refuse_arguments(const json_place& place, std::string_view text, const operator_description& op,
                      const expression& value);

/// Refuses an expression whose value is an address where `what` takes a number.
void check_number(const json_place& place, std::string_view what, const expression& value,
                  const operator_description& op);

/// Reads the expressions of one variant after the other. A text that has the same meaning for all of them is
/// parsed once: variants of a file repeat each other's conditions and parameters.
class expression_reader {
 public:
  explicit expression_reader(const operator_description& op)
      : plain_{make_scope(op)}, names_{plain_}, own_begin_{names_.size()} {}

  /// Goes on to a variant with this config. Whether what was read for the one before is still true: their
  /// configs have the same names.
  bool set_config(const std::vector<config_entry>& config);

  [[nodiscard]] const scope& names() const noexcept { return names_; }
  /// The same without the config.
  [[nodiscard]] const scope& plain_names() const noexcept { return plain_; }

  /// Whether a text may read the config. It does not where this says that it does not.
  [[nodiscard]] bool may_read_config(std::string_view text) const noexcept;

  /// The integer expression that a place has as its text.
  [[nodiscard]] expression parse(const json_place& place);

  /// An integer, or the text of an integer expression.
  [[nodiscard]] expression read(const json_place& place);

  /// A number, or the text of a real expression.
  [[nodiscard]] expression read_real(const json_place& place) const;

 private:
  scope plain_;
  scope names_;
  std::size_t own_begin_;  // of the config's names
  std::vector<config_entry> config_;
  std::unordered_map<std::string, expression> parsed_;  // what does not read the config
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_expression_impl.hpp>
#endif
