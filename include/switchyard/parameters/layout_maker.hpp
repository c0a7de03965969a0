// SPDX-License-Identifier: MIT
// Makes the layout of a launch, once, when its kernel is loaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/parameters/launch_layout.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Whether two launches' parameter blocks are the same for every call. False for parameter blocks with tensor
/// maps, which are numbered by launch, and for large ones, which are not kept from launch to launch.
[[nodiscard]] bool have_same_block(const launch_layout& a, const launch_layout& b) noexcept;

class layout_maker {
 public:
  /// `before` is the layout of the variant's kernel launch before this one, or null.
  layout_maker(const selector& from, const variant& chosen, const launch& launch,
               const launch_layout* before = nullptr);

  [[nodiscard]] std::unique_ptr<launch_layout> make();

 private:
  [[nodiscard]] expression folded(const expression& from) const {
    return from.fold(variant_.type, from_.device.attributes);
  }

  /// The value of an expression that needs no problem; false where it needs one, or has none.
  [[nodiscard]] static bool is_known(const expression& folded, std::int64_t& value) noexcept;

  [[nodiscard]] static bool to_extent(const expression& folded, std::uint32_t& out) noexcept;

  [[nodiscard]] static bool to_extents(const std::array<expression, 3>& folded, dim3& out) noexcept {
    return to_extent(folded[0], out.x) && to_extent(folded[1], out.y) && to_extent(folded[2], out.z);
  }

  void lay_out_geometry();

  void lay_out_parameters();

  /// The argument whose bytes an integer parameter has, whatever they are; else null.
  [[nodiscard]] const field_description* passed_whole(const parameter& formal) const;

  /// Lays a parameter out at or behind `end`; returns its offset.
  [[nodiscard]] std::size_t place(const parameter& formal, std::size_t end);

  void place_value(const parameter& formal, std::uint32_t at);

  [[nodiscard]] std::byte* at_block(std::size_t offset) const noexcept {
    return reinterpret_cast<std::byte*>(out_->parameter_block.data()) + offset;
  }

  void add_map(const tensor_map_recipe& recipe, std::size_t parameter);

  void lay_out_per_call_axes();

  /// Which arguments decide the maps, and which the parameter block.
  void lay_out_keys();

  const selector& from_;
  const variant& variant_;
  const launch& launch_;
  const launch_layout* before_;
  std::unique_ptr<launch_layout> out_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/parameters/layout_maker_impl.hpp>
#endif
