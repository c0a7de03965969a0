// SPDX-License-Identifier: MIT
// The bodies of read_parameters.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/read_expression.hpp>
#include <switchyard/files/read_parameters.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION std::uint32_t parameter_reader::workspace_index(const json_place& place,
                                                                    const std::string& name) const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < workspace_.size(); ++i) {
    if (workspace_[i].name == name) return static_cast<std::uint32_t>(i);
    names.push_back(workspace_[i].name);
  }
  place.fail("the variant has no workspace '" + name + "'" + text::suggestion(name, names));
}

SWITCHYARD_FUNCTION parameter parameter_reader::read_named(const json_place& place) const {
  const std::string& name = place.string();
  parameter out;
  out.text = name;
  for (std::size_t i = 0; i < workspace_.size(); ++i) {
    if (workspace_[i].name != name) continue;
    out.from = parameter::source::workspace;
    out.index = static_cast<std::uint32_t>(i);
    out.bytes = out.align = 8;
    return out;
  }
  const std::string_view current = current_name(op_, name);
  for (std::size_t i = 0; i < op_.fields.size(); ++i) {
    if (op_.fields[i].name != current) continue;
    out.index = static_cast<std::uint32_t>(i);
    out.kind = op_.fields[i].kind;
    out.bytes = out.align = size_of(out.kind);
    return out;
  }
  if (expressions_.names().find(name) != nullptr) {
    place.fail("'" + name +
               "' is not an argument of the operator, so its type is not known; write {\"i32\": \"" + name +
               "\"}, or i64, as the kernel has it");
  }
  std::vector<std::string_view> names;
  for (const auto& field : op_.fields) names.push_back(field.name);
  for (const auto& buffer : workspace_) names.push_back(buffer.name);
  place.fail("'" + name + "' is neither an argument of operator '" + std::string{op_.name} +
             "' nor a workspace" + text::suggestion(name, names));
}

SWITCHYARD_FUNCTION parameter parameter_reader::read_nested(const json_place& place, int depth) const {
  if (place.value().is_string()) return read_named(place);
  if (place.object().empty()) place.fail("expected a name, or an object such as {\"i32\": \"seqlen_q\"}");
  parameter out;
  out.text = dump_json(place.value());
  if (out.text.size() > 80) out.text = out.text.substr(0, 80) + "...";
  static constexpr std::array<std::pair<const char*, value_kind>, 8> integers{{{"i8", value_kind::i8},
                                                                               {"u8", value_kind::u8},
                                                                               {"i16", value_kind::i16},
                                                                               {"u16", value_kind::u16},
                                                                               {"i32", value_kind::i32},
                                                                               {"u32", value_kind::u32},
                                                                               {"i64", value_kind::i64},
                                                                               {"u64", value_kind::u64}}};
  static constexpr std::array<std::pair<const char*, value_kind>, 4> reals{{{"f16", value_kind::f16},
                                                                            {"bf16", value_kind::bf16},
                                                                            {"f32", value_kind::f32},
                                                                            {"f64", value_kind::f64}}};
  for (const auto& [key, kind] : integers) {
    if (!place.has(key)) continue;
    const auto entry = place.at(key);
    out.from = parameter::source::integer;
    out.kind = kind;
    out.bytes = out.align = size_of(kind);
    out.value = expressions_.read(entry);
    if (out.bytes < size_of(value_kind::pointer)) check_number(entry, key, out.value, op_);
    return out;
  }
  for (const auto& [key, kind] : reals) {
    if (!place.has(key)) continue;
    const auto entry = place.at(key);
    out.from = parameter::source::real;
    out.kind = kind;
    out.bytes = out.align = size_of(kind);
    out.value = expressions_.read_real(entry);
    return out;
  }
  if (place.has("pointer")) {
    const auto entry = place.at("pointer");
    out.from = parameter::source::integer;
    out.kind = value_kind::pointer;
    out.bytes = out.align = 8;
    out.value = expressions_.parse(entry);
    return out;
  }
  if (place.has("null")) {
    const auto entry = place.at("null");
    const std::int64_t bytes = entry.integer();
    if (bytes < 1 || bytes > 4096) entry.fail("expected 1 to 4096 bytes, got " + std::to_string(bytes));
    out.from = parameter::source::zeros;
    out.bytes = static_cast<std::uint32_t>(bytes);
    out.align = bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 1;
    return out;
  }
  if (place.has("struct")) return read_struct(place, depth, std::move(out));
  if (place.has("tensor_map")) {
    const auto entry = place.at("tensor_map");
    out.from = parameter::source::tensor_map;
    out.bytes = 128;
    out.align = 64;
    out.map.push_back(read_tensor_map(entry));
    return out;
  }
  place.fail(
      "'" + place.object().begin()->first +
      "' is not a kind of parameter; there are i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 pointer null "
      "struct tensor_map");
}

SWITCHYARD_FUNCTION parameter parameter_reader::read_struct(const json_place& place, int depth,
                                                            parameter out) const {
  if (depth >= 4) place.fail("structs nest at most 4 deep");
  const auto list = place.at("struct");
  out.from = parameter::source::structure;
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto entry = list.at(i);
    out.members.push_back(read_nested(entry, depth + 1));
    const parameter& member = out.members.back();
    end = (end + member.align - 1) / member.align * member.align + member.bytes;
    if (member.align > out.align) out.align = member.align;
    if (end > max_parameter_bytes || out.members.size() > max_parameters)
      list.fail("the struct is too large");
  }
  if (place.has("align")) {
    const auto align = place.at("align");
    const std::int64_t value = align.integer();
    if (value < 1 || value > 64 || (value & (value - 1)) != 0) align.fail("expected a power of two up to 64");
    if (value > out.align) out.align = static_cast<std::uint32_t>(value);
  }
  out.bytes = (end + out.align - 1) / out.align * out.align;
  if (out.bytes == 0) list.fail("a struct has members");
  return out;
}

SWITCHYARD_FUNCTION std::vector<expression> parameter_reader::read_list(const json_place& owner,
                                                                        const char* key, std::size_t least,
                                                                        std::size_t most) const {
  std::vector<expression> out;
  if (!owner.has(key) && least == 0) return out;
  const auto place = owner.at(key);
  if (place.array_size() < least || place.array_size() > most) {
    place.fail("expected " + std::to_string(least) + " to " + std::to_string(most) + " entries, got " +
               std::to_string(place.array_size()));
  }
  for (std::size_t i = 0; i < place.array_size(); ++i) {
    const auto entry = place.at(i);
    out.push_back(expressions_.read(entry));
    check_number(entry, key, out.back(), op_);
  }
  return out;
}

SWITCHYARD_FUNCTION tensor_map_recipe parameter_reader::read_tensor_map(const json_place& place) const {
  // In the order of CUtensorMapDataType and its kin.
  static constexpr std::array<std::string_view, 12> types{"u8",  "u16", "u32", "i32",  "u64",     "i64",
                                                          "f16", "f32", "f64", "bf16", "f32_ftz", "tf32"};
  static constexpr std::array<std::string_view, 4> swizzles{"none", "32B", "64B", "128B"};
  static constexpr std::array<std::string_view, 4> promotions{"none", "64B", "128B", "256B"};
  static constexpr std::array<std::string_view, 3> interleaves{"none", "16B", "32B"};
  static constexpr std::array<std::string_view, 2> fills{"zeros", "nan"};
  tensor_map_recipe out;
  const auto of = place.at("of");
  out.address = expressions_.parse(of);
  if (!place.has("dtype")) place.fail("'dtype' is missing");
  out.element_type = read_choice(place, "dtype", types);
  out.extents = read_list(place, "extents", 1, 5);
  const std::size_t rank = out.extents.size();
  out.stride_bytes = read_list(place, "strides", rank - 1, rank - 1);
  out.box = read_list(place, "box", rank, rank);
  out.element_strides = place.has("element_strides") ? read_list(place, "element_strides", rank, rank)
                                                     : std::vector<expression>{};
  out.swizzle = read_choice(place, "swizzle", swizzles);
  out.l2_promotion = read_choice(place, "l2_promotion", promotions);
  out.interleave = read_choice(place, "interleave", interleaves);
  out.out_of_bounds_fill = read_choice(place, "fill", fills);
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
