// SPDX-License-Identifier: MIT
// Attention of few queries over a cache with a mask tensor, ggml's FLASH_ATTN_EXT as models that generate
// call it:
//
//   out = softmax(cap(scale q k^T) + slope mask) v,   cap(s) = soft_cap tanh(s / soft_cap)
//
// where slope is ALiBi's of the head for a largest bias of max_bias, 1 without. Queries are rounded to the
// type of keys and values. A sink is a score of its head's rows without a value. A query that sees no key
// gives zeros. Keys that no query of a tile sees are not read.
//
// Strides are in bytes; the innermost dimension is contiguous.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

namespace switchyard_ggml {

struct few_queries {
  static constexpr std::string_view name = "ggml_few_queries";

  struct arguments {
    const float* q = nullptr;      ///< [batch, heads, tokens, head_dim]
    const void* k = nullptr;       ///< [batch, heads_kv, keys, head_dim] of kv_dtype
    const void* v = nullptr;       ///< the same
    const void* mask = nullptr;    ///< [batch, heads, tokens, keys] in f16, with strides of 0; null: none
    const float* sinks = nullptr;  ///< [heads]; null: none
    void* out = nullptr;           ///< [batch, tokens, heads, head_dim] of out_dtype, contiguous

    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;  ///< divides heads
    std::int64_t tokens = 0;
    std::int64_t keys = 0;
    std::int64_t head_dim = 0;
    std::int64_t q_stride[3] =
        {};  // NOLINT(modernize-avoid-c-arrays): fields of manifests; token, head, batch
    std::int64_t k_stride[3] = {};     // NOLINT(modernize-avoid-c-arrays): key, head, batch
    std::int64_t v_stride[3] = {};     // NOLINT(modernize-avoid-c-arrays)
    std::int64_t mask_stride[3] = {};  // NOLINT(modernize-avoid-c-arrays): token, head, batch
    float scale = 1;
    float soft_cap = 0;  ///< 0: none
    float max_bias = 0;  ///< 0: no ALiBi
    switchyard::dtype kv_dtype = switchyard::dtype::f16;
    switchyard::dtype out_dtype = switchyard::dtype::f32;  ///< or f16, bf16

    /// Rows of queries that share a head of keys.
    [[nodiscard]] std::int64_t rows() const noexcept {
      return heads_kv > 0 ? tokens * (heads / heads_kv) : 0;
    }
    [[nodiscard]] bool complete() const noexcept {
      return q != nullptr && k != nullptr && v != nullptr && out != nullptr;
    }
    /// Whether keys and values lie at multiples of 16 bytes.
    [[nodiscard]] bool wide() const noexcept {
      std::uintptr_t places = reinterpret_cast<std::uintptr_t>(k) | reinterpret_cast<std::uintptr_t>(v);
      for (int d = 0; d < 3; ++d)
        places |= static_cast<std::uintptr_t>(k_stride[d]) | static_cast<std::uintptr_t>(v_stride[d]);
      return places % 16 == 0;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::mask, &arguments::sinks,
                         &arguments::out, &arguments::batch, &arguments::heads, &arguments::heads_kv,
                         &arguments::tokens, &arguments::keys, &arguments::head_dim, &arguments::q_stride,
                         &arguments::k_stride, &arguments::v_stride, &arguments::mask_stride,
                         &arguments::scale, &arguments::soft_cap, &arguments::max_bias, &arguments::kv_dtype,
                         &arguments::out_dtype>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::kv_dtype>(), switchyard::type_axis<&arguments::out_dtype>(),
      switchyard::type_axis<&arguments::head_dim>(), switchyard::type_axis<&arguments::wide>(),
      switchyard::type_axis<&arguments::complete>(), switchyard::size_axis<&arguments::batch>(),
      switchyard::size_axis<&arguments::heads>(), switchyard::size_axis<&arguments::heads_kv>(),
      switchyard::size_axis<&arguments::tokens>(), switchyard::size_axis<&arguments::rows>(),
      switchyard::size_axis<&arguments::keys>());

  [[nodiscard]] static std::string check(const arguments& a) {
    if (!a.complete()) return "q, k, v and out must not be null";
    if (a.batch < 1 || a.tokens < 1 || a.keys < 1) return "batch, tokens and keys must be positive";
    if (a.heads_kv < 1 || a.heads < 1 || a.heads % a.heads_kv != 0) return "heads_kv must divide heads";
    if (a.kv_dtype != switchyard::dtype::f16 && a.kv_dtype != switchyard::dtype::bf16)
      return "keys and values must be f16 or bf16";
    if (a.out_dtype != switchyard::dtype::f32 && a.out_dtype != switchyard::dtype::f16 &&
        a.out_dtype != switchyard::dtype::bf16)
      return "out must be f32, f16 or bf16";
    return {};
  }
};

}  // namespace switchyard_ggml
