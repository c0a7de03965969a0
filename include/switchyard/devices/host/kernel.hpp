// SPDX-License-Identifier: MIT
// What a shared object exports for each CPU kernel, and how a kernel is written.
//
//   namespace {
//   void scale(const switchyard::host::block& block, const float* x, float* y, std::int64_t n, float a) {
//     const std::int64_t begin = block.index.x * 4096;
//     for (std::int64_t i = begin; i < std::min(begin + 4096, n); ++i) y[i] = a * x[i];
//   }
//   }
//   extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel scale_f32 =
//       switchyard::host::make_kernel<&scale>();
//
// A constant has external linkage only with extern "C", and blobs are built with hidden symbols.
//
// The driver calls the function once for each block of the grid, from several threads at once; blocks may not
// wait for each other. The parameter sizes, taken from the function's type, let the loader check a manifest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <switchyard/base/dim3.hpp>

namespace switchyard {
inline namespace v0 {

namespace host {

/// One block of a launch, as its kernel sees it.
struct block {
  dim3 index{0, 0, 0};
  dim3 grid;
  dim3 extent;  ///< the launch's block extent: a kernel may use it as it likes
  std::span<std::byte>
      scratch{};  ///< shared_bytes of this block's own memory, 64-byte aligned, not initialised
};

/// The exported description. Its layout is the ABI between blobs and the library; `abi` states which.
struct kernel {
  std::uint32_t abi = 1;
  std::uint32_t parameter_count = 0;
  const std::uint32_t* parameter_bytes = nullptr;
  void (*run)(const block&, const void* const* parameters) = nullptr;
};

namespace detail {

template <auto Function>
struct kernel_of;

template <class... Parameters, void (*Function)(const block&, Parameters...)>
struct kernel_of<Function> {
  static constexpr std::array<std::uint32_t, sizeof...(Parameters) + 1> bytes{sizeof(Parameters)..., 0};

  static void run(const block& here, const void* const* parameters) {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      Function(here, *static_cast<const Parameters*>(parameters[Index])...);
    }
    (std::index_sequence_for<Parameters...>{});
  }
};

}  // namespace detail

/// Describes a function that takes a block and then its parameters by value.
template <auto Function>
[[nodiscard]] constexpr kernel make_kernel() {
  using type = detail::kernel_of<Function>;
  return {1, static_cast<std::uint32_t>(type::bytes.size() - 1), type::bytes.data(), &type::run};
}

}  // namespace host

}  // namespace v0
}  // namespace switchyard
