// SPDX-License-Identifier: MIT
// The bodies of disagreement.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <switchyard/base/checked_product.hpp>
#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensors/disagreement.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

[[nodiscard]] inline std::string format_extents(std::span<const std::int64_t> extents) {
  std::string out = "[";
  for (const std::int64_t extent : extents) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(extent);
  }
  return out + "]";
}

[[nodiscard]] inline std::string format_extent_name(const dim_description& dim) {
  std::string out{dim.extent};
  if (dim.factor != 1) out = std::to_string(dim.factor) + " * " + out;
  if (dim.more != 0) out += " + " + std::to_string(dim.more);
  return out;
}

/// "k [2, 128, 8, 64]"
[[nodiscard]] inline std::string format_tensor(const view_description& of, const const_tensor& given) {
  return std::string{of.name} + " " + format_extents(given.extents());
}

[[nodiscard]] inline std::string wrong_rank(const view_description& of, const const_tensor& given) {
  std::string expected = "[";
  for (const dim_description& dim : of.dims) {
    if (expected.size() > 1) expected += ", ";
    expected += format_extent_name(dim);
  }
  return format_tensor(of, given) + " has " + std::to_string(given.rank()) + " dimensions instead of " +
         std::to_string(of.dims.size()) + ": " + expected + "]";
}

/// What is wrong with a tensor's strides; empty where nothing is.
[[nodiscard]] inline std::string wrong_stride(std::span<const view_description> all,
                                              std::span<const const_tensor> given, std::size_t index) {
  const view_description& of = all[index];
  const const_tensor& tensor = given[index];
  const std::size_t rank = tensor.rank();
  const auto fail = [&](std::size_t d, std::int64_t wanted) {
    return format_tensor(of, tensor) + ": the stride of " + format_extent_name(of.dims[d]) + " must be " +
           std::to_string(wanted) + ", not " + std::to_string(tensor.stride(d));
  };
  for (std::size_t d = rank; d-- > 0;) {
    if (tensor.extent(d) <= 1) continue;
    if (of.dims[d].stride.empty()) {
      const std::int64_t wanted =
          d + 1 == rank ? 1 : checked_product(tensor.stride(d + 1), tensor.extent(d + 1));
      if (wanted == too_large) return format_tensor(of, tensor) + " has more elements than 64 bits count";
      if (tensor.stride(d) != wanted) return fail(d, wanted);
      continue;
    }
    for (std::size_t i = 0; i < index; ++i) {  // two tensors with one stride
      for (std::size_t other = 0; other < given[i].rank(); ++other) {
        if (all[i].dims[other].stride == of.dims[d].stride && given[i].stride(other) != tensor.stride(d))
          return fail(d, given[i].stride(other)) + ", as in " + std::string{all[i].name};
      }
    }
  }
  return {};
}

/// The first tensor that is given of those whose type is an argument.
[[nodiscard]] inline std::size_t first_of_type(std::span<const view_description> all,
                                               std::span<const const_tensor> given,
                                               std::string_view argument) {
  std::size_t first = 0;
  while (all[first].dtype_argument != argument || (all[first].is_optional && !given[first])) ++first;
  return first;
}

/// What is wrong with a tensor's element type; empty where nothing is.
[[nodiscard]] inline std::string wrong_type(std::span<const view_description> all,
                                            std::span<const const_tensor> given, std::size_t index) {
  const view_description& of = all[index];
  const dtype type = given[index].dtype();
  const std::string begin = std::string{of.name} + " is " + std::string{name_of(type)} + ", but ";
  if (of.dtype_argument.empty())
    return type == of.type ? std::string{} : begin + "must be " + std::string{name_of(of.type)};
  const std::size_t first = first_of_type(all, given, of.dtype_argument);
  const dtype wanted = given[first].dtype();
  return type == wanted ? std::string{}
                        : begin + std::string{all[first].name} + " is " + std::string{name_of(wanted)};
}

[[nodiscard]] inline std::int64_t value_at(const dim_place& place) {
  std::int64_t value = 0;
  std::int32_t in_32_bits = 0;
  if (place.extent_bytes == sizeof value) {
    std::memcpy(&value, place.extent, sizeof value);
  } else {
    std::memcpy(&in_32_bits, place.extent, sizeof in_32_bits);
    value = in_32_bits;
  }
  return value;
}

/// Of a value that does not fit, the lower 32 bits: value_at() then differs from it, which is refused.
inline void set_value(const dim_place& place, std::int64_t value) {
  const auto in_32_bits = static_cast<std::int32_t>(value);
  if (place.extent_bytes == sizeof value) {
    std::memcpy(place.extent, &value, sizeof value);
  } else {
    std::memcpy(place.extent, &in_32_bits, sizeof in_32_bits);
  }
}

/// The dimension that had an extent first.
struct first_dim {
  std::size_t tensor = 0;
  std::size_t dim = 0;
};
[[nodiscard]] inline first_dim first_of_extent(std::span<const view_description> all,
                                               std::string_view extent) {
  first_dim out;
  while (all[out.tensor].dims[out.dim].extent != extent) {
    if (++out.dim < all[out.tensor].dims.size()) continue;
    out.dim = 0;
    ++out.tensor;
  }
  return out;
}

/// What is wrong with a tensor's extents; empty where nothing is.
[[nodiscard]] inline std::string wrong_extent(std::span<const view_description> all,
                                              std::span<const const_tensor> given, const view_place& place,
                                              std::size_t index) {
  const view_description& of = all[index];
  const const_tensor& tensor = given[index];
  for (std::size_t d = 0; d < tensor.rank(); ++d) {
    const dim_description& here = of.dims[d];
    const std::int64_t extent = tensor.extent(d);
    if (here.may_be_one && extent == 1) continue;
    const auto [first, at] = first_of_extent(all, here.extent);
    std::int64_t value = here.is_argument ? value_at(place.dims[d]) : given[first].extent(at);
    if (!here.is_argument && __builtin_sub_overflow(value, all[first].dims[at].more, &value))
      value = too_large;
    std::int64_t wanted = 0;
    const bool is_possible = !__builtin_mul_overflow(here.factor, value, &wanted) &&
                             !__builtin_add_overflow(wanted, here.more, &wanted);
    if (is_possible && extent == wanted) continue;
    std::string out = format_tensor(of, tensor) + ": " + format_extent_name(here) + " is " +
                      std::to_string(extent) + ", but ";
    if (first == index && at == d && !of.is_optional) return out + "must be less than 2^31";  // in 32 bits
    if (first == index) return out + "must be " + std::to_string(wanted);
    if (here.factor != 1 || here.more != 0) out += std::string{here.extent} + " is ";
    return out + std::to_string(value) + " in " + format_tensor(all[first], given[first]);
  }
  return {};
}

/// Whether a tensor before this one has the stride.
[[nodiscard]] inline bool has_stride_before(std::span<const view_description> all, std::size_t index,
                                            std::string_view stride) {
  for (const view_description& before : all.first(index)) {
    for (const dim_description& dim : before.dims) {
      if (dim.stride == stride) return true;
    }
  }
  return false;
}

/// Writes what the arguments have from one tensor.
inline void bind_one(std::span<const view_description> all, const view_place& place,
                     std::span<const const_tensor> given, std::size_t index) {
  const view_description& of = all[index];
  const const_tensor& tensor = given[index];
  const void* const data = tensor.data();
  std::memcpy(place.pointer, &data, sizeof data);
  if ((!tensor && of.is_optional) || tensor.rank() != of.dims.size()) return;
  if (place.type != nullptr) *place.type = given[first_of_type(all, given, of.dtype_argument)].dtype();
  for (std::size_t d = 0; d < of.dims.size(); ++d) {
    const dim_description& dim = of.dims[d];
    const std::int64_t extent = tensor.extent(d);
    if (place.dims[d].stride != nullptr && !has_stride_before(all, index, dim.stride))
      *place.dims[d].stride = dim.may_be_one && extent == 1 ? 0 : tensor.stride(d);
    if (place.dims[d].extent == nullptr || of.is_optional) continue;
    if (const auto [first, at] = first_of_extent(all, dim.extent); first != index || at != d) continue;
    std::int64_t value = extent;
    if (__builtin_sub_overflow(extent, dim.more, &value)) value = extent;  // negative: refused
    set_value(place.dims[d], value);
  }
}

SWITCHYARD_COLD std::string bind_and_compare(std::span<const view_description> all,
                                             std::span<const view_place> places,
                                             std::span<const const_tensor> given, bool may_be_null) {
  for (std::size_t i = 0; i < all.size(); ++i) bind_one(all, places[i], given, i);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const view_description& of = all[i];
    const const_tensor& tensor = given[i];
    if (!tensor && of.is_optional) continue;
    if (tensor.rank() != of.dims.size()) return wrong_rank(of, tensor);
    if (!tensor && !may_be_null && tensor.count() != 0) return std::string{of.name} + " is null";
    if (std::string wrong = wrong_type(all, given, i); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_extent(all, given, places[i], i); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_stride(all, given, i); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
