// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/rotary_cache.hpp>

#include "invocation.hpp"
#include "op_options.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

using op = switchyard::operators::rotary_cache;

/// Queries and caches are written in place, so that no copy of theirs could take the call's place.
void require_dense_rows(const Tensor& x, const char* name) {
  if (x.dim() > 0 && x.stride(x.dim() - 1) != 1 && x.size(x.dim() - 1) > 1)
    refuse("rotary_cache", std::string{name} + " is written in place: its last dimension must be contiguous");
}

std::tuple<> rotary_cache(op_options<op>& given, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& k_cache, const Tensor& v_cache, const Tensor& cos, const Tensor& sin,
                          const Tensor& positions, const Tensor& slots) {
  const invocation call{"rotary_cache", k};
  require_dense_rows(q, "q");
  require_dense_rows(k_cache, "k_cache");
  require_dense_rows(v_cache, "v_cache");
  if (k.size(0) == 0) return {};
  const Tensor k_in = with_dense_rows(k);
  const Tensor v_in = with_dense_rows(v);
  const Tensor cos_in = with_dense_rows(cos);
  const Tensor sin_in = with_dense_rows(sin);
  const Tensor positions_in = with_dense_elements(positions);
  const Tensor slots_in = with_dense_elements(slots);
  const op::options with = given.bind(call);
  call.run<op>(op::call(call.view(q, "q"), call.view(k_in, "k"), call.view(v_in, "v"),
                        call.view(k_cache, "k_cache"), call.view(v_cache, "v_cache"),
                        {call.view(cos_in, "cos"), call.view(sin_in, "sin"),
                         call.view(positions_in, "positions"), call.view(slots_in, "slots")},
                        with));
  return {};
}

SWITCHYARD_TORCH_OP(rotary_cache,
                    "Tensor(a!) q, Tensor k, Tensor v, Tensor(b!) k_cache, Tensor(c!) v_cache, "
                    "Tensor cos, Tensor sin, Tensor positions, Tensor slots",
                    "", op_kernel<op, &rotary_cache>)

}  // namespace

}  // namespace switchyard_torch
