// SPDX-License-Identifier: MIT
// The addresses of a launch's parameters, as drivers take them: the hottest part of a call.
//
// Straight-line code for up to 80 parameters, in the processor's widest vector registers. A kernel with fewer
// parameters enters it further down. A loop takes three times as many instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/parameter_block_cache.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

using pointer_array = std::array<void*, max_parameters>;

/// Lines of a parameter block that one tensor map takes.
inline constexpr std::size_t map_lines = tensor_map_bytes / sizeof(parameter_line);

/// Binds groups of four parameters. Mixed: some lie in the parameter block.
template <class Vector, bool IsMixed>
class binder {
 public:
  /// `Many` binds more parameters than straight code does, apart: other launches save no registers for its
  /// loop.
  template <parameter_binder Many>
  [[gnu::always_inline]] static inline void bind(const launch_layout& of, std::uintptr_t arguments,
                                                 std::uintptr_t parameter_block, void** to) noexcept {
    if (of.groups > straight) return Many(of, arguments, parameter_block, to);
    binder{of, arguments, parameter_block, to}.take(of.groups);
  }

  [[gnu::always_inline]] static inline void bind_many(const launch_layout& of, std::uintptr_t arguments,
                                                      std::uintptr_t parameter_block, void** to) noexcept {
    binder bound{of, arguments, parameter_block, to};
    std::uint32_t groups = of.groups;
    for (; groups > straight; groups -= straight) {
      bound.take(straight);
      bound.skip(straight);
    }
    bound.take(groups);
  }

 private:
  static constexpr std::uint32_t straight = 20;
  static constexpr std::size_t lanes = sizeof(Vector) / sizeof(std::uintptr_t);

  [[gnu::always_inline]] inline binder(const launch_layout& of, std::uintptr_t argument_base,
                                       std::uintptr_t image_base, void** to) noexcept
      : offsets_{of.offsets.data()},
        masks_{of.masks.data()},
        to_{to},
        base_{Vector{} + (IsMixed ? image_base : argument_base)},
        difference_{Vector{} + (argument_base - image_base)} {}

  // NOLINTBEGIN(bugprone-branch-clone): each case goes on with the next
  [[gnu::always_inline]] inline void take(std::uint32_t groups) const noexcept {
    switch (groups) {
      case 20:
        one<19>();
        [[fallthrough]];
      case 19:
        one<18>();
        [[fallthrough]];
      case 18:
        one<17>();
        [[fallthrough]];
      case 17:
        one<16>();
        [[fallthrough]];
      case 16:
        one<15>();
        [[fallthrough]];
      case 15:
        one<14>();
        [[fallthrough]];
      case 14:
        one<13>();
        [[fallthrough]];
      case 13:
        one<12>();
        [[fallthrough]];
      case 12:
        one<11>();
        [[fallthrough]];
      case 11:
        one<10>();
        [[fallthrough]];
      case 10:
        one<9>();
        [[fallthrough]];
      case 9:
        one<8>();
        [[fallthrough]];
      case 8:
        one<7>();
        [[fallthrough]];
      case 7:
        one<6>();
        [[fallthrough]];
      case 6:
        one<5>();
        [[fallthrough]];
      case 5:
        one<4>();
        [[fallthrough]];
      case 4:
        one<3>();
        [[fallthrough]];
      case 3:
        one<2>();
        [[fallthrough]];
      case 2:
        one<1>();
        [[fallthrough]];
      case 1:
        one<0>();
        [[fallthrough]];
      default:
        break;
    }
  }
  // NOLINTEND(bugprone-branch-clone)

  template <std::size_t Group>
  [[gnu::always_inline]] inline void one() const noexcept {
    for (std::size_t lane = 0; lane < launch_layout::group; lane += lanes) {
      const std::size_t at = Group * launch_layout::group + lane;
      Vector address;
      __builtin_memcpy(&address, offsets_ + at, sizeof address);
      address += base_;
      if constexpr (IsMixed) {
        Vector mask;
        __builtin_memcpy(&mask, masks_ + at, sizeof mask);
        address += mask & difference_;
      }
      __builtin_memcpy(to_ + at, &address, sizeof address);
    }
  }

  [[gnu::always_inline]] inline void skip(std::size_t groups) noexcept {
    offsets_ += groups * launch_layout::group;
    if constexpr (IsMixed) masks_ += groups * launch_layout::group;  // else null
    to_ += groups * launch_layout::group;
  }

  const std::uintptr_t* offsets_;
  const std::uintptr_t* masks_;
  void** to_;
  Vector base_;
  Vector difference_;
};

using two_addresses = std::uintptr_t __attribute__((vector_size(16)));

template <bool IsMixed>
[[gnu::noinline]] void bind_many(const launch_layout& of, std::uintptr_t arguments,
                                 std::uintptr_t parameter_block, void** to) noexcept {
  binder<two_addresses, IsMixed>::bind_many(of, arguments, parameter_block, to);
}
[[gnu::noinline]] inline void bind_plain(const launch_layout& of, std::uintptr_t arguments,
                                         std::uintptr_t parameter_block, void** to) noexcept {
  binder<two_addresses, false>::bind<bind_many<false>>(of, arguments, parameter_block, to);
}
[[gnu::noinline]] inline void bind_mixed(const launch_layout& of, std::uintptr_t arguments,
                                         std::uintptr_t parameter_block, void** to) noexcept {
  binder<two_addresses, true>::bind<bind_many<true>>(of, arguments, parameter_block, to);
}

/// Copies a layout's parameter block.
template <class Vector>
[[gnu::always_inline]] inline void copy_block(const launch_layout& of, const parameter_line* from,
                                              parameter_line* parameter_block) noexcept {
  const std::size_t lines = of.parameter_block.size();
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::size_t at = 0; at < sizeof(parameter_line); at += sizeof(Vector)) {
      Vector part;
      __builtin_memcpy(&part, from[i].bytes.data() + at, sizeof part);
      __builtin_memcpy(parameter_block[i].bytes.data() + at, &part, sizeof part);
    }
  }
}

/// Copies a parameter block and binds parameters to the copy.
template <class Vector, parameter_binder ManyPlain, parameter_binder ManyMixed>
[[gnu::always_inline]] inline void copy_and_bind(const launch_layout& of, std::uintptr_t arguments,
                                                 const parameter_line* from, parameter_line* parameter_block,
                                                 void** to) noexcept {
  copy_block<Vector>(of, from, parameter_block);
  if (of.masks.empty()) {
    binder<Vector, false>::template bind<ManyPlain>(of, arguments, 0, to);
  } else {
    binder<Vector, true>::template bind<ManyMixed>(of, arguments,
                                                   reinterpret_cast<std::uintptr_t>(parameter_block), to);
  }
}
[[gnu::noinline]] inline void bind_copy(const launch_layout& of, std::uintptr_t arguments,
                                        const parameter_line* from, parameter_line* parameter_block,
                                        void** to) noexcept {
  copy_and_bind<two_addresses, bind_many<false>, bind_many<true>>(of, arguments, from, parameter_block, to);
}
/// The same where the parameter block is the only parameter.
[[gnu::noinline]] inline void bind_copy_alone(const launch_layout& of, std::uintptr_t /*arguments*/,
                                              const parameter_line* from, parameter_line* parameter_block,
                                              void** to) noexcept {
  copy_block<two_addresses>(of, from, parameter_block);
  to[0] = parameter_block;
}

#if defined(__x86_64__)
using four_addresses = std::uintptr_t __attribute__((vector_size(32)));

template <bool IsMixed>
[[gnu::noinline, gnu::target("avx2")]] void bind_many_wide(const launch_layout& of, std::uintptr_t arguments,
                                                           std::uintptr_t parameter_block,
                                                           void** to) noexcept {
  binder<four_addresses, IsMixed>::bind_many(of, arguments, parameter_block, to);
}
[[gnu::noinline, gnu::target("avx2")]] inline void bind_plain_wide(const launch_layout& of,
                                                                   std::uintptr_t arguments,
                                                                   std::uintptr_t parameter_block,
                                                                   void** to) noexcept {
  binder<four_addresses, false>::bind<bind_many_wide<false>>(of, arguments, parameter_block, to);
}
[[gnu::noinline, gnu::target("avx2")]] inline void bind_mixed_wide(const launch_layout& of,
                                                                   std::uintptr_t arguments,
                                                                   std::uintptr_t parameter_block,
                                                                   void** to) noexcept {
  binder<four_addresses, true>::bind<bind_many_wide<true>>(of, arguments, parameter_block, to);
}
[[gnu::noinline, gnu::target("avx2")]] inline void bind_copy_wide(const launch_layout& of,
                                                                  std::uintptr_t arguments,
                                                                  const parameter_line* from,
                                                                  parameter_line* parameter_block,
                                                                  void** to) noexcept {
  copy_and_bind<four_addresses, bind_many_wide<false>, bind_many_wide<true>>(of, arguments, from,
                                                                             parameter_block, to);
}
[[gnu::noinline, gnu::target("avx2")]] inline void bind_copy_alone_wide(const launch_layout& of,
                                                                        std::uintptr_t /*arguments*/,
                                                                        const parameter_line* from,
                                                                        parameter_line* parameter_block,
                                                                        void** to) noexcept {
  copy_block<four_addresses>(of, from, parameter_block);
  to[0] = parameter_block;
}
#endif

/// Finds a kept parameter block and binds parameters to it.
template <class Vector, parameter_binder Many>
[[nodiscard, gnu::always_inline]] inline const kept_block* find_and_bind(const parameter_block_cache& in,
                                                                         const planned_launch& of,
                                                                         const std::byte* arguments,
                                                                         const void* workspace,
                                                                         void** to) noexcept {
  const block_query query{of.owner, of.key, arguments, workspace};
  const kept_block* const found = in.find(parameter_block_cache::hash(query), query);
  if (found == nullptr) return nullptr;
  binder<Vector, true>::template bind<Many>(*of.layout, reinterpret_cast<std::uintptr_t>(arguments),
                                            reinterpret_cast<std::uintptr_t>(found->parameter_block), to);
  return found;
}
[[nodiscard, gnu::noinline]] inline const kept_block* bind_kept(const parameter_block_cache& in,
                                                                const planned_launch& of,
                                                                const std::byte* arguments,
                                                                const void* workspace, void** to) noexcept {
  return find_and_bind<two_addresses, bind_many<true>>(in, of, arguments, workspace, to);
}
#if defined(__x86_64__)
[[nodiscard, gnu::noinline, gnu::target("avx2")]] inline const kept_block* bind_kept_wide(
    const parameter_block_cache& in, const planned_launch& of, const std::byte* arguments,
    const void* workspace, void** to) noexcept {
  return find_and_bind<four_addresses, bind_many_wide<true>>(in, of, arguments, workspace, to);
}
#endif

/// The fastest ways to bind a launch's parameters on this processor.
inline void find_binders(const launch_layout& of, planned_launch& out) noexcept {
  const bool mixed = !of.masks.empty();
  const bool alone = of.parameter_count == 1 && mixed && of.masks[0] == 0 && of.offsets[0] == 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    out.bind = mixed ? bind_mixed_wide : bind_plain_wide;
    out.bind_copy = alone ? bind_copy_alone_wide : bind_copy_wide;
    out.bind_kept = bind_kept_wide;
    return;
  }
#endif
  out.bind = mixed ? bind_mixed : bind_plain;
  out.bind_copy = alone ? bind_copy_alone : bind_copy;
  out.bind_kept = bind_kept;
}

/// Writes the address of every parameter; those in the parameter block are in `parameter_block`.
[[gnu::always_inline]] inline void bind_parameters(const planned_launch& of, const void* arguments,
                                                   const void* parameter_block, pointer_array& out) noexcept {
  of.bind(*of.layout, reinterpret_cast<std::uintptr_t>(arguments),
          reinterpret_cast<std::uintptr_t>(parameter_block), out.data());
}

/// Starts a launch whose parameters are bound.
[[nodiscard, gnu::always_inline]] inline status start_launch(device_driver& driver, const planned_launch& of,
                                                             pointer_array& parameters, stream on) noexcept {
  const status result = driver.try_launch(of.function, of.geometry, parameters.data(), on);
  if (result == 0) [[likely]]
    return result;
  return driver.launch_again(result, of.function, of.geometry, parameters.data(), on);
}

/// Writes the addresses of the tensor maps that are parameters of their own.
inline void bind_maps(const planned_launch& of, const parameter_line* maps, pointer_array& out) noexcept {
  for (const std::size_t parameter : of.layout->map_parameters) {
    // The driver reads through the pointers, though their type allows more.
    if (parameter != no_parameter) out[parameter] = const_cast<parameter_line*>(maps);
    maps += map_lines;
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
