// SPDX-License-Identifier: MIT
// The plan of a variant for a problem, made without files and devices.
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/error.hpp>
#include <switchyard/parameters/layout_maker.hpp>
#include <switchyard/plans/planner.hpp>

#include "../launched_operator.hpp"
#include "environment.hpp"
#include "thrown.hpp"

namespace planned {

using namespace launched;

/// A variant with its layouts, and plans of it. Kernel i is the function with address i + 1.
class planned_variant {
 public:
  explicit planned_variant(variant from) : variant_{std::move(from)} {
    const launch_layout* before = nullptr;
    for (const launch& described : variant_.launches) {
      loaded_kernel& ready = kernels_.emplace_back();
      ready.function = reinterpret_cast<function_handle>(kernels_.size());
      if (described.is_fill) continue;
      ready.layout = detail::layout_maker{rules_, variant_, described, before}.make();
      before = ready.layout.get();
    }
  }

  /// The plan of width 64 and this length.
  [[nodiscard]] std::unique_ptr<plan> plan_of(std::int64_t length, bool counted = false,
                                              bool fallback = false) const {
    auto out = std::make_unique<plan>();
    out->is_counted = counted;
    out->is_fallback = fallback;
    const std::array<std::int64_t, 2> problem{64, length};
    detail::planner{rules_, variant_, problem}.build(kernels_, *out);
    return out;
  }

  /// What making the plan is refused with.
  [[nodiscard]] std::string refusal(std::int64_t length) const {
    return switchyard::test::refusal_by<call_error>(error_code::evaluation_failed,
                                                    [&] { return plan_of(length); });
  }

  [[nodiscard]] const variant& described() const noexcept { return variant_; }

 private:
  variant variant_;
  selector rules_ = rules();
  std::vector<loaded_kernel> kernels_;
};

planned_variant of_launch(const launch& described) {
  return planned_variant{variant_of({described})};
}

launch fill(std::uint32_t workspace, std::uint8_t byte) {
  launch out;
  out.is_fill = true;
  out.fill_workspace = workspace;
  out.fill_byte = byte;
  return out;
}

/// Which short way to the driver a plan has.
std::string way_of(const plan& of) {
  if (of.way == launch_way::any) return {};
  CHECK(of.single == &of.launches[0]);
  return of.way == launch_way::direct ? "direct" : "single";
}

template <class Value>
Value in_block(const planned_launch& of, std::size_t offset) {
  Value out;
  __builtin_memcpy(&out, reinterpret_cast<const std::byte*>(of.parameter_block) + offset, sizeof out);
  return out;
}

TEST_CASE("workspace buffers start at multiples of 256 bytes") {
  variant described = variant_of({kernel({buffer(0)})});
  described.workspace = {{"first", parse("length")}, {"second", parse("256")}, {"third", parse("1")}};
  const planned_variant made{described};
  struct sample {
    std::int64_t length;
    std::array<std::size_t, 3> offsets;
    std::size_t bytes;
  };
  for (const sample& want : {sample{0, {0, 0, 256}, 512}, sample{1, {0, 256, 512}, 768},
                             sample{256, {0, 256, 512}, 768}, sample{257, {0, 512, 768}, 1024}}) {
    const auto plan = made.plan_of(want.length);
    INFO("length " << want.length);
    REQUIRE(plan->workspace.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(plan->workspace[i].offset == want.offsets[i]);
    CHECK(plan->workspace[0].bytes == static_cast<std::size_t>(want.length));
    CHECK(plan->workspace[1].bytes == 256);
    CHECK(plan->workspace_bytes == want.bytes);
  }
}

TEST_CASE("a workspace of a size that cannot be is refused by its name") {
  variant described = variant_of({kernel({buffer(0)})});
  described.workspace = {{"sums", parse("length - 1")}};
  const planned_variant made{described};
  constexpr std::int64_t most = std::int64_t{1} << 46;
  CHECK(made.plan_of(1)->workspace_bytes == 0);
  CHECK(made.plan_of(most + 1)->workspace_bytes == static_cast<std::size_t>(most));
  CHECK_THAT(made.refusal(0), has_text("launched: variant 'v': workspace 'sums' would take -1 bytes for "
                                       "width=64 rows=0"));
  CHECK_THAT(made.refusal(most + 2), has_text("workspace 'sums' would take 70368744177665 bytes"));
  described.workspace = {{"sums", parse("8 / length")}};
  CHECK_THAT(planned_variant{described}.refusal(0), has_text("workspace 'sums' divides by zero"));
}

TEST_CASE("a fill has its byte and its buffer, and an empty buffer needs none") {
  variant described = variant_of({fill(1, 0xab), fill(0, 3)});
  described.workspace = {{"a", parse("16")}, {"b", parse("length")}};
  const planned_variant made{described};
  const auto plan = made.plan_of(5);
  REQUIRE(plan->launches.size() == 2);
  CHECK(plan->launches[0].is_fill);
  CHECK(plan->launches[0].fill_workspace == 1);
  CHECK(plan->launches[0].fill_byte == 0xab);
  CHECK_FALSE(plan->launches[0].is_empty);
  CHECK(plan->launches[1].fill_workspace == 0);
  CHECK(made.plan_of(0)->launches[0].is_empty);
  CHECK_FALSE(made.plan_of(0)->launches[1].is_empty);
}

TEST_CASE("grid, block, cluster and shared memory follow the problem, in their order") {
  launch described = kernel({argument("x")});
  described.grid = extents("length", "2", "3");
  described.block = extents("4", "length + 1", "5");
  described.cluster = extents("6", "7", "length + 2");
  described.shared_bytes = parse("length * 8");
  const auto plan = of_launch(described).plan_of(10);
  const launch_geometry& geometry = plan->launches[0].geometry;
  CHECK(geometry.grid == dim3{10, 2, 3});
  CHECK(geometry.block == dim3{4, 11, 5});
  CHECK(geometry.cluster == dim3{6, 7, 12});
  CHECK(geometry.shared_bytes == 80);
  CHECK(plan->launches[0].function == reinterpret_cast<function_handle>(1));

  launch fixed = kernel({argument("x")});
  fixed.block = extents("4", "5", "6");
  fixed.cluster = extents("1", "2", "1");
  fixed.shared_bytes = parse("7");
  fixed.cooperative = true;
  const auto other = of_launch(fixed).plan_of(10);
  const launch_geometry& known = other->launches[0].geometry;
  CHECK(known.grid == dim3{1, 1, 1});
  CHECK(known.block == dim3{4, 5, 6});
  CHECK(known.cluster == dim3{1, 2, 1});
  CHECK(known.shared_bytes == 7);
  CHECK(known.cooperative);
}

TEST_CASE("an extent that is negative or needs more than 32 bits is refused by its name") {
  constexpr std::int64_t most = 0xffffffff;
  const auto check = [](const char* name, const auto& set) {
    INFO(name);
    launch described = kernel({argument("x")});
    set(described);
    const planned_variant made = of_launch(described);
    CHECK_THAT(made.refusal(most), no_text());
    CHECK_THAT(made.refusal(0), no_text());
    CHECK_THAT(made.refusal(most + 1), has_text(std::string{name} + " would be 4294967296 for width=64"));
    CHECK_THAT(made.refusal(-1), has_text(std::string{name} + " would be -1"));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    check("grid", [i](launch& changed) { changed.grid[i] = parse("length"); });
    check("block", [i](launch& changed) { changed.block[i] = parse("length"); });
    check("cluster", [i](launch& changed) { changed.cluster[i] = parse("length"); });
  }
  check("shared_bytes", [](launch& changed) { changed.shared_bytes = parse("length"); });
}

TEST_CASE("a launch is empty where any extent of its grid is 0") {
  for (std::size_t i = 0; i < 3; ++i) {
    launch described = kernel({argument("x")});
    described.grid[i] = parse("length");
    const planned_variant made = of_launch(described);
    CHECK(made.plan_of(0)->launches[0].is_empty);
    CHECK_FALSE(made.plan_of(1)->launches[0].is_empty);
    CHECK(way_of(*made.plan_of(0)).empty());
    CHECK(way_of(*made.plan_of(1)) == "direct");
  }
}

TEST_CASE("the values of a problem are written into the plan's own parameter block") {
  const planned_variant made =
      of_launch(kernel({integer("length", value_kind::i32), integer("length * 2 + width", value_kind::i64),
                        real("length * 0.25", value_kind::f64), integer("7", value_kind::u8)}));
  const auto first = made.plan_of(3);
  const auto second = made.plan_of(10);
  CHECK(in_block<std::int32_t>(first->launches[0], 0) == 3);
  CHECK(in_block<std::int64_t>(first->launches[0], 8) == 70);
  CHECK(in_block<double>(first->launches[0], 16) == 0.75);
  CHECK(in_block<std::uint8_t>(first->launches[0], 24) == 7);
  CHECK(in_block<std::int32_t>(second->launches[0], 0) == 10);
  CHECK(in_block<std::int64_t>(second->launches[0], 8) == 84);
  CHECK(in_block<double>(second->launches[0], 16) == 2.5);
  CHECK(way_of(*first) == "direct");
}

TEST_CASE("a problem's value leaves the constant behind it as it is") {
  const auto plan = of_launch(kernel({integer("length", value_kind::u8), integer("7", value_kind::u8),
                                      integer("length", value_kind::i16), integer("9", value_kind::u8)}))
                        .plan_of(3);
  CHECK(in_block<std::uint8_t>(plan->launches[0], 0) == 3);
  CHECK(in_block<std::uint8_t>(plan->launches[0], 1) == 7);
  CHECK(in_block<std::int16_t>(plan->launches[0], 2) == 3);
  CHECK(in_block<std::uint8_t>(plan->launches[0], 4) == 9);
}

TEST_CASE("a parameter that does not fit its type is refused by its text") {
  const planned_variant axis = of_launch(kernel({integer("length", value_kind::u8)}));
  CHECK_THAT(axis.refusal(255), no_text());
  CHECK_THAT(axis.refusal(256), has_text("parameter length would be 256, which does not fit"));
  const planned_variant computed = of_launch(kernel({integer("100 / length", value_kind::u8)}));
  CHECK_THAT(computed.refusal(1), no_text());
  CHECK_THAT(computed.refusal(0), has_text("100 / length divides by zero"));
}

TEST_CASE("a lone launch takes the short way that its per-call values and maps allow") {
  const auto way = [](const launch& described) { return way_of(*of_launch(described).plan_of(5)); };
  CHECK(way(kernel({argument("x")})) == "direct");
  CHECK(way(kernel({integer("stride / 2", value_kind::i64)})) == "single");
  CHECK(way(kernel({map("x", "rows", "256")})) == "single");
  CHECK(way(kernel({map("x", "rows", "256"), integer("stride / 2", value_kind::i64)})) == "single");
  launch per_call_grid = kernel({argument("x")});
  per_call_grid.grid[1] = parse("rows");
  CHECK(way(per_call_grid) == "single");
  CHECK(of_launch(per_call_grid).plan_of(5)->launches[0].per_call_grid != nullptr);

  // What each call must be looked at for takes none.
  const planned_variant plain = of_launch(kernel({argument("x")}));
  CHECK(way_of(*plain.plan_of(5, true, false)).empty());
  CHECK(plain.plan_of(5, true, false)->counted_way == launch_way::direct);
  CHECK(way_of(*plain.plan_of(5, false, true)).empty());
  CHECK(way_of(*planned_variant{variant_of({kernel({}), kernel({})})}.plan_of(5)).empty());
  variant with_buffer = variant_of({kernel({argument("x")})});
  with_buffer.workspace = {{"a", parse("0")}};
  CHECK(way_of(*planned_variant{with_buffer}.plan_of(5)).empty());
  with_buffer.launches = {fill(0, 1)};
  CHECK(way_of(*planned_variant{with_buffer}.plan_of(5)).empty());
}

TEST_CASE("per-call values that the type decides are constants of the plan") {
  const planned_variant made = of_launch(kernel({integer("width > 0 ? 9 : stride", value_kind::i32)}));
  const auto plan = made.plan_of(5);
  CHECK(plan->launches[0].per_call == nullptr);
  CHECK(in_block<std::int32_t>(plan->launches[0], 0) == 9);
  CHECK(way_of(*plan) == "direct");
}

TEST_CASE("problems share a per-call program where the axes that it reads are the same, up to 32 programs") {
  const planned_variant made = of_launch(kernel({integer("stride / (length / 10 + 1)", value_kind::i64)}));
  const auto first = made.plan_of(7);
  const auto again = made.plan_of(7);
  const auto other = made.plan_of(8);
  CHECK(first->launches[0].per_call == again->launches[0].per_call);
  CHECK(first->launches[0].per_call != other->launches[0].per_call);
  CHECK(first->own_per_call == nullptr);
  std::vector<std::unique_ptr<plan>> more;
  for (std::int64_t length = 100; length < 140; ++length) more.push_back(made.plan_of(length));
  CHECK(more.front()->own_per_call == nullptr);
  CHECK(more.back()->own_per_call == more.back()->launches[0].per_call);
  CHECK(more.back()->launches[0].per_call->axes == std::vector<std::int64_t>{139});
}

TEST_CASE("launches of one plan have parameter blocks and maps of their own, in one piece") {
  variant described = variant_of({kernel({integer("length", value_kind::i64), zeros(64)}), fill(0, 1),
                                  kernel({map("x", "length", "256"), map("y", "length * 2", "width * 4"),
                                          integer("length + 1", value_kind::i64)}),
                                  kernel({map("y", "7", "128")})});
  described.workspace = {{"a", parse("16")}};
  const planned_variant made{described};
  const auto plan = made.plan_of(5);
  REQUIRE(plan->launches.size() == 4);
  for (const planned_launch& one : plan->launches) {
    if (!one.is_fill) CHECK(reinterpret_cast<std::uintptr_t>(one.parameter_block) % 64 == 0);
  }
  CHECK(in_block<std::int64_t>(plan->launches[0], 0) == 5);
  CHECK(in_block<std::int64_t>(plan->launches[2], 0) == 6);
  CHECK(plan->launches[2].parameter_block == plan->launches[0].parameter_block + 2);
  CHECK(plan->launches[0].owner == 0);
  CHECK(plan->launches[2].owner != 0);
  CHECK(plan->launches[3].owner != plan->launches[2].owner);
  CHECK(made.plan_of(5)->launches[2].owner != plan->launches[2].owner);

  REQUIRE(plan->launches[2].maps.size() == 2);
  CHECK(plan->launches[3].maps.data() == plan->launches[2].maps.data() + 2);
  const planned_map& map_of_y = plan->launches[2].maps[1];
  CHECK(map_of_y.recipe == &made.described().launches[2].parameters[1].map.front());
  CHECK(map_of_y.known.rank == 2);
  CHECK(map_of_y.known.extents[0] == 64);
  CHECK(map_of_y.known.extents[1] == 10);
  CHECK(map_of_y.known.stride_bytes[0] == 256);
  CHECK(map_of_y.known.box[0] == 16);
  CHECK(map_of_y.known.box[1] == 8);
  for (const std::uint32_t stride : map_of_y.known.element_strides) CHECK(stride == 1);
  CHECK(plan->launches[3].maps[0].known.extents[1] == 7);
}

TEST_CASE("a launch takes the parameter block of the one before where every value is the same") {
  const auto per_call = [](const std::string& grid) {
    launch out = kernel({structure({integer("step + count", value_kind::i32), buffer(0)}, 16, 8)});
    out.grid = extents(grid);
    return out;
  };
  variant described = variant_of(
      {per_call("length"), fill(0, 0), per_call("1"), per_call("2"), kernel({buffer(0)}), per_call("3")});
  described.workspace = {{"buffer", parse("64")}};
  const auto made = planned_variant{described}.plan_of(5);
  const auto& all = made->launches;
  CHECK_FALSE(all[0].shares_block);
  CHECK(all[0].per_call != nullptr);
  for (const std::size_t i : {2U, 3U}) {  // a fill between them does not count
    CHECK(all[i].shares_block);
    CHECK(all[i].per_call == nullptr);
    CHECK(all[i].parameter_block == all[0].parameter_block);
  }
  CHECK_FALSE(all[4].shares_block);
  CHECK_FALSE(all[5].shares_block);  // the copy is the fourth's by now
  CHECK(all[5].per_call != nullptr);

  // Nobody has written the parameter block of a launch that is not started.
  const auto without_first = planned_variant{described}.plan_of(0);
  CHECK(without_first->launches[0].is_empty);
  CHECK_FALSE(without_first->launches[2].shares_block);
  CHECK(without_first->launches[2].per_call != nullptr);
  CHECK(without_first->launches[3].shares_block);

  // Without per-call values there is no copy to take: both read the first's parameter block.
  const auto constant = planned_variant{variant_of({kernel({integer("length + 1", value_kind::i64)}),
                                                    kernel({integer("length + 1", value_kind::i64)})})}
                            .plan_of(5);
  CHECK_FALSE(constant->launches[1].shares_block);
  CHECK(constant->launches[1].parameter_block == constant->launches[0].parameter_block);
  CHECK(in_block<std::int64_t>(constant->launches[1], 0) == 6);
}

TEST_CASE("the parts of a map that the problem decides are in its plan, those of the call are not") {
  launch described = kernel({map("x", "rows", "stride * 4")});
  tensor_map_recipe& recipe = described.parameters[0].map.front();
  recipe.element_type = 9;
  recipe.interleave = 1;
  recipe.swizzle = 3;
  recipe.l2_promotion = 2;
  recipe.out_of_bounds_fill = 1;
  recipe.element_strides = {parse("1"), parse("length")};
  const auto plan = of_launch(described).plan_of(6);
  const tensor_map_request& known = plan->launches[0].maps[0].known;
  CHECK(known.element_type == 9);
  CHECK(known.interleave == 1);
  CHECK(known.swizzle == 3);
  CHECK(known.l2_promotion == 2);
  CHECK(known.out_of_bounds_fill == 1);
  CHECK(known.element_strides[1] == 6);
  CHECK(known.extents[0] == 64);
  CHECK(known.extents[1] == 0);
  CHECK(known.stride_bytes[0] == 0);
  CHECK(known.address == nullptr);
}

TEST_CASE("a plan has the key by which calls of its problem find it") {
  const planned_variant made = of_launch(kernel({argument("x")}));
  const auto plan = made.plan_of(123);
  CHECK(plan->selected == &made.described());
  const auto key = make_key<operation>({.rows = 123, .width = 64});
  for (std::size_t part = 0; part < key.size(); ++part) {
    CHECK(plan->key[part][0] == key[part][0]);
    CHECK(plan->key[part][1] == key[part][1]);
  }
}

TEST_CASE("a plan is refused where find_unfit gives a reason, with this reason, and nowhere else") {
  const std::array<const char*, 12> texts{"length",
                                          "7",
                                          "length / (length - 3)",
                                          "length - 4",
                                          "9223372036854775807 * length",
                                          "4294967295 + length",
                                          "length % (length / 5)",
                                          "(1 << length) - 1",
                                          "length > 4 ? 1 / (length - 6) : 2",
                                          "width / length",
                                          "0 - width",
                                          "ceil_div(width, length - 2)"};
  std::mt19937_64 random{switchyard::test::seed_or(1)};
  const auto any = [&] { return parse(texts[random() % texts.size()]); };
  std::size_t refused = 0;
  std::size_t planned = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto parameter_of = [&](value_kind kind) { return integer(texts[random() % texts.size()], kind); };
    launch described =
        kernel({argument("x"), parameter_of(value_kind::i32),
                structure({parameter_of(value_kind::u8), parameter_of(value_kind::i16)}, 4, 2)});
    switch (random() % 6) {
      case 0:
        described.grid[random() % 3] = any();
        break;
      case 1:
        described.block[random() % 3] = any();
        break;
      case 2:
        described.cluster[random() % 3] = any();
        break;
      case 3:
        described.shared_bytes = any();
        break;
      case 4:
        described.parameters.push_back(map("x", texts[random() % texts.size()], "256"));
        break;
      default:
        break;
    }
    variant whole = variant_of({described, kernel({parameter_of(value_kind::i64)})});
    if (random() % 4 == 0) whole.workspace = {{"sums", any()}};
    const planned_variant made{whole};
    const auto length = static_cast<std::int64_t>(random() % 9);
    const std::array<std::int64_t, 2> problem{64, length};
    selector devices = rules();
    devices.device.backend = "none";  // it limits nothing but what can be counted
    const std::string why = detail::find_unfit(devices, whole, problem);
    const std::string refusal = made.refusal(length);
    INFO("length " << length << ": " << why << " | " << refusal);
    CHECK(refusal.empty() == why.empty());
    if (!why.empty()) CHECK_THAT(refusal, has_text("launched: variant 'v': " + why + " for width=64 rows="));
    (why.empty() ? planned : refused) += 1;
  }
  CHECK(refused > 200);
  CHECK(planned > 200);
}

}  // namespace planned
