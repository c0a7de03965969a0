// SPDX-License-Identifier: MIT
// Tensors as calls take them: where the elements lie, their type, the extents and the strides. A view: it
// owns nothing, allocates nothing, and what it points to may be memory of any device.
//
//   switchyard::tensor out{pointer, switchyard::dtype::bf16, {batch, seqlen, heads, head_dim}};   // dense
//   switchyard::const_tensor k{pointer, switchyard::dtype::bf16, {batch, seqlen, heads, head_dim},
//                              {stride_batch, stride_seqlen, stride_heads, 1}};
//   switchyard::tensor row{std::span{values}};
//   switchyard::const_tensor q = switchyard::const_tensor::from_dlpack(managed->dl_tensor);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <switchyard/base/checked_product.hpp>
#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

/// Most dimensions of a tensor.
inline constexpr std::size_t max_rank = 5;

// clang-format off
/// Satisfied by DLTensor, of any version of dlpack.h.
template <class Tensor>
concept dlpack_tensor = requires(const Tensor& t) {
  t.data; t.ndim; t.shape; t.strides; t.byte_offset; t.dtype.code; t.dtype.bits; t.dtype.lanes;
};
// clang-format on

namespace detail {

/// The element type of memory that C++ has a type for.
template <class Element>
inline constexpr dtype dtype_of = [] {
  static_assert(sizeof(Element) == 0,
                "a span's elements are float, double, std::int8_t, std::int32_t or std::int64_t; "
                "for other types give the address and a dtype");
  return dtype::f32;
}();
template <>
inline constexpr dtype dtype_of<float> = dtype::f32;
template <>
inline constexpr dtype dtype_of<double> = dtype::f64;
template <>
inline constexpr dtype dtype_of<std::int8_t> = dtype::i8;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <>
inline constexpr dtype dtype_of<std::int64_t> = dtype::i64;

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_dlpack_type(int code, int bits, int lanes) {
  throw call_error{
      error_code::invalid_argument,
      "a DLPack tensor has type code " + std::to_string(code) + ", " + std::to_string(bits) + " bits and " +
          std::to_string(lanes) +
          " lanes; known are f16, bf16, f32, f64, f8_e4m3, f8_e5m2, i8, i32 and i64, of one lane"};
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_rank(std::int64_t rank) {
  throw call_error{error_code::invalid_argument, "a tensor has at most " + std::to_string(max_rank) +
                                                     " dimensions, not " + std::to_string(rank)};
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_span(std::size_t elements, std::int64_t wanted) {
  throw call_error{
      error_code::invalid_argument,
      "a span of " + std::to_string(elements) + " elements cannot be a tensor of " + std::to_string(wanted)};
}

/// The element type of a DLDataType. The codes are part of DLPack's ABI.
[[nodiscard]] constexpr dtype dtype_from_dlpack(int code, int bits, int lanes) {
  constexpr int is_int = 0;
  constexpr int is_float = 2;
  constexpr int is_bfloat = 4;
  constexpr int is_f8_e4m3 = 10;
  constexpr int is_f8_e5m2 = 12;
  if (lanes == 1) {
    if (code == is_float && bits == 16) return dtype::f16;
    if (code == is_float && bits == 32) return dtype::f32;
    if (code == is_float && bits == 64) return dtype::f64;
    if (code == is_bfloat && bits == 16) return dtype::bf16;
    if (code == is_int && bits == 8) return dtype::i8;
    if (code == is_int && bits == 32) return dtype::i32;
    if (code == is_int && bits == 64) return dtype::i64;
    if (code == is_f8_e4m3 && bits == 8) return dtype::f8_e4m3;
    if (code == is_f8_e5m2 && bits == 8) return dtype::f8_e5m2;
  }
  fail_dlpack_type(code, bits, lanes);
}

}  // namespace detail

/// A tensor that a call reads.
class const_tensor {
 public:
  /// No tensor: an optional one that is not given.
  constexpr const_tensor() = default;

  /// Dense, the last dimension innermost. A stride that 64 bits do not hold is negative, which calls refuse.
  ///     const_tensor x{data, dtype::bf16, {rows, columns}};
  template <std::size_t Rank>
  constexpr const_tensor(const void* data, switchyard::dtype type, const std::int64_t (&extents)[Rank])
      : data_{data}, kind_{kind_of(type, Rank)} {
    static_assert(Rank <= max_rank, "a tensor has at most 5 dimensions");
    set_dense(extents, std::make_index_sequence<Rank>{});
  }

  /// Strides are in elements.
  ///     const_tensor half{data, dtype::bf16, {rows, columns / 2}, {columns, 1}};
  template <std::size_t Rank>
  constexpr const_tensor(const void* data, switchyard::dtype type, const std::int64_t (&extents)[Rank],
                         const std::int64_t (&strides)[Rank])
      : data_{data}, kind_{kind_of(type, Rank)} {
    static_assert(Rank <= max_rank, "a tensor has at most 5 dimensions");
    set(extents, strides, std::make_index_sequence<Rank>{});
  }

  /// Host memory, one dimension.
  ///     const_tensor gamma{std::span{weights}};
  template <class Element, std::size_t Count>
  constexpr explicit const_tensor(std::span<Element, Count> data)
      : const_tensor{data.data(),
                     detail::dtype_of<std::remove_const_t<Element>>,
                     {static_cast<std::int64_t>(data.size())}} {}

  /// Host memory, dense. Throws call_error where the extents make another number of elements.
  ///     const_tensor x{std::span{values}, {rows, columns}};
  template <class Element, std::size_t Count, std::size_t Rank>
  constexpr const_tensor(std::span<Element, Count> data, const std::int64_t (&extents)[Rank])
      : const_tensor{data.data(), detail::dtype_of<std::remove_const_t<Element>>, extents} {
    if (count() != static_cast<std::int64_t>(data.size())) detail::fail_span(data.size(), count());
  }

  /// The memory of a DLTensor, which stays its owner's. Throws call_error for other element types than
  /// dtype's, and more than max_rank dimensions.
  ///     const const_tensor x = const_tensor::from_dlpack(managed->dl_tensor);
  template <dlpack_tensor Tensor>
  [[nodiscard]] static constexpr const_tensor from_dlpack(const Tensor& from) {
    const_tensor out;
    out.assign(from);
    return out;
  }

  /// Of any number of dimensions up to max_rank; without strides, dense.
  ///     const const_tensor x = const_tensor::from_spans(data, dtype::f32, extents);
  [[nodiscard]] static constexpr const_tensor from_spans(const void* data, switchyard::dtype type,
                                                         std::span<const std::int64_t> extents,
                                                         std::span<const std::int64_t> strides = {}) {
    const_tensor out;
    out.assign(data, type, static_cast<std::int64_t>(extents.size()), extents.data(),
               strides.empty() ? nullptr : strides.data());
    return out;
  }

  ///     if (x.data() == y.data()) std::puts("in place");
  [[nodiscard]] constexpr const void* data() const noexcept { return data_; }
  ///     if (x.dtype() == dtype::bf16) std::puts("2 bytes an element");
  [[nodiscard]] constexpr switchyard::dtype dtype() const noexcept {
    return static_cast<switchyard::dtype>(kind_ & 0xffff'ffff);
  }
  ///     if (x.rank() != 2) std::puts("not rows and columns");
  [[nodiscard]] constexpr std::size_t rank() const noexcept { return kind_ >> 32U; }
  /// Whether it has an element type and a number of dimensions, in one comparison.
  ///     if (!x.has(dtype::f32, 2)) std::puts("not f32 [rows, columns]");
  [[nodiscard]] constexpr bool has(switchyard::dtype type, std::size_t dimensions) const noexcept {
    return kind_ == kind_of(type, dimensions);
  }
  /// Whether it has those of another tensor.
  ///     if (!x.is_like(y)) std::puts("another element type or number of dimensions");
  [[nodiscard]] constexpr bool is_like(const const_tensor& other) const noexcept {
    return kind_ == other.kind_;
  }
  ///     const std::int64_t rows_of_x = x.extent(0);
  [[nodiscard]] constexpr std::int64_t extent(std::size_t dimension) const noexcept {
    return extents_[dimension];
  }
  /// In elements.
  ///     const std::int64_t row_step = x.stride(0);
  [[nodiscard]] constexpr std::int64_t stride(std::size_t dimension) const noexcept {
    return strides_[dimension];
  }
  ///     for (const std::int64_t extent : x.extents()) std::printf("%lld ", static_cast<long long>(extent));
  [[nodiscard]] constexpr std::span<const std::int64_t> extents() const noexcept {
    return {extents_.data(), rank()};
  }
  ///     const bool has_dense_rows = x.strides().back() == 1;
  [[nodiscard]] constexpr std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), rank()};
  }

  /// Number of elements; negative where 64 bits do not hold it.
  ///     const std::int64_t bytes_of_x = x.count() * size_of(x.dtype());
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    std::int64_t out = 1;
    for (const std::int64_t extent : extents()) out = detail::checked_product(out, extent);
    return out;
  }

  /// The same, read value by value: what was kept in registers stays there.
  ///     const const_tensor again = x.copy();
  [[nodiscard, gnu::always_inline]] constexpr const_tensor copy() const {
    const_tensor out;
    out.data_ = data_;
    out.kind_ = kind_;
    out.set(extents_.data(), strides_.data(), std::make_index_sequence<max_rank>{});
    return out;
  }

  /// Whether the tensor was given: false without an address.
  ///     if (!gamma) std::puts("no weights");
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return data_ != nullptr; }

 protected:
  template <std::size_t... Index>
  constexpr void set_dense(const std::int64_t* extents, std::index_sequence<Index...> /*all*/) {
    ((extents_[Index] = extents[Index]), ...);
    std::int64_t stride = 1;
    constexpr std::size_t last = sizeof...(Index) - 1;
    ((strides_[last - Index] = stride, stride = detail::checked_product(stride, extents[last - Index])), ...);
  }

  template <std::size_t... Index>
  constexpr void set(const std::int64_t* extents, const std::int64_t* strides,
                     std::index_sequence<Index...> /*all*/) {
    ((extents_[Index] = extents[Index], strides_[Index] = strides[Index]), ...);
  }

  constexpr void assign(const void* data, switchyard::dtype type, std::int64_t rank,
                        const std::int64_t* extents, const std::int64_t* strides) {
    if (rank < 0 || rank > static_cast<std::int64_t>(max_rank)) detail::fail_rank(rank);
    data_ = data;
    kind_ = kind_of(type, static_cast<std::size_t>(rank));
    std::int64_t dense = 1;
    for (std::size_t i = this->rank(); i-- > 0;) {
      extents_[i] = extents[i];
      strides_[i] = strides == nullptr ? dense : strides[i];
      dense = detail::checked_product(dense, extents[i]);
    }
  }

  template <dlpack_tensor Tensor>
  constexpr void assign(const Tensor& from) {
    const auto type = detail::dtype_from_dlpack(static_cast<int>(from.dtype.code), int{from.dtype.bits},
                                                int{from.dtype.lanes});
    const auto* const data = static_cast<const std::byte*>(from.data);
    assign(data == nullptr ? nullptr : data + from.byte_offset, type, from.ndim, from.shape, from.strides);
  }

 private:
  [[nodiscard]] static constexpr std::uint64_t kind_of(switchyard::dtype type,
                                                       std::size_t dimensions) noexcept {
    return static_cast<std::uint32_t>(type) | std::uint64_t{dimensions} << 32U;
  }

  const void* data_ = nullptr;
  std::uint64_t kind_ = kind_of(switchyard::dtype::f32, 0);
  std::array<std::int64_t, max_rank> extents_{};
  std::array<std::int64_t, max_rank> strides_{};
};

/// A tensor that a call writes; a call may read it as well. It is made as const_tensor is, from memory that
/// may be written.
///     tensor out{data, dtype::bf16, {rows, columns}};
class tensor : public const_tensor {
 public:
  constexpr tensor() = default;

  template <std::size_t Rank>
  constexpr tensor(void* data, switchyard::dtype type, const std::int64_t (&extents)[Rank])
      : const_tensor{data, type, extents} {}

  template <std::size_t Rank>
  constexpr tensor(void* data, switchyard::dtype type, const std::int64_t (&extents)[Rank],
                   const std::int64_t (&strides)[Rank])
      : const_tensor{data, type, extents, strides} {}

  template <class Element, std::size_t Count>
  requires(!std::is_const_v<Element>) constexpr explicit tensor(std::span<Element, Count> data)
      : const_tensor{data} {}

  template <class Element, std::size_t Count, std::size_t Rank>
  requires(!std::is_const_v<Element>) constexpr tensor(std::span<Element, Count> data,
                                                       const std::int64_t (&extents)[Rank])
      : const_tensor{data, extents} {}

  template <dlpack_tensor Tensor>
  [[nodiscard]] static constexpr tensor from_dlpack(const Tensor& from) {
    tensor out;
    out.assign(from);
    return out;
  }

  [[nodiscard]] static constexpr tensor from_spans(void* data, switchyard::dtype type,
                                                   std::span<const std::int64_t> extents,
                                                   std::span<const std::int64_t> strides = {}) {
    tensor out;
    out.assign(data, type, static_cast<std::int64_t>(extents.size()), extents.data(),
               strides.empty() ? nullptr : strides.data());
    return out;
  }

  [[nodiscard]] constexpr void* data() const noexcept {
    // It was made from a pointer to what may be written.
    return const_cast<void*>(const_tensor::data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
};

}  // namespace v0
}  // namespace switchyard
