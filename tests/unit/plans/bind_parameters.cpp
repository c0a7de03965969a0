// SPDX-License-Identifier: MIT
// The addresses that a driver is given, parameter by parameter.
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/plans/bind_parameters.hpp>

using namespace switchyard;

namespace bound_parameters {

constexpr std::uintptr_t arguments = 0x10'0000;
constexpr std::uintptr_t parameter_block = 0x7fff'0000'0000;

/// Parameter i lies 24 i + 8 bytes into the arguments; of mixed ones every seventh, 16 i bytes into the
/// parameter block.
std::unique_ptr<launch_layout> layout_of(std::size_t count, bool mixed) {
  auto made = std::make_unique<launch_layout>();
  launch_layout& out = *made;
  const std::size_t padded = (count + 3) / 4 * 4;
  out.parameter_count = static_cast<std::uint32_t>(count);
  out.groups = static_cast<std::uint32_t>(padded / 4);
  out.offsets.assign(padded, 0);
  if (mixed) out.masks.assign(padded, ~std::uintptr_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    const bool in_block = mixed && i % 7 == 1;
    out.offsets[i] = in_block ? 16 * i : 24 * i + 8;
    if (in_block) out.masks[i] = 0;
  }
  return made;
}

std::uintptr_t address_of(std::size_t i, bool mixed, std::uintptr_t block_at) {
  return mixed && i % 7 == 1 ? block_at + 16 * i : arguments + 24 * i + 8;
}

/// What `bind` writes for each parameter. Nothing may be written behind the last group of four.
template <class Binder>
void check(const launch_layout& layout, bool mixed, std::uintptr_t block_at, const Binder& bind) {
  const std::size_t count = layout.parameter_count;
  INFO(count << " parameters" << (mixed ? ", some in the parameter block" : ""));
  std::vector<void*> to(layout.offsets.size() + 8, nullptr);
  bind(to.data());
  for (std::size_t i = 0; i < count; ++i)
    REQUIRE(reinterpret_cast<std::uintptr_t>(to[i]) == address_of(i, mixed, block_at));
  for (std::size_t i = layout.offsets.size(); i < to.size(); ++i) REQUIRE(to[i] == nullptr);
}

const std::vector<std::size_t> counts = [] {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i <= 90; ++i) out.push_back(i);  // each group of four has code of its own
  for (const std::size_t count : {127U, 128U, 129U, 192U, 193U, 255U, 256U}) out.push_back(count);
  return out;
}();

TEST_CASE("each parameter's address is its place among the arguments or in the parameter block") {
  struct way {
    parameter_binder bind;
    bool mixed;
  };
  std::vector<way> ways{{detail::bind_plain, false}, {detail::bind_mixed, true}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    ways.push_back({detail::bind_plain_wide, false});
    ways.push_back({detail::bind_mixed_wide, true});
  }
#endif
  for (const way& how : ways) {
    for (const std::size_t count : counts) {
      const auto layout = layout_of(count, how.mixed);
      check(*layout, how.mixed, parameter_block,
            [&](void** to) { how.bind(*layout, arguments, parameter_block, to); });
    }
  }
}

TEST_CASE("parameters of a copied parameter block lie in the copy, which is whole") {
  std::vector<copying_binder> ways{detail::bind_copy};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) ways.push_back(detail::bind_copy_wide);
#endif
  for (const copying_binder bind : ways) {
    for (const bool mixed : {false, true}) {
      for (const std::size_t lines : {1U, 2U, 5U}) {
        std::vector<parameter_line> from(lines);
        for (std::size_t line = 0; line < lines; ++line) {
          for (std::size_t at = 0; at < from[line].bytes.size(); ++at)
            from[line].bytes[at] = static_cast<std::byte>(31 * line + at + 1);
        }
        std::vector<parameter_line> copy(lines + 1);
        const auto at = reinterpret_cast<std::uintptr_t>(copy.data());
        const auto layout = layout_of(30, mixed);
        layout->parameter_block = from;
        check(*layout, mixed, at, [&](void** to) { bind(*layout, arguments, from.data(), copy.data(), to); });
        for (std::size_t line = 0; line < lines; ++line) REQUIRE(copy[line].bytes == from[line].bytes);
        REQUIRE(copy[lines].bytes == parameter_line{}.bytes);  // nothing behind it
      }
    }
  }
}

TEST_CASE("a launch is bound as its layout needs") {
  for (const bool mixed : {false, true}) {
    const auto layout = layout_of(9, mixed);
    planned_launch planned;
    planned.layout = layout.get();
    detail::find_binders(*layout, planned);
    detail::pointer_array to{};
    detail::bind_parameters(planned, reinterpret_cast<const void*>(arguments),
                            reinterpret_cast<const void*>(parameter_block), to);
    for (std::size_t i = 0; i < 9; ++i)
      CHECK(reinterpret_cast<std::uintptr_t>(to[i]) == address_of(i, mixed, parameter_block));
    std::vector<parameter_line> copy(1);
    planned.bind_copy(*layout, arguments, nullptr, copy.data(), to.data());
    CHECK(reinterpret_cast<std::uintptr_t>(to[1]) ==
          address_of(1, mixed, reinterpret_cast<std::uintptr_t>(copy.data())));
  }
}

TEST_CASE("a tensor map that is a parameter is passed by its address, one in a struct is not") {
  launch_layout layout;
  layout.map_parameters = {2, no_parameter, 0};
  planned_launch planned;
  planned.layout = &layout;
  const std::vector<parameter_line> maps(6);
  detail::pointer_array to{};
  detail::bind_maps(planned, maps.data(), to);
  CHECK(to[2] == maps.data());
  CHECK(to[0] == maps.data() + 4);  // two lines each
  CHECK(to[1] == nullptr);
  CHECK(to[3] == nullptr);
}

}  // namespace bound_parameters
