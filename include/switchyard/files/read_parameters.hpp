// SPDX-License-Identifier: MIT
// Reads the kernel parameters of a manifest: names, expressions, structs and tensor maps.
//
// Throws file_error with the place in the file. A reader refers to the operator, the names and the workspace
// that it was given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_expression.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Reads the parameters of one variant's kernels.
class parameter_reader {
 public:
  parameter_reader(const operator_description& op, expression_reader& expressions,
                   std::span<const named_expression> workspace)
      : op_{op}, expressions_{expressions}, workspace_{workspace} {}

  [[nodiscard]] parameter read(const json_place& place) const { return read_nested(place, 0); }

  /// Index of the workspace buffer with this name.
  [[nodiscard]] std::uint32_t workspace_index(const json_place& place, const std::string& name) const;

 private:
  [[nodiscard]] parameter read_named(const json_place& place) const;

  [[nodiscard]] parameter read_nested(const json_place& place, int depth) const;

  [[nodiscard]] parameter read_struct(const json_place& place, int depth, parameter out) const;

  template <std::size_t Count>
  [[nodiscard]] static std::uint32_t read_choice(const json_place& owner, const char* key,
                                                 const std::array<std::string_view, Count>& names) {
    if (!owner.has(key)) return 0;
    const auto place = owner.at(key);
    for (std::size_t i = 0; i < Count; ++i) {
      if (names[i] == place.string()) return static_cast<std::uint32_t>(i);
    }
    place.fail("expected one of " + text::join(names) + ", got \"" + place.string() + "\"");
  }

  [[nodiscard]] std::vector<expression> read_list(const json_place& owner, const char* key, std::size_t least,
                                                  std::size_t most) const;

  [[nodiscard]] tensor_map_recipe read_tensor_map(const json_place& place) const;

  const operator_description& op_;
  expression_reader& expressions_;
  std::span<const named_expression> workspace_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_parameters_impl.hpp>
#endif
