// SPDX-License-Identifier: MIT
// An operator, its names, and variants of it that are laid out and planned without any file or device.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/choosing/select.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/operator.hpp>

namespace launched {

using namespace switchyard;

struct operation {
  static constexpr std::string_view name = "launched";
  struct arguments {
    const void* x = nullptr;
    void* y = nullptr;
    std::int64_t stride = 0;
    const void* z = nullptr;
    std::int64_t rows = 0;
    std::int32_t count = 0;
    std::int32_t step = 0;
    float scale = 0;
    std::int64_t width = 0;
    std::uint8_t flags = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::y, &arguments::stride, &arguments::z, &arguments::rows,
                         &arguments::count, &arguments::step, &arguments::scale, &arguments::flags>;
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::width>(), switchyard::size_axis<&arguments::rows>());
};

inline const operator_description& description() {
  return describe<operation>();
}

inline std::uint32_t field(std::string_view name) {
  for (std::uint32_t i = 0; i < description().fields.size(); ++i) {
    if (description().fields[i].name == name) return i;
  }
  throw std::runtime_error{"no such field"};
}
inline std::uint32_t offset_of(std::string_view name) {
  return description().fields[field(name)].offset;
}

inline scope names() {
  scope out;
  const auto& op = description();
  for (std::uint32_t i = 0; i < op.fields.size(); ++i)
    out.add(op.fields[i].name, {symbol::source::field, i, 0, 0, false});
  // "length" is the axis, "rows" the argument that it is made from.
  out.add("width", {symbol::source::axis, 0, 0, 0, false});
  out.add("length", {symbol::source::axis, 1, 0, 0, false});
  return out;
}
inline expression parse(const std::string& text) {
  return expression::parse(text, names());
}

inline std::array<expression, 3> extents(const std::string& x, const std::string& y = "1",
                                         const std::string& z = "1") {
  return {parse(x), parse(y), parse(z)};
}

inline parameter argument(std::string_view name) {
  parameter out;
  out.from = parameter::source::field;
  out.index = field(name);
  out.kind = description().fields[out.index].kind;
  out.bytes = out.align = size_of(out.kind);
  out.text = name;
  return out;
}
inline parameter integer(const std::string& text, value_kind kind) {
  parameter out;
  out.from = parameter::source::integer;
  out.kind = kind;
  out.bytes = out.align = size_of(kind);
  out.value = parse(text);
  out.text = text;
  return out;
}
inline parameter real(const std::string& text, value_kind kind) {
  parameter out = integer("0", kind);
  out.from = parameter::source::real;
  out.value = expression::parse_real(text, names());
  out.text = text;
  return out;
}
inline parameter buffer(std::uint32_t index) {
  parameter out;
  out.from = parameter::source::workspace;
  out.index = index;
  out.bytes = out.align = 8;
  return out;
}
inline parameter zeros(std::uint32_t bytes) {
  parameter out;
  out.from = parameter::source::zeros;
  out.bytes = bytes;
  out.align = 8;
  return out;
}
inline parameter structure(std::vector<parameter> members, std::uint32_t bytes, std::uint32_t align) {
  parameter out;
  out.from = parameter::source::structure;
  out.members = std::move(members);
  out.bytes = bytes;
  out.align = align;
  return out;
}
/// A map of two dimensions: `address`, then width by `extent` elements.
inline parameter map(const std::string& address, const std::string& extent, const std::string& stride) {
  parameter out;
  out.from = parameter::source::tensor_map;
  out.bytes = 128;
  out.align = 64;
  tensor_map_recipe recipe;
  recipe.address = parse(address);
  recipe.extents = {parse("width"), parse(extent)};
  recipe.stride_bytes = {parse(stride)};
  recipe.box = {parse("16"), parse("8")};
  out.map.push_back(std::move(recipe));
  return out;
}

inline launch kernel(std::vector<parameter> parameters) {
  launch out;
  out.blob = "blob";
  out.kernel = "kernel";
  out.grid = out.block = out.cluster = extents("1");
  out.shared_bytes = parse("0");
  out.parameters = std::move(parameters);
  return out;
}

/// A variant for width 64.
inline variant variant_of(std::vector<launch> launches) {
  variant out;
  out.id = "v";
  out.type = {{0, 64}};
  out.launches = std::move(launches);
  return out;
}

inline selector rules() {
  selector out;
  out.op = &description();
  out.device.backend = "host";
  return out;
}

}  // namespace launched
