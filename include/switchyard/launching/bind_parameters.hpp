// The addresses of a launch's parameters, as drivers take them: the hottest loop of a call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <switchyard/devices/driver.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/plan.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

using pointer_array = std::array<void*, max_parameters>;

/// Lines of an image that one tensor map takes.
inline constexpr std::size_t map_lines = tensor_map_bytes / sizeof(image_line);

/// Writes the address of every parameter. `shift` moves those in the image to a copy of it.
[[gnu::always_inline]] inline void bind_parameters(const planned_launch& of, std::uintptr_t arguments,
                                                   std::uintptr_t shift, pointer_array& out) noexcept {
  // Two at a time, in whatever vector registers there are: a third of the instructions of a plain loop.
  using two = std::uintptr_t __attribute__((vector_size(16)));
  const std::uintptr_t* from = of.offsets.data();
  void** to = out.data();
  const std::uintptr_t* const end = from + of.offsets.size();
  do {  // there is always a first eight
    two a;
    two b;
    two c;
    two d;
    __builtin_memcpy(&a, from, sizeof a);
    __builtin_memcpy(&b, from + 2, sizeof b);
    __builtin_memcpy(&c, from + 4, sizeof c);
    __builtin_memcpy(&d, from + 6, sizeof d);
    a += arguments;
    b += arguments;
    c += arguments;
    d += arguments;
    __builtin_memcpy(to, &a, sizeof a);
    __builtin_memcpy(to + 2, &b, sizeof b);
    __builtin_memcpy(to + 4, &c, sizeof c);
    __builtin_memcpy(to + 6, &d, sizeof d);
    from += 8;
    to += 8;
  } while (from != end);
  for (const fixed_parameter& each : of.fixed) {
    out[each.index] = reinterpret_cast<void*>(each.address + shift);
  }
}

/// Writes the addresses of the tensor maps that are parameters of their own.
inline void bind_maps(const planned_launch& of, const image_line* maps, pointer_array& out) noexcept {
  for (const std::size_t parameter : of.map_parameters) {
    // The driver reads through the pointers, though their type allows more.
    if (parameter != no_parameter) out[parameter] = const_cast<image_line*>(maps);
    maps += map_lines;
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
