// SPDX-License-Identifier: MIT
#include "elements_call.hpp"

#include <algorithm>

namespace switchyard_ggml {

namespace sy = switchyard;

element_view view_of(const calls& with, const ggml_tensor* of) {
  element_view out;
  out.data = with.address(of);
  out.type = *dtype_of(of);
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    out.extent[d] = of->ne[d];
    out.stride[d] = static_cast<std::int64_t>(of->nb[d]);
  }
  return out;
}

element_view dense_view(void* data, sy::dtype type, const element_view& like) {
  element_view out = like;
  out.data = data;
  out.type = type;
  std::int64_t stride = sy::size_of(type);
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    out.stride[d] = stride;
    stride *= out.extent[d];
  }
  return out;
}

elements::arguments element_call(element_function function, const element_view& a, const element_view* b,
                                 const element_view& out, float p, float q) {
  elements::arguments call;
  call.a = a.data;
  call.out = out.data;
  call.a_dtype = a.type;
  call.out_dtype = out.type;
  call.function = function;
  call.p = p;
  call.q = q;
  std::copy_n(&out.extent[0], 4, &call.extent[0]);
  std::copy_n(&out.stride[0], 4, &call.out_stride[0]);
  std::copy_n(&a.stride[0], 4, &call.a_stride[0]);
  if (b != nullptr) {
    call.b = b->data;
    call.b_dtype = b->type;
    std::copy_n(&b->extent[0], 4, &call.b_extent[0]);
    std::copy_n(&b->stride[0], 4, &call.b_stride[0]);
  }
  return call;
}

std::int64_t bytes_of(const element_view& of) {
  return of.extent[0] * of.extent[1] * of.extent[2] * of.extent[3] * sy::size_of(of.type);
}

std::optional<element_view> converted(calls& with, const element_view& of, sy::dtype type) {
  if (of.type == type) return of;
  element_view out = dense_view(nullptr, type, of);
  out.data = with.scratch(bytes_of(out));
  if (!with.make<elements>(element_call(element_function::copy, of, nullptr, out))) return std::nullopt;
  return out;
}

std::optional<element_view> rounded(calls& with, const ggml_tensor* of, sy::dtype type) {
  const element_view from = view_of(with, of);
  if (from.type == type) return from;
  element_view out = dense_view(with.rounded(of, type), type, from);
  if (out.data != nullptr) return out;
  out.data = with.rounding(of, type, bytes_of(out));
  if (!with.make<elements>(element_call(element_function::copy, from, nullptr, out))) return std::nullopt;
  return out;
}

}  // namespace switchyard_ggml
