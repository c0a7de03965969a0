// SPDX-License-Identifier: MIT
// Where a launch's parameters lie, and what is known of it before any problem is.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <switchyard/parameters/layout_maker.hpp>

#include "../launched_operator.hpp"

namespace laid_out {

using namespace launched;

std::unique_ptr<launch_layout> layout_of(const variant& of, const operator_description& op = description()) {
  selector from = rules();
  from.op = &op;
  return detail::layout_maker{from, of, of.launches.front()}.make();
}

/// Layouts point into the variant.
struct layout_with_variant {
  explicit layout_with_variant(launch made)
      : of{std::make_unique<variant>(variant_of({std::move(made)}))}, layout{layout_of(*of)} {}
  std::unique_ptr<variant> of;
  std::unique_ptr<launch_layout> layout;
  const launch_layout* operator->() const { return layout.get(); }
};

layout_with_variant of_parameters(std::vector<parameter> parameters) {
  return layout_with_variant{kernel(std::move(parameters))};
}

template <class Value>
Value in_block(const layout_with_variant& of, std::size_t offset) {
  Value out;
  __builtin_memcpy(&out, reinterpret_cast<const std::byte*>(of->parameter_block.data()) + offset, sizeof out);
  return out;
}

constexpr std::uintptr_t in_arguments = ~std::uintptr_t{0};

TEST_CASE("arguments that a kernel takes as they are stay in place: there is no parameter block") {
  for (std::size_t count = 0; count <= 9; ++count) {
    const auto made = of_parameters(std::vector<parameter>(count, argument("stride")));
    INFO(count << " parameters");
    const std::size_t groups = count == 0 ? 0 : count <= 4 ? 1 : count <= 8 ? 2 : 3;
    CHECK(made->parameter_count == count);
    CHECK(made->groups == groups);
    CHECK(made->offsets.size() == 4 * groups);
    for (std::size_t i = 0; i < made->offsets.size(); ++i)
      CHECK(made->offsets[i] == (i < count ? offset_of("stride") : 0));
    CHECK(made->masks.empty());
    CHECK(made->parameter_block.empty());
    CHECK(made->per_call.empty());
    CHECK(made->values.empty());
  }
}

TEST_CASE("an integer that has an argument's bytes is passed in place, any other is laid out") {
  const auto in_place = [](const std::string& text, value_kind kind) {
    const auto made = of_parameters({integer(text, kind)});
    if (made->masks.empty()) CHECK(made->offsets[0] == offset_of("stride"));
    return made->masks.empty();
  };
  CHECK(in_place("stride", value_kind::i64));
  CHECK(in_place("stride / 1", value_kind::i64));
  CHECK(in_place("width > 0 ? stride : 7", value_kind::i64));  // as the variant's type has it
  CHECK_FALSE(in_place("stride", value_kind::i32));
  CHECK_FALSE(in_place("stride", value_kind::u64));
  CHECK_FALSE(in_place("stride / 2", value_kind::i64));
  CHECK_FALSE(in_place("width", value_kind::i64));
  CHECK_FALSE(in_place("length", value_kind::i64));
}

TEST_CASE("parameters of a parameter block lie at multiples of their alignment, one behind the other") {
  const auto made =
      of_parameters({integer("7", value_kind::u8), argument("x"), integer("-5", value_kind::i16),
                     integer("1 << 40", value_kind::i64), integer("9", value_kind::i32),
                     real("0.25", value_kind::f32), real("0.5", value_kind::f64)});
  CHECK(made->offsets == std::vector<std::uintptr_t>{0, offset_of("x"), 2, 8, 16, 20, 24, 0});
  CHECK(made->masks == std::vector<std::uintptr_t>{0, in_arguments, 0, 0, 0, 0, 0, in_arguments});
  CHECK(made->parameter_block.size() == 1);
  CHECK(in_block<std::uint8_t>(made, 0) == 7);
  CHECK(in_block<std::int16_t>(made, 2) == -5);
  CHECK(in_block<std::int64_t>(made, 8) == std::int64_t{1} << 40);
  CHECK(in_block<std::int32_t>(made, 16) == 9);
  CHECK(in_block<float>(made, 20) == 0.25F);
  CHECK(in_block<double>(made, 24) == 0.5);
  CHECK(made->values.empty());
  CHECK(made->per_call.empty());
}

TEST_CASE("a parameter block has as many lines of 64 bytes as its parameters need") {
  const auto lines = [](std::size_t count, value_kind kind) {
    return of_parameters(std::vector<parameter>(count, integer("1", kind)))->parameter_block.size();
  };
  CHECK(lines(1, value_kind::u8) == 1);
  CHECK(lines(64, value_kind::u8) == 1);
  CHECK(lines(65, value_kind::u8) == 2);
  CHECK(lines(8, value_kind::i64) == 1);
  CHECK(lines(9, value_kind::i64) == 2);
  CHECK(of_parameters({zeros(128), integer("1", value_kind::u8)})->parameter_block.size() == 3);
}

TEST_CASE("members of a struct lie behind each other, and what follows behind the whole struct") {
  const auto made = of_parameters(
      {integer("1", value_kind::u8),
       structure({integer("2", value_kind::u8), integer("3", value_kind::i32), argument("scale"), buffer(1)},
                 24, 8),
       integer("4", value_kind::u8)});
  CHECK(made->offsets == std::vector<std::uintptr_t>{0, 8, 32, 0});
  CHECK(in_block<std::uint8_t>(made, 8) == 2);
  CHECK(in_block<std::int32_t>(made, 12) == 3);
  CHECK(in_block<std::uint8_t>(made, 32) == 4);
  REQUIRE(made->per_call.size() == 2);
  CHECK(made->per_call[0].from == per_call_value::source::field);
  CHECK(made->per_call[0].offset == 16);
  CHECK(made->per_call[0].index == field("scale"));
  CHECK(made->per_call[0].kind == value_kind::f32);
  CHECK(made->per_call[1].from == per_call_value::source::workspace);
  CHECK(made->per_call[1].offset == 24);
  CHECK(made->per_call[1].index == 1);
  CHECK(made->values.empty());
}

TEST_CASE("values are told apart by when they are known: always, with the problem, with the call") {
  const auto made =
      of_parameters({integer("width / 2", value_kind::i32), integer("length", value_kind::i32),
                     integer("length + width", value_kind::i32), integer("stride / 2", value_kind::i64),
                     real("length * 0.5", value_kind::f32), real("scale * 2.0", value_kind::f64),
                     integer("width * 100", value_kind::u8)});
  CHECK(in_block<std::int32_t>(made, 0) == 32);
  REQUIRE(made->values.size() == 4);
  CHECK(made->values[0].axis == 1);
  CHECK(made->values[0].offset == 4);
  CHECK(made->values[0].kind == value_kind::i32);
  CHECK_FALSE(made->values[0].is_real);
  CHECK(made->values[1].axis == no_index);
  CHECK(made->values[2].is_real);
  CHECK(made->values[3].kind == value_kind::u8);  // 6400 does not fit: an error of each problem
  REQUIRE(made->per_call.size() == 2);
  CHECK(made->per_call[0].from == per_call_value::source::integer);
  CHECK(made->per_call[1].from == per_call_value::source::real);
  CHECK(made->per_call[1].value == &made.of->launches[0].parameters[5].value);
}

TEST_CASE("parameter blocks are the same where every constant and every value is") {
  const auto same = [](const std::vector<parameter>& a, const std::vector<parameter>& b) {
    const auto first = of_parameters(a);
    const auto second = of_parameters(b);
    CHECK(detail::have_same_block(*first.layout, *first.layout));
    return detail::have_same_block(*first.layout, *second.layout);
  };
  const auto i64 = [](const std::string& text) { return integer(text, value_kind::i64); };
  CHECK(same({i64("stride + 1")}, {i64("stride + 1")}));
  CHECK(
      same({i64("stride + 1"), argument("x")}, {argument("y"), i64("stride + 1")}));  // x and y lie elsewhere
  CHECK(same({i64("width + 1"), i64("length + 1"), real("0.5 * length", value_kind::f32), buffer(1)},
             {i64("width + 1"), i64("length + 1"), real("0.5 * length", value_kind::f32), buffer(1)}));
  CHECK_FALSE(same({i64("stride + 1")}, {i64("stride + 2")}));
  CHECK_FALSE(same({i64("stride + 1")}, {integer("stride + 1", value_kind::u64)}));
  CHECK_FALSE(same({i64("stride + 1")}, {i64("stride + 1"), i64("stride + 1")}));
  CHECK_FALSE(same({i64("stride + 1")}, {zeros(8), i64("stride + 1")}));
  CHECK_FALSE(same({i64("width + 1")}, {i64("width + 2")}));
  CHECK_FALSE(same({i64("length + 1")}, {i64("length + 2")}));
  CHECK_FALSE(same({i64("length + 1")}, {integer("length + 1", value_kind::u64)}));
  CHECK_FALSE(same({buffer(0)}, {buffer(1)}));
  CHECK_FALSE(same({buffer(0)}, {structure({argument("x")}, 8, 8)}));
  CHECK_FALSE(same({structure({argument("x")}, 8, 8)}, {structure({argument("y")}, 8, 8)}));
  const auto map_inside = [] { return structure({map("x", "length", "2 * stride")}, 128, 64); };
  const auto with_map = of_parameters({map_inside()});
  const auto again = of_parameters({map_inside()});
  CHECK_FALSE(detail::have_same_block(*with_map.layout, *again.layout));
  const auto lines = [&](std::uint32_t count) {
    return std::vector<parameter>{zeros(64 * count - 8), i64("stride + 1")};
  };
  CHECK(same(lines(3), lines(3)));
  const auto most = of_parameters(lines(64));
  CHECK(detail::have_same_block(*most.layout, *most.layout));
  const auto large = of_parameters(lines(65));
  CHECK_FALSE(detail::have_same_block(*large.layout, *large.layout));
}

TEST_CASE("per-call programs are told by the axes that per-call integers read beside the variant's type") {
  const auto axes = [](std::vector<parameter> parameters) {
    const auto made = of_parameters(std::move(parameters));
    return std::vector<std::uint32_t>{made->programs.axes().begin(), made->programs.axes().end()};
  };
  CHECK(axes({integer("stride / length", value_kind::i64)}) == std::vector<std::uint32_t>{1});
  CHECK(axes({integer("stride / width", value_kind::i64)}).empty());  // the type is known
  CHECK(axes({integer("stride / 2", value_kind::i64), integer("stride * length", value_kind::i64)}) ==
        std::vector<std::uint32_t>{1});
  CHECK(axes({integer("stride * length", value_kind::i64), integer("stride / 2", value_kind::i64)}) ==
        std::vector<std::uint32_t>{1});
  CHECK(axes({integer("length * 2", value_kind::i64)}).empty());
  variant any_width = variant_of({kernel({integer("stride / width", value_kind::i64)})});
  any_width.type.clear();
  const auto made = layout_of(any_width);
  REQUIRE(made->programs.axes().size() == 1);
  CHECK(made->programs.axes()[0] == 0);
  CHECK(axes({real("scale * length", value_kind::f64)}).empty());
}

TEST_CASE("a block is known before the problem where it is constant for the type and fits 32 bits") {
  const auto with = [](const auto& change) {
    launch changed = kernel({});
    change(changed);
    return layout_with_variant{std::move(changed)};
  };
  const auto made = with([](launch& changed) {
    changed.block = extents("width", "width / 16", "2");
    changed.cluster = extents("2", "3", "4");
    changed.shared_bytes = parse("width * 100");
    changed.cooperative = true;
  });
  CHECK(made->is_block_known);
  CHECK(made->geometry.block == dim3{64, 4, 2});
  CHECK(made->geometry.cluster == dim3{2, 3, 4});
  CHECK(made->geometry.shared_bytes == 6400);
  CHECK(made->geometry.cooperative);
  CHECK_FALSE(made->geometry.programmatic_dependent_launch);
  CHECK(with([](launch& changed) {
          changed.programmatic_dependent_launch = true;
        })->geometry.programmatic_dependent_launch);

  const auto block_known = [&](const char* text) {
    return with([text](launch& changed) { changed.block[1] = parse(text); })->is_block_known;
  };
  CHECK(block_known("0"));
  CHECK(block_known("4294967295"));
  CHECK_FALSE(block_known("4294967296"));
  CHECK_FALSE(block_known("-1"));
  CHECK_FALSE(block_known("length"));
  CHECK_FALSE(with([](launch& changed) { changed.cluster[2] = parse("length"); })->is_block_known);
  CHECK_FALSE(with([](launch& changed) { changed.shared_bytes = parse("length"); })->is_block_known);
  CHECK(with([](launch& changed) { changed.grid[0] = parse("length"); })->is_block_known);
}

TEST_CASE("a grid is per-call where any of its extents reads an argument") {
  for (std::size_t i = 0; i < 3; ++i) {
    launch made = kernel({});
    CHECK_FALSE(layout_with_variant { made } -> has_per_call_grid);
    made.grid[i] = parse("length");
    CHECK_FALSE(layout_with_variant { made } -> has_per_call_grid);
    made.grid[i] = parse("rows");
    CHECK(layout_with_variant { made } -> has_per_call_grid);
  }
}

TEST_CASE("tensor maps are numbered, and only those that are parameters have one") {
  const auto made = of_parameters(
      {argument("stride"), map("x", "rows", "stride * 4"), structure({map("y", "length", "256")}, 128, 64)});
  REQUIRE(made->maps.size() == 2);
  CHECK(made->map_parameters == std::vector<std::size_t>{1, no_parameter});
  CHECK(made->maps[0] == &made.of->launches[0].parameters[1].map.front());
  REQUIRE(made->per_call.size() == 1);
  CHECK(made->per_call[0].from == per_call_value::source::tensor_map);
  CHECK(made->per_call[0].index == 1);
}

/// The offsets of the bytes under a key's masks.
std::set<std::size_t> bytes_of(const argument_key& key) {
  std::set<std::size_t> out;
  if (!key.is_empty()) CHECK(key.others + 1 == key.masks.size());
  for (std::size_t part = 0; part < key.masks.size(); ++part) {
    const std::size_t begin = part == 0 ? key.last : key.first + (part - 1) * sizeof(argument_key::mask);
    std::array<unsigned char, sizeof(argument_key::mask)> mask;
    __builtin_memcpy(mask.data(), key.masks[part].data(), sizeof mask);
    CHECK(begin + mask.size() <= description().argument_bytes);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0) continue;
      CHECK(mask[i] == 0xff);
      CHECK(out.insert(begin + i).second);  // each once
    }
  }
  return out;
}

std::set<std::size_t> all_of(std::initializer_list<const char*> names) {
  std::set<std::size_t> out;
  for (const char* const name : names) {
    for (std::size_t i = 0; i < size_of(description().fields[field(name)].kind); ++i)
      out.insert(offset_of(name) + i);
  }
  return out;
}

TEST_CASE("kept maps are told by the bytes of all arguments that they read, and by no others") {
  const auto one = of_parameters({map("x", "length", "256")});
  CHECK(bytes_of(one->map_key) == all_of({"x"}));
  CHECK(one->map_key.masks.size() == 1);
  const auto both = of_parameters({map("x", "rows", "stride * 4"), map("y", "count", "256")});
  CHECK(bytes_of(both->map_key) == all_of({"x", "y", "rows", "stride", "count"}));
  const auto far = of_parameters({map("y", "flags", "count * 64")});
  CHECK(bytes_of(far->map_key) == all_of({"y", "flags", "count"}));
  CHECK(far->map_key.masks.size() == 2);
  const auto behind = of_parameters({map("z", "stride", "step * 64")});  // z comes behind stride
  CHECK(bytes_of(behind->map_key) == all_of({"z", "stride", "step"}));
  CHECK(behind->map_key.masks.size() == 1);
  CHECK(of_parameters({map("x", "rows", "256")})->block_key.is_empty());  // nothing else is per-call
}

TEST_CASE("kept parameter blocks are told by the arguments of maps, per-call values and per-call grids") {
  const auto per_call = of_parameters({integer("step + count", value_kind::i64), argument("y")});
  CHECK(bytes_of(per_call->block_key) == all_of({"step", "count"}));
  CHECK(per_call->map_key.is_empty());
  CHECK_FALSE(per_call->has_workspace);
  const auto mapped = of_parameters({map("x", "rows", "256"), structure({argument("y"), buffer(0)}, 16, 8)});
  CHECK(bytes_of(mapped->block_key) == all_of({"x", "rows", "y"}));
  CHECK(bytes_of(mapped->map_key) == all_of({"x", "rows"}));
  CHECK(mapped->has_workspace);
  // A parameter block with addresses and no maps is made as fast as it is found. One that only asks whether
  // there is an address is not.
  CHECK(of_parameters({structure({argument("y"), integer("step + 1", value_kind::i64)}, 16, 8)})
            ->block_key.is_empty());
  CHECK(bytes_of(of_parameters({integer("step + (y != 0)", value_kind::i64)})->block_key) ==
        all_of({"step", "y"}));
  launch made = kernel({integer("length", value_kind::i32)});
  made.grid[0] = parse("count");
  const layout_with_variant with_grid{made};
  CHECK(bytes_of(with_grid->block_key) == all_of({"count"}));
  made.parameters = {argument("y")};
  const layout_with_variant in_place{made};
  CHECK(in_place->block_key.is_empty());  // there is no parameter block
}

TEST_CASE("nothing is kept where the arguments are less than one part of a key") {
  const variant of = variant_of({kernel({map("x", "length", "256")})});
  operator_description op = description();
  for (const std::size_t words : {1U, 2U, 3U, 4U, 5U}) {
    op.argument_bytes = 8 * words;
    CHECK(layout_of(of, op)->map_key.masks.size() == (words < 4 ? 0U : 1U));
  }
}

TEST_CASE("the hash of a long key reads the parts with most pointers") {
  std::vector<field_description> fields;
  operator_description op;
  for (std::uint32_t i = 0; i < 40; ++i) {
    field_description field{};
    field.kind = i >= 20 && i < 30 ? value_kind::pointer : value_kind::i64;
    field.offset = 8 * i;
    fields.push_back(field);
  }
  op.fields = fields;
  op.argument_bytes = 8 * fields.size();
  const std::vector<bool> all(fields.size(), true);
  const argument_key key = detail::make_argument_key(op, all);
  CHECK(key.masks.size() == 10);
  CHECK(key.hashed >= 5);  // words 16 to 31 at the first, of the tenth part
  CHECK(key.hashed <= 6);
  std::vector<bool> few(fields.size(), false);
  few[20] = few[35] = true;
  CHECK(detail::make_argument_key(op, few).hashed == 0);  // four parts: all are read
}

}  // namespace laid_out
