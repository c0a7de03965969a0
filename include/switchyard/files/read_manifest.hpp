// Reads a manifest file. What is wrong with the file as a whole is thrown; what is wrong with a variant
// leaves that variant out and becomes a warning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/error.hpp>
#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Every name that an operator's expressions may use, without a variant's config.
[[nodiscard]] inline scope make_scope(const operator_description& op) {
  scope names;
  names.add("pi", {symbol::source::real_constant, 0, 0, 3.14159265358979323846, false});
  names.add("log2e", {symbol::source::real_constant, 0, 0, 1.44269504088896340736, false});
  names.add("ln2", {symbol::source::real_constant, 0, 0, 0.69314718055994530942, false});
  for (const axis_description& axis : op.axes) {
    if (axis.value_names.data() == enumerator_names<bool>.data()) continue;
    for (std::size_t i = 0; i < axis.value_names.size(); ++i) {
      names.add_enumerator(axis.value_names[i], static_cast<std::int64_t>(i));
    }
  }
  names.add_constant("true", 1);
  names.add_constant("false", 0);
  for (std::size_t i = 0; i < attribute_names.size(); ++i) {
    names.add(attribute_names[i], {symbol::source::attribute, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (std::size_t i = 0; i < op.fields.size(); ++i) {
    names.add(op.fields[i].name, {symbol::source::field, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    names.add(op.axes[i].name, {symbol::source::axis, static_cast<std::uint32_t>(i), 0, 0, false});
  }
  return names;
}

/// The value of an axis in a file: an enumerator's name, true or false, or an integer.
[[nodiscard]] inline std::int64_t read_axis_value(const json_place& place, const axis_description& axis) {
  const auto names = axis.value_names;
  const auto no_value = [&](const std::string& found) {
    place.fail("axis '" + std::string{axis.name} + "' has no value '" + found + "'; it has " +
               text::join(names));
  };
  std::int64_t value = 0;
  if (place.value().is_boolean()) {
    if (names.empty()) place.expected("an integer");
    if (names.size() != 2 || names[1] != "true") no_value(place.boolean() ? "true" : "false");
    return place.boolean() ? 1 : 0;
  }
  if (place.value().is_string()) {
    const auto parsed = parse_value(axis, place.string());
    if (!parsed && names.empty()) place.expected("an integer");
    if (!parsed) no_value(place.string());
    value = *parsed;
  } else {
    value = place.integer();
  }
  if (!names.empty() && (value < 0 || static_cast<std::size_t>(value) >= names.size()))
    no_value(std::to_string(value));
  return value;
}

[[nodiscard]] inline std::uint32_t read_axis_name(const json_place& place, const operator_description& op,
                                                  const std::string& name) {
  if (const std::uint32_t index = find_axis(op, name); index < op.axes.size()) return index;
  std::vector<std::string_view> names;
  for (const axis_description& axis : op.axes) names.push_back(axis.name);
  place.fail(error_code::unknown_axis, "operator '" + std::string{op.name} + "' has no axis '" + name + "'" +
                                           text::suggestion(name, names) + " (it has " +
                                           text::join(names, 40) + ")");
}

/// The `type` of a variant, a group, a denial or a pin: type axes and their values, sorted by axis.
[[nodiscard]] inline std::vector<axis_value> read_type(const json_place& owner,
                                                       const operator_description& op) {
  std::vector<axis_value> type;
  if (!owner.has("type")) return type;
  const auto place = owner.at("type");
  for (const auto& [name, unused] : place.object()) {
    const std::uint32_t axis = read_axis_name(place, op, name);
    if (op.axes[axis].kind != axis_kind::type) {
      place.fail(error_code::unknown_axis,
                 "'" + name +
                     "' is a size axis; 'type' takes type axes only. Put a condition on it into 'requires'");
    }
    const auto entry = place.at(name.c_str());
    const axis_value value{axis, read_axis_value(entry, op.axes[axis])};
    std::size_t at = type.size();
    while (at > 0 && type[at - 1].axis > axis) --at;
    type.insert(type.begin() + static_cast<std::ptrdiff_t>(at), value);
  }
  return type;
}

/// Reads the variants of one manifest.
class manifest_reader {
 public:
  manifest_reader(const operator_description& op, std::string folder)
      : op_{op}, folder_{std::move(folder)}, names_{make_scope(op)}, base_names_{names_.size()} {}

  [[nodiscard]] variant read(const json_place& place) {
    names_.truncate(base_names_);
    variant out;
    const auto id = place.at("id");
    out.id = id.string();
    if (out.id.empty() || out.id.size() > 200) id.fail("an id has 1 to 200 characters");
    out.type = read_type(place, op_);
    read_config(place, out);
    if (place.has("requires")) {
      const auto list = place.at("requires");
      for (std::size_t i = 0; i < list.array_size(); ++i) {
        const auto entry = list.at(i);
        condition each{entry.string(), parse(entry, entry.string())};
        if (each.value.reads_fields()) {
          entry.fail(error_code::invalid_expression, "'" + each.text +
                                                         "' reads an argument that no axis holds, so a "
                                                         "choice could not depend on it. Condition on an "
                                                         "axis, or give the operator a derived axis for it");
        }
        out.conditions.push_back(std::move(each));
      }
    }
    if (place.has("cost")) {
      const auto entry = place.at("cost");
      out.cost = {entry.string(), parse(entry, entry.string())};
      if (out.cost.value.reads_fields()) {
        entry.fail(error_code::invalid_expression, "'cost' may read axes, config and device attributes only");
      }
    }
    if (place.has("workspace")) {
      const auto buffers = place.at("workspace");
      for (const auto& [name, unused] : buffers.object()) {
        const auto entry = buffers.at(name.c_str());
        out.workspace.push_back({name, read_expression(entry)});
        if (out.workspace.back().value.reads_fields()) {
          entry.fail(error_code::invalid_expression,
                     "a workspace's size may read axes, config and device attributes only");
        }
      }
    }
    const auto launches = place.at("launches");
    const std::size_t count = launches.array_size();
    if (count == 0 || count > max_launches)
      launches.fail("a variant has 1 to " + std::to_string(max_launches) + " launches");
    for (std::size_t i = 0; i < count; ++i) {
      const auto entry = launches.at(i);
      out.launches.push_back(read_launch(entry, out));
    }
    return out;
  }

 private:
  [[nodiscard]] expression parse(const json_place& place, std::string_view text) const {
    try {
      return expression::parse(text, names_);
    } catch (const expression_error& problem) {
      place.fail(error_code::invalid_expression, problem.what());
    }
  }

  /// An integer, or the text of an integer expression.
  [[nodiscard]] expression read_expression(const json_place& place) const {
    if (place.value().is_string()) return parse(place, place.string());
    if (!place.value().is_number_integer()) place.expected("an integer or an expression");
    return expression{place.integer()};
  }

  void read_config(const json_place& place, variant& out) {
    if (!place.has("config")) return;
    const auto config = place.at("config");
    for (const auto& [name, unused] : config.object()) {
      const auto entry = config.at(name.c_str());
      const std::int64_t value = entry.value().is_boolean() ? (entry.boolean() ? 1 : 0) : entry.integer();
      out.config.push_back({name, value});
      names_.add_constant(name, value);
    }
  }

  void read_extent(const json_place& owner, const char* key, std::array<expression, 3>& out,
                   bool per_plan) const {
    out.fill(expression{1});
    if (!owner.has(key)) {
      if (std::string_view{key} != "cluster") owner.fail("'" + std::string{key} + "' is missing");
      return;
    }
    const auto place = owner.at(key);
    if (place.array_size() < 1 || place.array_size() > 3)
      place.fail("expected 1 to 3 integers or expressions");
    for (std::size_t i = 0; i < place.array_size(); ++i) {
      const auto entry = place.at(i);
      out[i] = read_expression(entry);
      if (per_plan && out[i].reads_fields()) {
        entry.fail(error_code::invalid_expression,
                   "'" + std::string{key} + "' may read axes, config and device attributes only");
      }
    }
  }

  [[nodiscard]] launch read_launch(const json_place& place, const variant& owner) const {
    launch out;
    if (place.has("fill")) {
      const auto name = place.at("fill");
      out.is_fill = true;
      out.fill_workspace = workspace_index(name, owner, name.string());
      if (place.has("byte")) {
        const auto byte = place.at("byte");
        const std::int64_t value = byte.integer();
        if (value < 0 || value > 255) byte.fail("expected 0 to 255, got " + std::to_string(value));
        out.fill_byte = static_cast<std::uint8_t>(value);
      }
      return out;
    }
    const auto blob = place.at("blob");
    out.blob = folder_ + "/" + checked_path(blob);
    const auto digest = place.at("sha256");
    out.sha256 = digest.string();
    bool hexadecimal = out.sha256.size() == 64;
    for (const char c : out.sha256)
      hexadecimal = hexadecimal && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
    if (!hexadecimal) digest.fail("expected 64 lower-case hexadecimal digits");
    const auto kernel = place.at("kernel");
    out.kernel = kernel.string();
    if (out.kernel.empty() || out.kernel.find('\0') != std::string::npos)
      kernel.fail("expected the name of a kernel");
    read_extent(place, "grid", out.grid, false);
    read_extent(place, "block", out.block, true);
    read_extent(place, "cluster", out.cluster, true);
    out.shared_bytes = expression{0};
    if (place.has("shared_bytes")) {
      const auto shared = place.at("shared_bytes");
      out.shared_bytes = read_expression(shared);
      if (out.shared_bytes.reads_fields()) {
        shared.fail(error_code::invalid_expression,
                    "'shared_bytes' may read axes, config and device attributes only");
      }
    }
    if (place.has("cooperative")) {
      const auto flag = place.at("cooperative");
      out.cooperative = flag.boolean();
    }
    if (place.has("programmatic_dependent_launch")) {
      const auto flag = place.at("programmatic_dependent_launch");
      out.programmatic_dependent_launch = flag.boolean();
    }
    const auto list = place.at("parameters");
    if (list.array_size() > max_parameters) {
      list.fail("a kernel has at most " + std::to_string(max_parameters) + " parameters");
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      const auto entry = list.at(i);
      out.parameters.push_back(read_parameter(entry, owner, 0));
      bytes += out.parameters.back().bytes;
    }
    if (bytes > max_parameter_bytes) {
      list.fail("the parameters take " + std::to_string(bytes) + " bytes; a kernel can have " +
                std::to_string(max_parameter_bytes));
    }
    return out;
  }

  [[nodiscard]] static const std::string& checked_path(const json_place& place) {
    const std::string& path = place.string();
    bool escapes = path.empty() || path.front() == '/' || path.find('\0') != std::string::npos;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end =
          path.find('/', begin) == std::string::npos ? path.size() : path.find('/', begin);
      escapes = escapes || path.substr(begin, end - begin) == "..";
      begin = end + 1;
    }
    if (escapes) {
      place.fail(error_code::path_escapes_folder,
                 "\"" + path + "\" leads out of the manifest's folder; a blob lies beside its manifest");
    }
    return path;
  }

  [[nodiscard]] static std::uint32_t workspace_index(const json_place& place, const variant& owner,
                                                     const std::string& name) {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < owner.workspace.size(); ++i) {
      if (owner.workspace[i].name == name) return static_cast<std::uint32_t>(i);
      names.push_back(owner.workspace[i].name);
    }
    place.fail("the variant has no workspace '" + name + "'" + text::suggestion(name, names));
  }

  [[nodiscard]] parameter read_named(const json_place& place, const variant& owner) const {
    const std::string& name = place.string();
    parameter out;
    out.text = name;
    for (std::size_t i = 0; i < owner.workspace.size(); ++i) {
      if (owner.workspace[i].name != name) continue;
      out.from = parameter::source::workspace;
      out.index = static_cast<std::uint32_t>(i);
      out.bytes = out.align = 8;
      return out;
    }
    for (std::size_t i = 0; i < op_.fields.size(); ++i) {
      if (op_.fields[i].name != name) continue;
      out.index = static_cast<std::uint32_t>(i);
      out.kind = op_.fields[i].kind;
      out.bytes = out.align = size_of(out.kind);
      return out;
    }
    if (names_.find(name) != nullptr) {
      place.fail("'" + name +
                 "' is not an argument of the operator, so its type is not known; write {\"i32\": \"" + name +
                 "\"}, or i64, as the kernel has it");
    }
    std::vector<std::string_view> names;
    for (const auto& field : op_.fields) names.push_back(field.name);
    for (const auto& buffer : owner.workspace) names.push_back(buffer.name);
    place.fail("'" + name + "' is neither an argument of operator '" + std::string{op_.name} +
               "' nor a workspace" + text::suggestion(name, names));
  }

  [[nodiscard]] parameter read_parameter(const json_place& place, const variant& owner, int depth) const {
    if (place.value().is_string()) return read_named(place, owner);
    if (place.object().empty()) place.fail("expected a name, or an object such as {\"i32\": \"seqlen_q\"}");
    parameter out;
    out.text = place.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
      out.value = read_expression(entry);
      return out;
    }
    for (const auto& [key, kind] : reals) {
      if (!place.has(key)) continue;
      const auto entry = place.at(key);
      out.from = parameter::source::real;
      out.kind = kind;
      out.bytes = out.align = size_of(kind);
      try {
        out.value =
            expression::parse_real(entry.value().is_string() ? entry.string() : entry.value().dump(), names_);
      } catch (const expression_error& problem) {
        entry.fail(error_code::invalid_expression, problem.what());
      }
      return out;
    }
    if (place.has("pointer")) {
      const auto entry = place.at("pointer");
      out.from = parameter::source::integer;
      out.kind = value_kind::pointer;
      out.bytes = out.align = 8;
      out.value = parse(entry, entry.string());
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
    if (place.has("struct")) return read_struct(place, owner, depth, std::move(out));
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

  [[nodiscard]] parameter read_struct(const json_place& place, const variant& owner, int depth,
                                      parameter out) const {
    if (depth >= 4) place.fail("structs nest at most 4 deep");
    const auto list = place.at("struct");
    out.from = parameter::source::structure;
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      const auto entry = list.at(i);
      out.members.push_back(read_parameter(entry, owner, depth + 1));
      const parameter& member = out.members.back();
      end = (end + member.align - 1) / member.align * member.align + member.bytes;
      if (member.align > out.align) out.align = member.align;
      if (end > max_parameter_bytes || out.members.size() > max_parameters)
        list.fail("the struct is too large");
    }
    if (place.has("align")) {
      const auto align = place.at("align");
      const std::int64_t value = align.integer();
      if (value < 1 || value > 64 || (value & (value - 1)) != 0)
        align.fail("expected a power of two up to 64");
      if (value > out.align) out.align = static_cast<std::uint32_t>(value);
    }
    out.bytes = (end + out.align - 1) / out.align * out.align;
    if (out.bytes == 0) list.fail("a struct has members");
    return out;
  }

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
      out.push_back(read_expression(entry));
    }
    return out;
  }

  [[nodiscard]] tensor_map_recipe read_tensor_map(const json_place& place) const {
    // In the order of CUtensorMapDataType and its kin.
    static constexpr std::array<std::string_view, 12> types{"u8",  "u16", "u32", "i32",  "u64",     "i64",
                                                            "f16", "f32", "f64", "bf16", "f32_ftz", "tf32"};
    static constexpr std::array<std::string_view, 4> swizzles{"none", "32B", "64B", "128B"};
    static constexpr std::array<std::string_view, 4> promotions{"none", "64B", "128B", "256B"};
    static constexpr std::array<std::string_view, 3> interleaves{"none", "16B", "32B"};
    static constexpr std::array<std::string_view, 2> fills{"zeros", "nan"};
    tensor_map_recipe out;
    const auto of = place.at("of");
    out.address = parse(of, of.string());
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

  const operator_description& op_;
  std::string folder_;
  scope names_;
  std::size_t base_names_;
};

inline void check_operator(const json_place& file, const operator_description& op) {
  const auto place = file.at("operator");
  if (place.string() != op.name) {
    place.fail(error_code::unknown_operator, "is for operator '" + place.string() +
                                                 "', but was found where files of '" + std::string{op.name} +
                                                 "' belong; move it, or correct the name");
  }
}

[[nodiscard]] inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace detail

/// Parses a manifest's text. `path` names the file in messages, and its folder is where the blobs lie.
[[nodiscard]] inline manifest parse_manifest(std::string_view text, const std::string& path,
                                             const operator_description& op, warnings& warned) {
  const nlohmann::json document = parse_json(text, path);
  const json_place file{document, path};
  check_schema(file, "manifest");
  detail::check_operator(file, op);
  manifest out;
  out.path = path;
  out.operator_name = op.name;
  const auto target_place = file.at("target");
  const auto backend = target_place.at("backend");
  const auto arch = target_place.at("arch");
  out.target = {backend.string(), arch.string()};
  if (file.has("built_by") && file.value()["built_by"].is_string()) out.built_by = file.value()["built_by"];

  const auto list = file.at("variants");
  detail::manifest_reader reader{op, detail::folder_of(path)};
  out.variants.reserve(list.array_size());
  nlohmann::json::object_t seen;  // id -> indices of its variants so far
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const auto place = list.at(i);
    try {
      variant each = reader.read(place);
      auto& others = seen[each.id];
      for (const auto& other : others) {
        if (out.variants[other.get<std::size_t>()].type == each.type) {
          place.fail(error_code::duplicate_id,
                     "variant '" + each.id +
                         "' stands here twice with the same type; the first is used. Rename one");
        }
      }
      others.push_back(out.variants.size());
      out.variants.push_back(std::move(each));
    } catch (const file_error& problem) {
      warned.add(problem.what());
    }
  }
  return out;
}

/// Reads a manifest. Throws file_error for the file as a whole.
[[nodiscard]] inline manifest read_manifest(const std::string& path, const operator_description& op,
                                            warnings& warned) {
  return parse_manifest(read_file(path, max_json_bytes), path, op, warned);
}

}  // namespace v0
}  // namespace switchyard
