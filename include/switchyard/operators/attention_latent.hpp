// SPDX-License-Identifier: MIT
// A latent cache in e4m3 whose rotary columns lie apart, for attention_decode: what makes a call of one
// legal, and its tensors.
//
// A key is head_dim_v columns in e4m3, which are its value too, and rotary_dim columns in the type of the
// queries. k_scale has a factor for each 128 of a token's columns in e4m3, the last ones of which may be
// fewer. Servers store the three in one row (FlashMLA's fp8_ds_mla: 512 bytes, four scales, 64 rotary
// columns in bf16, 656 bytes together) or in tensors of their own: strides describe both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// Columns in e4m3 that have one scale.
inline constexpr std::int64_t scale_group_columns = 128;

/// What can be wrong with rotary columns that lie apart, besides strides and alignment.
enum class rotary_fault : std::uint8_t {
  none,
  type,
  no_scales,
  other_scales,
  heads,
  values,
  columns,
  groups
};

template <class Arguments>
[[nodiscard]] inline rotary_fault rotary_fault_of(const Arguments& a) noexcept {
  if (a.k_rotary == nullptr) return rotary_fault::none;
  if (a.kv_dtype != dtype::f8_e4m3) return rotary_fault::type;
  if (a.k_scale == nullptr) return rotary_fault::no_scales;
  if (a.v_scale != nullptr) return rotary_fault::other_scales;
  if (a.heads_kv != 1) return rotary_fault::heads;
  if (!a.latent()) return rotary_fault::values;
  std::int64_t columns = 0;
  if (a.rotary_dim < 1 || __builtin_add_overflow(a.head_dim_v, a.rotary_dim, &columns) ||
      columns != a.head_dim)
    return rotary_fault::columns;
  if (a.head_dim_v < 1 || a.scale_groups != (a.head_dim_v - 1) / scale_group_columns + 1)
    return rotary_fault::groups;
  return rotary_fault::none;
}

/// What is wrong with rotary columns that lie apart, in words; empty when nothing is, or there are none.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] std::string wrong_rotary_apart(const Arguments& a) {
  switch (rotary_fault_of(a)) {
    case rotary_fault::type:
      return "k_rotary is for keys in f8_e4m3, not in " + std::string{name_of(a.kv_dtype)};
    case rotary_fault::no_scales:
      return "k_scale must be given with k_rotary, for each token";
    case rotary_fault::other_scales:
      return "v_scale and k_rotary exclude each other: k_scale holds for the values, too";
    case rotary_fault::heads:
      return "k_rotary is for one KV head, but heads_kv is " + std::to_string(a.heads_kv);
    case rotary_fault::values:
      return "v must be k with k_rotary: the values are the keys' columns in f8_e4m3";
    case rotary_fault::columns:
      return "head_dim must be head_dim_v + rotary_dim with k_rotary: it is " + std::to_string(a.head_dim) +
             ", they are " + std::to_string(a.head_dim_v) + " and " + std::to_string(a.rotary_dim);
    case rotary_fault::groups:
      return "k_scale must have a column for each 128 of head_dim_v with k_rotary: scale_groups is " +
             std::to_string(a.scale_groups) + ", head_dim_v " + std::to_string(a.head_dim_v);
    case rotary_fault::none:
      break;
  }
  return mark_misaligned_for(a.dtype, a.k_rotary) < 0 ? "k_rotary must be aligned to its element size" : "";
}

/// The strides of k_rotary and its scales, or-ed together; negative also where wrong_rotary_apart refuses the
/// call.
template <class Arguments>
[[nodiscard]] inline std::int64_t mark_rotary_apart(const Arguments& a) noexcept {
  return (rotary_fault_of(a) == rotary_fault::none ? 0 : -1) | a.k_rotary_stride_batch |
         a.k_rotary_stride_token | a.k_scale_stride_batch | a.k_scale_stride_token |
         mark_misaligned_for(a.dtype, a.k_rotary);
}

namespace attention {

/// The tensors of a latent cache with rotary columns apart. Entries and Tokens: batch and seqlen_k, or pages
/// and page_size.
template <class A, auto Entries, auto Tokens>
struct latent_views {
  using k = dense_view<&A::k, &A::kv_dtype, Entries, Tokens, &A::heads_kv, &A::head_dim_v, &A::k_stride_batch,
                       &A::k_stride_token, &A::k_stride_head>;
  using v = dense_view<&A::v, &A::kv_dtype, Entries, Tokens, &A::heads_kv, &A::head_dim_v, &A::v_stride_batch,
                       &A::v_stride_token, &A::v_stride_head>;
  using rotary = view<&A::k_rotary, &A::dtype, dim<Entries, &A::k_rotary_stride_batch>,
                      dim<Tokens, &A::k_rotary_stride_token>, dim<&A::rotary_dim>>;
  using scale = view<&A::k_scale, dtype::f32, dim<Entries, &A::k_scale_stride_batch>,
                     dim<Tokens, &A::k_scale_stride_token>, dim<&A::scale_groups>>;
  using all = views<k, v, rotary, scale>;
};

template <class O, class A>
inline constexpr auto rotary_option = describe_options(
    tensor_option<&O::k_rotary, as_optional<typename latent_views<A, &A::batch, &A::seqlen_k>::rotary>,
                  false>{
        "latent keys in f8_e4m3: their rotary columns, of q's type, [batch, seqlen_k, rotary_dim], or "
        "[pages, page_size, rotary_dim]. k and v have the other columns, and k_scale is f32 [.., groups]: of "
        "each 128 of a token's columns"});

/// Without its address, a call would read as many columns behind those of k.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_rotary(std::string_view name) {
  throw call_error{error_code::invalid_argument,
                   std::string{name} + ": k_rotary is given but its data is null: give its address"};
}

}  // namespace attention

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
